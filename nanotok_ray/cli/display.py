"""Where progress is shown: bars in a terminal or a notebook, lines in a log."""

import importlib.util
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from nanotok_ray.cli.printing import shown

if TYPE_CHECKING:
    from tqdm import tqdm

LINE_SECONDS = 10.0
"""Seconds between lines of a log that would replace each other on a terminal."""


class Display:
    """Lines that stay, and on a terminal a bar below them, which changes.

    A terminal and a notebook with ipywidgets show bars; other streams have lines only.
    """

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Print to a stream; `clock` returns the time in seconds."""
        self._stream = stream
        self._clock = clock
        self._bars = _bars_for(stream)
        self.bar: tqdm[Any] | None = None
        """The open bar."""
        self.printed_at: float | None = None
        """When the last line was printed."""

    @property
    def has_bars(self) -> bool:
        """Whether there are bars."""
        return self._bars is not None

    @property
    def is_due(self) -> bool:
        """Whether no line was printed for ten seconds."""
        return self.printed_at is None or self._clock() - self.printed_at >= LINE_SECONDS

    @property
    def columns(self) -> int:
        """The columns of the terminal; many if there is none."""
        return shutil.get_terminal_size().columns if self._stream.isatty() else 10_000

    def print(self, text: str) -> None:
        """Print a line that stays."""
        self.printed_at = self._clock()
        if self.bar is not None:
            self.bar.clear()
        print(shown(text), file=self._stream, flush=True)

    def open(self, bar_format: str, title: str, *, total: int | None = None) -> "tqdm[Any]":
        """Open a bar; there must be bars, and none that is open."""
        assert self._bars is not None
        self.bar = self._bars(
            total=total,
            desc=shown(title),
            file=self._stream,
            leave=False,
            dynamic_ncols=True,
            bar_format=bar_format,
        )
        return self.bar

    def rewrite(self, text: str) -> None:
        """Show a text in place of the bar, as much as fits; there must be bars."""
        text = shown(text)[: self.columns - 1]
        if self.bar is None:
            self.open("{desc}", text)
        else:
            self.bar.set_description_str(text)

    def close(self) -> None:
        """Close the open bar, if any."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None


def _bars_for(stream: TextIO) -> "type[tqdm[Any]] | None":
    """Return tqdm's class of bars, in a notebook that of the widget; None: lines are printed.

    A notebook without tqdm or ipywidgets gets lines.
    """
    if not stream.isatty() and not _is_notebook(stream):
        return None
    try:
        if stream.isatty():
            from tqdm import tqdm
        else:
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


def _is_notebook(stream: TextIO) -> bool:
    has_kernel = stream is sys.stderr and "ipykernel" in type(stream).__module__
    return has_kernel and importlib.util.find_spec("ipywidgets") is not None
