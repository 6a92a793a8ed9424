"""The export of one unit: a pure function of a small value and storage, wherever it runs.

Writes the files of a unit, reads them back as the layout's readers do, and only then its record.
"""

from dataclasses import dataclass

from nanotok_ray.errors import CorruptOutputError, TransientIOError
from nanotok_ray.export.check import unit_problems
from nanotok_ray.export.corpus import Corpus
from nanotok_ray.export.layout import Exported, Layout
from nanotok_ray.export.record import (
    finished_unit,
    read_record,
    record_name,
    record_of,
    unit_key,
    write_record,
)
from nanotok_ray.export.target import Target
from nanotok_ray.export.unit import Unit
from nanotok_ray.storage import Folder


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
    """Export a unit and give the bytes of its native shards.

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
    """Give what is wrong with an exported unit.

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
