"""Learning for people: a bar with the last token in a terminal, in a log a line now and then."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from nanotok_ray.cli.merge_line import MERGE_LINE_SECONDS, merge_line, percent, shown_token
from nanotok_ray.merge_progress import MergeProgress

if TYPE_CHECKING:
    from nanotok_ray.merges import Made


@contextmanager
def shown_merges(stream: TextIO) -> Iterator[Callable[[MergeProgress], None]]:
    """Give what shows progress on a stream; a bar is closed on any exit."""
    if not stream.isatty():
        yield _Lines(stream)
        return
    with tqdm(
        desc="learn",
        unit=" merges",
        file=stream,
        leave=False,
        mininterval=0,  # it is told about a hundred times in all
        miniters=1,
    ) as bar:
        yield lambda progress: _advance(bar, progress)


class _Lines:
    """Prints a line when the percentage is another, not at once after another, and at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._percent = 0
        self._seconds = 0.0

    def __call__(self, progress: MergeProgress) -> None:
        now = percent(progress.done, progress.total)
        is_due = (
            progress.done == progress.total
            or progress.seconds - self._seconds >= MERGE_LINE_SECONDS
        )
        if progress.done and now != self._percent and is_due:
            self._percent, self._seconds = now, progress.seconds
            line = merge_line(progress.done, progress.total, _last(progress), progress.seconds)
            print(line, file=self._stream, flush=True)


def _advance(bar: "tqdm[Any]", progress: MergeProgress) -> None:
    bar.total = progress.total
    last = _last(progress)
    if last is not None:
        bar.set_postfix_str(f"{shown_token(last[1])} {last[2]:,} times", refresh=False)
    bar.update(progress.done - bar.n)


def _last(progress: MergeProgress) -> "Made | None":
    if progress.pair is None or progress.token is None or progress.count is None:
        return None
    return progress.pair, progress.token, progress.count
