"""The command line: `nanotok prepare | train | tokenize | learn | verify | inspect`.

Parses arguments, calls the job, prints. People read stderr; stdout carries data, and the last line
of a job's stdout is one JSON document.
"""

from nanotok_ray.cli.main import main

__all__ = ["main"]
