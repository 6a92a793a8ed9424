"""What is said of a file whose format this version does not read. Opens no file.

docs/formats.md has the rule, and each format with what becomes of other versions of it.
"""

import re

from nanotok_ray.printable import printable

_NUMBER = re.compile(r"(.*?)\s*(\d{1,9})")
_MOST_SHOWN = 80

DAMAGED = "it is damaged, or no file of nanotok_ray: take it from a backup, or make it anew"
NEWER = "a newer nanotok_ray wrote it: install that one, or make it anew with this one"
OLDER = "an older nanotok_ray wrote it: install that one, or make it anew with this one"


def other_format(name: str, found: object, expected: str) -> str:
    """Say that a file has another format than the one that is read, and what to do.

    >>> other_format("plan.json", "nanotok-plan 2", "nanotok-plan 1").partition("; ")[0]
    "plan.json has format 'nanotok-plan 2', this version reads 'nanotok-plan 1'"
    """
    shown = printable(repr(found))
    if len(shown) > _MOST_SHOWN:
        shown = f"{shown[:_MOST_SHOWN]}..."
    told = f"{name} has format {shown}, this version reads {expected!r}"
    return f"{told}; {next_step(found, expected)}"


def next_step(found: object, expected: str) -> str:
    """Say what to do, by whether the format is a newer one, an older one, or none of ours.

    >>> next_step("nanotok-plan 2", "nanotok-plan 1") == NEWER, next_step(None, "a 1") == DAMAGED
    (True, True)
    """
    parts = _NUMBER.fullmatch(found) if isinstance(found, str) else None
    own = _NUMBER.fullmatch(expected)
    if parts is None or own is None or parts[1] != own[1] or parts[2] == own[2]:
        return DAMAGED
    return NEWER if int(parts[2]) > int(own[2]) else OLDER
