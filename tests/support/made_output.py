"""Generated outputs of any ids and masks, for tests of layouts, without a job."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nanotok_ray.documents import Documents
from nanotok_ray.exports import (
    ExportedUnit,
    ExportWork,
    Layout,
    Target,
    Unit,
    export_unit,
    exported_unit,
    read_corpus,
    units_of,
)
from nanotok_ray.formats import (
    MANIFEST_NAME,
    RECORDS,
    SHARDS_INDEX_NAME,
    DocumentBatch,
    Flow,
    Manifest,
    Proof,
    Shard,
    ShardRecord,
    ShardSettings,
    SliceName,
    StoredFile,
    Totals,
    dump,
    pack_shards_index,
    shards_of,
    suffixes_of,
)
from nanotok_ray.shards import ShardFiles
from nanotok_ray.storage import Folder, remove_checksums

SPECIAL_TOKENS = {"<|bos|>": 60000, "<|assistant_end|>": 60001}
BOS = SPECIAL_TOKENS["<|bos|>"]
END = SPECIAL_TOKENS["<|assistant_end|>"]


@dataclass(frozen=True, kw_only=True)
class MadeSource:
    """A source: the documents of each of its shards."""

    name: str
    shards: Sequence[Sequence[Sequence[int]]]
    kind: str = "text"
    split: str = "train"
    prepend: tuple[str, ...] = ("<|bos|>",)
    append: tuple[str, ...] = ()
    with_document_ids: bool = False
    document_ids: Sequence[str] | None = None
    """Ids of the documents of each shard; None: derived from the shard's name."""
    extra_settings: dict[str, Any] = field(default_factory=dict)


def mask_of(document: Sequence[int]) -> np.ndarray:
    """Return the mask of documents of generated chats: 1 at two of three positions, never first."""
    return (np.arange(len(document)) % 3 != 0).astype(np.uint8)


def made_output(root: Path | str, *sources: MadeSource, item_bytes: int = 2) -> Folder:
    """Write an output for readers and exports, and return its folder."""
    out, rows = Folder(str(root)), []
    for source in sources:
        for number, documents in enumerate(source.shards):
            name = f"{source.name}/{source.split}/part-{number:05d}-000-{'0' * 16}"
            files = _write_shard(out, name, source, documents, item_bytes)
            value = _record(source, number, name, documents, files)
            record = dump(value)
            record_name = f"part-{number:05d}-{'0' * 16}.json"
            out.write_bytes(f"{RECORDS}{source.name}/{source.split}/{record_name}", record)
            sha256 = hashlib.sha256(record).hexdigest()
            rows += shards_of(value, item_bytes=item_bytes, sha256=sha256)
    names = list(dict.fromkeys(source.name for source in sources))
    index = pack_shards_index(rows, sources=names)
    out.write_bytes(SHARDS_INDEX_NAME, index)
    out.write_bytes(MANIFEST_NAME, dump(_manifest(sources, names, index, len(rows), item_bytes)))
    return out


def _write_shard(
    out: Folder, name: str, source: MadeSource, documents: Sequence[Sequence[int]], item_bytes: int
) -> list[StoredFile]:
    masked = source.kind != "text"
    with_ids = source.with_document_ids
    suffixes = suffixes_of("chat" if masked else "text", with_document_ids=with_ids)
    target = ShardFiles(out, name, item_bytes=item_bytes, suffixes=suffixes)
    ids = np.array([one for document in documents for one in document], dtype=f"<u{item_bytes}")
    mask = np.concatenate([np.zeros(0, np.uint8), *map(mask_of, documents)]) if masked else None
    document_ids = source.document_ids or [f"{name}#{n}" for n in range(len(documents))]
    texts = Documents.from_strings(document_ids)
    target.write(
        DocumentBatch(
            ids=ids,
            positions=np.cumsum([0, *map(len, documents)]),
            mask=mask,
            document_ids=(texts.data, texts.offsets) if with_ids else None,
        )
    )
    return target.close()


_FLOW = Flow(in_=0, out=0, quarantined=0)
_NUMBERS = ("text_bytes", "special_text", "over_max_tokens", "truncated", "trainable_tokens")
NOTHING: dict[str, Any] = {
    "documents": _FLOW,
    "bytes": _FLOW,
    "proof": Proof(documents=0, bytes=0, encoded_again=0, not_encoded_again={}),
    "quarantined": {},
    "roles": {},
    "special_tokens": {},
    "tokens": 0,
    **dict.fromkeys((*_NUMBERS, "without_trainable_token", "images", "blank_lines"), 0),
}
"""The counts of a record of nothing."""


def _record(
    source: MadeSource,
    number: int,
    name: str,
    documents: Sequence[Sequence[int]],
    files: Sequence[StoredFile],
) -> ShardRecord:
    tokens = sum(map(len, documents))
    shard = Shard(name=name, documents=len(documents), bytes=0, tokens=tokens, source_map=())
    return ShardRecord(
        **(NOTHING | {"tokens": tokens}),
        stage="tokenize",
        key="0" * 64,
        slice=SliceName(source=source.name, split=source.split, number=number),
        read=(),
        other_split=0,
        shards=(shard,),
        files=tuple(files),
    )


def _manifest(
    sources: Sequence[MadeSource], names: list[str], index: bytes, shards: int, item_bytes: int
) -> Manifest:
    return Manifest(
        sources=tuple(names),
        kinds={source.name: source.kind for source in sources},
        tokenizer_sha256="0" * 64,
        special_tokens=dict(SPECIAL_TOKENS),
        item_bytes=item_bytes,
        num_ids=max(SPECIAL_TOKENS.values()) + 1,
        settings={source.name: _settings(source) for source in sources},
        plan_sha256="0" * 64,
        records_sha256="0" * 64,
        shards_index_sha256=hashlib.sha256(index).hexdigest(),
        slices=shards,
        shards=shards,
        totals={"all": Totals(**NOTHING)},
    )


def _settings(source: MadeSource) -> ShardSettings:
    return ShardSettings(
        tokenizer_sha256="0" * 64,
        gaps="spans",
        prepend=source.prepend if source.kind == "text" else (),
        append=source.append if source.kind == "text" else (),
        max_document_bytes=2**30,
        max_shard_tokens=2**30,
        **source.extra_settings,
    )


def works_of(
    out: Folder, layout: Layout, folder: Folder, *, batch_bytes: int = 16 << 20
) -> list[ExportWork]:
    """Return the export works of an output, as in a job."""
    corpus, shards = read_corpus(out)
    layout.check(corpus)
    units = [
        replace(unit, batch_bytes=batch_bytes)
        for unit in units_of(corpus, shards, joined=layout.joined)
    ]
    return [ExportWork(unit=u, layout=layout, folder=folder.url) for u in units]


def export_here(
    out: Folder, layout: Layout, folder: Folder, *, batch_bytes: int = 16 << 20
) -> list[ExportedUnit]:
    """Export an output unit by unit, each read back after writing; then the joint files."""
    works = works_of(out, layout, folder, batch_bytes=batch_bytes)
    exported = []
    for work in works:
        export_unit(work)
        found = exported_unit(folder, work)
        assert found is not None
        exported.append(found)
    layout.finish(exported, Target(folder))
    remove_checksums(folder)
    return exported


def native_documents(units: Sequence[Unit]) -> list[tuple[list[int], list[int] | None]]:
    """Return ids and mask of every document of native shards in plain Python."""
    return [
        (ids.tolist(), None if mask is None else mask.tolist())
        for unit in units
        for batch in unit.batches()
        for ids, mask in batch.documents()
    ]


def exported_documents(
    exported: Sequence[ExportedUnit], folder: Folder, layout: Layout
) -> list[tuple[list[int], list[int] | None]]:
    """Return ids and mask of every exported document, read by its layout."""
    return [
        (ids.tolist(), None if mask is None else mask.tolist())
        for each in exported
        for ids, mask in layout.read(each, folder)
    ]
