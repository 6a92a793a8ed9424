"""What the exit codes of all commands mean, in names and in words. Imports nothing heavy."""

from nanotok_ray.job.termination import EXIT_CODE as TERMINATED

__all__ = [
    "BAD_DATA",
    "BAD_OUTPUT",
    "EXIT_CODES",
    "FAILED",
    "INFRASTRUCTURE",
    "INTERRUPTED",
    "IN_USE",
    "TERMINATED",
    "USAGE",
]

FAILED, USAGE, BAD_DATA, BAD_OUTPUT, INFRASTRUCTURE = 1, 2, 3, 4, 5
IN_USE, INTERRUPTED = 6, 130
"""7, of a job that was stopped, is said by `cluster/submitting/ending.py`."""

EXIT_CODES = """\
exit codes:
  0  done, or nothing to do
  1  a failure with no code of its own
  2  the recipe, an input or an argument is wrong
  3  more documents were quarantined than the recipe allows
  4  the output is unfinished or not what it should be
  5  slices failed for good, or storage, the disk or a job server did
  6  another run has this output
  7  the submitted job was stopped
  130  interrupted (Ctrl-C): the same command goes on from there
  143  terminated (SIGTERM): the same command goes on from there
"""
