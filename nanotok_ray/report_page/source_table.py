"""Sources: documents, bytes and tokens of each, and how many bytes a token stands for.

Takes the facts; gives markup.
"""

from collections.abc import Mapping
from typing import Any, Final

from nanotok_ray.report_page import numbers
from nanotok_ray.report_page.facts import Facts
from nanotok_ray.report_page.markup import Part, bar, heading, legend, shown, table

_SPLITS: Final = {"train": "c1", "val": "c8"}


def sources(facts: Facts) -> str:
    """Give the table by source and split; nothing without a manifest."""
    if facts.manifest is None:
        return ""
    own = facts.sources
    everything = facts.manifest["totals"]["all"]
    most = max((_per_token(each) for each in own.values()), default=0.0)
    tokens = everything["tokens"]
    rows = []
    for name, each in [*own.items(), *([("all", everything)] if len(own) > 1 else [])]:
        source, _, split = name.rpartition("/")
        is_sum = name == "all"
        kind = "c6" if is_sum else _SPLITS[split]
        ratio = _per_token(each)
        part = Part(kind=kind, value=ratio, title=f"{ratio:.3f} bytes per token")
        rows.append(
            (
                "all" if is_sum else shown(name, 80),
                bar([part], of=most),
                numbers.ratio(each["text_bytes"], each["tokens"]),
                f"{each['documents']['out']:,}",
                numbers.num_bytes(each["text_bytes"]),
                f"{each['tokens']:,}",
                numbers.share(each["tokens"], tokens),
                "" if is_sum else shown(facts.manifest["kinds"][source], 40),
            )
        )
    heads = (
        *("source", "bytes per token", "", "documents"),
        *("text", "tokens", "share of tokens", "kind"),
    )
    keys = {
        split: kind
        for split, kind in _SPLITS.items()
        if any(name.endswith(f"/{split}") for name in own)
    }
    told = heading("Bytes per token, by source and split")
    return told + legend(keys) + table(heads, rows, texts=2)


def _per_token(own: Mapping[str, Any]) -> float:
    return float(own["text_bytes"] / own["tokens"]) if own["tokens"] else 0.0
