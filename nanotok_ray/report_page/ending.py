"""The end of the page: notes and warnings of the run, exports, and where the files are.

Takes the facts; gives markup.
"""

from typing import Final

from nanotok_ray.formats.manifest import (
    MANIFEST_NAME,
    PLAN_NAME,
    SHARDS_INDEX_NAME,
    SUMMARY_NAME,
    TOKENIZER_FOLDER,
)
from nanotok_ray.job.journal import JOURNAL_FOLDER
from nanotok_ray.report_page import numbers
from nanotok_ray.report_page.facts import Facts
from nanotok_ray.report_page.head import began_at
from nanotok_ray.report_page.markup import code, heading, note, pairs, shown, table
from nanotok_ray.sources.quarantine import QUARANTINE

_MOST_NOTES: Final = 200
_MOST_ATTEMPTS: Final = 50
_FILES: Final = {
    "manifest": MANIFEST_NAME,
    "shards": SHARDS_INDEX_NAME,
    "plan": PLAN_NAME,
    "tokenizer": TOKENIZER_FOLDER,
    "quarantine": QUARANTINE.rstrip("/"),
    "journal": JOURNAL_FOLDER,
    "summary": SUMMARY_NAME,
}


def notes(facts: Facts) -> str:
    """Give notes of the run, failures of slices, and what could not be read for this page."""
    return _notes(facts) + _failures(facts) + _attempts(facts) + _problems(facts)


def _notes(facts: Facts) -> str:
    if facts.journal is None or not facts.journal.notes:
        return "<p>The run had no notes.</p>\n" if facts.journal is not None else ""
    began, own = began_at(facts.journal), facts.journal.notes
    rows = [
        (numbers.seconds(max(each.at - began, 0.0)), shown(each.text, 1000))
        for each in own[:_MOST_NOTES]
    ]
    more = note(f"The first {_MOST_NOTES} of {len(own):,}.") if len(own) > _MOST_NOTES else ""
    return table(("after", "note"), rows, texts=2) + more


def _failures(facts: Facts) -> str:
    failed = [] if facts.worked is None else [s for s in facts.worked.slices if s.error is not None]
    if not failed:
        return ""
    rows = [
        (
            shown(own.stage, 60),
            code(numbers.slice_name(own.name, own.stage), 120),
            code(own.worker, 80),
            shown(own.error, 600),
            f"{own.attempts:,}",
        )
        for own in failed[:_MOST_ATTEMPTS]
    ]
    told = heading("Slices that failed for good", f"{len(failed):,}")
    return told + table(("stage", "slice", "worker", "error", "attempts"), rows, texts=4)


def _attempts(facts: Facts) -> str:
    own = () if facts.worked is None else facts.worked.failed_attempts
    if facts.worked is None or not own:
        return ""
    began = began_at(facts.worked)
    rows = [
        (
            numbers.seconds(max(each.at - began, 0.0)),
            shown(each.stage, 60),
            code(numbers.slice_name(each.name, each.stage), 120),
            shown(each.cause, 80),
            shown(each.text, 300),
            f"{each.slices:,}",
        )
        for each in own[:_MOST_ATTEMPTS]
    ]
    beside = f"{len(own):,}" + (f", the first {len(rows)}" if len(own) > len(rows) else "")
    heads = ("after", "stage", "slice", "cause", "", "slices")
    return heading("Failed attempts", beside) + table(heads, rows, texts=5)


def _problems(facts: Facts) -> str:
    lines = list(facts.problems)
    if facts.journal is not None and facts.journal.missing_segments:
        lines.append(f"{facts.journal.missing_segments:,} segments of the journal are missing")
    if facts.worked is not None and facts.worked is not facts.journal:
        lines.append(
            f"The last run worked on no slices; stages and timeline are those of run "
            f"{facts.worked.run}."
        )
    rows = [(shown(each, 1000),) for each in lines]
    return heading("Of this page") + table(("what",), rows) if rows else ""


def exports(facts: Facts) -> str:
    """Give the exports, nothing if there are none."""
    found = dict(facts.exports)
    for each in (facts.summary or {}).get("exports", []):
        found.setdefault(str(each["folder"]), each)
    rows = [
        (
            shown(own["layout"], 80),
            code(folder, 300),
            shown(
                ", ".join(f"{n:,} {why}" for why, n in own["left_out"].items()) or "nothing", 200
            ),
            f"{own['files']:,}",
            f"{own['documents']:,}",
            f"{own['tokens']:,}",
        )
        for folder, own in sorted(found.items())
    ]
    heads = ("layout", "folder", "left out", "files", "documents", "tokens")
    return table(heads, rows, texts=3) if rows else ""


def files(facts: Facts) -> str:
    """Say where what the page tells of lies."""
    there = facts.out
    found = {
        name: code(there.join(path), 2000)
        for name, path in _FILES.items()
        if there.exists(path) or _is_folder(facts, path)
    }
    own = {"output": code(there.url, 2000)} | found
    return pairs(own)


def _is_folder(facts: Facts, path: str) -> bool:
    known = {
        TOKENIZER_FOLDER: facts.tokenizer is not None,
        JOURNAL_FOLDER: facts.journal is not None,
        QUARANTINE.rstrip("/"): any(own["quarantined"] for own in facts.sources.values()),
    }
    return known.get(path, False)
