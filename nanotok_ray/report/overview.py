"""The start and the end of the page: result of the run, key figures, notes, exports, files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nanotok_ray.formats import (
    MANIFEST_NAME,
    PLAN_NAME,
    SHARDS_INDEX_NAME,
    SUMMARY_NAME,
    TOKENIZER_FOLDER,
    Export,
)
from nanotok_ray.job.journal import DONE, JOURNAL_FOLDER
from nanotok_ray.job.status import UNFINISHED
from nanotok_ray.report.facts import Facts, began_at, read_all, seconds_of, slice_name
from nanotok_ray.report.render import Cell, Code, Figure, Part, Row
from nanotok_ray.sources import QUARANTINE
from nanotok_ray.units import (
    format_bytes,
    format_count,
    format_duration,
    format_rate,
    format_ratio,
    format_time,
    quantity,
)

_MAX_RECIPE_CHARS = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """The head of the page."""

    status: str = ""
    warnings: Sequence[str] = ()
    text: str = ""
    outcome: str = ""
    """Whether every document was written, which a reader wants to know first."""
    lead: Sequence[Cell] = ()
    """The command, its time and its duration."""
    figures: Sequence[Figure] = ()
    run: Mapping[str, Cell] = field(default_factory=dict)
    recipe: str = ""


def head(facts: Facts) -> Head:
    """Return the head."""
    text = ""
    warnings = [*_errors(facts)]
    if facts.manifest is None and facts.status == DONE and facts.tokenizer is not None:
        text = f"{_NO_MANIFEST} The tokenizer is there."
    recipe = None if facts.journal is None else facts.journal.head.recipe
    return Head(
        status="not finished" if facts.status == UNFINISHED else facts.status,
        warnings=warnings,
        text=text,
        outcome=_outcome(facts),
        lead=[*_lead(facts)],
        figures=[*_figures(facts)],
        run=_run(facts),
        recipe=(recipe or "")[:_MAX_RECIPE_CHARS],
    )


def _outcome(facts: Facts) -> str:
    """Return a sentence on the documents of a published output, or an empty string."""
    if facts.manifest is None:
        return ""
    documents = facts.manifest.totals["all"].documents
    total, written, bad = documents.in_, documents.out, documents.quarantined
    checked = _checked(facts)
    if written == total > 1:
        return f"All {total:,} documents were written{checked}. None was quarantined."
    rest = total - written - bad
    dropped = f" {rest:,} were dropped by the rules of the recipe." if rest else ""
    lost = f"{bad:,} {'was' if bad == 1 else 'were'} quarantined."
    return f"{written:,} of {total:,} documents were written{checked}. {lost}{dropped}"


def _checked(facts: Facts) -> str:
    """Return the rest of a sentence on what was compared after the documents were written."""
    summary = facts.summary
    if summary is None or summary.run.verified is None or summary.corpus is None:
        return ""
    compared = quantity(summary.corpus.proof.documents, "document")
    return f", their files checked, and {compared} compared with their source"


_NO_MANIFEST: Final = "There is no manifest: the corpus is not tokenized, or not all of it."


def _errors(facts: Facts) -> Iterator[str]:
    end = facts.journal.end if facts.journal is not None else None
    if end is not None and end.error:
        yield end.error
    if facts.manifest is not None:
        return
    if facts.journal is None and facts.tokenizer is None:
        yield "There is no output here: no manifest, no tokenizer and no journal of a run."
    elif facts.status != DONE or facts.tokenizer is None:
        yield f"{_NO_MANIFEST} The same command resumes from where it stopped."


def _lead(facts: Facts) -> Iterator[Cell]:
    journal = facts.journal
    if journal is None:
        yield "No journal of a run is here, so times are not known."
        return
    if journal.head.command:
        yield Code(journal.head.command)
    began, took = began_at(journal), seconds_of(journal)
    if began:
        yield f"started {format_time(began)}"
    if took is not None:
        text = "took" if journal.end is not None else "last update after"
        yield f"{text} {format_duration(took)}"


def _figures(facts: Facts) -> Iterator[Figure]:
    if facts.manifest is not None:
        totals = facts.manifest.totals["all"]
        documents, size, tokens = totals.documents.out, totals.text_bytes, totals.tokens
        yield Figure(name="documents", value=format_count(documents), exact=f"{documents:,}")
        yield Figure(name="text", value=format_bytes(size), exact=quantity(size, "byte"))
        yield Figure(name="tokens", value=format_count(tokens), exact=f"{tokens:,}")
        exact = f"{quantity(size, 'byte')} / {quantity(tokens, 'token')}"
        yield Figure(name="bytes per token", value=format_ratio(size, tokens), exact=exact)
    if facts.tokenizer is not None:
        vocab_size = facts.tokenizer.get_vocab_size()
        yield Figure(name="vocabulary", value=f"{vocab_size:,}", exact=f"{vocab_size:,} ids")
    stage, num_bytes, took = _speed(facts)
    if num_bytes and took:
        rate = format_rate(num_bytes, took).removesuffix(" MB/s")
        exact = f"{num_bytes:,.0f} bytes in {took:,.2f} s"
        yield Figure(name=f"MB/s, {stage}", value=rate, exact=exact)


def _speed(facts: Facts) -> tuple[str, float, float]:
    """Return stage, bytes and seconds of the last stage that read the text."""
    speeds = {name: (time.bytes, time.seconds) for name, time in facts.stage_times.items()}
    if facts.worked is not None:
        for stage in facts.worked.stages:
            speeds[stage.name] = stage.done_bytes, stage.seconds or 0.0
    for name in ("tokenize", "count"):
        size, took = speeds.get(name, (0, 0))
        if size and took:
            return name, size, took
    return "", 0, 0


_RUN: Final = {
    "command": "command",
    "arguments": "command line",
    "host": "host",
    "pid": "process",
    "ray_job": "Ray job",
    "nodes": "nodes",
    "cpus": "CPUs",
    "version": "nanotok_ray",
    "core": "core",
    "python": "Python",
    "ray": "Ray",
}
"""Names of the values in the head of a journal."""


def _run(facts: Facts) -> dict[str, Cell]:
    if facts.journal is None:
        return {}
    values = {
        label: Code(str(value))
        for name, label in _RUN.items()
        if (value := getattr(facts.journal.head, name)) not in (None, "")
    }
    return {"run": str(facts.journal.run), **values}


_MAX_NOTES: Final = 200
_MAX_ATTEMPTS: Final = 50


def notes(facts: Facts) -> Iterator[Part]:
    """Yield notes of the run, failures of slices, and what could not be read for this page."""
    if facts.journal is not None and facts.journal.notes:
        yield _notes(facts)
    elif facts.journal is not None:
        yield Part(text="The run had no notes.")
    yield from _failures(facts)
    yield from _attempts(facts)
    yield from _problems(facts)


def _notes(facts: Facts) -> Part:
    assert facts.journal is not None
    began, run_notes = began_at(facts.journal), facts.journal.notes
    rows: list[Row] = [
        {"after": format_duration(max(item.at - began, 0.0)), "note": item.text}
        for item in run_notes[:_MAX_NOTES]
    ]
    more = len(run_notes) > _MAX_NOTES
    return Part(
        rows=rows,
        texts=2,
        note=f"The first {_MAX_NOTES} of {len(run_notes):,}." if more else "",
    )


def _failures(facts: Facts) -> Iterator[Part]:
    failed = [] if facts.worked is None else [s for s in facts.worked.slices if s.error is not None]
    if not failed:
        return
    rows: list[Row] = [
        {
            "stage": value.stage,
            "slice": Code(slice_name(value.name, value.stage)),
            "worker": Code(value.worker),
            "error": value.error or "",
            "attempts": value.attempts,
        }
        for value in failed[:_MAX_ATTEMPTS]
    ]
    yield Part(title="Slices that failed", beside=f"{len(failed):,}", rows=rows, texts=4)


def _attempts(facts: Facts) -> Iterator[Part]:
    attempts = () if facts.worked is None else facts.worked.failed_attempts
    if facts.worked is None or not attempts:
        return
    began = began_at(facts.worked)
    rows: list[Row] = [
        {
            "after": format_duration(max(attempt.at - began, 0.0)),
            "stage": attempt.stage,
            "slice": Code(slice_name(attempt.name, attempt.stage)),
            "cause": attempt.cause,
            "": attempt.text,
            "slices": attempt.slices,
        }
        for attempt in attempts[:_MAX_ATTEMPTS]
    ]
    more = f", the first {len(rows)}" if len(attempts) > len(rows) else ""
    yield Part(title="Failed attempts", beside=f"{len(attempts):,}{more}", rows=rows, texts=5)


def _problems(facts: Facts) -> Iterator[Part]:
    lines = list(facts.problems)
    if facts.journal is not None and facts.journal.missing_segments:
        lines.append(f"{facts.journal.missing_segments:,} segments of the journal are missing")
    if lines:
        yield Part(title="Limits of this page", rows=[{"what": line} for line in lines])


def export_table(facts: Facts) -> Iterator[Part]:
    """Yield the exports; nothing if there are none."""
    exports: dict[str, Export] = dict(facts.exports)
    for item in () if facts.summary is None else facts.summary.run.exports:
        exports.setdefault(item.folder, item)
    rows: list[Row] = [
        {
            "layout": export.layout,
            "folder": Code(folder),
            "omitted": ", ".join(f"{n:,} {why}" for why, n in export.left_out.items()) or "nothing",
            "files": export.files,
            "documents": export.documents,
            "tokens": export.tokens,
        }
        for folder, export in sorted(exports.items())
    ]
    if rows:
        yield Part(rows=rows, texts=3)


_QUARANTINE: Final = QUARANTINE.rstrip("/")
_FILES: Final = {
    "manifest": MANIFEST_NAME,
    "shards": SHARDS_INDEX_NAME,
    "plan": PLAN_NAME,
    "tokenizer": TOKENIZER_FOLDER,
    "quarantine": _QUARANTINE,
    "journal": JOURNAL_FOLDER,
    "summary": SUMMARY_NAME,
}


def files(facts: Facts) -> Iterator[Part]:
    """Yield the locations of the described files."""
    out, files = facts.out, (MANIFEST_NAME, SHARDS_INDEX_NAME, PLAN_NAME, SUMMARY_NAME)
    are_there = dict(zip(files, read_all(out.url, files, out.exists), strict=True)) | {
        TOKENIZER_FOLDER: facts.tokenizer is not None,
        JOURNAL_FOLDER: facts.journal is not None,
        _QUARANTINE: any(source.quarantined for source in facts.sources.values()),
    }
    locations = {name: Code(out.join(path)) for name, path in _FILES.items() if are_there[path]}
    yield Part(pairs={"output": Code(out.url)} | locations)
