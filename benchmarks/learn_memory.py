"""The table of `learn.py` for memory: the learner's peak above its input, with rustbpe's.

The function returns rows for the JSON document and prints a line for each. `one_merge_loop.py` and
`one_peer_growth.py` define what is measured.
"""

from collections.abc import Callable
from typing import Any

from fresh import Figures, assert_same, fresh
from learn_corpus import PEER, SPANS
from learn_settings import Settings, threads_of

BYTES_PER_SPAN = 16
BYTES_PER_BYTE = 8
ENDS = {True: "vocabulary size reached", False: "no pair left"}
"""The reason why learning ends, by whether the requested number of merges was reached."""


def memory(settings: Settings) -> list[dict[str, Any]]:
    """Measure the peak above the input; goal: the formula, and a quarter of rustbpe's."""
    print("memory of the learner above its input; goal 16 B a span + 8 B a byte, 0.25 of rustbpe's")
    return [beside_rustbpe(settings, name) for name in settings.corpora]


def beside_rustbpe(settings: Settings, name: str) -> dict[str, Any]:
    """Learn with the corpus's counts, and with counts of 1, which rustbpe supports too."""
    folder, merges = settings.folder / name / SPANS, settings.num_merges
    rows = {
        f"{name}, {threads_of(threads)}": fresh("one_merge_loop.py", merges, threads, folder)
        for threads in sorted({1, settings.threads})
    }
    assert_same({each: [run] for each, run in rows.items()}, "sha256", f"{name}, memory")
    figures = [print_row(what, run, merges) for what, run in rows.items()]
    ones = fresh("one_merge_loop.py", merges, 1, folder, "--ones")
    peer = fresh("one_peer_growth.py", merges, folder, env={"RAYON_NUM_THREADS": "1"})
    assert_same({"nanotok_ray": [ones], PEER: [peer]}, "sha256", f"{name}, counts of 1")
    ratio = round(ones["peak_bytes"] / peer["peak_bytes"], 3)
    print(
        f"  {name}, every count 1: {ones['peak_bytes'] / 1e6:.1f} MB; rustbpe "
        f"{peer['peak_bytes'] / 1e6:.1f} MB ({peer['counted_bytes'] / 1e6:.1f} MB when it had "
        f"counted): {ratio} of it",
        flush=True,
    )
    return {
        "corpus": name,
        "rows": figures,
        "ones_peak_bytes": ones["peak_bytes"],
        "rustbpe_peak_bytes": peer["peak_bytes"],
        "rustbpe_counted_bytes": peer["counted_bytes"],
        "ratio_to_rustbpe": ratio,
    }


def print_row(what: str, run: Figures, num_merges: int) -> dict[str, Any]:
    """Print and return time and peak with the formula; stop if learning ended wrongly."""
    assert run["stop_reason"] == ENDS[run["merges"] == num_merges], f"{what}: {run}"
    allowed = BYTES_PER_SPAN * run["spans"] + BYTES_PER_BYTE * run["span_bytes"]
    row = {
        "what": what,
        "merges": run["merges"],
        "seconds": round(run["seconds"], 3),
        "spans": run["spans"],
        "span_bytes": run["span_bytes"],
        "peak_bytes": run["peak_bytes"],
        "bytes_per_span": round(run["peak_bytes"] / run["spans"], 1),
        "bytes_per_byte": round(run["peak_bytes"] / run["span_bytes"], 2),
        "formula_bytes": allowed,
        "ratio_to_formula": round(run["peak_bytes"] / allowed, 3),
    }
    print(
        f"  {what}: {run['spans']:,} spans, {run['span_bytes'] / 1e6:.1f} MB, {run['merges']:,} "
        f"merges: {run['seconds']:.2f} s; peak {run['peak_bytes'] / 1e6:.1f} MB above "
        f"{run['input_bytes'] / 1e6:.1f} MB of input: {row['bytes_per_span']} B a span or "
        f"{row['bytes_per_byte']} B a byte, {row['ratio_to_formula']} of the formula",
        flush=True,
    )
    return row


TABLES: dict[str, Callable[[Settings], Any]] = {"memory": memory}
