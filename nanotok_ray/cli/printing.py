"""The output of commands: text on stderr, one JSON document on stdout; and exit codes."""

import io
import json
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from nanotok_ray.units import printable, quantity, without_secrets

if TYPE_CHECKING:
    from nanotok_ray.job.events import Event, OnEvent

FAILED, USAGE, BAD_DATA, BAD_OUTPUT, INFRASTRUCTURE = 1, 2, 3, 4, 5
IN_USE, INTERRUPTED, TERMINATED = 6, 130, 143

EXIT_CODES = """\
  0    success, or nothing to do
  1    unexpected error
  2    the recipe, an input or an argument is wrong
  3    more documents were quarantined than the recipe allows
  4    the output is incomplete or failed verification
  5    storage, the disk, the cluster or some slices failed
  6    another run has locked this output
  7    the submitted job was stopped
  130  interrupted (Ctrl-C); the same command resumes
  143  terminated (SIGTERM); the same command resumes
"""


class Console:
    """The streams of a command, according to its options.

    People read stderr: the result as text, notes, progress and errors. Programs read stdout: one
    JSON document on the last line, with `--json` or if stdout is not a terminal.
    """

    def __init__(
        self,
        *,
        default_recipe: str | None = None,
        job: Callable[..., Any] | None = None,
        as_json: bool = False,
    ) -> None:
        """Store the arguments of `main`; `as_json` is a guess until the options are parsed."""
        self.default_recipe = default_recipe
        self.job = job
        self.has_json = True
        """Whether the command prints JSON."""
        self.as_json = as_json
        """Whether `--json` is set."""
        self._quiet = False
        self.verbose = False
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - self._began

    def adjust(self, *, has_json: bool, as_json: bool, quiet: bool, verbose: bool) -> None:
        """Apply the options of the command."""
        self.has_json = has_json
        self.as_json = as_json
        self._quiet = quiet
        self.verbose = verbose

    @property
    def stream(self) -> TextIO:
        """The stream of notes and progress: stderr, or with `--quiet` one that drops it."""
        return cast("TextIO", _Nowhere()) if self._quiet else sys.stderr

    def text(self, *lines: str) -> None:
        """Print lines of the result for people, unless only JSON or nothing is requested."""
        if not self.as_json:
            for line in lines:
                print(shown(line), file=self.stream, flush=True)

    def note(self, text: str) -> None:
        """Print a note."""
        print(f"note: {shown(text)}", file=self.stream, flush=True)

    def result(self, *parts: object, lines: Iterable[str] = ()) -> None:
        """Print the result: lines for people, and for programs one JSON object.

        Args:
            parts: dataclasses and mappings with the keys of the object.
            lines: the lines.
        """
        from nanotok_ray.formats import joined_values

        self.text(*lines)
        self._print_json(joined_values(*parts))

    def failure(self, status: str, message: str) -> None:
        """Print an error once: as text, or with `--json` as JSON."""
        if self.verbose:
            import traceback

            print(shown(traceback.format_exc()), end="", file=sys.stderr)
        if not (self.as_json and self.has_json and _is_terminal(sys.stdout)):
            print(f"nanotok: {shown(message)}", file=sys.stderr, flush=True)
        self._print_json({"status": status, "error": message.removeprefix("error: ")})

    def _print_json(self, values: object) -> None:
        if self.has_json and (self.as_json or not _is_terminal(sys.stdout)):
            print(json.dumps(values, sort_keys=True), flush=True)

    @contextmanager
    def progress(self) -> "Iterator[OnEvent]":
        """Yield a listener of the events of a job, which prints bars or lines."""
        from nanotok_ray.cli.progress import Progress
        from nanotok_ray.job.events import Note

        with Progress(self.stream) as progress:

            def show(event: "Event") -> None:
                progress(event)
                if self.verbose and (line := _details(event)):
                    progress(Note(text=line))

            yield show


def shown(text: str) -> str:
    """Return a text for a terminal or a log, with escapes and without secrets."""
    return printable(without_secrets(text), lines=True)


def document_text(text: str) -> str:
    """Return the text of a document for stdout: as it is, or with escapes for a terminal.

    A terminal would execute control sequences. Line breaks and tabs are not escaped.
    """
    if not _is_terminal(sys.stdout):
        return text
    return "\t".join(printable(part, lines=True) for part in text.split("\t"))


class _Nowhere(io.TextIOBase):
    """A stream that drops what is written to it."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False


def _is_terminal(stream: TextIO) -> bool:
    return not stream.closed and stream.isatty()


def _details(event: "Event") -> str | None:
    """Return the line of an event for `--verbose`, or None."""
    from nanotok_ray.job.events import AttemptFailed, SliceEnded

    if isinstance(event, SliceEnded):
        end = f"failed: {event.error}" if event.error else f"done in {event.seconds:.1f} s"
        return f"{event.name}: {end} ({event.worker})"
    if isinstance(event, AttemptFailed):
        return f"{event.name}: an attempt failed, {event.cause}: {event.text}"
    return None


def table_lines(rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,)) -> Iterator[str]:
    """Yield a line for each row, with two spaces between columns; `left` are aligned left.

    >>> list(table_lines([["text", "bytes"], ["news", "1,392"], ["数", "3"]]))
    ['text  bytes', 'news  1,392', '数        3']
    """
    widths = [max(map(width_of, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell + _fill(cell, width) if number in left else _fill(cell, width) + cell
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def width_of(text: str) -> int:
    """Return the number of columns of a text in a terminal."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(bool(unicodedata.combining(character)) for character in text)


def _fill(cell: str, width: int) -> str:
    return " " * (width - width_of(cell))


def field_line(name: str, text: str) -> str:
    """Return the line of a field of a result.

    >>> field_line("work", "/data/work")
    'work        /data/work'
    """
    return f"{name:<11} {text}"


def numbers_text(values: Mapping[str, int | None]) -> str:
    """Return the numbers of a result by name, as far as they are known.

    >>> numbers_text({"slices": 1, "text_bytes": 1200, "stale": 0, "temporaries": None})
    '1 slice, 1,200 text bytes, 0 stale'
    """
    known = {name.replace("_", " "): value for name, value in values.items() if value is not None}
    return ", ".join(
        quantity(value, name[:-1]) if name.endswith("s") else f"{value:,} {name}"
        for name, value in known.items()
    )


def ratio(value: float | None) -> str:
    """Return bytes per token with three decimal places, or "-" for None.

    >>> ratio(4.5678), ratio(None)
    ('4.568', '-')
    """
    return "-" if value is None else f"{value:.3f}"


def signed_percent(value: float | None) -> str:
    """Return a difference in percent with its sign, or "-" for None.

    >>> signed_percent(7.178), signed_percent(None)
    ('+7.2%', '-')
    """
    return "-" if value is None else f"{value:+.1f}%"
