"""The functions that workers run: each writes the files of a slice, then its record.

Only these functions are sent to nodes. Each is a pure function of its argument and storage. It
returns a few numbers for the progress; the result is the record in storage.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
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
from nanotok_ray.formats import (
    CountRecord,
    HashRecord,
    MergeRecord,
    PartRecord,
    ShardRecord,
    ShardSettings,
    StoredFile,
    SumRecord,
    key_of,
)
from nanotok_ray.shards import (
    ExpectedSlice,
    Record,
    finished_record,
    is_skipped,
    quarantine_name,
    tokenize_slices,
    write_record,
)
from nanotok_ray.shards.check import SliceWork, check_files, check_slice, record_problems
from nanotok_ray.shards.settings import Vocabulary
from nanotok_ray.sources import (
    BY_CHOICE,
    COUNTED_SUFFIX,
    AllBadError,
    HashRange,
    Slice,
    SliceReading,
    find_duplicates,
    hash_slice,
    write_quarantine,
)
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, expected_tokenizer, span_encoder

R = TypeVar("R", HashRecord, PartRecord, MergeRecord, SumRecord)


@dataclass(frozen=True, kw_only=True, slots=True)
class CountsWork(ABC):
    """The argument of a function that writes a file of counts and its record to the work folder."""

    work: str
    """URL of the work folder."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The path of the file in the work folder, without suffix."""

    @property
    def record_name(self) -> str:
        """The path of the record in the work folder."""
        return f"{self.name}.json"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The input files of the job that are read, for messages."""
        return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _SliceWork(CountsWork):
    """The argument of a function that reads a slice."""

    slice: Slice

    @property
    def num_bytes(self) -> int:
        """The estimated bytes of the slice."""
        return self.slice.num_bytes

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files of the slice."""
        return tuple(file.url for file in self.slice.files)


@dataclass(frozen=True, kw_only=True, slots=True)
class CountWork(_SliceWork):
    """The argument of `count_work`: a slice to count."""

    settings: CountSettings
    give_up_after: int | None = None
    """The number of documents after which reading stops if all are bad; None: never."""
    key: str = field(init=False)
    """Hash of everything that the counts depend on."""

    def __post_init__(self) -> None:
        """Compute the key."""
        object.__setattr__(self, "key", self.settings.key(self.slice))

    @property
    def name(self) -> str:
        """The path of the count file in the work folder, without suffix."""
        return f"counts/{self.slice.source}/{self.slice.name_for(self.key)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class HashWork(_SliceWork):
    """The argument of `hash_work`: all documents of the pieces of a slice, of both splits."""

    rule: str
    """How documents are compared: `exact` or `exact-normalized`."""
    max_document_bytes: int
    key: str = field(init=False)
    """Hash of everything that the hashes depend on."""

    def __post_init__(self) -> None:
        """Compute the key."""
        values: dict[str, object] = {
            "slice": self.slice.key,
            "rule": self.rule,
            "limit": self.max_document_bytes,
        }
        if self.rule != "exact":
            values["unicode"] = _core.UNICODE_VERSION
        object.__setattr__(self, "key", key_of(values))

    @property
    def name(self) -> str:
        """The path of the file in the work folder, without suffix."""
        return f"hashes/{self.slice.source}/{self.slice.name_for(self.key)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PartWork(CountsWork):
    """The argument of `part_work`: a range of all hashes, in which duplicates are found."""

    ranges: tuple[HashRange, ...]
    """That of each slice in the order of the plan."""
    part: int
    num_parts: int
    key: str
    """Hash of everything that the duplicates depend on."""

    @property
    def name(self) -> str:
        """The path of the file in the work folder, without suffix."""
        return f"duplicates/{self.num_parts:03}/{self.part:03}-{self.key[:16]}"

    @property
    def num_bytes(self) -> int:
        """The bytes of the hashes."""
        return sum(one.num_bytes for one in self.ranges)


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeWork(CountsWork):
    """The argument of `merge_work`: count files of a source to merge into one."""

    source: str
    files: tuple[str, ...]
    """Paths in the work folder."""
    keys: tuple[str, ...]
    """The key of each."""
    num_bytes: int
    """Bytes of all files."""

    @property
    def name(self) -> str:
        """The path of the merged file in the work folder, without suffix."""
        return f"merged/{self.source}/{self.key[:16]}"

    @property
    def key(self) -> str:
        """Hash of everything that the merged file depends on."""
        return merged_key(self.keys)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReduceWork(CountsWork):
    """The argument of `reduce_work`: a part of the hash range of count files to sum."""

    files: tuple[str, ...]
    """Paths in the work folder."""
    weights: tuple[int, ...]
    """The factor for the counts of each file."""
    settings: PartSettings
    key: str
    """Hash of everything that the sum depends on."""
    num_bytes: int
    """The approximate bytes of the part in all files."""

    @property
    def name(self) -> str:
        """The path of the sum in the work folder, without suffix."""
        part = self.settings.part
        return f"reduced/{part.num_parts:03}/{part.number:03}-{self.key[:16]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizeWork:
    """The argument of `tokenize_work`: a slice to tokenize, or both splits of the same pieces."""

    expected: tuple[ExpectedSlice, ...]
    """The slices, with the same settings."""
    out: str
    """URL of the output folder."""
    tokenizer: str
    """URL of the tokenizer's folder."""
    same_pass: SamePass | None = None
    """The layouts to export after the record is written; None for none."""
    give_up_after: int | None = None
    """Same as in `CountWork`."""

    @property
    def slice(self) -> Slice:
        """The first slice."""
        return self.expected[0].slice

    @property
    def settings(self) -> ShardSettings:
        """The settings of the shards."""
        return self.expected[0].settings


@dataclass(frozen=True, kw_only=True, slots=True)
class AllBad:
    """The result of a slice of which no document could be used."""

    documents: int
    """The number of documents that were read. If reading stopped early, there is no record."""
    listed: str
    """The quarantine file."""


def count_work(work: CountWork) -> int | AllBad:
    """Count a slice, write its record and return the bytes of text.

    Like all functions here, it does nothing if another attempt has finished the slice meanwhile.
    """
    folder = Folder(work.work)
    done = finished_record(folder, work.record_name, CountRecord, key=work.key)
    if done is not None:
        return done.value.text_bytes
    listed = f"{work.name}{COUNTED_SUFFIX}"
    try:
        record = count_slice(
            work.slice,
            work.settings,
            folder=folder,
            name=work.name,
            give_up_after=work.give_up_after,
            counter=_superword_counter(work.settings),
        )
    except AllBadError as error:
        return _given_up(error, folder, listed=listed)
    write_record(folder, work.record_name, record)
    return _result([record], listed=listed)


def _superword_counter(settings: CountSettings) -> _core.SpanCounts | None:
    """Return the counter of pairs or segments of ids, or None if spans are counted."""
    superwords = settings.superwords
    if superwords is None:
        return None
    tokenizer = expected_tokenizer(superwords.tokenizer, superwords.tokenizer_sha256)
    frequent = None
    if superwords.pairs is not None and superwords.pairs_sha256 is not None:
        frequent = _frequent_pairs(superwords.pairs, superwords.pairs_sha256)
    return _core.SpanCounts(
        superwords.pattern,
        gaps=settings.gaps,
        base=span_encoder(tokenizer),
        frequent=frequent,
    )


@lru_cache(maxsize=1)
def _frequent_pairs(url: str, sha256: str) -> NDArray[np.uint64]:
    folder, _, name = url.rpartition("/")
    return np.frombuffer(Folder(folder).read_verified(name, sha256=sha256), dtype="<u8")


def _given_up(error: AllBadError, folder: Folder, *, listed: str) -> AllBad:
    """List the documents quarantined so far. No record is written: the next run reads the slice."""
    write_quarantine(folder, error.quarantined, name=listed)
    return AllBad(documents=error.documents, listed=listed)


def _result(records: Sequence[CountRecord | ShardRecord], *, listed: str) -> int | AllBad:
    """Return the bytes of text, or `AllBad` if every document is bad."""
    documents = sum(record.documents.in_ for record in records)
    quarantined = sum(record.documents.quarantined for record in records)
    chosen = sum(record.quarantined.get(kind, 0) for record in records for kind in BY_CHOICE)
    if 0 < documents == quarantined - chosen:
        return AllBad(documents=documents, listed=listed)
    return sum(record.text_bytes for record in records)


def hash_work(work: HashWork) -> int:
    """Hash the documents of a slice, write the record and return the bytes of the slice."""

    def hashed(folder: Folder) -> HashRecord:
        reading = SliceReading(
            work.slice, max_document_bytes=work.max_document_bytes, with_document_ids=False
        )
        name = f"{work.name}.hashes"
        return hash_slice(reading, rule=work.rule, folder=folder, name=name, key=work.key)

    return _complete(work, HashRecord, hashed)


def part_work(work: PartWork) -> int:
    """Find the duplicates in a range of hashes, write the record and return the bytes read."""

    def compare(folder: Folder) -> PartRecord:
        duplicates = find_duplicates(work.ranges, folder)
        name = f"{work.name}.duplicates"
        with folder.create(name) as file:
            file.write(duplicates.tobytes())
        return PartRecord(
            stage="duplicates",
            key=work.key,
            documents=sum(one.num_rows for one in work.ranges),
            duplicates=len(duplicates),
            files=(StoredFile(name=name, size=file.size, sha256=file.sha256),),
        )

    return _complete(work, PartRecord, compare)


def merge_work(work: MergeWork) -> int:
    """Merge count files, write the record and return the bytes of the files."""

    def merge(folder: Folder) -> MergeRecord:
        urls = [folder.join(name) for name in work.files]
        return merge_count_files(urls, keys=work.keys, folder=folder, name=work.name)

    return _complete(work, MergeRecord, merge)


def reduce_work(work: ReduceWork) -> int:
    """Sum a part of count files, write the record and return the bytes of the part."""

    def reduce(folder: Folder) -> SumRecord:
        files = [
            CountPart(url=folder.join(name), weight=weight)
            for name, weight in zip(work.files, work.weights, strict=True)
        ]
        return reduce_part(files, work.settings, folder=folder, name=work.name, key=work.key)

    return _complete(work, SumRecord, reduce)


def _complete(
    work: HashWork | PartWork | MergeWork | ReduceWork, kind: type[R], make: Callable[[Folder], R]
) -> int:
    """Make a file and write its record, unless both exist; return the bytes of input."""
    folder = Folder(work.work)
    if finished_record(folder, work.record_name, kind, key=work.key) is None:
        write_record(folder, work.record_name, make(folder))
    return work.num_bytes


def tokenize_work(work: TokenizeWork) -> int | AllBad:
    """Tokenize a slice or both splits, write their records and return the bytes of text."""
    folder = Folder(work.out)
    records = {expected: tokenized_record(folder, expected) for expected in work.expected}
    done = [record.value for record in records.values() if record is not None]
    todo = [expected for expected, record in records.items() if record is None]
    listed = quarantine_name(work.slice, work.expected[0].key)
    if todo:
        try:
            done += _tokenize(todo, work, folder)
        except AllBadError as error:
            return _given_up(error, folder, listed=listed)
    return _result(done, listed=listed)


def reused_slice_problems(work: SliceWork) -> tuple[str, ...]:
    """Compare the files of a slice that an unfinished run has left with their record."""
    return check_slice(work).problems


def tokenized_record(folder: Folder, expected: ExpectedSlice) -> Record[ShardRecord] | None:
    """Return the record of a finished slice, or None if it is unfinished or was skipped."""
    record = finished_record(folder, expected.record_name, ShardRecord, key=expected.key)
    return None if record is None or is_skipped(record) else record


def _tokenize(
    todo: Sequence[ExpectedSlice], work: TokenizeWork, folder: Folder
) -> list[ShardRecord]:
    """Tokenize slices of the same pieces, check them, and write their records."""
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
        write_record(folder, expected.record_name, record)
    if work.same_pass is not None:
        for record in records:
            work.same_pass.export(record)
    return records


def _check(
    folder: Folder, work: TokenizeWork, slice_: Slice, record: ShardRecord, tokenizer: Tokenizer
) -> None:
    """Read the files of a slice back and compare them with its record before it is written.

    Raises:
        SampleCheckError: The record contradicts itself or its slice, for example because a
            document was lost.
        TransientIOError: Storage returned other bytes than were written; try again.
    """
    model = tokenizer.model
    for problem in record_problems(record, item_bytes=model.id_bytes, slice_=slice_):
        raise SampleCheckError(f"{problem}; nothing of this slice is recorded. This is a bug")
    for problem in check_files(folder, record, Vocabulary.of(model, work.settings)):
        raise TransientIOError(f"{folder.url}: what was written reads back otherwise: {problem}")
