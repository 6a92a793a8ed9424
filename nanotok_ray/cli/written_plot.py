"""The picture that --plot asks for: its flag, the check before any work, and the file.

Takes arguments and a figure; writes one file. Does not know what is drawn.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nanotok_ray.errors import RecipeError
from nanotok_ray.report.figures import SUFFIXES, Numbers, check_plot, plot_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def add_plot(own: argparse.ArgumentParser, *, what: str) -> None:
    """Add --plot."""
    endings = ", ".join(SUFFIXES)
    own.add_argument(
        "--plot",
        metavar="FILE",
        help=f"draw {what} to a file that ends in {endings} (default: no picture)",
    )


def check_plot_of(arguments: argparse.Namespace) -> None:
    """Refuse, before anything is measured, a picture that cannot be drawn.

    Raises:
        RecipeError: There is no such folder.
        TokenizerError: The file's name does not say what is wanted, or matplotlib is missing.
    """
    if arguments.plot is None:
        return
    check_plot(arguments.plot)
    folder = Path(arguments.plot).absolute().parent
    if not folder.is_dir():
        raise RecipeError(f"--plot {arguments.plot}: there is no folder {folder}; make it first")


def write_plot(arguments: argparse.Namespace, figure: "Figure", *, numbers: Numbers) -> None:
    """Write the picture and tell where it is."""
    path = Path(arguments.plot)
    title = f"nanotok tokenizer {arguments.action}"
    path.write_bytes(plot_bytes(figure, name=path.name, title=title, numbers=numbers))
    print(f"wrote       {path}", file=sys.stderr)
