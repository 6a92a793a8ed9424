"""The limits of what may be quarantined, and the error that names the first bad document.

Takes numbers of documents and the limits of the recipe. Reads no file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nanotok_ray.errors import QuarantineLimitError
from nanotok_ray.quarantine import BY_CHOICE, TAIL
from nanotok_ray.recipe import LimitsRecipe


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstBad:
    """The first document that was quarantined against the user's will, or the first tail."""

    place: str
    """Its source, file, and line or row, for people."""
    reason: str
    listed: str
    """The quarantine file that lists it."""


def check_limits(
    *,
    documents: int,
    quarantined: Mapping[str, int],
    limits: LimitsRecipe,
    where: str,
    first: Callable[[bool], FirstBad | None] = lambda _: None,
) -> None:
    """Refuse a result from which too much is missing.

    Args:
        documents: how many came in, quarantined ones included.
        quarantined: how many for each kind of reason.
        limits: what the recipe allows.
        where: folder of the quarantine files, for a message without a first entry.
        first: called if a limit is passed: with True for the first tail, else for the first entry;
            None: it is not known.

    Raises:
        QuarantineLimitError: more tails, more documents, or a larger share of them, than is
            allowed.
    """
    counted = sum(number for kind, number in quarantined.items() if kind not in BY_CHOICE)
    reasons = ", ".join(f"{kind} ({number:,})" for kind, number in quarantined.items())
    tails = quarantined.get(TAIL, 0)
    if tails > limits.max_tails:
        raise QuarantineLimitError(_told_tails(tails, limits.max_tails, first(True), where=where))
    told = f"{counted:,} of {documents:,}"
    if limits.max_quarantined is not None and counted > limits.max_quarantined:
        raise QuarantineLimitError(
            f"{told} documents were quarantined, limits.max_quarantined = "
            f"{limits.max_quarantined}: {reasons}; "
            f"{told_first(first(False), where=where)}"
        )
    if counted > limits.max_quarantined_share * documents:
        raise QuarantineLimitError(
            f"{told} documents were quarantined, more than limits.max_quarantined_share = "
            f"{limits.max_quarantined_share}: {reasons}; {told_first(first(False), where=where)}"
        )


def _told_tails(tails: int, most: int, first: FirstBad | None, *, where: str) -> str:
    of = "1 file is" if tails == 1 else f"{tails:,} files are"
    more = f" and {tails - 1:,} more" if tails > 1 else ""
    place = "" if first is None else f" {first.place}{more}."
    return (
        f"{of} truncated or damaged (limits.max_tails allows {most:,}):{place} Replace "
        f"{'it' if tails == 1 else 'them'}, or raise the limit; listed in "
        f"{where if first is None else first.listed}"
    )


def told_first(first: FirstBad | None, *, where: str) -> str:
    """Say which document was the first, where all are listed, and what to do."""
    if first is None:
        return f"see {where}, correct the input or raise the limit"
    return (
        f"the first is {first.place}: {first.reason}; see {first.listed}, correct the input or "
        "raise the limit"
    )
