"""Checks of versions, folders, disks, sources and settings for Ray; writes only probe files.

The input is a recipe or folders. The output is check results. Checks of a cluster are in
`cluster`.
"""
