"""Exporting one unit and checking it, wherever that runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from nanotok_ray.errors import CorruptOutputError, TransientIOError
from nanotok_ray.exports.corpus import Corpus
from nanotok_ray.exports.layout import (
    Document,
    Exported,
    Layout,
    Target,
    finished_unit,
    read_record,
    record_name,
    record_of,
    unit_key,
    write_record,
)
from nanotok_ray.exports.unit import Unit
from nanotok_ray.storage import Folder


def unit_problems(
    exported: Exported, layout: Layout, corpus: Corpus, folder: Folder
) -> Iterator[str]:
    """Yield what is wrong with the files of a unit.

    Raises:
        CorruptOutputError: of the native shards; of those the unit's files say nothing.
        TransientIOError: a remote store failed in a way that may pass.
    """
    problems = list(file_problems(exported, folder))
    yield from problems
    if problems:
        return
    try:
        yield from _document_problems(exported, layout, corpus, folder)
    except _UnreadableError as error:
        yield str(error)


def file_problems(exported: Exported, folder: Folder) -> Iterator[str]:
    """Yield the files of a unit that are missing or have other bytes than its record says."""
    for file in exported.files:
        name = file["name"]
        size = folder.size(name)
        if size is None:
            yield f"{folder.join(name)} is missing"
        elif size != file["size"]:
            yield f"{folder.join(name)} has {size:,} bytes, its record says {file['size']:,}"
        elif folder.sha256(name) != file["sha256"]:
            yield f"{folder.join(name)} has another sha256 than its record says"


def _document_problems(
    exported: Exported, layout: Layout, corpus: Corpus, folder: Folder
) -> Iterator[str]:
    """Yield the first document that its reader sees otherwise, and sums that do not agree."""
    found = _read(exported, layout, corpus, folder)
    wanted = layout.expected(exported.unit, corpus)
    documents = tokens = 0
    for number, (document, other) in enumerate(zip_longest(found, wanted)):
        if document is None or other is None:
            who = "fewer" if document is None else "more"
            yield f"{exported.unit.name}: the files hold {who} documents than they should, {number}"
            return
        difference = _difference(document, other)
        if difference:
            yield f"{exported.unit.name}, document {number}: {difference}"
            return
        documents, tokens = documents + 1, tokens + len(document[0])
    said = exported.written
    if not layout.keeps_documents:
        documents = said.documents
    if (documents, tokens) != (said.documents, said.tokens):
        yield (
            f"{exported.unit.name}: {documents:,} documents of {tokens:,} tokens, its record says "
            f"{said.documents:,} of {said.tokens:,}"
        )


class _UnreadableError(Exception):
    """The files of a unit cannot be read as its layout; the message says why."""


def _read(exported: Exported, layout: Layout, corpus: Corpus, folder: Folder) -> Iterator[Document]:
    try:
        yield from layout.read(exported, corpus, folder)
    except CorruptOutputError as error:
        raise _UnreadableError(str(error)) from error
    except (ValueError, KeyError, IndexError, OverflowError) as error:
        raise _UnreadableError(
            f"{exported.unit.name} cannot be read as {layout.name}: {error}"
        ) from error


def _difference(document: Document, other: Document) -> str | None:
    if not np.array_equal(document[0], other[0]):
        return f"its {len(document[0])} ids are not the {len(other[0])} of the native shard"
    if (document[1] is None) != (other[1] is None):
        return "only one of export and native shard has a mask"
    if (
        document[1] is not None
        and other[1] is not None
        and not np.array_equal(document[1], other[1])
    ):
        return "its mask is not that of the native shard"
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportWork:
    """Export a unit into a folder."""

    unit: Unit
    layout: Layout
    corpus: Corpus
    folder: str
    """URL of the folder of the export."""

    @property
    def key(self) -> str:
        """Everything that the unit's files depend on."""
        return unit_key(self.unit, self.layout, self.corpus)


def export_unit(work: ExportWork) -> int:
    """Export a unit and return the bytes of its native shards.

    Raises:
        ExportError: the layout cannot hold a document; nothing is recorded.
        CorruptOutputError: a native file is missing or not what shards.idx says.
        TransientIOError: what was written reads back otherwise; another attempt may do.
    """
    folder = Folder(work.folder)
    if finished_unit(folder, work.unit, key=work.key) is None:
        folder.remove(record_name(work.unit))  # else it would stand for files half of this work
        target = Target(folder)
        written = work.layout.write(work.unit, work.corpus, target)
        exported = Exported(unit=work.unit, files=target.files, written=written)
        for problem in unit_problems(exported, work.layout, work.corpus, folder):
            raise TransientIOError(f"what was written reads back otherwise: {problem}")
        values = record_of(work.unit, work.key, written, target.files)
        write_record(folder, work.unit, values)
    return work.unit.num_bytes


def check_unit(work: ExportWork) -> list[str]:
    """Return what is wrong with an exported unit.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    folder = Folder(work.folder)
    exported = read_record(folder, work.unit, key=work.key)
    if exported is None:
        return [f"{work.unit.name} has no record that fits: export again"]
    try:
        return list(unit_problems(exported, work.layout, work.corpus, folder))
    except CorruptOutputError as error:  # of a native shard
        return [str(error)]
