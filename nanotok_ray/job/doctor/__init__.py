"""Checks of a machine, of folders, and of the settings for Ray. Nothing but probe files is changed.

Input is a recipe or folders. Output is check results. Checks that need a cluster are in `cluster`.
"""
