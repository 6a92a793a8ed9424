"""The start and the end of the page: how the run ended, key figures, notes, exports, files."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from nanotok_ray.formats.manifest import (
    MANIFEST_NAME,
    PLAN_NAME,
    SHARDS_INDEX_NAME,
    SUMMARY_NAME,
    TOKENIZER_FOLDER,
)
from nanotok_ray.job.journal import (
    DONE,
    FAILED,
    INTERRUPTED,
    JOURNAL_FOLDER,
    TERMINATED,
    RunJournal,
)
from nanotok_ray.report import numbers
from nanotok_ray.report.facts import Facts
from nanotok_ray.report.markup import (
    Markup,
    code,
    escaped,
    folded,
    heading,
    html_of,
    note,
    pairs,
    table,
    warning,
)
from nanotok_ray.sources.quarantine import QUARANTINE

_STATUS: Final = {
    DONE: ("good", "done"),
    FAILED: ("bad", "failed"),
    INTERRUPTED: ("bad", "interrupted"),
    TERMINATED: ("bad", "terminated"),
    "unfinished": ("bad", "not finished"),
}
_MAX_RECIPE_CHARS = 200_000
_MAX_ERROR_CHARS = 4000


def head(facts: Facts) -> str:
    """Return the head."""
    kind, text = _STATUS.get(facts.status, ("bad", facts.status))
    badge = f'<span class="badge {kind}">{html_of(text)}</span>'
    return (
        f'<header>\n<p class="quiet">nanotok report</p>\n'
        f"<h1>{escaped(facts.out.url, 2000)} {badge}</h1>\n"
        f"{_error(facts)}{_what(facts)}{_figures(facts)}{_run(facts)}</header>\n"
    )


def title(facts: Facts) -> str:
    """Return the title of the window."""
    return f"nanotok report: {facts.out.url[:300]}"


def _error(facts: Facts) -> str:
    lines = []
    end = facts.journal.end if facts.journal is not None else None
    error = end.get("error") if end is not None else None
    if error:
        lines.append(
            warning(Markup(f'<span class="pre">{escaped(error, _MAX_ERROR_CHARS)}</span>'))
        )
    if facts.manifest is None:
        lines.append(_no_manifest(facts))
    return "".join(lines)


def _no_manifest(facts: Facts) -> str:
    if facts.journal is None and facts.tokenizer is None:
        return warning(
            "There is no output here: no manifest, no tokenizer and no journal of a run."
        )
    text = "There is no manifest: the corpus is not tokenized, or not all of it."
    if facts.status == DONE and facts.tokenizer is not None:
        return f'<p class="quiet">{text} The tokenizer is there.</p>\n'
    return warning(f"{text} The same command resumes from where it stopped.")


def _what(facts: Facts) -> str:
    """Return a line on what ran, when and how long."""
    journal = facts.journal
    if journal is None:
        return '<p class="lead">No journal of a run is here, so times are not known.</p>\n'
    head_of = journal.head
    parts = [code(head_of["command"], 2000)] if head_of.get("command") else []
    began = began_at(journal)
    if began:
        parts.append(Markup(html_of(f"began {numbers.moment(began)}")))
    took = seconds_of(journal)
    if took is not None:
        word = "took" if journal.end is not None else "last heard of after"
        parts.append(Markup(html_of(f"{word} {numbers.seconds(took)}")))
    return f'<p class="lead">{" · ".join(parts)}</p>\n' if parts else ""


def began_at(journal: RunJournal) -> float:
    """Return when a run began, in seconds since 1970; 0: not known.

    The end says it best; a head is written again when more is known, at a later time.
    """
    if journal.end is not None:
        at, took = journal.end.get("at"), journal.end.get("seconds")
        if isinstance(at, int | float) and isinstance(took, int | float):
            return max(float(at) - float(took), 0.0)
    found = [_started(journal.head.get("started")), journal.head.get("at")]
    found += [stage.at for stage in journal.stages[:1]]
    return min((float(at) for at in found if isinstance(at, int | float) and at > 0), default=0.0)


def _started(started: object) -> object:
    """Return seconds since 1970 of a time as ISO has it; else what was given."""
    if not isinstance(started, str):
        return started
    try:
        return datetime.fromisoformat(started).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def seconds_of(journal: RunJournal) -> float | None:
    """Return what a run took, or has taken up to its last event."""
    took = journal.end.get("seconds") if journal.end is not None else None
    if isinstance(took, int | float):
        return float(took)
    began = began_at(journal)
    return max(journal.last_at - began, 0.0) if began and journal.last_at else None


def _figures(facts: Facts) -> str:
    lines = [
        f'<div><dt>{html_of(name)}</dt><dd title="{html_of(exact)}">{html_of(value)}</dd></div>\n'
        for name, value, exact in _figure_items(facts)
    ]
    return f'<dl class="figures">\n{"".join(lines)}</dl>\n' if lines else ""


def _figure_items(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and exact value."""
    if facts.manifest is not None:
        manifest = facts.manifest["totals"]["all"]
        documents, size, tokens = (
            manifest["documents"]["out"],
            manifest["text_bytes"],
            manifest["tokens"],
        )
        yield "documents", numbers.compact(documents), f"{documents:,}"
        yield "text", numbers.num_bytes(size), f"{size:,} bytes"
        yield "tokens", numbers.compact(tokens), f"{tokens:,}"
        per_token = numbers.ratio(size, tokens)
        yield "bytes per token", per_token, f"{size:,} bytes / {tokens:,} tokens"
    if facts.tokenizer is not None:
        size = facts.tokenizer.get_vocab_size()
        yield "vocabulary", f"{size:,}", f"{size:,} ids"
    stage, size, took = _speed(facts)
    if size and took:
        text = f"{size:,.0f} bytes in {took:,.2f} s"
        yield f"MB/s, {stage}", numbers.rate(size, took).removesuffix(" MB/s"), text


def _speed(facts: Facts) -> tuple[str, float, float]:
    """Return stage, bytes and seconds of the last stage that went through the text."""
    stages: Mapping[str, Any] = (facts.summary or {}).get("stages", {})
    found = {name: (value["bytes"], value["seconds"]) for name, value in stages.items()}
    if facts.worked is not None:
        for stage in facts.worked.stages:
            found[stage.name] = stage.done_bytes, stage.seconds or 0.0
    for name in ("tokenize", "count"):
        size, took = found.get(name, (0, 0))
        if size and took:
            return name, size, took
    return "", 0, 0


def _run(facts: Facts) -> str:
    if facts.journal is None:
        return ""
    run_head = facts.journal.head
    names = {
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
    values: dict[str, object] = {"run": facts.journal.run}
    values |= {
        label: code(run_head[name], 2000)
        for name, label in names.items()
        if _is_reported(run_head, name)
    }
    recipe = run_head.get("recipe")
    text = f"<pre>{html_of(str(recipe)[:_MAX_RECIPE_CHARS])}</pre>\n" if recipe else ""
    return folded("What ran, and on what", pairs(values)) + folded("Recipe", text)


def _is_reported(values: Mapping[str, Any], name: str) -> bool:
    return values.get(name) not in (None, "")


_MAX_NOTES: Final = 200
_MAX_ATTEMPTS: Final = 50
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
    """Return notes of the run, failures of slices, and what could not be read for this page."""
    return _notes(facts) + _failures(facts) + _attempts(facts) + _problems(facts)


def _notes(facts: Facts) -> str:
    if facts.journal is None or not facts.journal.notes:
        return "<p>The run had no notes.</p>\n" if facts.journal is not None else ""
    began, run_notes = began_at(facts.journal), facts.journal.notes
    rows = [
        (numbers.seconds(max(item.at - began, 0.0)), escaped(item.text, 1000))
        for item in run_notes[:_MAX_NOTES]
    ]
    more = (
        note(f"The first {_MAX_NOTES} of {len(run_notes):,}.")
        if len(run_notes) > _MAX_NOTES
        else ""
    )
    return table(("after", "note"), rows, texts=2) + more


def _failures(facts: Facts) -> str:
    failed = [] if facts.worked is None else [s for s in facts.worked.slices if s.error is not None]
    if not failed:
        return ""
    rows = [
        (
            escaped(value.stage, 60),
            code(numbers.slice_name(value.name, value.stage), 120),
            code(value.worker, 80),
            escaped(value.error, 600),
            f"{value.attempts:,}",
        )
        for value in failed[:_MAX_ATTEMPTS]
    ]
    text = heading("Slices that failed for good", f"{len(failed):,}")
    return text + table(("stage", "slice", "worker", "error", "attempts"), rows, texts=4)


def _attempts(facts: Facts) -> str:
    attempts = () if facts.worked is None else facts.worked.failed_attempts
    if facts.worked is None or not attempts:
        return ""
    began = began_at(facts.worked)
    rows = [
        (
            numbers.seconds(max(attempt.at - began, 0.0)),
            escaped(attempt.stage, 60),
            code(numbers.slice_name(attempt.name, attempt.stage), 120),
            escaped(attempt.cause, 80),
            escaped(attempt.text, 300),
            f"{attempt.slices:,}",
        )
        for attempt in attempts[:_MAX_ATTEMPTS]
    ]
    beside = f"{len(attempts):,}" + (
        f", the first {len(rows)}" if len(attempts) > len(rows) else ""
    )
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
    rows = [(escaped(line, 1000),) for line in lines]
    return heading("Of this page") + table(("what",), rows) if rows else ""


def exports(facts: Facts) -> str:
    """Return the exports, nothing if there are none."""
    found = dict(facts.exports)
    for item in (facts.summary or {}).get("exports", []):
        found.setdefault(str(item["folder"]), item)
    rows = [
        (
            escaped(value["layout"], 80),
            code(folder, 300),
            escaped(
                ", ".join(f"{n:,} {why}" for why, n in value["left_out"].items()) or "nothing", 200
            ),
            f"{value['files']:,}",
            f"{value['documents']:,}",
            f"{value['tokens']:,}",
        )
        for folder, value in sorted(found.items())
    ]
    heads = ("layout", "folder", "left out", "files", "documents", "tokens")
    return table(heads, rows, texts=3) if rows else ""


def files(facts: Facts) -> str:
    """Return where the files that the page describes lie."""
    there = facts.out
    found = {
        name: code(there.join(path), 2000)
        for name, path in _FILES.items()
        if there.exists(path) or _is_folder(facts, path)
    }
    values = {"output": code(there.url, 2000)} | found
    return pairs(values)


def _is_folder(facts: Facts, path: str) -> bool:
    known = {
        TOKENIZER_FOLDER: facts.tokenizer is not None,
        JOURNAL_FOLDER: facts.journal is not None,
        QUARANTINE.rstrip("/"): any(source["quarantined"] for source in facts.sources.values()),
    }
    return known.get(path, False)
