"""The output folder as a whole: totals, shards.idx and manifest."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, get_type_hints

from nanotok_ray.formats import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    SHARDS_INDEX_NAME,
    TOKENIZER_FILE,
    Manifest,
    OutputFacts,
    ShardRecord,
    ShardSettings,
    Totals,
    converted,
    digest_of,
    dump,
    pack_shards_index,
    sha256_of,
    shards_of,
)
from nanotok_ray.shards.records import Record
from nanotok_ray.shards.unused import most_frequent
from nanotok_ray.sources import OTHER_REASONS, Plan, plan_to_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer


def totals_of(records: Iterable[tuple[str, Totals]]) -> dict[str, Totals]:
    """Sum the counts of (source and split, record); the sum of all of them is `all`."""
    groups: dict[str, list[Totals]] = {"all": []}
    for name, record in records:
        groups["all"].append(record)
        groups.setdefault(name, []).append(record)
    return {name: _total(members) for name, members in groups.items()}


def _total(records: Sequence[Totals]) -> Totals:
    total: Totals = _sum(Totals, records)
    return replace(
        total,
        unused_text=most_frequent(total.unused_text),
        dropped=most_frequent(total.dropped, others=OTHER_REASONS),
    )


def _sum(kind: Any, values: Sequence[Any]) -> Any:  # noqa: ANN401 - a dataclass of numbers
    """Return the sum of dataclasses, field by field; numbers by name are sorted by name."""
    if kind is int:
        return sum(values)
    if isinstance(kind, type) and is_dataclass(kind):
        hints, names = get_type_hints(kind), [item.name for item in fields(kind)]
        parts = {name: [getattr(value, name) for value in values] for name in names}
        return kind(**{name: _sum(hints[name], part) for name, part in parts.items()})
    counts: Counter[str] = Counter()
    for value in values:
        counts.update(value)
    return dict(sorted(counts.items()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """The files that are written last: shards.idx, then the manifest that names it."""

    manifest: Manifest
    shards_index: bytes

    @property
    def manifest_bytes(self) -> bytes:
        """The bytes of manifest.json."""
        return dump(self.manifest)

    def publish(self, folder: Folder, *, check: Callable[[], object] = lambda: None) -> None:
        """Write shards.idx, then the manifest; `check` is called directly before each appears."""
        folder.write_bytes(SHARDS_INDEX_NAME, self.shards_index, check=check)
        folder.write_bytes(MANIFEST_NAME, self.manifest_bytes, check=check)

    def withdraw(self, folder: Folder, *, is_in_use: bool) -> None:
        """Remove this manifest if it is published and another run has changed the output.

        Args:
            folder: The output folder.
            is_in_use: Whether the other run has not ended: it will publish its own manifest.
        """
        try:
            if folder.read_bytes(MANIFEST_NAME, limit=MAX_MANIFEST_BYTES) != self.manifest_bytes:
                return
            is_unchanged = (
                folder.sha256(SHARDS_INDEX_NAME) == self.manifest.shards_index_sha256
                and folder.sha256(TOKENIZER_FILE) == self.manifest.tokenizer_sha256
            )
        except FileNotFoundError:
            is_unchanged = False
        if is_in_use or not is_unchanged:
            folder.remove(MANIFEST_NAME)


def assemble(
    plan: Plan,
    records: Sequence[Record[ShardRecord]],
    *,
    settings: Mapping[str, ShardSettings],
    tokenizer: Tokenizer,
) -> Output:
    """Build shards.idx and the manifest from the records of all slices, in plan order."""
    names = [source.name for source in plan.sources]
    item_bytes = tokenizer.model.id_bytes
    shards = [
        shard
        for record in records
        for shard in shards_of(record.value, item_bytes=item_bytes, sha256=record.sha256)
    ]
    index = pack_shards_index(shards, sources=names)
    facts = output_facts(plan, settings=settings, tokenizer=tokenizer)
    manifest = converted(
        facts,
        Manifest,
        plan_sha256=sha256_of(plan_to_json(plan)),
        records_sha256=digest_of(record.sha256 for record in records),
        shards_index_sha256=sha256_of(index),
        slices=len(records),
        shards=len(shards),
        totals=totals_of(
            (f"{slice_.source}/{slice_.split}", record.value)
            for slice_, record in zip(plan.slices(), records, strict=True)
        ),
    )
    return Output(manifest=manifest, shards_index=index)


def output_facts(
    plan: Plan, *, settings: Mapping[str, ShardSettings], tokenizer: Tokenizer
) -> OutputFacts:
    """Return what a manifest says of the sources and the tokenizer."""
    return OutputFacts(
        sources=tuple(source.name for source in plan.sources),
        kinds={source.name: source.kind for source in plan.sources},
        tokenizer_sha256=tokenizer.sha256,
        special_tokens=tokenizer.special_tokens,  # in the order of ids
        item_bytes=tokenizer.model.id_bytes,
        num_ids=tokenizer.model.num_ids,
        settings=settings,
    )
