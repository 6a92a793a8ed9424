"""The settings of all tables of `learn.py`: inputs, sizes and peers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NUM_BYTES = 256
NUM_SPECIAL_TOKENS = 9


def threads_of(number: int) -> str:
    """Return the number of threads in words."""
    return f"{number} thread{'s' * (number > 1)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The parsed command line."""

    folder: Path
    """The folder of a subfolder for each corpus, and for temporary ones."""
    corpora: Sequence[str]
    peer_python: str | None
    """An interpreter with ffbpe, or None."""
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
        """Return the number of ids that are not special tokens."""
        return self.vocab_size - NUM_SPECIAL_TOKENS

    @property
    def num_merges(self) -> int:
        """Return the number of merges for these ranks."""
        return self.ranks - NUM_BYTES
