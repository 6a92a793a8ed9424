"""Keeps the checks of this folder out of the normal run, which would import each for its doctests.

`make peers` runs them, in an environment of their own.
"""

collect_ignore_glob = ["check_*.py"]
