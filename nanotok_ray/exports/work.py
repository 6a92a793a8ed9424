"""Exports and checks one unit, in any process."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from nanotok_ray.errors import CorruptOutputError, TransientIOError
from nanotok_ray.exports.layout import (
    Document,
    ExportedUnit,
    Layout,
    Target,
    record_name,
)
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import ExportRecord, key_of, to_values
from nanotok_ray.shards import file_problem, finished_record, read_record, write_record
from nanotok_ray.storage import Folder
from nanotok_ray.units import quantity


def unit_problems(exported: ExportedUnit, layout: Layout, folder: Folder) -> Iterator[str]:
    """Yield the problems of the files of a unit.

    Raises:
        CorruptOutputError: A native shard is damaged, which is independent of the unit's files.
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    problems = list(file_problems(exported, folder))
    yield from problems
    if problems:
        return
    try:
        yield from _document_problems(exported, layout, folder)
    except _UnreadableError as error:
        yield str(error)


def file_problems(exported: ExportedUnit, folder: Folder) -> Iterator[str]:
    """Yield the files of a unit that are missing or whose bytes differ from its record."""
    yield from filter(None, (file_problem(folder, file) for file in exported.record.files))


def _document_problems(exported: ExportedUnit, layout: Layout, folder: Folder) -> Iterator[str]:
    """Yield the first document that readers would see differently, and wrong totals."""
    written = _read(exported, layout, folder)
    expected = layout.expected(exported.unit)
    documents = tokens = 0
    for number, (document, other) in enumerate(zip_longest(written, expected)):
        if document is None or other is None:
            who = "fewer" if document is None else "more"
            yield f"{exported.unit.name}: the files hold {who} documents than they should, {number}"
            return
        difference = _difference(document, other)
        if difference:
            yield f"{exported.unit.name}, document {number}: {difference}"
            return
        documents, tokens = documents + 1, tokens + len(document[0])
    said = exported.record
    if not layout.keeps_documents:
        documents = said.documents
    if (documents, tokens) != (said.documents, said.tokens):
        yield (
            f"{exported.unit.name}: {quantity(documents, 'document')} of "
            f"{quantity(tokens, 'token')}, its record says "
            f"{said.documents:,} of {said.tokens:,}"
        )


class _UnreadableError(Exception):
    """The files of a unit cannot be read as its layout; the message names the reason."""


def _read(exported: ExportedUnit, layout: Layout, folder: Folder) -> Iterator[Document]:
    try:
        yield from layout.read(exported, folder)
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
    """The export of a unit into a folder."""

    unit: Unit
    layout: Layout
    folder: str
    """URL of the folder of the export."""

    @property
    def key(self) -> str:
        """The sha256 of all values on which the unit's files depend."""
        unit, layout = self.unit, self.layout
        return key_of(
            {
                "format": layout.format,
                "options": layout.own_options,
                "name": unit.name,
                "number": unit.number if layout.numbered else None,
                "shards": [list(part) for part in unit.parts],
                "special_tokens": dict(unit.corpus.special_tokens),
            }
        )

    @property
    def record_name(self) -> str:
        """The path of the unit's record in the folder of the export."""
        return record_name(self.unit)


def export_unit(work: ExportWork) -> int:
    """Export a unit and return the bytes of its native shards.

    Raises:
        ExportError: The layout cannot hold a document; no record is written.
        CorruptOutputError: A native file is missing or differs from shards.idx.
        TransientIOError: The written files read back differently; a retry can solve it.
    """
    folder = Folder(work.folder)
    if finished_record(folder, work.record_name, ExportRecord, key=work.key) is None:
        folder.remove(work.record_name)  # its files are about to change
        target, unit = Target(folder), work.unit.open()
        written = work.layout.write(unit, target)
        left_out = {reason: left for reason, left in sorted(written.left_out.items()) if left}
        record = ExportRecord(
            key=work.key,
            shards=tuple(name for name, _ in unit.parts),
            documents=written.documents,
            tokens=written.tokens,
            left_out=left_out,
            details=to_values(written.details),
            files=target.files,
            sources=unit.uses,
        )
        exported = ExportedUnit(unit=unit, record=record)
        for problem in unit_problems(exported, work.layout, folder):
            raise TransientIOError(f"what was written reads back otherwise: {problem}")
        write_record(folder, work.record_name, record)
    return work.unit.num_bytes


def exported_unit(folder: Folder, work: ExportWork) -> ExportedUnit | None:
    """Return a unit according to its record, or None if no record has its key.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    try:
        record = read_record(folder, work.record_name, ExportRecord)
    except CorruptOutputError:
        return None
    if record is None or record.value.key != work.key:
        return None
    return ExportedUnit(unit=work.unit.open(), record=record.value)


def check_unit_files(work: ExportWork) -> list[str]:
    """Return the files of an exported unit that are missing or whose bytes have changed."""
    folder = Folder(work.folder)
    exported = exported_unit(folder, work)
    if exported is None:
        return [f"{folder.join(work.record_name)} is damaged"]
    return list(file_problems(exported, folder))


def check_unit(work: ExportWork) -> list[str]:
    """Return the problems of an exported unit.

    Raises:
        TransientIOError: A remote store failed in a way that a retry can solve.
    """
    folder = Folder(work.folder)
    exported = exported_unit(folder, work)
    if exported is None:
        return [f"{work.unit.name} has no record that fits: export again"]
    try:
        return list(unit_problems(exported, work.layout, folder))
    except CorruptOutputError as error:  # from a native shard
        return [str(error)]
