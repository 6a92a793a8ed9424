"""The command line: `nanotok plan | prepare | train | tokenize | learn | counts | verify | ...`.

Parses arguments, calls the job, prints. People read stderr; stdout carries data, and the last line
of a job's stdout is one JSON document.
"""

from nanotok_ray.cli.main import main

__all__ = ["main"]
