"""The checks here are scripts: their peers are not installed where the tests run."""

collect_ignore_glob = ["check_*.py"]
