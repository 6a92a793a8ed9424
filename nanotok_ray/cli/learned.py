"""What was learned from counts, for people and as values: the same in every command that learns.

Takes counts, the tokenizer and how long it took. Prints nothing but notes of missing sizes.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nanotok_ray.counts.span_counts import SpanCounts
from nanotok_ray.tokenizer.learn import LearnedTokenizer
from nanotok_ray.tokenizer.report import short_report, why_stopped


def with_smaller(
    learned: LearnedTokenizer, output: str, *, also: Sequence[int], name: Callable[[int], str]
) -> dict[str, LearnedTokenizer]:
    """Give what goes to each output: the tokenizer, and the smaller ones that were reached."""
    every = {output: learned}
    for size in also:
        if size > learned.tokenizer.get_vocab_size():
            print(f"note: {size:,} ids were not reached; no {name(size)}", file=sys.stderr)
        else:
            every[name(size)] = learned.truncated(size)
    return every


def summary(
    counts: SpanCounts, learned: LearnedTokenizer, *, asked: int, had: str, seconds: float
) -> str:
    """Tell what was counted, and `had` how, and what was learned from it in how many seconds."""
    size = learned.tokenizer.get_vocab_size()
    ids = f"{size:,} ids" if size == asked else f"{size:,} ids of the {asked:,} asked for"
    texts = "" if counts.texts is None else f" in {counts.texts:,} texts"
    counted = f"{counts.total:,} spans{texts}, {counts.num_distinct:,} distinct"
    why = why_stopped(learned.report)
    return "\n".join(
        (
            f"counts      {counted}; {had}",
            f"tokenizer   {ids}, learned in {seconds:.1f} s: {why}",
        )
    )


def values(
    learned: LearnedTokenizer, *, output: str, wrote: Sequence[str], seconds: Mapping[str, float]
) -> dict[str, Any]:
    """Give what programs read."""
    return {
        "status": "done",
        "output": output,
        "tokenizer_sha256": learned.tokenizer.sha256,
        "vocab_size": learned.tokenizer.get_vocab_size(),
        "seconds": seconds,
        **short_report(learned.report),
        "wrote": list(wrote),
    }
