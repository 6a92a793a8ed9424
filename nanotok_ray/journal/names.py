"""Names of a journal's files: OUT/run/journal/000017-000002.jsonl is run 17, segment 2.

Object stores cannot append, so a journal grows by segments, each written whole. The number of a run
is that of the first lease it took.
"""

import re

from nanotok_ray.storage import Folder

JOURNAL_FOLDER = "run/journal"
JOURNAL_FORMAT = "nanotok-journal 1"

_NAME = re.compile(rf"{JOURNAL_FOLDER}/(\d{{6,18}})-(\d{{6,18}})\.jsonl")


def segment_name(run: int, segment: int) -> str:
    """Give the path in the output folder of a segment.

    >>> segment_name(17, 2)
    'run/journal/000017-000002.jsonl'
    """
    return f"{JOURNAL_FOLDER}/{run:06d}-{segment:06d}.jsonl"


def runs_in(out: Folder) -> dict[int, list[int]]:
    """Give the numbers of the segments that are there of each run, both in order."""
    found: dict[int, list[int]] = {}
    for name in out.list(f"{JOURNAL_FOLDER}/"):
        match = _NAME.fullmatch(name)
        if match is not None:
            found.setdefault(int(match[1]), []).append(int(match[2]))
    return {run: sorted(found[run]) for run in sorted(found)}
