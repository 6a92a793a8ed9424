"""What was set aside: how many documents of which source and why, each with an example.

Takes the facts; gives a table. Counts are the manifest's; without one they are those of the
quarantine files that are there, the first few.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from nanotok_ray.manifest import RECORDS
from nanotok_ray.quarantine import QUARANTINE, QuarantineEntry, entry_of
from nanotok_ray.report_page.facts import Facts
from nanotok_ray.report_page.markup import code, note, shown, table
from nanotok_ray.shard_rows import record_name
from nanotok_ray.storage import Folder

_MOST_FILES: Final = 200
"""Files that are looked into for examples."""

_START_BYTES: Final = 1 << 18
"""As much of each."""

_MOST_ROWS: Final = 200


@dataclass(slots=True)
class _Found:
    """What quarantine files say, by source and split, and reason."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], QuarantineEntry] = field(default_factory=dict)
    files: int = 0
    is_all: bool = True


def quarantined(facts: Facts) -> str:
    """Give the table, or say that nothing was set aside."""
    wanted = _counts(facts)
    if facts.manifest is not None and not wanted:
        return "<p>Nothing was set aside.</p>\n"
    found = _examples(facts.out, _files(facts), set(wanted))
    counts = wanted if facts.manifest is not None else dict(sorted(found.counts.items()))
    if not counts:
        return "<p>Nothing was set aside so far.</p>\n" if facts.has_begun else ""
    rows = [
        (
            shown(place, 80),
            shown(reason, 200),
            *_told(found.examples.get((place, reason))),
            f"{n:,}",
        )
        for (place, reason), n in list(counts.items())[:_MOST_ROWS]
    ]
    heads = ("source", "reason", "for example", "", "documents")
    return table(heads, rows, texts=4) + _notes(facts, found, len(counts))


def _counts(facts: Facts) -> dict[tuple[str, str], int]:
    return {
        (name, reason): number
        for name, own in facts.sources.items()
        for reason, number in sorted(own["quarantined"].items(), key=lambda each: -each[1])
    }


def _told(example: QuarantineEntry | None) -> tuple[object, object]:
    if example is None:
        return "\u2013", ""
    return code(f"{example.file}, row {example.row:,}", 160), shown(example.reason, 160)


def _files(facts: Facts) -> Iterable[str]:
    """Give the names of quarantine files, those of shards that are named first."""
    there = facts.out.list(QUARANTINE)
    if not there or facts.manifest is None:
        return there
    named = {
        record_name(own.name(place)).removeprefix(RECORDS).removesuffix(".json")
        for own in facts.shards.values()
        for place in range(len(own.rows))
    }
    return sorted(there, key=lambda name: _stem(name) not in named)


def _stem(name: str) -> str:
    return name.removeprefix(QUARANTINE).removesuffix(".jsonl")


def _examples(out: Folder, names: Iterable[str], wanted: set[tuple[str, str]]) -> _Found:
    found = _Found()
    for name in names:
        if found.files == _MOST_FILES or (wanted and wanted <= found.examples.keys()):
            found.is_all = False
            break
        found.files += 1
        found.is_all &= _look_into(out, name, found)
    return found


def _look_into(out: Folder, name: str, found: _Found) -> bool:
    """Look into the start of a file, and tell whether that was all of it."""
    data = out.read_start(name, _START_BYTES)
    place = "/".join(_stem(name).split("/")[:-1])
    lines = data.splitlines()
    is_all = len(data) < _START_BYTES
    for line in lines if is_all else lines[:-1]:
        entry = entry_of(line)
        if entry is not None:
            found.counts[place, entry.kind] += 1
            found.examples.setdefault((place, entry.kind), entry)
    return is_all


def _notes(facts: Facts, found: _Found, rows: int) -> str:
    lines = [f"All of them, a line each: {facts.out.join(QUARANTINE.rstrip('/'))}."]
    if rows > _MOST_ROWS:
        lines.append(f"The first {_MOST_ROWS} of {rows:,} kinds are shown.")
    if facts.manifest is None:
        part = "" if found.is_all else f" that the first {found.files:,} files begin with"
        lines.append(f"There is no manifest: these are the entries{part} so far.")
    return note(" ".join(lines))
