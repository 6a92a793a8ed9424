"""The quarantined documents: their number by source and reason, each reason with an example.

The input is the facts. The output is a table. The counts are those of the manifest; without one,
they are those of the first quarantine files in the output, or, for a run that ended while it
counted, in the work folder.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from nanotok_ray.formats import MAX_PLAN_BYTES, PLAN_NAME, RECORDS, record_name
from nanotok_ray.job.journal import RunJournal
from nanotok_ray.report.facts import UNREADABLE, Facts
from nanotok_ray.report.render import Code, Part, Row
from nanotok_ray.sources import (
    COUNTED_SUFFIX,
    QUARANTINE,
    QuarantineEntry,
    entry_of,
    is_quarantine_file,
    plan_from_json,
    reason_of,
)
from nanotok_ray.storage import Folder
from nanotok_ray.units import quantity

_MAX_FILES: Final = 200
"""Limit of files that are read for examples."""

_START_BYTES: Final = 1 << 18
"""Bytes of each file that are read."""

_MAX_ROWS: Final = 200
_COUNTS: Final = "counts/"
_COUNT: Final = "count"


@dataclass(slots=True)
class _Entries:
    """The entries of quarantine files by source and split, and by reason."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], QuarantineEntry] = field(default_factory=dict)
    files: int = 0
    is_all: bool = True


def quarantined(facts: Facts) -> Iterator[Part]:
    """Yield the table, or a line which says that nothing was quarantined."""
    wanted = _counts(facts)
    if facts.manifest is not None and not wanted:
        yield Part(text="No document was quarantined.")
        return
    folder, names = _files(facts)
    entries = _examples(folder, names, set(wanted))
    counts = wanted if facts.manifest is not None else dict(sorted(entries.counts.items()))
    if not counts:
        if facts.has_begun:
            yield Part(text="No document has been quarantined so far.")
        return
    formats = _formats(facts)
    rows: list[Row] = [
        {
            "source": position,
            "reason": reason,
            **_message(entries.examples.get((position, reason)), formats),
            "documents": n,
        }
        for (position, reason), n in list(counts.items())[:_MAX_ROWS]
    ]
    note = _note(facts, entries, len(counts), folder=folder)
    yield Part(rows=rows, texts=4, note=note)


def _counts(facts: Facts) -> dict[tuple[str, str], int]:
    return {
        (name, reason): number
        for name, value in facts.sources.items()
        for reason, number in sorted(value.quarantined.items(), key=lambda item: -item[1])
    }


def _formats(facts: Facts) -> dict[str, str]:
    """Return the format of each source if the plan can be read."""
    try:
        plan = plan_from_json(facts.out.read_bytes(PLAN_NAME, limit=MAX_PLAN_BYTES))
    except UNREADABLE:
        return {}
    return {source.name: source.format for source in plan.sources}


def _message(example: QuarantineEntry | None, formats: Mapping[str, str]) -> Row:
    if example is None:
        return {"for example": "\u2013", "": ""}
    position = _position(example, formats.get(example.source))
    return {"for example": Code(f"{example.file}{position}"), "": reason_of(example)}


def _position(example: QuarantineEntry, format_name: str | None) -> str:
    """Return the row or line from 1 on; for later lines the byte, since no input is read here."""
    if format_name == "document":
        return ""
    if format_name == "parquet":
        return f", row {example.position + 1:,}"
    return f", byte {example.position:,}" if example.position else ", line 1"


def _files(facts: Facts) -> tuple[Folder, Iterable[str]]:
    """Return the folder of quarantine files and their names, those of existing shards first.

    If the run ended while it counted, they are those of counts.
    """
    there = facts.out.list(QUARANTINE)
    if facts.manifest is None:
        work, counted = _counted(facts)
        is_counting = facts.worked is not None and _last_stage(facts.worked) == _COUNT
        return (work, counted) if counted and (is_counting or not there) else (facts.out, there)
    named = {
        record_name(shard.name(index)).removeprefix(RECORDS).removesuffix(".json")
        for shard in facts.shards.values()
        for index in range(len(shard.rows))
    }
    return facts.out, sorted(there, key=lambda name: _stem(name) not in named)


def _last_stage(journal: RunJournal) -> str:
    return journal.stages[-1].name if journal.stages else ""


def _counted(facts: Facts) -> tuple[Folder, list[str]]:
    """Return the work folder and the quarantine files of counts, of this run if it made any."""
    there = [name for name in facts.work.list(_COUNTS) if is_quarantine_file(name)]
    slices = () if facts.worked is None else facts.worked.slices
    of_run = {slice_.name.partition(" ")[2] for slice_ in slices if slice_.stage == _COUNT}
    made = [name for name in there if _counted_stem(name) in of_run]
    return facts.work, made or there


def _counted_stem(name: str) -> str:
    return name.removeprefix(_COUNTS).removesuffix(COUNTED_SUFFIX)


def _stem(name: str) -> str:
    return name.removeprefix(QUARANTINE).removesuffix(".jsonl")


def _file_position(name: str) -> str:
    """Return source and split of a quarantine file; counts are only of train.

    >>> _file_position("quarantine/web/val/a.jsonl")
    'web/val'
    >>> _file_position("counts/web/a.quarantine.jsonl")
    'web/train'
    """
    if name.startswith(_COUNTS):
        return f"{_counted_stem(name).split('/')[0]}/train"
    return "/".join(_stem(name).split("/")[:-1])


def _examples(out: Folder, names: Iterable[str], wanted: set[tuple[str, str]]) -> _Entries:
    entries = _Entries()
    for name in names:
        if entries.files == _MAX_FILES or (wanted and wanted <= entries.examples.keys()):
            entries.is_all = False
            break
        entries.files += 1
        entries.is_all &= _read_entries(out, name, entries)
    return entries


def _read_entries(out: Folder, name: str, entries: _Entries) -> bool:
    """Read the entries at the start of a file; return whether these are all."""
    data = out.read_start(name, _START_BYTES)
    file = _file_position(name)
    lines = data.splitlines()
    is_all = len(data) < _START_BYTES
    for line in lines if is_all else lines[:-1]:
        entry = entry_of(line)
        if entry is not None:
            entries.counts[file, entry.kind] += 1
            entries.examples.setdefault((file, entry.kind), entry)
    return is_all


def _note(facts: Facts, entries: _Entries, rows: int, *, folder: Folder) -> str:
    inside = QUARANTINE if folder.url == facts.out.url else _COUNTS
    lines = [f"All of them, a line each: {folder.join(inside.rstrip('/'))}."]
    if rows > _MAX_ROWS:
        lines.append(f"The first {_MAX_ROWS} of {rows:,} kinds are shown.")
    if facts.manifest is not None and (lost := facts.manifest.totals["all"].lost_rows):
        lines.append(f"The tails hold {quantity(lost, 'row')} of damaged row groups.")
    if facts.manifest is None:
        part = "" if entries.is_all else f" that the first {entries.files:,} files begin with"
        lines.append(f"There is no manifest: these are the entries{part} so far.")
    return " ".join(lines)
