"""The journal of a run: what happened when, kept in OUT/run/journal for people.

Knows storage; does not know Ray, nor who writes or looks at it. No key and no hash depends on it.
"""

from nanotok_ray.journal.model import (
    DONE,
    FAILED,
    INTERRUPTED,
    TERMINATED,
    FailedAttempt,
    Happened,
    JournalledSlice,
    RunJournal,
    Stage,
)
from nanotok_ray.journal.names import JOURNAL_FOLDER, JOURNAL_FORMAT, runs_in, segment_name
from nanotok_ray.journal.reading import read_journal
from nanotok_ray.journal.writer import Journal

__all__ = [
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "JOURNAL_FOLDER",
    "JOURNAL_FORMAT",
    "TERMINATED",
    "FailedAttempt",
    "Happened",
    "Journal",
    "JournalledSlice",
    "RunJournal",
    "Stage",
    "read_journal",
    "runs_in",
    "segment_name",
]
