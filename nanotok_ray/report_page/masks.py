"""Masks: how many tokens of conversations and documents with images are trained on.

Takes the facts; gives bars and tables. By source they are the manifest's; what is trained on of
each role is counted in a sample, as the manifest does not say it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from nanotok_ray.document_page import Document, Image, Spelling, items_of, turns_of
from nanotok_ray.loader.shards import Shards
from nanotok_ray.report_page import numbers
from nanotok_ray.report_page.facts import Facts
from nanotok_ray.report_page.markup import Part, bar, heading, legend, note, shown, table
from nanotok_ray.report_page.palette import ROLE_KINDS
from nanotok_ray.tokenizer import Tokenizer

_SAMPLE: Final = 200
_SAMPLE_TOKENS: Final = 40_000
"""Documents and tokens of a source that are looked at."""


def masks(facts: Facts) -> str:
    """Give what is trained on; nothing if no source has a mask."""
    masked = {name: own for name, own in facts.sources.items() if own["roles"]}
    if not masked:
        return ""
    return _by_source(masked) + _by_role(masked) + _trained_by_role(facts)


def _by_source(masked: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, own in masked.items():
        trained, tokens = own["trainable_tokens"], own["tokens"]
        parts = [
            Part(kind="yes", value=trained, title=f"{trained:,} tokens trained on"),
            Part(kind="no", value=tokens - trained, title=f"{tokens - trained:,} not trained on"),
        ]
        share = numbers.share(trained, tokens)
        bare = own["without_trainable_token"]
        rows.append(
            (
                shown(name, 80),
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
        role for role in ROLE_KINDS if any(own["roles"].get(role) for own in masked.values())
    ]
    rows = []
    for name, own in masked.items():
        total = sum(own["roles"].values())
        parts = [
            Part(
                kind=ROLE_KINDS[role],
                value=own["roles"].get(role, 0),
                title=f"{_named(role)}: {own['roles'].get(role, 0):,} tokens",
            )
            for role in present
        ]
        shares = [numbers.share(own["roles"].get(role, 0), total) for role in present]
        rows.append((shown(name, 80), bar(parts, of=total), *shares))
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
    for source, own in train.ranges().items():
        if train.mask(own[0]) is None:
            continue
        looked_at, counts = _sampled(train, own, tokenizer)
        documents += looked_at
        for role in sorted({role for role, _ in counts}, key=_role_order):
            yes, no = counts[role, 1], counts[role, 0]
            parts = [
                Part(kind="yes", value=yes, title=f"{yes:,} tokens trained on"),
                Part(kind="no", value=no, title=f"{no:,} not trained on"),
            ]
            share = numbers.share(yes, yes + no)
            rows.append(
                (
                    shown(source, 80),
                    shown(role, 40),
                    bar(parts, of=yes + no),
                    share,
                    f"{yes + no:,}",
                )
            )
    if not rows:
        return ""
    heads = ("source", "role", "", "trained on", "tokens")
    told = f"In a sample: {documents:,} documents of train, the first of each source."
    return heading("Trained on, by role") + table(heads, rows, texts=3) + note(told)


def _role_order(role: str) -> tuple[int, str]:
    known = [*map(_named, ROLE_KINDS)]
    return (known.index(role) if role in known else len(known)), role


def _sampled(
    shards: Shards, own: range, tokenizer: Tokenizer
) -> tuple[int, Counter[tuple[str, int]]]:
    """Count tokens of the first documents of a source by role and mask."""
    spelling = spelling_of(tokenizer)
    counts: Counter[tuple[str, int]] = Counter()
    looked_at = 0
    for number in own[:_SAMPLE]:
        document = Document(
            title=f"document {number}",
            place="",
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
        looked_at += 1
        if counts.total() >= _SAMPLE_TOKENS:
            break
    return looked_at, counts


def spelling_of(tokenizer: Tokenizer) -> Spelling:
    """Give how the ids of a tokenizer are spelled."""
    return Spelling(
        bytes_of=tokenizer.decode_single_token_bytes, special_tokens=tokenizer.special_tokens
    )
