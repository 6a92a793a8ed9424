"""The folder of an export, and the export of a slice by the worker that tokenizes it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from nanotok_ray.errors import ExportError, IncompleteOutputError, NanotokError
from nanotok_ray.exports.corpus import Corpus
from nanotok_ray.exports.layout import (
    RECORDS,
    ExportedUnit,
    Layout,
    record_name,
)
from nanotok_ray.exports.order import MIXTURE
from nanotok_ray.exports.unit import units_of
from nanotok_ray.exports.work import ExportWork, export_unit
from nanotok_ray.formats import (
    MANIFEST_NAME,
    MAX_JSON_BYTES,
    PLAN_NAME,
    SHARDS_INDEX_NAME,
    Export,
    OrderedDocuments,
    ShardRecord,
    StoredFile,
    dump,
    load,
    sha256_of,
    shards_of,
    to_json,
)
from nanotok_ray.storage import Folder, remove_checksums

EXPORT_NAME = "export.json"
EXPORTS = "export"
"""The default folder of exports in an output folder."""

_OF_OUTPUTS = {MANIFEST_NAME, PLAN_NAME, SHARDS_INDEX_NAME}
"""An output also has records: without this check its shards would look like those of an older
export.
"""

_BEGUN = "run/begun.json"
"""Identifies the owner of the folder until records exist, since files are written before records.
"""

_PROBES = "run/probe/"  # files by which nodes are tested for access to the folder

SCATTERED = "run/order"
"""The folder of the scatter files, while ordered documents are exported."""
SCATTERED_TO_VERIFY = "run/verify"
"""The same, while they are verified."""

_LEFT_BY_KILLED = (
    *(_PROBES, f"{SCATTERED}/", f"{SCATTERED_TO_VERIFY}/"),
    *(f".{EXPORT_NAME}.", "run/.begun.json."),
)


def check_folder(folder: Folder) -> None:
    """Refuse a folder that contains anything other than an export.

    Raises:
        ExportError: The message names one of the other files.
    """
    names = [name for name in folder.list() if not name.startswith(_PROBES)]
    if of_output := _OF_OUTPUTS.intersection(names):
        raise ExportError(
            f"{folder.url} is the output of a job, because it contains {min(of_output)}: pass an "
            "empty folder with --output"
        )
    export_names = (EXPORT_NAME, _BEGUN)
    if any(name in export_names or name.startswith(RECORDS) for name in names) or not names:
        return
    raise ExportError(
        f"{folder.url} contains other files, such as {names[0]}: pass an empty folder with --output"
    )


def mark_unfinished(folder: Folder) -> None:
    """Remove export.json: the export is incomplete until the file is written again."""
    folder.write_bytes(_BEGUN, to_json({"format": Export.FORMAT}))
    folder.remove(EXPORT_NAME)


def begin(folder: Folder, corpus: Corpus, exported: Sequence[ExportedUnit]) -> None:
    """Mark an export as unfinished, and remove the records of all units except the exported ones.

    Other units may overwrite the files of removed records.
    """
    mark_unfinished(folder)
    named = {record_name(item.unit) for item in exported}
    sources = {MIXTURE, *(source.name for source in corpus.sources)}
    for name in folder.list(RECORDS):
        if name not in named and name.split("/")[1] in sources:
            folder.remove(name)


def remove_orphans(
    folder: Folder, corpus: Corpus, exported: Sequence[ExportedUnit], joint: Sequence[StoredFile]
) -> int:
    """Remove files of earlier exports, which readers of whole folders would otherwise read.

    The files are found through the records, and in the folders of the mixture and of sources that
    the output or a record names. Records are removed last. Return the number of removed files.
    """
    named = {file.name for item in exported for file in item.record.files}
    named |= {record_name(item.unit) for item in exported}
    named |= {file.name for file in joint}
    names = folder.list()
    sources = {MIXTURE, *(source.name for source in corpus.sources)}
    sources |= {name.split("/")[1] for name in names if name.startswith(RECORDS)}
    tops = (*(f"{top}/" for top in sources), RECORDS, *_LEFT_BY_KILLED)
    orphaned = [
        name
        for name in names + folder.list_temporaries()
        if name not in named and name.startswith(tops)
    ]
    for name in sorted(orphaned, key=lambda name: name.startswith(RECORDS)):
        folder.remove(name)
    return len(orphaned)


def export_of(
    layout: Layout,
    corpus: Corpus,
    exported: Sequence[ExportedUnit],
    joint: Sequence[StoredFile],
    *,
    unread: Mapping[str, int],
    mixture: OrderedDocuments | None,
) -> Export:
    """Return the content of export.json."""
    left_out: Counter[str] = Counter()
    for item in exported:
        left_out.update(item.record.left_out)
    files = [*(file for item in exported for file in item.record.files), *joint]
    return Export(
        layout=layout.name,
        layout_format=layout.format,
        options=layout.options,
        reader=layout.reader,
        masks=layout.masks,
        item_bytes=corpus.item_bytes,
        num_ids=corpus.num_ids,
        special_tokens=corpus.special_tokens,
        tokenizer_sha256=corpus.facts.tokenizer_sha256,
        manifest_sha256=corpus.manifest_sha256,
        units=len(exported),
        files=len(files),
        bytes=sum(file.size for file in files),
        documents=sum(item.record.documents for item in exported),
        tokens=sum(item.record.tokens for item in exported),
        left_out=dict(sorted(left_out.items())),
        unread_tokens=unread,
        joint_files=tuple(joint),
        mixture=mixture,
    )


def write_export(folder: Folder, export: Export) -> None:
    """Publish export.json, which marks the export as complete; checksums end with it."""
    folder.remove(_BEGUN)
    remove_checksums(folder)
    folder.write_bytes(EXPORT_NAME, dump(export))


def read_export(folder: Folder) -> Export:
    """Read export.json.

    Raises:
        IncompleteOutputError: The file does not exist: the export is not finished.
        CorruptOutputError: The file is not of this version.
    """
    try:
        data = folder.read_bytes(EXPORT_NAME, limit=MAX_JSON_BYTES)
    except FileNotFoundError as error:
        raise IncompleteOutputError(
            f"{folder.join(EXPORT_NAME)} is missing: this is no export, or it has not finished; "
            "the same `nanotok export` resumes it"
        ) from error
    return load(Export, data, name=folder.join(EXPORT_NAME))


@dataclass(frozen=True, kw_only=True, slots=True)
class SamePass:
    """The exports that a worker makes of each slice that it has tokenized."""

    corpus: Corpus
    """The corpus of the output, whose manifest does not exist yet."""
    layouts: tuple[tuple[Layout, str], ...]
    """Each layout with the URL of its folder."""

    def begin(self) -> None:
        """Remove each export.json, since workers write files beside those of earlier exports."""
        for _, folder in self.layouts:
            mark_unfinished(Folder(folder))

    def export(self, record: ShardRecord) -> None:
        """Export the shards of a slice whose record is written; errors are ignored.

        The export of the finished output raises them again.
        """
        sha256 = sha256_of(dump(record))
        shards = shards_of(record, item_bytes=self.corpus.item_bytes, sha256=sha256)
        for unit in units_of(self.corpus, list(shards)):
            for layout, folder in self.layouts:
                if layout.is_by_slice:
                    with suppress(NanotokError, OSError):
                        export_unit(ExportWork(unit=unit, layout=layout, folder=folder))
