"""Learning for people: a bar with the last token in a terminal, in a log a line now and then."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from tqdm import tqdm

from nanotok_ray.cli.merge_line import is_line_due, merge_line, percent, shown_token
from nanotok_ray.tokenizer.merges import MergeProgress

if TYPE_CHECKING:
    from nanotok_ray.tokenizer.merges import Made


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
    """Prints a line when one is due."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._percent = 0
        self._seconds = 0.0

    def __call__(self, progress: MergeProgress) -> None:
        done, total, seconds = progress.done, progress.total, progress.seconds
        since = seconds - self._seconds
        if is_line_due(done, total, percent_before=self._percent, seconds=since):
            self._percent, self._seconds = percent(done, total), seconds
            line = merge_line(done, total, _last(progress), seconds)
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
