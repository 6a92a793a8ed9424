"""Very many count files to fewer: groups of neighbours are merged by tasks before they are summed.

A merged file is kept between runs as count files are. Does not know weights: files of one source
alone are merged, as they have the same.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from nanotok_ray.cluster.counting import CountedSlices
from nanotok_ray.cluster.engine import Task
from nanotok_ray.cluster.events import OnEvent
from nanotok_ray.cluster.fan_out import fan_out
from nanotok_ray.cluster.probes import work_folder
from nanotok_ray.cluster.stages import MergeWork, merge_work
from nanotok_ray.counts.reduce import merge_groups
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.shards.output import Record, finished_records
from nanotok_ray.storage import Folder

MERGE_ABOVE = 2048
"""Count files that are summed as they are."""


def merge_first(work: str, counted: CountedSlices, *, on_event: OnEvent) -> CountedSlices:
    """Give the same counts in fewer files, if they are very many. Needs a Ray session.

    Args:
        work: URL of the work folder.
        counted: the slices, their records, and the files.
        on_event: told of the stage `merge`.

    Raises:
        SliceError: a group could not be merged.
    """
    if not (works := merge_works(work, counted)):
        return counted
    todo = [own for own, record in zip(works, _finished(works), strict=True) if record is None]
    shared = work_folder(work)
    tasks = [
        Task(
            name=f"merge {own.name.removeprefix('merged/')}",
            work=merge_work,
            argument=own,
            num_bytes=own.num_bytes,
            shared=shared,
        )
        for own in todo
    ]
    fan_out("merge", tasks, kept=len(works) - len(todo), on_event=on_event)
    for own, record in zip(works, _finished(works), strict=True):
        if record is None:
            raise CorruptOutputError(
                f"{own.name} was merged and is gone; who else writes to {work}?"
            )
    return replace(counted, files=tuple((own.source, f"{own.name}.arrow") for own in works))


def merge_works(work: str, counted: CountedSlices) -> list[MergeWork]:
    """Give the groups that are to be merged; none where the files are not very many."""
    if len(counted.files) <= MERGE_ABOVE:
        return []
    works: list[MergeWork] = []
    named = zip(counted.files, counted.records, strict=True)
    for source, group in groupby(named, key=lambda each: each[0][0]):
        members = [(name, record) for (_, name), record in group]
        for first, end in merge_groups([record.values["key"] for _, record in members]):
            records = [record for _, record in members[first:end]]
            works.append(
                MergeWork(
                    source=source,
                    files=tuple(name for name, _ in members[first:end]),
                    keys=tuple(record.values["key"] for record in records),
                    num_bytes=sum(record.values["files"][0]["size"] for record in records),
                    work=work,
                )
            )
    return works


def _finished(works: Sequence[MergeWork]) -> list[Record | None]:
    below = sorted({f"merged/{own.source}/" for own in works})
    wanted = [(f"{own.name}.json", own.key) for own in works]
    return finished_records(Folder(works[0].work), wanted, below=below)
