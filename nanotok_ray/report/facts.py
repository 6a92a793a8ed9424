"""The facts of a report: the content of the files of an output, as far as they can be read.

The input is an output folder. The output is plain values, an open reader and a tokenizer. A
missing value is None; a file that exists and cannot be read is listed as a problem.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from nanotok_ray.errors import NanotokError
from nanotok_ray.exports import EXPORT_NAME, EXPORTS, LAYOUTS, read_export
from nanotok_ray.formats import (
    MANIFEST_NAME,
    MAX_JSON_BYTES,
    PLAN_NAME,
    SHARDS_INDEX_NAME,
    SPLITS,
    SUMMARY_NAME,
    TOKENIZER_FOLDER,
    Export,
    FailedRun,
    Manifest,
    StageTime,
    Totals,
    from_values,
    is_local,
    read_manifest,
)
from nanotok_ray.job.journal import DONE, JOURNAL_FOLDER, RunJournal, read_journal, runs_in
from nanotok_ray.job.status import UNFINISHED
from nanotok_ray.job.summary import Summary, read_summary
from nanotok_ray.loader import open_shards
from nanotok_ray.loader.shards import Shards
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import NEW_TOKENS_NAME, REPORT_NAME, Tokenizer

UNREADABLE: Final = (
    *(NanotokError, OSError, LookupError, TypeError, ValueError),
    *(ArithmeticError, AttributeError, RecursionError),
)
"""Errors that reading files of another version, or edited files, can raise."""

REPORT: Final = f"{TOKENIZER_FOLDER}/{REPORT_NAME}"
"""The path of the training report."""

NEW_TOKENS: Final = f"{TOKENIZER_FOLDER}/{NEW_TOKENS_NAME}"
"""The path of the list of the tokens that a continued tokenizer has beyond its base."""

_EARLIER_RUNS = 20
"""Limit of earlier runs that are read to find one that worked on slices."""

_THREADS = 16
"""The number of requests to a remote store at a time."""

_Item = TypeVar("_Item")
_Read = TypeVar("_Read")


def read_all(url: str, items: Iterable[_Item], read: Callable[[_Item], _Read]) -> list[_Read]:
    """Return `read(item)` for each item in order; threads call it if `url` is remote.

    Raises:
        Exception: What `read` raises for the first item for which it fails.
    """
    if is_local(url):
        return [read(item) for item in items]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(read, items))


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """All facts of the page."""

    out: Folder
    work: Folder
    """The work folder, of which the quarantine files of counts are read."""
    manifest: Manifest | None
    summary: Summary | None
    """The summary of the last run that ended without an error."""
    stage_times: Mapping[str, StageTime]
    """The stages of the run that wrote the summary."""
    report: bytes | None
    """The content of the training report of the tokenizer."""
    new_tokens: bytes | None
    """The list of the tokens that a continued tokenizer has beyond its base."""
    journal: RunJournal | None
    """The journal of the last run."""
    worked: RunJournal | None
    """The journal of the last run that worked on slices, usually the same."""
    tokenizer: Tokenizer | None
    shards: Mapping[str, Shards]
    """The shards of each split; empty without a manifest."""
    exports: Mapping[str, Export]
    """The content of each export.json by folder."""
    problems: tuple[str, ...]

    @property
    def sources(self) -> dict[str, Totals]:
        """The totals of each source and split, by `source/split`."""
        totals = {} if self.manifest is None else self.manifest.totals
        return {name: value for name, value in totals.items() if name != "all"}

    @property
    def status(self) -> str:
        """The result of the last run: done, failed, interrupted, terminated or unfinished.

        Without a journal it is inferred from the files.
        """
        if self.journal is not None:
            return UNFINISHED if self.journal.end is None else self.journal.end.status
        is_there = self.manifest is not None or self.tokenizer is not None
        return DONE if is_there else UNFINISHED

    @property
    def has_begun(self) -> bool:
        """Whether a journal exists that has no end."""
        return self.journal is not None and self.journal.end is None


def is_output(out: Folder) -> bool:
    """Return whether a folder contains any file of an output."""
    below = (f"{TOKENIZER_FOLDER}/", f"{JOURNAL_FOLDER}/")
    return any(map(out.exists, (MANIFEST_NAME, PLAN_NAME, SUMMARY_NAME))) or any(
        map(out.list, below)
    )


def read_facts(out: Folder, work: Folder, *, cache: str) -> Facts:
    """Read the available files; data of remote shards is stored in `cache`."""
    readers: dict[str, Callable[[], Any]] = {
        MANIFEST_NAME: lambda: read_manifest(out),
        JOURNAL_FOLDER: lambda: _journals(out),
        SHARDS_INDEX_NAME: lambda: _shards(out, cache),
        SUMMARY_NAME: lambda: _summary(out),
        REPORT: lambda: out.read_bytes(REPORT, limit=MAX_JSON_BYTES),
        NEW_TOKENS: lambda: out.read_bytes(NEW_TOKENS, limit=MAX_JSON_BYTES),
        TOKENIZER_FOLDER: lambda: _tokenizer(out),
        EXPORTS: lambda: _exports(out),
    }
    read = dict(zip(readers, read_all(out.url, readers.items(), _attempted), strict=True))
    if read[MANIFEST_NAME][0] is None:
        read[SHARDS_INDEX_NAME] = (None, None)
    contents = {name: value for name, (value, _) in read.items()}
    journals = contents[JOURNAL_FOLDER] or (None, None)
    summary, times = contents[SUMMARY_NAME] or (None, {})
    return Facts(
        out=out,
        work=work,
        manifest=contents[MANIFEST_NAME],
        summary=summary,
        stage_times=times,
        report=contents[REPORT],
        new_tokens=contents[NEW_TOKENS],
        journal=journals[0],
        worked=journals[1],
        tokenizer=contents[TOKENIZER_FOLDER],
        shards=contents[SHARDS_INDEX_NAME] or {},
        exports=contents[EXPORTS] or {},
        problems=tuple(problem for _, problem in read.values() if problem is not None),
    )


def _attempted(reader: tuple[str, Callable[[], _Read]]) -> tuple[_Read | None, str | None]:
    """Return what a reader of a file returns, and the problem with the file, if it has one."""
    name, read = reader
    try:
        return read(), None
    except FileNotFoundError:
        return None, None
    except UNREADABLE as error:
        text = str(error) or type(error).__name__
        return None, text if name in text else f"{name} cannot be read: {text}"


def _summary(out: Folder) -> tuple[Summary | None, Mapping[str, StageTime]]:
    name, data = out.join(SUMMARY_NAME), out.read_bytes(SUMMARY_NAME, limit=MAX_JSON_BYTES)
    values: object = json.loads(data)
    if isinstance(values, dict) and "error" in values:
        return None, from_values(FailedRun, values, name=name).stages
    summary = read_summary(values, name=name)
    return summary, summary.run.stages


def _journals(out: Folder) -> tuple[RunJournal | None, RunJournal | None]:
    last = read_journal(out)
    if last is None or last.slices:
        return last, last
    earlier = [run for run in runs_in(out) if run < last.run]
    for run in reversed(earlier[-_EARLIER_RUNS:]):
        journal = read_journal(out, run)
        if journal is not None and journal.slices:
            return last, journal
    return last, last


def _tokenizer(out: Folder) -> Tokenizer | None:
    if not out.sizes(f"{TOKENIZER_FOLDER}/"):
        return None
    return Tokenizer.load(out.inside(TOKENIZER_FOLDER))


def _shards(out: Folder, cache: str) -> dict[str, Shards]:
    opened = read_all(out.url, SPLITS, lambda split: open_shards(out.url, split=split, cache=cache))
    return dict(zip(SPLITS, opened, strict=True))


def _exports(out: Folder) -> dict[str, Export]:
    folders = [f"{EXPORTS}/{name}" for name in LAYOUTS]
    are_there = read_all(out.url, folders, lambda name: out.exists(f"{name}/{EXPORT_NAME}"))
    return {
        out.join(folder): read_export(Folder(out.inside(folder)))
        for folder, is_there in zip(folders, are_there, strict=True)
        if is_there
    }


def began_at(journal: RunJournal) -> float:
    """Return the time when a run began, in seconds since 1970; 0 if unknown.

    The end is the most exact; a head is written again when more is known, at a later time.
    """
    end = journal.end
    if end is not None and end.seconds is not None:
        return max(end.at - end.seconds, 0.0)
    times = [_started(journal.head.started), journal.head.at]
    times += [stage.at for stage in journal.stages[:1]]
    return min((at for at in times if at > 0), default=0.0)


def _started(started: str | None) -> float:
    """Return a time in ISO format as seconds since 1970; 0 if there is none."""
    try:
        return datetime.fromisoformat(started or "").timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0


def seconds_of(journal: RunJournal) -> float | None:
    """Return the duration of a run, up to its last event if it has not ended."""
    if journal.end is not None and journal.end.seconds is not None:
        return journal.end.seconds
    began = began_at(journal)
    return max(journal.last_at - began, 0.0) if began and journal.last_at else None


def slice_name(name: str, stage: str) -> str:
    """Return the name of a slice without the name of its stage.

    >>> slice_name("count web/part-00001", "count")
    'web/part-00001'
    """
    return name.removeprefix(f"{stage} ")
