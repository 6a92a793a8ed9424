"""Sampled documents: what is trained on, and examples."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from nanotok_ray.formats import Totals
from nanotok_ray.loader.shards import Shards
from nanotok_ray.report.document import (
    Image,
    first_items,
    items_of,
    legend_of,
    stored_document,
    turns_of,
)
from nanotok_ray.report.facts import Facts
from nanotok_ray.report.render import Bar, Part, Row, Segment
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.units import format_share, quantity

_SAMPLE: Final = 200
_SAMPLE_TOKENS: Final = 40_000
"""Limits of documents and tokens of a source in the sample."""

_ROLES: Final = {
    "assistant": "c2",
    "python": "c7",
    "user": "c1",
    "prompt": "c8",
    "python_output": "c3",
    "image": "c4",
    "bos": "c6",
}
"""The class of the color of each role."""

_MASK_LEGEND: Final = {"trained on": "yes", "not trained on": "no"}


def masks(facts: Facts) -> Iterator[Part]:
    """Yield the shares of tokens that are trained on; nothing if no source has a mask."""
    masked = {name: value for name, value in facts.sources.items() if value.roles}
    if not masked:
        return
    rows: list[Row] = [
        {
            "source": name,
            "": _mask_bar(value.trainable_tokens, value.tokens),
            "trained on": format_share(value.trainable_tokens, value.tokens),
            "tokens trained on": value.trainable_tokens,
            "tokens": value.tokens,
            "documents without any": value.without_trainable_token,
        }
        for name, value in masked.items()
    ]
    yield Part(title="Trained on, by source", legend=_MASK_LEGEND, rows=rows, texts=2)
    yield _by_role(masked)
    yield from _trained_by_role(facts)


def _mask_bar(trained: int, tokens: int) -> Bar:
    rest = tokens - trained
    return Bar(
        [
            Segment(kind="yes", value=trained, title=f"{quantity(trained, 'token')} trained on"),
            Segment(kind="no", value=rest, title=f"{rest:,} not trained on"),
        ],
        tokens,
    )


def _by_role(masked: Mapping[str, Totals]) -> Part:
    roles = [role for role in _ROLES if any(value.roles.get(role) for value in masked.values())]
    rows: list[Row] = []
    for name, value in masked.items():
        total = sum(value.roles.values())
        counts = {role: value.roles.get(role, 0) for role in roles}
        segments = [
            Segment(
                kind=_ROLES[role],
                value=count,
                title=f"{_named(role)}: {quantity(count, 'token')}",
            )
            for role, count in counts.items()
        ]
        shares = {_named(role): format_share(count, total) for role, count in counts.items()}
        rows.append({"source": name, "": Bar(segments, total), **shares})
    return Part(
        title="Tokens by role",
        legend={_named(role): _ROLES[role] for role in roles},
        rows=rows,
        texts=2,
    )


def _named(role: str) -> str:
    return role.replace("_", " ")


def _trained_by_role(facts: Facts) -> Iterator[Part]:
    train, tokenizer = facts.shards.get("train"), facts.tokenizer
    if train is None or tokenizer is None:
        return
    rows: list[Row] = []
    documents = 0
    for source, value in train.ranges().items():
        if train.mask(value[0]) is None:
            continue
        sampled, counts = _sampled(train, value, tokenizer)
        documents += sampled
        for role in sorted({role for role, _ in counts}, key=_role_order):
            trained, tokens = counts[role, 1], counts[role, 0] + counts[role, 1]
            rows.append(
                {
                    "source": source,
                    "role": role,
                    "": _mask_bar(trained, tokens),
                    "trained on": format_share(trained, tokens),
                    "tokens": tokens,
                }
            )
    if rows:
        yield Part(
            title="Trained on, by role",
            rows=rows,
            texts=3,
            note=f"In a sample: {quantity(documents, 'document')} of train, the first of each "
            "source.",
        )


def _role_order(role: str) -> tuple[int, str]:
    known = [*map(_named, _ROLES)]
    return (known.index(role) if role in known else len(known)), role


def _sampled(
    shards: Shards, values: range, tokenizer: Tokenizer
) -> tuple[int, Counter[tuple[str, int]]]:
    """Count tokens of the first documents of a source by role and mask."""
    counts: Counter[tuple[str, int]] = Counter()
    sampled = 0
    for number in values[:_SAMPLE]:
        for turn in turns_of(items_of(stored_document(shards, number), tokenizer)):
            for block in turn.blocks:
                for item in block.items:
                    if isinstance(item, Image):
                        counts["image", 0] += item.count
                    else:
                        role = block.role or (item.text if item.is_special else "text")
                        counts[role, item.mask or 0] += 1
        sampled += 1
        if counts.total() >= _SAMPLE_TOKENS:
            break
    return sampled, counts


NUM_EXAMPLES: Final = 300
ENOUGH_TOKENS: Final = 100
TRIED_DOCUMENTS: Final = 200
"""Limits of tokens of an example, of tokens of a document that is long enough, and of documents
that are tried.
"""


def example_documents(facts: Facts) -> Iterator[Part]:
    """Yield a text, and a conversation or document with images, if they exist."""
    train, tokenizer = facts.shards.get("train"), facts.tokenizer
    if train is None or tokenizer is None:
        return
    parts = [_example(train, value, tokenizer) for value in _example_sources(train)]
    if not parts:
        return
    yield from parts
    yield Part(
        note=f"The first document of train that has {ENOUGH_TOKENS} tokens or more, else the "
        f"longest of the first {TRIED_DOCUMENTS}; of the first source of texts and of the first "
        "with masks. More: ",
        command=f"nanotok inspect {facts.out.url} --doc 0-9 --html FILE",
    )


def _example_sources(shards: Shards) -> Iterator[range]:
    """Yield the documents of the first source without masks and of the first with masks."""
    kinds: set[bool] = set()
    for value in shards.ranges().values():
        is_masked = shards.mask(value[0]) is not None
        if is_masked not in kinds:
            kinds.add(is_masked)
            yield value


def _chosen_document(shards: Shards, values: range) -> int:
    numbers = np.array(values[:TRIED_DOCUMENTS], dtype=np.int64)
    lengths = shards.lengths(numbers)
    enough = np.flatnonzero(lengths >= ENOUGH_TOKENS)
    return int(numbers[enough[0] if len(enough) else int(lengths.argmax())])


def _example(shards: Shards, values: range, tokenizer: Tokenizer) -> Part:
    document = stored_document(shards, _chosen_document(shards, values))
    items, left_out = first_items(document, tokenizer, limit=NUM_EXAMPLES)
    return Part(
        title="A text" if document.mask is None else "A document with its mask",
        beside=document.location,
        legend=legend_of([document]),
        turns=turns_of(items),
        note=f"The first {quantity(len(items), 'token')}; {left_out:,} more are not shown."
        if left_out
        else "",
    )
