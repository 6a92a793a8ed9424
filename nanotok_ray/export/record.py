"""What says that a unit is exported: a record with its key, its files and what is in them.

Takes a unit, a layout and what was written; gives JSON, and reads it back. A record whose key is
another one, or whose files are not there with their sizes, stands for nothing.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.export.corpus import Corpus
from nanotok_ray.export.layout import Exported, Layout, Written
from nanotok_ray.export.unit import Unit
from nanotok_ray.formats.manifest import from_json, key_of, to_json
from nanotok_ray.formats.schema import (
    Shape,
    check_shape,
    hexadecimal,
    number,
    numbers_by_name,
    text,
)
from nanotok_ray.shards.output import READERS
from nanotok_ray.storage import Folder

RECORD_FORMAT = "nanotok-export-record 1"
RECORDS = "records/"
"""Where they lie in the folder of an export."""

FILE_SHAPE: Shape = {"name": text, "size": number, "sha256": hexadecimal}
_SHAPE: Shape = {
    "key": hexadecimal,
    "shards": [text],
    "documents": number,
    "tokens": number,
    "left_out": numbers_by_name,
    "details": {},
    "files": [FILE_SHAPE],
}


def unit_key(unit: Unit, layout: Layout, corpus: Corpus) -> str:
    """Give the sha256 of everything that the files of a unit depend on."""
    return key_of(
        {
            "format": layout.format,
            "options": layout.options,
            "name": unit.name,
            "number": unit.number if layout.numbered else None,
            "shards": [[own.facts.name, own.facts.record_sha256] for own in unit.shards],
            "special_tokens": dict(corpus.special_tokens),
        }
    )


def record_name(unit: Unit) -> str:
    """Give the path of a unit's record in the folder of an export."""
    return f"{RECORDS}{unit.name}.json"


def record_of(
    unit: Unit, key: str, written: Written, files: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Give the values of a record."""
    return {
        "format": RECORD_FORMAT,
        "key": key,
        "shards": [own.facts.name for own in unit.shards],
        "documents": written.documents,
        "tokens": written.tokens,
        "left_out": dict(sorted(written.left_out.items())),
        "details": dict(written.details),
        "files": [dict(file) for file in files],
    }


def write_record(folder: Folder, unit: Unit, values: Mapping[str, Any]) -> None:
    """Publish the record of a unit."""
    folder.write_whole(record_name(unit), to_json(values))


def read_record(folder: Folder, unit: Unit, *, key: str) -> Exported | None:
    """Give a unit as its record has it; None if there is none with this key.

    Raises:
        TransientIOError: a remote store failed in a way that may pass.
    """
    name = record_name(unit)
    try:
        data = folder.read_bytes(name)
        values = from_json(data, name=name, expected_format=RECORD_FORMAT)
        check_shape(values, _SHAPE, name=name)
    except (FileNotFoundError, CorruptOutputError):
        return None
    if values["key"] != key:
        return None
    written = Written(
        documents=values["documents"],
        tokens=values["tokens"],
        left_out=values["left_out"],
        details=values["details"],
    )
    return Exported(unit=unit, files=values["files"], written=written)


def finished_unit(folder: Folder, unit: Unit, *, key: str) -> Exported | None:
    """Give a unit whose record has this key and whose files are there with their sizes, or None."""
    found = read_record(folder, unit, key=key)
    if found is None or any(folder.size(f["name"]) != f["size"] for f in found.files):
        return None
    return found


def finished_units(
    folder: Folder, units: Sequence[Unit], keys: Sequence[str]
) -> list[Exported | None]:
    """Give each unit that is exported, None for the others, for the cost of one listing."""
    sizes = folder.sizes()

    def look(unit: Unit, key: str) -> Exported | None:
        found = read_record(folder, unit, key=key) if record_name(unit) in sizes else None
        if found is None:
            return None
        return found if all(sizes.get(f["name"]) == f["size"] for f in found.files) else None

    with ThreadPoolExecutor(max_workers=READERS) as pool:
        return list(pool.map(look, units, keys))
