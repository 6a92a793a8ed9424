"""Checks of a machine, of folders, and of the settings for Ray; only probe files are written.

The input is a recipe or folders. The output is check results. Checks of a cluster are in
`cluster`.
"""
