"""When a stage is given up: after so many documents, all bad, that the limits cannot be kept.

Takes the limits, the slices of a stage and results; raises. How many documents there may be is
estimated generously, so that a stage that may still keep the limits goes on.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Final

from nanotok_ray.cluster.first_refused import first_listed
from nanotok_ray.cluster.stages import AllBad
from nanotok_ray.cluster.task import Ended
from nanotok_ray.errors import QuarantineLimitError
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.sources import Piece, Slice, SourceFile, estimated_bytes
from nanotok_ray.sources.quarantine import told_first
from nanotok_ray.storage import Folder

LEAST_BAD: Final = 10_000
"""A stage is not given up before so many documents were read and all of them were bad."""

_LEAST_BYTES: Final = {"jsonl": 64, "lines": 8}
"""Bytes of an average document, at least, in lines of each format: far fewer than in real text."""


def give_up_after(limits: LimitsRecipe, slices: Iterable[Slice]) -> int | None:
    """Return how many documents, all bad, show that a stage cannot keep the limits; None: none do.

    Let R be rows, G the most lines that can be documents, s the share that may be bad. A result of
    T documents within the limit has at most s * T bad lines, so T <= R + G + s * T.
    """
    allowed = [] if limits.max_quarantined is None else [limits.max_quarantined]
    share = limits.max_quarantined_share
    if share < 1:
        pieces = ((file, piece) for own in slices for file, piece in _pieces(own))
        good = sum(_most_documents(file, piece) for file, piece in pieces)
        allowed.append(ceil(share * good / (1 - share)))
    return max(LEAST_BAD, min(allowed) + 1) if allowed else None


def _pieces(own: Slice) -> Iterable[tuple[SourceFile, Piece]]:
    return zip(own.files, own.pieces, strict=True)


def _most_documents(file: SourceFile, piece: Piece) -> int:
    """Return how many documents of a piece there may be at most, bad lines not counted."""
    if piece.format == "parquet":
        return sum(group.rows for group in file.layout[piece.start : piece.stop])
    if piece.format == "document":
        return 1
    return estimated_bytes(file, piece) // _LEAST_BYTES[piece.format] + 1


@dataclass(slots=True)
class GivingUp:
    """Takes the results of a stage, and gives it up where all of many documents were bad."""

    stage: str
    folder: Folder
    """Where quarantine files are."""
    limits: LimitsRecipe
    after: int | None
    """As `give_up_after` says."""
    _documents: int = 0
    _slices: int = 0

    def __call__(self, ended: Ended) -> int:
        """Return the bytes of a slice that ended well.

        Raises:
            QuarantineLimitError: the limits cannot be kept any more.
        """
        found = ended.result
        if not isinstance(found, AllBad):
            return found or 0
        self._documents += found.documents
        self._slices += 1
        if self.after is not None and self._documents >= self.after:
            first = first_listed(self.folder, found.listed, ended.task.argument.slice)
            raise QuarantineLimitError(
                f"{self._told()}; {told_first(first, where=self.folder.url)}"
            )
        return 0

    def _told(self) -> str:
        most = self.limits.max_quarantined
        number = "" if most is None else f" or limits.max_quarantined = {most}"
        return (
            f"{self.stage} stopped early: all {self._documents:,} documents that were read of "
            f"{self._slices:,} {'slice' if self._slices == 1 else 'slices'} were quarantined, more "
            f"than limits.max_quarantined_share = {self.limits.max_quarantined_share}{number} "
            "allows of the whole input"
        )
