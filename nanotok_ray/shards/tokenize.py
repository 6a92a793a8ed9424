"""The pure function of the tokenize stage, which writes the shards and the record of a slice.

A text document becomes prepend + ids + append. A conversation becomes ids and a mask of the same
length, and a vision document also has the positions of its images. Unusable documents are
quarantined and never dropped: documents in = documents out + quarantined. A sample is decoded and
encoded again before it is written.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field

from nanotok_ray.formats import (
    Flow,
    Shard,
    ShardRecord,
    ShardSettings,
    SliceName,
    StoredFile,
    suffixes_of,
)
from nanotok_ray.shards.check import SampleCheck
from nanotok_ray.shards.render import Account, Renderer
from nanotok_ray.shards.settings import (
    CheckedCount,
    quarantine_name,
    settings_of,
    shard_key,
    shard_name,
)
from nanotok_ray.shards.writer import ShardFiles, ShardWriter
from nanotok_ray.sources import (
    Batch,
    Slice,
    SliceReading,
    read_slices,
    write_quarantine,
)
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer


def tokenize_slices(
    slices: Sequence[Slice],
    settings: ShardSettings,
    *,
    tokenizer: Tokenizer,
    out: Folder,
    give_up_after: int | None = None,
) -> list[ShardRecord]:
    """Write the shards (and the quarantine files) of slices under `out`; return their records.

    The slices have the same pieces, which are read once.

    Raises:
        AllBadError: The first `give_up_after` documents were all quarantined; nothing is written.
        SourceError, TransientIOError: The input cannot be read.
        SampleCheckError: The ids of a document are wrong; nothing of the slices can be trusted.
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
    return [_finish(writing.reading, settings, out, writing.results()) for writing in writings]


def skip_slice(slice_: Slice, settings: ShardSettings, *, out: Folder) -> ShardRecord:
    """Write the quarantine file of a slice that could not be tokenized; return its record.

    One entry with the reason `skipped` represents all documents of a piece, and counts as one.
    """
    reading = SliceReading(slice_)
    reading.skip()
    return _finish(reading, settings, out, _Results())


@dataclass(frozen=True, kw_only=True, slots=True)
class _Results:
    """What was made of the documents of a slice."""

    account: Account = field(default_factory=Account)
    checked: CheckedCount = field(default_factory=CheckedCount)
    engine: str | None = None
    shards: Sequence[Shard] = ()
    files: Sequence[StoredFile] = ()


class _Writing:
    """The state of writing one slice."""

    def __init__(
        self, slice_: Slice, settings: ShardSettings, *, tokenizer: Tokenizer, out: Folder
    ) -> None:
        key, settings = shard_key(slice_, settings), settings_of(slice_, settings)
        self.reading = SliceReading(slice_, max_document_bytes=settings.max_document_bytes)
        self._renderer = Renderer(settings=settings, tokenizer=tokenizer, reading=self.reading)
        self._engine = tokenizer.engine_version
        self._sample_check = SampleCheck(slice_, settings, tokenizer=tokenizer)
        self.writer = ShardWriter(
            lambda number: ShardFiles(
                out,
                shard_name(slice_, key, number),
                item_bytes=tokenizer.model.id_bytes,
                suffixes=suffixes_of(slice_.kind, with_document_ids=slice_.id_column is not None),
            ),
            pieces=slice_.pieces,
            max_shard_tokens=settings.max_shard_tokens,
        )

    def write(self, piece: int, batch: Batch) -> None:
        """Write the documents of a batch."""
        rendered = self._renderer.render(piece, batch)
        if rendered is not None:
            self._sample_check.check(batch, rendered)
            self.writer.write(rendered)

    def results(self) -> _Results:
        """Return what was made of the documents."""
        return _Results(
            account=self._renderer.account,
            checked=self._sample_check.count,
            engine=self._engine,
            shards=self.writer.shards,
            files=self.writer.files,
        )


def _finish(
    reading: SliceReading, settings: ShardSettings, out: Folder, results: _Results
) -> ShardRecord:
    """Write the quarantine file of a slice, and return its record."""
    slice_, shards, files = reading.slice, results.shards, list(results.files)
    key = shard_key(slice_, settings)
    if reading.quarantined:
        name = quarantine_name(slice_, key)
        size, sha256 = write_quarantine(out, reading.quarantined, name=name)
        files.append(StoredFile(name=name, size=size, sha256=sha256))
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
        proof=results.checked.proof(),
        other_split=reading.other_split,
        blank_lines=reading.blank_lines,
        quarantined=reading.reasons,
        lost_rows=reading.lost_rows,
        dropped=dict(reading.dropped),
        tokens=sum(shard.tokens for shard in shards),
        **asdict(results.account),
        shards=tuple(shards),
        files=tuple(files),
        engine=results.engine,
    )
