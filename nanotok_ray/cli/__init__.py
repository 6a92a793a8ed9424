"""The command line, `nanotok`: parses arguments, calls the library, prints.

Modules that define commands import click alone at the top, so that help and completion are fast.
"""

from nanotok_ray.cli.main import exit_code, main, nanotok
from nanotok_ray.cli.printing import EXIT_CODES, Console

__all__ = [
    "EXIT_CODES",
    "Console",
    "exit_code",
    "main",
    "nanotok",
]
