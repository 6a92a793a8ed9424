"""The stored values of an output, as frozen dataclasses that `codec` reads and writes.

The values are checked when they are read: their types by the codec, and what fields have to do with
each other here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, ClassVar, Final, Literal, NamedTuple

from nanotok_ray.formats.codec import Natural, Number, Numbers, Sha256, omitted
from nanotok_ray.formats.names import SPLITS, sha256_of
from nanotok_ray.formats.settings import ShardSettings
from nanotok_ray.formats.training_report import TrainingTotals

ROLES: Final = ("bos", "user", "assistant", "python", "python_output", "image", "prompt")
"""The owner of a token: the start, a speaker including the tokens that delimit it, an image. With a
chat template, `prompt` is all that the assistant did not write.
"""

Split = Annotated[str, SPLITS.__contains__]

ItemBytes = Annotated[int, (2, 4).__contains__]
"""Bytes of a token id."""

Roles = Annotated[Numbers, lambda roles: roles.keys() <= set(ROLES)]
"""Numbers of tokens by owner."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """Documents or bytes that were read, written and quarantined."""

    in_: Number
    out: Number
    quarantined: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The counts of documents that were compared with their source while they were written."""

    documents: Number
    bytes: Number
    """Checked bytes of these documents, at most 64 KiB per text."""
    encoded_again: Number
    """Documents for which tiktoken returned the same ids."""
    not_encoded_again: Numbers
    """Documents that could not be compared with tiktoken, by reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """The counts of a slice, or the sums over the slices of a source and split, or over all."""

    documents: Flow
    bytes: Flow
    """UTF-8 bytes of the documents; those of the JSON text of conversations."""
    proof: Proof
    quarantined: Numbers
    """Quarantined documents by reason."""
    roles: Roles
    """Written tokens of conversations and vision documents by owner."""
    special_tokens: Numbers
    """Written special tokens by name."""
    text_bytes: Number
    """UTF-8 bytes of the written text."""
    tokens: Number
    special_text: Number
    """Occurrences of the names of special tokens in the text, which are encoded as text."""
    over_max_tokens: Number
    """Documents with more tokens than the limit; `truncated` of them were cut."""
    truncated: Number
    trainable_tokens: Number
    without_trainable_token: Number
    """Documents without a token under mask 1."""
    images: Number
    blank_lines: Number
    lost_rows: Number = omitted(0)
    """Rows of damaged row groups, each of which is quarantined as one tail."""
    unused_text: Numbers = omitted(factory=dict)
    """Values of keys that hold text and are not rendered, by key."""
    fim: Numbers = omitted(factory=dict)
    """Text documents that were rearranged for filling in the middle, by form: psm and spm."""
    dropped: Numbers = omitted(factory=dict)
    """Rows of which the function of the source made no document, by reason; and documents that are
    left out because an earlier one is equal, as `duplicate`.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputFacts:
    """The part of a manifest that is known before anything is written."""

    sources: tuple[str, ...]
    """The names of the sources in the order of the recipe."""
    kinds: Mapping[str, str]
    """text, chat or vision, by source."""
    tokenizer_sha256: Sha256
    special_tokens: Numbers
    """The ids of the special tokens by name."""
    item_bytes: ItemBytes
    num_ids: Number
    """The highest id of the tokenizer + 1."""
    settings: Mapping[str, ShardSettings]
    """The settings of the shards by source."""

    def __post_init__(self) -> None:
        """Refuse a source without a kind or settings."""
        for source in self.sources:
            if source not in self.settings or source not in self.kinds:
                raise ValueError(f"lists the source {source!r} without its kind or settings")


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest(OutputFacts):
    """The content of manifest.json, which is written last: what the output is made of."""

    FORMAT: ClassVar[str] = "nanotok-manifest 1"

    plan_sha256: Sha256
    records_sha256: Sha256
    """The sha256 of the hashes of all records, in the order of the plan."""
    shards_index_sha256: Sha256
    slices: Number
    shards: Number
    totals: Annotated[Mapping[str, Totals], lambda totals: "all" in totals]
    """The totals by `source/split`, and those of all as `all`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredFile:
    """A file that a record names."""

    name: str
    """Path in the folder of the record's results."""
    size: Number
    sha256: Sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadRange:
    """What was read of an input file: the range of a piece, and its bytes."""

    file: str
    start: Number
    stop: Number
    bytes: Number
    sha256: Sha256
    """The sha256 of the bytes of the documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceName:
    """The identity of a slice in the plan."""

    source: str
    split: Split
    number: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRows:
    """Consecutive documents of a shard, and the rows of the input file that they were."""

    file: str
    first_row: Number
    rows: Number
    """The number of documents."""
    row_group: Number | None = omitted()
    """The row group of a parquet file."""
    range: Annotated[tuple[Number, Number], lambda pair: pair[0] <= pair[1]] | None = omitted()
    """The range of any other file."""
    present: tuple[Number, ...] | None = omitted()
    """The rows of the documents, if fewer rows became documents than did not."""
    absent: tuple[Number, ...] | None = omitted()
    """The rows between the first and the last that did not become documents."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """A shard that a record names."""

    name: str
    """Path in the output folder without suffix."""
    documents: Number
    bytes: Number
    tokens: Number
    source_map: tuple[SourceRows, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultRecord:
    """A record: the key of a result, and its files."""

    FORMAT: ClassVar[str] = "nanotok-record 1"

    key: Sha256
    """The sha256 of everything on which the result depends."""
    files: tuple[StoredFile, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRecord(Totals):
    """The record of a slice of shards: what was read, what was written, and why not all of it."""

    FORMAT: ClassVar[str] = "nanotok-record 1"

    key: Sha256
    files: tuple[StoredFile, ...]
    stage: Literal["tokenize"]
    slice: SliceName
    read: tuple[ReadRange, ...]
    other_split: Number
    """Documents that belong to the other split of a share."""
    shards: tuple[Shard, ...]
    engine: str | None = omitted()
    """The library that encoded, with its version; None: the core."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CountFlow:
    """Documents that were read and quarantined."""

    in_: Number
    quarantined: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class CountRecord(ResultRecord):
    """The record of the counts of a slice."""

    stage: Literal["count"]
    slice: SliceName
    read: tuple[ReadRange, ...]
    documents: CountFlow
    quarantined: Numbers
    """Quarantined documents by reason."""
    texts: Number
    text_bytes: Number
    code_points: Number
    spans: Natural
    distinct_spans: Number
    gaps: Natural
    """Texts between the matches of the pattern."""
    dropped: Numbers = omitted(factory=dict)
    """As in `Totals`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeRecord(ResultRecord):
    """The record of a file with the counts of several count files."""

    stage: Literal["merge"]
    count_files: Number
    texts: Number | None
    text_bytes: Number
    spans: Natural
    distinct_spans: Number
    gaps: Natural | None


class HashBucket(NamedTuple):
    """The hashes of a file that begin with one byte."""

    documents: Number
    crc32: Number
    """That of the bytes of their rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HashRecord(ResultRecord):
    """The record of the hashes of the documents of a slice."""

    stage: Literal["hash"]
    slice: SliceName
    documents: Number
    buckets: tuple[HashBucket, ...]
    """By the first byte of the hash."""

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other."""
        if sum(bucket.documents for bucket in self.buckets) != self.documents:
            raise ValueError("has buckets of other than all documents")


@dataclass(frozen=True, kw_only=True, slots=True)
class PartRecord(ResultRecord):
    """The record of the duplicates in a range of all hashes."""

    stage: Literal["duplicates"]
    documents: Number
    """The number of hashes that were compared."""
    duplicates: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class DropList:
    """The documents of a slice that are left out, which are duplicates of earlier ones."""

    name: Annotated[str, re.compile("quarantine/duplicates/[0-9a-f]{32}[.]u32").fullmatch]
    """The path of the list in the output folder."""
    sha256: Sha256
    documents: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class ListsRecord(ResultRecord):
    """The record of the lists of all slices whose documents are compared."""

    stage: Literal["lists"]
    lists: tuple[DropList | None, ...]
    """Of each slice in the order of the plan; None without duplicates. `files` is empty, since the
    lists are in the output folder.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class SpanTotals:
    """Sums over all occurrences of spans, without weights."""

    spans: Natural
    """Occurrences of spans, including dropped ones."""
    span_bytes: Natural
    """Bytes of these occurrences."""
    distinct_spans: Number
    dropped_spans: Natural = 0
    """Occurrences of dropped spans, whose count is below the minimum."""
    dropped_bytes: Natural = 0
    dropped_distinct: Number = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SumSize:
    """The size of a file of weighted sums."""

    spans: Number
    """Distinct spans."""
    bytes: Number
    """Their bytes."""
    weighted_bytes: Natural
    """Their bytes, each times its weighted count."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SumRecord(ResultRecord):
    """The record of the weighted sums of one part of all hashes."""

    stage: Literal["reduce"]
    count_files: Number
    totals: SpanTotals
    sum: SumSize


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedTokens:
    """The special tokens of a learned tokenizer: those of learning, and those added to it."""

    learned: tuple[str, ...]
    extended: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnRecord(ResultRecord):
    """The record of a learned tokenizer and of its smaller versions."""

    stage: Literal["learn"]
    rules: Sha256
    """As the key, without the inputs."""
    tokenizer_sha256: Sha256
    special_tokens: LearnedTokens
    also: tuple[Number, ...]
    """The vocabulary sizes of the smaller versions."""
    report: TrainingTotals


class RowGroup(NamedTuple):
    """The description of a row group in the footer of a parquet file."""

    rows: Number
    num_bytes: Number
    """Uncompressed bytes of the columns that are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """An input file with the attributes that identify its content without reading documents."""

    path: str
    """Path relative to the root of its source, with `/`; without the secrets of its URL."""
    url: str
    """Absolute path or URL, with the login and the signature that the recipe has. plan.json stores
    it without them."""
    size: Number
    """Stored size in bytes."""
    etag: str | None = None
    mtime_ns: Number | None = None
    footer_sha256: str | None = None
    """The sha256 (hex) of the footer of a parquet file."""
    format: Annotated[str, ("parquet", "jsonl", "lines", "document").__contains__]
    compression: Annotated[str, ("gzip", "zstd").__contains__] | None = None
    """None for parquet files, which are compressed internally."""
    layout: tuple[RowGroup, ...] = ()
    """The row groups of a parquet file."""
    split: str = ""
    """train or val, `share` if its documents are split by hash, or empty before it is assigned."""
    dialect: str | None = omitted()
    """For chats and vision files: the dialect of the documents."""


class FileRange(NamedTuple):
    """A range of the file with a number in its source."""

    file: Number
    start: Number
    stop: Number


def _is_share(value: str) -> bool:
    try:
        return 0 <= Decimal(value) <= 1
    except InvalidOperation:  # not a number, or NaN
        return False


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedSlice:
    """A slice of a source: ranges of its files."""

    split: Split
    share: Annotated[str, _is_share] | None
    """Share of the documents that go to val by their hash, as written in the recipe."""
    number: Number
    """Position among the slices of its first file."""
    stem: Annotated[str, lambda stem: not {"/", "\0"} & set(stem)]
    """Cleaned, shortened stem of its first file."""
    pieces: Annotated[
        tuple[Annotated[FileRange, lambda piece: piece.start <= piece.stop], ...], bool
    ]
    """At least one range."""
    drops: DropList | None = omitted()
    """The duplicates among its documents, or among those of both splits that share its pieces."""


class CodeFile(NamedTuple):
    """A file that the function of a source needs, with its content."""

    name: str
    """Path relative to the folder of the function's module."""
    sha256: Sha256
    text: str
    """The text of the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transform:
    """A function on the documents of a source, with its code unless a package has it."""

    module: str
    function: str
    columns: tuple[str, ...] = omitted(())
    """Columns that the function gets besides the document."""
    version: str | None = omitted()
    """The version of the package that has the module, as the recipe says; None: `files` has it."""
    files: tuple[CodeFile, ...] = omitted(())

    def __post_init__(self) -> None:
        """Refuse code that does not have its hash."""
        for file in self.files:
            if sha256_of(file.text.encode()) != file.sha256:
                raise ValueError(f"has the file {file.name!r} with another sha256 than its own")

    @property
    def name(self) -> str:
        """The function as the recipe names it: MODULE:FUNCTION."""
        return f"{self.module}:{self.function}"

    def identity(self) -> list[object]:
        """Return all on which the documents depend."""
        files = [[file.name, file.sha256] for file in self.files]
        return [self.module, self.function, list(self.columns), self.version, files]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedSource:
    """A source of the plan: its files, the split of each, and its slices in order."""

    name: str
    kind: Annotated[str, ("text", "chat", "vision").__contains__]
    format: str
    column: str
    id_column: str | None = omitted()
    tools: str | None = omitted()
    """The column of the tools of conversations."""
    transform: Transform | None = omitted()
    """The function that its documents go through."""
    dedup: Annotated[str, ("exact", "exact-normalized").__contains__] | None = omitted()
    """How its documents are compared; None: duplicates are kept."""
    root: str
    """The folder to which file paths are relative."""
    rule: str
    """The split rule of the recipe: last-file, train, val, files or share:X."""
    files: tuple[SourceFile, ...]
    slices: tuple[PlannedSlice, ...]

    def __post_init__(self) -> None:
        """Refuse a range of a file that the source does not have."""
        for slice_ in self.slices:
            for piece in slice_.pieces:
                if piece.file >= len(self.files):
                    raise ValueError(
                        f"has the slice {slice_.stem!r} {slice_.number} of file {piece.file}, and "
                        f"{len(self.files)} files"
                    )


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredPlan:
    """The content of plan.json."""

    FORMAT: ClassVar[str] = "nanotok-plan 1"

    slice_bytes: Number
    sources: Annotated[
        tuple[PlannedSource, ...],
        lambda sources: len({source.name for source in sources}) == len(sources),
    ]
    """Their names are unique."""
