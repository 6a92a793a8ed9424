"""Learning for people: a bar with the last token in a terminal, a line for each percent in a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from tqdm import tqdm

from nanotok_ray.merge_progress import MergeProgress

LONGEST_SHOWN = 30
"""Characters of a token that are shown."""


@contextmanager
def shown_merges(stream: TextIO) -> Iterator[Callable[[MergeProgress], None]]:
    """Give what shows progress on a stream; a bar is closed on any exit."""
    if not stream.isatty():
        yield _Lines(stream)
        return
    with tqdm(total=0, desc="learn", unit=" merges", file=stream, leave=False) as bar:
        yield lambda progress: _advance(bar, progress)


def merge_line(progress: MergeProgress) -> str:
    r"""Give progress as a line of a log.

    >>> print(merge_line(MergeProgress(done=3276, total=32759, pair=(256, 257), token=b" the",
    ...     count=1234567, merges_per_second=45000.4, seconds=0.1)))
    learn: 3,276 of 32,759 merges (10%), ' the' (256, 257) 1,234,567 times, 45,000 merges/s
    """
    done, total = progress.done, progress.total
    rate = f"{progress.merges_per_second:,.0f} merges/s"
    return f"learn: {done:,} of {total:,} merges ({_percent(progress)}%), {_last(progress)}{rate}"


def token_text(token: bytes) -> str:
    r"""Give a token in quotes, as text if it is UTF-8, shortened in the middle if it is long.

    >>> print(token_text(b" the"), token_text(b"\xff"), token_text(b"=" * 99))
    ' the' b'\xff' '==============...=============='
    """
    try:
        text = repr(token.decode())
    except UnicodeDecodeError:
        text = repr(token)
    if len(text) <= LONGEST_SHOWN + 2:
        return text
    half = (LONGEST_SHOWN - 1) // 2
    return f"{text[: half + 1]}...{text[-half - 1 :]}"


class _Lines:
    """Prints a line when the percentage is another."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._percent = 0

    def __call__(self, progress: MergeProgress) -> None:
        percent = _percent(progress)
        if progress.done and percent != self._percent:
            self._percent = percent
            print(merge_line(progress), file=self._stream, flush=True)


def _advance(bar: "tqdm[Any]", progress: MergeProgress) -> None:
    bar.total = progress.total
    bar.set_postfix_str(_last(progress).removesuffix(", "), refresh=False)
    bar.update(progress.done - bar.n)


def _last(progress: MergeProgress) -> str:
    if progress.pair is None or progress.token is None:
        return ""
    return f"{token_text(progress.token)} {progress.pair} {progress.count:,} times, "


def _percent(progress: MergeProgress) -> int:
    return 100 * progress.done // max(progress.total, 1)
