"""The command line, `nanotok`: parses arguments, calls the library, prints.

Modules that define commands import click alone at the top, so that help and completion are fast.
"""

from nanotok_ray.cli.main import main

__all__ = ["main"]
