"""Sources: documents, bytes and tokens of each, and how many bytes a token stands for.

Takes the facts; gives markup.
"""

from nanotok_ray.report_page import numbers
from nanotok_ray.report_page.facts import Facts
from nanotok_ray.report_page.markup import Part, bar, heading, shown, table


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
        kind = "c6" if is_sum else "c1" if split == "train" else "c8"
        ratio = _per_token(each)
        part = Part(kind=kind, value=ratio, title=f"{ratio:.3f} bytes per token")
        rows.append(
            (
                "all" if is_sum else shown(source, 80),
                "" if is_sum else split,
                "" if is_sum else str(facts.manifest["kinds"][source]),
                bar([part], of=most),
                numbers.ratio(each["text_bytes"], each["tokens"]),
                f"{each['documents']['out']:,}",
                numbers.num_bytes(each["text_bytes"]),
                f"{each['tokens']:,}",
                numbers.share(each["tokens"], tokens),
            )
        )
    heads = (
        *("source", "split", "kind", "bytes per token", ""),
        *("documents", "text", "tokens", "share of tokens"),
    )
    return heading("Bytes per token, by source and split") + table(heads, rows, texts=4)


def _per_token(own: "dict[str, int] | object") -> float:
    values = own if isinstance(own, dict) else {}
    return values["text_bytes"] / values["tokens"] if values.get("tokens") else 0.0
