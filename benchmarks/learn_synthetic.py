"""The tables of `learn.py` without a corpus: very many distinct spans, and equal counts.

Each function returns rows for the JSON document and prints a line for each. The spans are those of
`synthetic_counts.py`. The reasons to stop are checked on spans of the same kind.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import rustbpe

import span_file
from fresh import Figures, assert_same, fresh
from learn_memory import print_row
from learn_settings import NUM_BYTES, Settings, threads_of
from nanotok_ray import _core
from one_peer_growth import WHOLE
from ranks import spell
from synthetic_counts import heaps, tail

THREADS = (1, 2)
TIED_COUNTS = (1, 2)
TIMES = (1, 2, 4)
FEW_SPANS = 5_000
"""Spans with equal counts of which all pairs are merged, for rustbpe."""

Rows = list[dict[str, Any]]


def synthetic(settings: Settings) -> Rows:
    """Learn from very many distinct spans; goal: 10 million in 60 s."""
    spans = heaps(settings.spans, seed=settings.seed)
    folder = settings.folder / f"heaps-{settings.spans}"
    span_file.save(spans, folder)
    few = [float(np.mean(spans.counts == count)) for count in (1, 2, 3)]
    print(
        f"synthetic: {settings.spans:,} distinct spans, {len(spans.data) / settings.spans:.2f} "
        f"bytes each, counts up to {spans.counts.max():,}, of 1, 2, 3: "
        f"{', '.join(f'{share:.0%}' for share in few)}; goal 60 s for 10 million",
        flush=True,
    )
    runs = {
        threads_of(threads): fresh("one_merge_loop.py", settings.merges, threads, folder)
        for threads in THREADS
    }
    assert_same({each: [run] for each, run in runs.items()}, "sha256", "synthetic")
    return [print_row(what, run, settings.merges) for what, run in runs.items()]


def ties(settings: Settings) -> Rows:
    """Learn from tied spans; goal: time no worse than linear in merges."""
    print(
        f"ties: {settings.tied_spans:,} spans of random letters, all of one count, 1 thread; "
        "goal: later merges take no longer than earlier ones",
        flush=True,
    )
    rows = [tied(settings, count) for count in TIED_COUNTS]
    for count in TIED_COUNTS:
        check_ends(count, settings.seed)
    print(f"  {FEW_SPANS:,} such spans end as they should, and their merges equal rustbpe's")
    return rows


def tied(settings: Settings, count: int) -> dict[str, Any]:
    """Learn once, and take the time after n, 2 n and 4 n merges."""
    spans = tail(settings.tied_spans, count, seed=settings.seed)
    folder = settings.folder / f"tail-{settings.tied_spans}-{count}"
    span_file.save(spans, folder)
    marks = [settings.tied_merges * times for times in TIMES]
    run = fresh("one_merge_loop.py", marks[-1], 1, folder, "--marks", *marks)
    row = print_row(f"count {count}", run, marks[-1])
    return row | {"count": count, "intervals": [interval(*each) for each in pairwise(run["marks"])]}


def interval(first: Figures, last: Figures) -> dict[str, Any]:
    """Print and return the time of the merges between two marks."""
    merges = last["merges"] - first["merges"]
    nanoseconds = round((last["seconds"] - first["seconds"]) / merges * 1e9)
    print(
        f"    merges {first['merges']:>10,} to {last['merges']:>10,}: {last['seconds']:.2f} s "
        f"since the start, {nanoseconds:,} ns a merge; "
        f"the last pair occurred {last['last_count']} times",
        flush=True,
    )
    return last | {"from": first["merges"], "nanoseconds_per_merge": nanoseconds}


def check_ends(count: int, seed: int) -> None:
    """Merge all pairs of fewer spans; stop if an end, a limit or a merge is wrong."""
    spans = tail(FEW_SPANS, count, seed=seed)
    merges, found, _, reason = _core.learn([spans], num_merges=2**31)
    assert (reason, int(found[-1])) == ("no pair left", count), (reason, found[-1])
    above, more, _, reason = _core.learn([spans], num_merges=2**31, min_pair_count=count + 1)
    assert (reason, bool(np.all(more > count))) == ("below min_pair_count", True), reason
    assert np.array_equal(above, merges[: len(above)])
    assert not np.any(found[len(above) :] > count), "a limit ended learning too early"
    some, _, _, reason = _core.learn([spans], num_merges=len(merges))
    assert (reason, len(some)) == ("vocabulary size reached", len(merges)), reason
    peer = rustbpe.Tokenizer()
    texts = iter(spans.strings() * count)
    peer.train_from_iterator(texts, NUM_BYTES + len(merges) + 1, pattern=WHOLE)
    expected = [bytes(token) for token, _ in peer.get_mergeable_ranks()]
    assert spell(merges.tolist()) == expected, "the merges of ties differ from rustbpe's"


TABLES: dict[str, Callable[[Settings], Any]] = {"synthetic": synthetic, "ties": ties}
