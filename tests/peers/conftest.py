"""Excludes the checks of this folder from the normal run, which would import them for doctests.

`make peers` runs them in a separate environment.
"""

collect_ignore_glob = ["check_*.py"]
