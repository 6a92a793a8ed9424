"""The stages that find duplicate documents: hashing slices, comparing ranges, writing lists.

The lists are part of the plan and of the keys of slices. A plan whose lists are not known yet is
pending: the job finds them and makes its plan again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    DropList,
    HashRecord,
    ListsRecord,
    PartRecord,
    PlannedSource,
    key_of,
)
from nanotok_ray.job.counting import counts_stage
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.stage import TaskRules, complete
from nanotok_ray.job.work import HashWork, PartWork, hash_work, part_work
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards import read_record, write_record
from nanotok_ray.sources import (
    DUPLICATE,
    LISTS,
    NUM_BUCKETS,
    HashRange,
    Plan,
    Slice,
    slices_of,
    write_lists,
)
from nanotok_ray.storage import Folder

_PART_DOCUMENTS = 1 << 22
"""Documents of a part at most, unless there are more than 2**30: a part takes 0.32 GB of memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Compared:
    """The slices whose documents are compared with each other, in the order of the plan."""

    rule: str
    items: tuple[HashWork, ...]
    """One for each read: both splits of a share have the same pieces."""

    @property
    def key(self) -> str:
        """Hash of everything that the lists depend on."""
        return key_of({"rule": self.rule, "hashes": [item.key for item in self.items]})

    @property
    def record_name(self) -> str:
        """The path of the record of the lists in the work folder."""
        return f"duplicates/{self.key[:16]}.json"


def _compared(recipe: Recipe, plan: Plan) -> Iterator[_Compared]:
    """Yield the slices of each rule that the recipe has."""
    for rule in dict.fromkeys(filter(None, (source.dedup for source in plan.sources))):
        reads: dict[object, Slice] = {}
        for source in plan.sources:
            for slice_ in slices_of(source) if source.dedup == rule else ():
                reads.setdefault(slice_.reads, replace(slice_, share=None, drops=None))
        if reads:
            limit = recipe.limits.max_document_bytes
            yield _Compared(
                rule=rule,
                items=tuple(
                    HashWork(
                        work=recipe.output.work,
                        slice=slice_,
                        rule=rule,
                        max_document_bytes=limit,
                    )
                    for slice_ in reads.values()
                ),
            )


def with_lists(recipe: Recipe, plan: Plan, out: Folder) -> Plan:
    """Return a plan with the lists of duplicates, or pending if they are not known."""
    groups = list(_compared(recipe, plan))
    if not groups:
        return plan
    drops: dict[object, DropList | None] = {}
    sizes = out.sizes(LISTS)
    for group in groups:
        lists = _known_lists(group, Folder(recipe.output.work), sizes)
        if lists is None:
            return replace(plan, is_pending=True, folder=out.url)
        reads = (item.slice.reads for item in group.items)
        drops.update(zip(reads, lists, strict=True))
    sources = tuple(_with_drops(source, drops) for source in plan.sources)
    return replace(plan, sources=sources, folder=out.url)


def _known_lists(
    group: _Compared, work: Folder, sizes: dict[str, int]
) -> tuple[DropList | None, ...] | None:
    """Return the lists of slices, or None if one is missing."""
    try:
        record = read_record(work, group.record_name, ListsRecord)
    except CorruptOutputError:
        return None
    if record is None or record.value.key != group.key:
        return None
    lists = record.value.lists
    fits = all(one is None or sizes.get(one.name) == 4 * one.documents for one in lists)
    return lists if fits and len(lists) == len(group.items) else None


def _with_drops(source: PlannedSource, drops: dict[object, DropList | None]) -> PlannedSource:
    pairs = zip(source.slices, slices_of(source), strict=True)
    return replace(
        source,
        slices=tuple(replace(one, drops=drops.get(slice_.reads)) for one, slice_ in pairs),
    )


def find_lists(recipe: Recipe, plan: Plan, out: Folder, runtime: Runtime) -> None:
    """Find the duplicates of a plan, and write their lists and records; requires a session.

    Raises:
        SliceError: A slice or a part failed permanently.
    """
    work = Folder(recipe.output.work)
    rules = TaskRules(deadline=recipe.limits.slice_deadline)
    for group in _compared(recipe, plan):
        if _known_lists(group, work, out.sizes(LISTS)) is not None:
            continue
        stage = counts_stage("hash", group.items, HashRecord, hash_work, rules=rules)
        hashed = [record.value for _, record in complete(stage, runtime).stored.done]
        items = list(_parts(group, hashed))
        parts = counts_stage("duplicates", items, PartRecord, part_work, rules=rules)
        done = [record.value for _, record in complete(parts, runtime).stored.done]
        duplicates = [_duplicates_of(record, work) for record in done]
        lists = tuple(write_lists(duplicates, num_slices=len(group.items), folder=out))
        record = ListsRecord(stage="lists", key=group.key, lists=lists, files=())
        write_record(work, group.record_name, record)


def _parts(group: _Compared, hashed: list[HashRecord]) -> Iterator[PartWork]:
    """Yield the parts of all hashes; their number, a power of two, depends on the documents."""
    documents = sum(record.documents for record in hashed)
    num_parts = min(NUM_BUCKETS, 1 << (max(0, documents - 1) // _PART_DOCUMENTS).bit_length())
    for part in range(num_parts):
        ranges = tuple(HashRange.of(record, part=part, num_parts=num_parts) for record in hashed)
        yield PartWork(
            work=group.items[0].work,
            ranges=ranges,
            part=part,
            num_parts=num_parts,
            key=key_of({"lists": group.key, "part": part, "parts": num_parts}),
        )


def _duplicates_of(record: PartRecord, work: Folder) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    (file,) = record.files
    return np.frombuffer(work.read_verified(file.name, sha256=file.sha256), dtype=DUPLICATE)
