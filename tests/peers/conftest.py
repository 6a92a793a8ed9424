"""Keeps the checks of this folder out of the normal run, which would import each for its doctests.

They run by themselves, in the environment of requirements.txt.
"""

collect_ignore_glob = ["check_*.py"]
