"""What every table of `learn.py` is told: where its inputs are, how much of what, beside whom.

Holds the command line as it was read; knows no table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NUM_BYTES = 256
NUM_SPECIAL_TOKENS = 9


def threads_of(number: int) -> str:
    """Say how many threads."""
    return f"{number} thread{'s' * (number > 1)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The command line, read."""

    folder: Path
    """A folder for each corpus; others may be made in it."""
    corpora: Sequence[str]
    peer_python: str | None
    """An interpreter that has ffbpe, if there is one."""
    vocab_size: int
    threads: int
    repeats: int
    spans: int
    merges: int
    tied_spans: int
    tied_merges: int
    seed: int

    @property
    def ranks(self) -> int:
        """Return the ids that are not special tokens'."""
        return self.vocab_size - NUM_SPECIAL_TOKENS

    @property
    def num_merges(self) -> int:
        """Return the merges of these ranks."""
        return self.ranks - NUM_BYTES
