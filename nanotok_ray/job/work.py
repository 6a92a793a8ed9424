"""What a worker runs: one slice of one stage (or both splits of one), its files, then its record.

Only these functions are sent to a node. Each is a pure function of its argument and storage, and
returns a few numbers for progress; the record in storage is the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nanotok_ray.counts import (
    CountPart,
    CountSettings,
    PartSettings,
    merge_count_files,
    merged_key,
    reduce_part,
)
from nanotok_ray.counts.count_slice import count_slice
from nanotok_ray.errors import SampleCheckError, TransientIOError
from nanotok_ray.exports import SamePass
from nanotok_ray.formats import to_json
from nanotok_ray.shards import (
    Expected,
    Record,
    ShardSettings,
    finished_record,
    is_skipped,
    quarantine_name,
    tokenize_slices,
)
from nanotok_ray.shards.check import check_files, record_problems
from nanotok_ray.sources import BY_CHOICE, COUNTED_SUFFIX, AllBadError, Slice, write_quarantine
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, expected_tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class CountWork:
    """Count a slice into the work folder."""

    slice: Slice
    settings: CountSettings
    work: str
    """URL of the work folder."""
    give_up_after: int | None = None
    """After so many documents of the slice, all bad, the rest is not read; None: it always is."""

    @property
    def name(self) -> str:
        """Path of the count file in the work folder, without suffix."""
        return f"counts/{self.slice.source}/{self.slice.name_for(self.settings.key(self.slice))}"


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeWork:
    """Merge count files of one source into one, in the same work folder."""

    source: str
    files: tuple[str, ...]
    """Paths in the work folder."""
    keys: tuple[str, ...]
    """The key of each."""
    num_bytes: int
    """Bytes of all of them."""
    work: str
    """URL of the work folder."""

    @property
    def key(self) -> str:
        """Everything the merged file depends on."""
        return merged_key(self.keys)

    @property
    def name(self) -> str:
        """Path of the merged file in the work folder, without suffix."""
        return f"merged/{self.source}/{self.key[:16]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReduceWork:
    """Sum one part of the hash range of several count files, in the same work folder."""

    files: tuple[str, ...]
    """Paths in the work folder."""
    weights: tuple[int, ...]
    """The factor for the counts of each file."""
    settings: PartSettings
    key: str
    """Everything the sum depends on."""
    num_bytes: int
    """About the bytes of the part in all of them."""
    work: str
    """URL of the work folder."""

    @property
    def name(self) -> str:
        """Path of the sum in the work folder, without suffix."""
        part = self.settings.part
        return f"reduced/{part.num_parts:03}/{part.number:03}-{self.key[:16]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizeWork:
    """Tokenize a slice into the output folder."""

    slice: Slice
    other_split: Slice | None = None
    """The slice of val with the same pieces, if it is to be written from the same read."""
    settings: ShardSettings
    out: str
    """URL of the output folder."""
    tokenizer: str
    """URL of the tokenizer's folder."""
    same_pass: SamePass | None = None
    """What is exported of the slice once its record is written; None: nothing."""
    give_up_after: int | None = None
    """As in `CountWork`."""

    @property
    def expected(self) -> list[Expected]:
        """The slice, or the slices of both splits, with their keys."""
        slices = [self.slice] if self.other_split is None else [self.slice, self.other_split]
        return [Expected(slice=slice_, key=self.settings.key(slice_)) for slice_ in slices]


@dataclass(frozen=True, kw_only=True, slots=True)
class AllBad:
    """The result of a slice of which no document could be used."""

    documents: int
    """How many were read; where that was enough to give up, there is no record."""
    listed: str
    """The quarantine file."""


def count_work(work: CountWork) -> int | AllBad:
    """Count a slice, write its record and return the bytes of text.

    A slice that another attempt has done meanwhile is left alone; so it is with all stages.
    """
    folder = Folder(work.work)
    done = finished_record(folder, f"{work.name}.json", key=work.settings.key(work.slice))
    if done is not None:
        return int(done.values["text_bytes"])
    listed = f"{work.name}{COUNTED_SUFFIX}"
    try:
        record = count_slice(
            work.slice,
            work.settings,
            folder=folder,
            name=work.name,
            give_up_after=work.give_up_after,
        )
    except AllBadError as found:
        return _given_up(found, folder, listed=listed)
    folder.write_whole(f"{work.name}.json", to_json(record))
    return _result([record], listed=listed)


def _given_up(found: AllBadError, folder: Folder, *, listed: str) -> AllBad:
    """List the documents quarantined so far. No record is written: the next run reads the slice."""
    write_quarantine(folder, found.quarantined, name=listed)
    return AllBad(documents=found.documents, listed=listed)


def _result(records: Sequence[dict[str, Any]], *, listed: str) -> int | AllBad:
    """Return the bytes of text, or that every document is bad."""
    documents = sum(record["documents"]["in"] for record in records)
    quarantined = sum(record["documents"]["quarantined"] for record in records)
    chosen = sum(record["quarantined"].get(kind, 0) for record in records for kind in BY_CHOICE)
    if 0 < documents == quarantined - chosen:
        return AllBad(documents=documents, listed=listed)
    return sum(int(record["text_bytes"]) for record in records)


def merge_work(work: MergeWork) -> int:
    """Merge count files, write the record and return the bytes of the files."""
    folder = Folder(work.work)
    if finished_record(folder, f"{work.name}.json", key=work.key) is not None:
        return work.num_bytes
    urls = [folder.join(name) for name in work.files]
    record = merge_count_files(urls, keys=work.keys, folder=folder, name=work.name)
    folder.write_whole(f"{work.name}.json", to_json(record))
    return work.num_bytes


def reduce_work(work: ReduceWork) -> int:
    """Sum a part of count files, write the record and return the bytes of the part."""
    folder = Folder(work.work)
    if finished_record(folder, f"{work.name}.json", key=work.key) is not None:
        return work.num_bytes
    files = [
        CountPart(url=folder.join(name), weight=weight)
        for name, weight in zip(work.files, work.weights, strict=True)
    ]
    record = reduce_part(files, work.settings, folder=folder, name=work.name, key=work.key)
    folder.write_whole(f"{work.name}.json", to_json(record))
    return work.num_bytes


def tokenize_work(work: TokenizeWork) -> int | AllBad:
    """Tokenize a slice or both splits, write their records and return the bytes of text."""
    folder = Folder(work.out)
    found = {expected: tokenized_record(folder, expected) for expected in work.expected}
    done = [record.values for record in found.values() if record is not None]
    todo = [expected for expected, record in found.items() if record is None]
    listed = quarantine_name(work.slice, work.settings.key(work.slice))
    if todo:
        try:
            done += _tokenize(todo, work, folder)
        except AllBadError as found_bad:
            return _given_up(found_bad, folder, listed=listed)
    return _result(done, listed=listed)


def tokenized_record(folder: Folder, expected: Expected) -> Record | None:
    """Return the record of a slice that is done; None where it is not, or was left out."""
    found = finished_record(folder, expected.record_name, key=expected.key)
    return None if found is None or is_skipped(found) else found


def _tokenize(todo: Sequence[Expected], work: TokenizeWork, folder: Folder) -> list[dict[str, Any]]:
    """Tokenize slices of the same pieces, check all, and write their records."""
    tokenizer = expected_tokenizer(work.tokenizer, work.settings.tokenizer_sha256)
    slices = [expected.slice for expected in todo]
    records = tokenize_slices(
        slices,
        work.settings,
        tokenizer=tokenizer,
        out=folder,
        give_up_after=work.give_up_after,
    )
    for slice_, record in zip(slices, records, strict=True):
        _check(folder, work, slice_, record, tokenizer)
    for expected, record in zip(todo, records, strict=True):
        folder.write_whole(expected.record_name, to_json(record))
    if work.same_pass is not None:
        for record in records:
            work.same_pass.export(record)
    return records


def _check(
    folder: Folder, work: TokenizeWork, slice_: Slice, record: dict[str, Any], tokenizer: Tokenizer
) -> None:
    """Read the files of a slice back: its record is not written before they are what it says.

    Raises:
        SampleCheckError: the record contradicts itself or its slice: a document was lost, for one.
        TransientIOError: storage returns other bytes than were written; another attempt may do.
    """
    model = tokenizer.model
    for problem in record_problems(record, item_bytes=model.id_bytes, slice_=slice_):
        raise SampleCheckError(f"{problem}; nothing of this slice is recorded. This is a bug")
    problems = check_files(
        folder,
        record,
        item_bytes=model.id_bytes,
        num_ids=model.num_ids,
        special_tokens=model.special_tokens,
        image_token=work.settings.image_token,
    )
    for problem in problems:
        raise TransientIOError(f"{folder.url}: what was written reads back otherwise: {problem}")
