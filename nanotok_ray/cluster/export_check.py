"""Verification of an export: every document against the native shards, in threads.

Takes the folder of an export and the output it was made of; gives the problems. Writes nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from nanotok_ray.cluster.events import OnEvent, ignore
from nanotok_ray.cluster.here import run_here
from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.export import (
    EXPORT_NAME,
    ExportWork,
    Layout,
    check_unit,
    parse_layout,
    read_corpus,
    read_export,
    units_of,
)
from nanotok_ray.storage import Folder

STAGE = "verify"


def verify_export(
    folder: Folder, out: Folder, *, on_event: OnEvent = ignore
) -> tuple[dict[str, Any], list[str]]:
    """Compare every document of an export with the native shards; give export.json and problems.

    Raises:
        IncompleteOutputError: the export or the output is not finished.
        CorruptOutputError: export.json, manifest or shards.idx cannot be read at all.
        TransientIOError: a remote store failed in a way that may pass.
    """
    values = read_export(folder)
    layout = _layout(folder, values)
    corpus, shards = read_corpus(out)
    if values["manifest_sha256"] != corpus.manifest_sha256:
        return values, [f"{folder.url} is not an export of what {out.url} holds now: export again"]
    units = units_of(corpus, shards, joined=layout.joined)
    works = [ExportWork(unit=u, layout=layout, corpus=corpus, folder=folder.url) for u in units]
    sizes = [unit.num_bytes for unit in units]
    found = run_here(STAGE, check_unit, works, sizes=sizes, kept=0, on_event=on_event)
    problems = [problem for own in found for problem in own]
    return values, problems + list(_joint_problems(folder, values))


def _layout(folder: Folder, values: Mapping[str, Any]) -> Layout:
    options = ",".join(f"{key}={value}" for key, value in values["options"].items())
    try:
        return parse_layout(f"{values['layout']}:{options}" if options else values["layout"])
    except ExportError as error:
        raise CorruptOutputError(f"{folder.join(EXPORT_NAME)}: {error}") from error


def _joint_problems(folder: Folder, values: Mapping[str, Any]) -> Iterator[str]:
    for file in values["joint_files"]:
        if folder.size(file["name"]) != file["size"]:
            yield f"{folder.join(file['name'])} is missing or has another size"
        elif folder.sha256(file["name"]) != file["sha256"]:
            yield f"{folder.join(file['name'])} has another sha256 than export.json says"
