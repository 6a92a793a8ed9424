"""Shards that another version of a tokenizer's library has written."""

from dataclasses import replace

from nanotok_ray.errors import NanotokError
from nanotok_ray.formats import ShardRecord
from nanotok_ray.shards import ExpectedSlice, StoredRecords
from nanotok_ray.shards.check import check_slice, work_of
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.units import quantity

MAX_CHECKED = 4
"""Slices whose sample is encoded again by the installed version."""


def of_this_engine(
    stored: StoredRecords[ExpectedSlice, ShardRecord], tokenizer: Tokenizer, out: Folder
) -> tuple[StoredRecords[ExpectedSlice, ShardRecord], tuple[str, ...]]:
    """Return the records that remain with the installed version of the library, and notes.

    A sample of the slices that another version has written is encoded again. If an id differs,
    the records of all slices of other versions are left out.
    """
    current = tokenizer.engine_version
    others = [(item, record) for item, record in stored.done if record.value.engine != current]
    if not others:
        return stored, ()
    checked, problem = 0, None
    for item, record in others[:: -(-len(others) // MAX_CHECKED)]:
        work = work_of(out, item, record, model=tokenizer.model)
        try:
            result = check_slice(replace(work, depth="sample"))
        except (NanotokError, OSError) as error:
            problem = problem or str(error)
            continue
        checked += result.sampled
        problem = problem or next(iter(result.problems), None)
    names = " and ".join(sorted({str(record.value.engine) for _, record in others}))
    slices = f"{quantity(len(others), 'slice')} encoded with {names}"
    if problem is None:
        documents = quantity(checked, "document")
        same = f"{current} gives the same ids for a sample of {documents}"
        return stored, (f"{slices}: kept, because {same}",)
    gone = {item.record_name for item, _ in others}
    remaining = {name: record for name, record in stored.records.items() if name not in gone}
    note = f"{slices}: encoded again with {current}, because of a sample: {problem}"
    return replace(stored, records=remaining), (note,)
