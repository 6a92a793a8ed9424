"""The pure function of the tokenize stage, which writes the shards and the record of a slice.

A text document becomes prepend + ids + append. A conversation becomes ids and a mask of the same
length, and a vision document also has the positions of its images. Unusable documents are
quarantined and never dropped: documents in = documents out + quarantined. A sample is decoded and
encoded again before it is written.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict

from nanotok_ray.formats import (
    Flow,
    Proof,
    Shard,
    ShardRecord,
    ShardSettings,
    SliceName,
    StoredFile,
    suffixes_of,
)
from nanotok_ray.shards.check import SampleCheck
from nanotok_ray.shards.render import Account, Renderer
from nanotok_ray.shards.settings import CheckedCount, shard_key
from nanotok_ray.shards.writer import ShardFiles, ShardWriter
from nanotok_ray.sources import (
    QUARANTINE,
    Batch,
    Slice,
    SliceReading,
    read_slices,
    write_quarantine,
)
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer


def tokenize_slice(
    slice_: Slice,
    settings: ShardSettings,
    *,
    tokenizer: Tokenizer,
    out: Folder,
    give_up_after: int | None = None,
) -> ShardRecord:
    """Write the shards (and the quarantine file) of a slice under `out`; return its record.

    Raises:
        AllBadError: The first `give_up_after` documents were all quarantined; nothing is written.
        SourceError, TransientIOError: The input cannot be read.
        SampleCheckError: The ids of a document are wrong; nothing of the slice can be trusted.
    """
    [record] = tokenize_slices(
        [slice_], settings, tokenizer=tokenizer, out=out, give_up_after=give_up_after
    )
    return record


def tokenize_slices(
    slices: Sequence[Slice],
    settings: ShardSettings,
    *,
    tokenizer: Tokenizer,
    out: Folder,
    give_up_after: int | None = None,
) -> list[ShardRecord]:
    """Same as `tokenize_slice`, for slices of the same pieces, which are read once.

    Raises:
        AllBadError, SourceError, TransientIOError, SampleCheckError: Same as `tokenize_slice`; no
            record is returned for any of the slices.
    """
    writings = [_Writing(slice_, settings, tokenizer=tokenizer, out=out) for slice_ in slices]
    for writing in writings:
        writing.reading.give_up_after = give_up_after
    with ExitStack() as on_error:
        for writing in writings:
            on_error.callback(writing.writer.discard)
        for which, piece, batch in read_slices([writing.reading for writing in writings]):
            writings[which].write(piece, batch)
        for writing in writings:
            writing.writer.finish()
        on_error.pop_all()
    return [writing.record() for writing in writings]


class _Writing:
    """The state of writing one slice."""

    def __init__(
        self, slice_: Slice, settings: ShardSettings, *, tokenizer: Tokenizer, out: Folder
    ) -> None:
        self._slice, self._settings, self._out = slice_, settings, out
        self._key = key = shard_key(slice_, settings)
        self.reading = SliceReading(slice_, max_document_bytes=settings.max_document_bytes)
        self._renderer = Renderer(settings=settings, tokenizer=tokenizer, reading=self.reading)
        self._sample_check = SampleCheck(slice_, settings, tokenizer=tokenizer)
        self.writer = ShardWriter(
            lambda name: ShardFiles(
                out,
                name,
                item_bytes=tokenizer.model.id_bytes,
                suffixes=suffixes_of(slice_.kind, with_document_ids=slice_.id_column is not None),
            ),
            name_of=lambda number: shard_name(slice_, key, number),
            pieces=slice_.pieces,
            max_shard_tokens=settings.max_shard_tokens,
        )

    def write(self, piece: int, batch: Batch) -> None:
        """Write the documents of a batch."""
        rendered = self._renderer.render(piece, batch)
        if rendered is not None:
            self._sample_check.check(batch, rendered)
            self.writer.write(rendered)

    def record(self) -> ShardRecord:
        """Write the quarantine file, and return the record."""
        quarantine = _write_quarantine(self._out, self._slice, self._key, self.reading)
        return _record(
            self.reading,
            self._key,
            self._renderer.account,
            proof=self._sample_check.count.proof(),
            shards=self.writer.shards,
            files=[*self.writer.files, *quarantine],
        )


def skip_slice(slice_: Slice, settings: ShardSettings, *, out: Folder) -> ShardRecord:
    """Write the quarantine file of a slice that could not be tokenized; return its record.

    One entry with the reason `skipped` represents all documents of a piece, and counts as one.
    """
    key = shard_key(slice_, settings)
    reading = SliceReading(slice_)
    reading.skip()
    files = _write_quarantine(out, slice_, key, reading)
    proof = CheckedCount().proof()
    return _record(reading, key, Account(), proof=proof, shards=[], files=files)


def shard_name(slice_: Slice, key: str, number: int) -> str:
    """Return the path of shard `number` of a slice in the output folder, without suffix."""
    return (
        f"{slice_.source}/{slice_.split}/{slice_.stem}-{slice_.number:05d}-{number:03d}-{key[:16]}"
    )


def quarantine_name(slice_: Slice, key: str) -> str:
    """Return the path of a slice's quarantine file in the output folder."""
    return f"{QUARANTINE}{slice_.source}/{slice_.split}/{slice_.name_for(key)}.jsonl"


def _write_quarantine(
    out: Folder, slice_: Slice, key: str, reading: SliceReading
) -> list[StoredFile]:
    if not reading.quarantined:
        return []
    name = quarantine_name(slice_, key)
    size, sha256 = write_quarantine(out, reading.quarantined, name=name)
    return [StoredFile(name=name, size=size, sha256=sha256)]


def _record(
    reading: SliceReading,
    key: str,
    account: Account,
    *,
    proof: Proof,
    shards: Sequence[Shard],
    files: Sequence[StoredFile],
) -> ShardRecord:
    slice_ = reading.slice
    return ShardRecord(
        stage="tokenize",
        key=key,
        slice=SliceName(source=slice_.source, split=slice_.split, number=slice_.number),
        read=tuple(reading.read),
        documents=Flow(
            in_=reading.documents_in,
            out=sum(shard.documents for shard in shards),
            quarantined=len(reading.quarantined),
        ),
        bytes=Flow(
            in_=reading.bytes_in,
            out=sum(shard.bytes for shard in shards),
            quarantined=reading.bytes_quarantined,
        ),
        proof=proof,
        other_split=reading.other_split,
        blank_lines=reading.blank_lines,
        quarantined=reading.reasons,
        lost_rows=reading.lost_rows,
        tokens=sum(shard.tokens for shard in shards),
        **asdict(account),
        shards=tuple(shards),
        files=tuple(files),
    )
