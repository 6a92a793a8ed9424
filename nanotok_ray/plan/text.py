"""plan.json: the plan as a file, and back.

Holds nothing that depends on when or where the plan was made, so equal inputs give equal bytes.
"""

from typing import Any

from nanotok_ray.manifest import PLAN_FORMAT, PLAN_NAME, from_json, to_json
from nanotok_ray.plan.model import Plan, PlannedSource, Slice
from nanotok_ray.plan.shape import check_plan
from nanotok_ray.sources import RowGroup, SourceFile

_FILE_FIELDS = ("path", "url", "size", "etag", "mtime_ns", "footer_sha256", "format", "compression")


def plan_to_json(plan: Plan) -> bytes:
    """Write a plan as the bytes of plan.json."""
    return to_json(
        {
            "format": PLAN_FORMAT,
            "slice_bytes": plan.slice_bytes,
            "sources": [_source_to_dict(source) for source in plan.sources],
        }
    )


def plan_from_json(data: bytes) -> Plan:
    """Read plan.json.

    Raises:
        CorruptOutputError: it is not a plan of this version.
    """
    values = from_json(data, name=PLAN_NAME, expected_format=PLAN_FORMAT)
    check_plan(values, name=PLAN_NAME)
    return Plan(
        sources=tuple(_source_from_dict(source) for source in values["sources"]),
        slice_bytes=values["slice_bytes"],
    )


def _source_to_dict(source: PlannedSource) -> dict[str, Any]:
    place = {file.path: number for number, file in enumerate(source.files)}
    return {
        "name": source.name,
        "kind": source.kind,
        "format": source.format,
        "column": source.column,
        **({} if source.id_column is None else {"id_column": source.id_column}),
        "root": source.root,
        "rule": source.rule,
        "files": [
            {field: getattr(file, field) for field in _FILE_FIELDS}
            | ({} if file.dialect is None else {"dialect": file.dialect})
            | {"layout": [[group.rows, group.num_bytes] for group in file.layout], "split": split}
            for file, split in zip(source.files, source.splits, strict=True)
        ],
        "slices": [
            {
                "split": each.split,
                "share": each.share,
                "number": each.number,
                "stem": each.stem,
                "pieces": [
                    [place[file.path], piece.start, piece.stop]
                    for file, piece in zip(each.files, each.pieces, strict=True)
                ],
            }
            for each in source.slices
        ],
    }


def _source_from_dict(values: dict[str, Any]) -> PlannedSource:
    files = tuple(_file_from_dict(file) for file in values["files"])
    return PlannedSource(
        name=values["name"],
        kind=values["kind"],
        format=values["format"],
        column=values["column"],
        id_column=values.get("id_column"),
        root=values["root"],
        rule=values["rule"],
        files=files,
        splits=tuple(file["split"] for file in values["files"]),
        slices=tuple(_slice_from_dict(each, values, files) for each in values["slices"]),
    )


def _file_from_dict(values: dict[str, Any]) -> SourceFile:
    layout = tuple(RowGroup(rows=rows, num_bytes=size) for rows, size in values["layout"])
    own = {field: values[field] for field in _FILE_FIELDS}
    return SourceFile(**own, layout=layout, dialect=values.get("dialect"))


def _slice_from_dict(
    values: dict[str, Any], source: dict[str, Any], files: tuple[SourceFile, ...]
) -> Slice:
    members = [(files[place], start, stop) for place, start, stop in values["pieces"]]
    return Slice(
        source=source["name"],
        kind=source["kind"],
        column=source["column"],
        id_column=source.get("id_column"),
        split=values["split"],
        share=values["share"],
        number=values["number"],
        stem=values["stem"],
        pieces=tuple(file.piece(start, stop) for file, start, stop in members),
        files=tuple(file for file, _, _ in members),
    )
