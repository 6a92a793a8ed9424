"""Examples of documents, masks and tokens."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from nanotok_ray.loader.shards import Shards
from nanotok_ray.report import numbers
from nanotok_ray.report.document import (
    NOBODY,
    Block,
    Document,
    Image,
    Spelling,
    Turn,
    first_items,
    items_of,
    turns_of,
)
from nanotok_ray.report.document_page import text_blocks, text_markup
from nanotok_ray.report.facts import Facts
from nanotok_ray.report.markup import (
    ROLE_KINDS,
    Markup,
    Part,
    bar,
    code,
    escaped,
    heading,
    html_of,
    legend,
    note,
    table,
)
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.model import NUM_BYTES

_SAMPLE: Final = 200
_SAMPLE_TOKENS: Final = 40_000
"""Documents and tokens of a source that are sampled."""


def masks(facts: Facts) -> str:
    """Return what is trained on; nothing if no source has a mask."""
    masked = {name: value for name, value in facts.sources.items() if value["roles"]}
    if not masked:
        return ""
    return _by_source(masked) + _by_role(masked) + _trained_by_role(facts)


def _by_source(masked: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, value in masked.items():
        trained, tokens = value["trainable_tokens"], value["tokens"]
        parts = [
            Part(kind="yes", value=trained, title=f"{trained:,} tokens trained on"),
            Part(kind="no", value=tokens - trained, title=f"{tokens - trained:,} not trained on"),
        ]
        share = numbers.share(trained, tokens)
        bare = value["without_trainable_token"]
        rows.append(
            (
                escaped(name, 80),
                bar(parts, of=tokens),
                share,
                f"{trained:,}",
                f"{tokens:,}",
                f"{bare:,}",
            )
        )
    heads = ("source", "", "trained on", "tokens trained on", "tokens", "documents without any")
    keys = legend({"trained on": "yes", "not trained on": "no"})
    return heading("Trained on, by source") + keys + table(heads, rows, texts=2)


def _by_role(masked: Mapping[str, Mapping[str, Any]]) -> str:
    present = [
        role for role in ROLE_KINDS if any(value["roles"].get(role) for value in masked.values())
    ]
    rows = []
    for name, value in masked.items():
        total = sum(value["roles"].values())
        parts = [
            Part(
                kind=ROLE_KINDS[role],
                value=value["roles"].get(role, 0),
                title=f"{_named(role)}: {value['roles'].get(role, 0):,} tokens",
            )
            for role in present
        ]
        shares = [numbers.share(value["roles"].get(role, 0), total) for role in present]
        rows.append((escaped(name, 80), bar(parts, of=total), *shares))
    keys = legend({_named(role): ROLE_KINDS[role] for role in present})
    heads = ("source", "", *map(_named, present))
    return heading("Tokens by role") + keys + table(heads, rows, texts=2)


def _named(role: str) -> str:
    return role.replace("_", " ")


def _trained_by_role(facts: Facts) -> str:
    train, tokenizer = facts.shards.get("train"), facts.tokenizer
    if train is None or tokenizer is None:
        return ""
    rows, documents = [], 0
    for source, value in train.ranges().items():
        if train.mask(value[0]) is None:
            continue
        sampled, counts = _sampled(train, value, tokenizer)
        documents += sampled
        for role in sorted({role for role, _ in counts}, key=_role_order):
            yes, no = counts[role, 1], counts[role, 0]
            parts = [
                Part(kind="yes", value=yes, title=f"{yes:,} tokens trained on"),
                Part(kind="no", value=no, title=f"{no:,} not trained on"),
            ]
            share = numbers.share(yes, yes + no)
            rows.append(
                (
                    escaped(source, 80),
                    escaped(role, 40),
                    bar(parts, of=yes + no),
                    share,
                    f"{yes + no:,}",
                )
            )
    if not rows:
        return ""
    heads = ("source", "role", "", "trained on", "tokens")
    text = f"In a sample: {documents:,} documents of train, the first of each source."
    return heading("Trained on, by role") + table(heads, rows, texts=3) + note(text)


def _role_order(role: str) -> tuple[int, str]:
    known = [*map(_named, ROLE_KINDS)]
    return (known.index(role) if role in known else len(known)), role


def _sampled(
    shards: Shards, values: range, tokenizer: Tokenizer
) -> tuple[int, Counter[tuple[str, int]]]:
    """Count tokens of the first documents of a source by role and mask."""
    spelling = spelling_of(tokenizer)
    counts: Counter[tuple[str, int]] = Counter()
    sampled = 0
    for number in values[:_SAMPLE]:
        document = Document(
            title=f"document {number}",
            location="",
            ids=shards[number],
            mask=shards.mask(number),
            images=shards.images(number),
        )
        for turn in turns_of(items_of(document, spelling)):
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


def spelling_of(tokenizer: Tokenizer) -> Spelling:
    """Return how the ids of a tokenizer are spelled."""
    return Spelling(
        bytes_of=tokenizer.decode_single_token_bytes, special_tokens=tokenizer.special_tokens
    )


NUM_EXAMPLES: Final = 300
ENOUGH_TOKENS: Final = 100
TRIED_DOCUMENTS: Final = 200
"""Tokens that are shown, tokens of a document that is long enough, documents that are tried."""

_SPEAKERS: Final = {"user": "u", "assistant": "a"}


def example_documents(facts: Facts) -> str:
    """Return a text, and a conversation or document with images, where there are any."""
    train, tokenizer = facts.shards.get("train"), facts.tokenizer
    if train is None or tokenizer is None:
        return ""
    parts = [_example(train, value, tokenizer) for value in _sources_to_show(train)]
    if not parts:
        return ""
    rule = (
        f"The first document of train that has {ENOUGH_TOKENS} tokens or more, else the longest of "
        f"the first {TRIED_DOCUMENTS}; of the first source of texts and of the first with masks. "
    )
    more = code(f"nanotok inspect {facts.out.url} --doc 0-9 --html FILE", 2000)
    return "".join(parts) + f'<p class="quiet">{html_of(rule)}More: {more}</p>\n'


def _sources_to_show(shards: Shards) -> Iterator[range]:
    seen: set[bool] = set()
    for value in shards.ranges().values():
        is_masked = shards.mask(value[0]) is not None
        if is_masked not in seen:
            seen.add(is_masked)
            yield value


def chosen_document(shards: Shards, values: range) -> int:
    """Return the number of the document to show of a source."""
    numbers = np.array(values[:TRIED_DOCUMENTS], dtype=np.int64)
    lengths = shards.lengths(numbers)
    enough = np.flatnonzero(lengths >= ENOUGH_TOKENS)
    return int(numbers[enough[0] if len(enough) else int(lengths.argmax())])


def _example(shards: Shards, values: range, tokenizer: Tokenizer) -> str:
    number = chosen_document(shards, values)
    shard, position = shards.shard_of(number)
    document = Document(
        title=f"document {number}",
        location=f"document {position:,} of {shard}",
        ids=shards[number],
        mask=shards.mask(number),
        images=shards.images(number),
    )
    items, left_out = first_items(document, spelling_of(tokenizer), limit=NUM_EXAMPLES)
    keys = (
        {"a token, and the next": "t"}
        if document.mask is None
        else {"trained on": "yes", "not trained on": "no"}
    )
    title = "A text" if document.mask is None else "A document with its mask"
    cut = f"The first {len(items):,} tokens; {left_out:,} more are not shown." if left_out else ""
    return (
        heading(title, escaped(document.location, 200))
        + legend(keys)
        + f'<div class="doc">{"".join(map(_turn, turns_of(items)))}</div>\n'
        + (note(cut) if cut else "")
    )


def _turn(turn: Turn) -> str:
    inside = _blocks(turn.blocks, role=turn.role)
    if turn.role == NOBODY:
        return f'<div class="turn">{inside}</div>\n'
    kind = _SPEAKERS.get(turn.role, "a")
    return f'<div class="turn {kind}"><h4>{turn.role}</h4><div class="said">{inside}</div></div>\n'


def _blocks(blocks: Iterable[Block], *, role: str) -> str:
    parts = []
    for block in blocks:
        text = "".join(text_blocks(block.items))
        is_of_role = block.role == role
        parts.append(text if is_of_role else f'<div class="tool"><h5>{block.role}</h5>{text}</div>')
    return "".join(parts)


_ROW_MERGES: Final = (0, 100, 1_000, 10_000, 100_000)
_POSITION_NOTE = 8
_LONGEST = 8
_MAX_BYTES = 200


def example_tokens(tokenizer: Tokenizer) -> str:
    """Return the tables; nothing if no token was learned."""
    tokens = tokenizer.model.tokens
    merged = tokens[NUM_BYTES:]
    if not merged:
        return ""
    rows = [
        (
            f"{first:,}",
            Markup(" ".join(_boxed(item) for item in merged[first : first + _POSITION_NOTE])),
        )
        for first in _ROW_MERGES
        if first < len(merged)
    ]
    order = sorted(range(len(merged)), key=lambda item: (-len(merged[item]), item))[:_LONGEST]
    longest = [
        (Markup(_boxed(merged[item])), f"{len(merged[item]):,}", f"{NUM_BYTES + item:,}")
        for item in order
    ]
    return (
        heading("Learned tokens", "from the first merge on")
        + table(("from merge", "tokens"), rows, texts=2)
        + heading("Longest tokens")
        + table(("token", "bytes", "id"), longest)
    )


def _boxed(token: bytes) -> str:
    cut = token[:_MAX_BYTES]
    text = cut.decode(errors="backslashreplace")
    more = "\u2026" if len(token) > len(cut) else ""
    on_one_line = text_markup(text).replace("\n", "")  # the mark of its end stays
    return f'<bdi class="tok">{on_one_line}{more}</bdi>'
