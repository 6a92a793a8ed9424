"""What packing cost: rows, tokens, padding, what was cut and what was lost; what it took.

Plain numbers. Does not know how they came about.
"""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamUse:
    """What was taken of a stream: of one source of a mixture, or of all documents."""

    name: str
    documents: int
    tokens: int
    epochs: float
    """How often all its documents were taken: 0.5 is half of them once, 3.0 all of them thrice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackingReport:
    """Totals of the documents that a loader has packed so far.

    >>> print(PackingReport(rows=2, tokens=6, padding=2, documents=3, cut_documents=1, groups=1))
    2 rows of 6 tokens and 2 padding (75.0% used), 3 documents: 1 cut, 0 dropped, 0 tokens lost
    """

    rows: int = 0
    tokens: int = 0
    """Tokens that stand in rows, each counted once."""
    padding: int = 0
    """Cells of the rows that hold none."""
    cropped_tokens: int = 0
    """Tokens of documents that stand in rows, which themselves stand in none."""
    documents: int = 0
    cut_documents: int = 0
    """Documents that lie in more than one row or stretch, or of which tokens were cropped."""
    dropped_documents: int = 0
    """Documents of which no token stands in a row, though they have some."""
    groups: int = 0
    """Packing groups; of nanochat's packing, row groups."""

    @property
    def utilisation(self) -> float:
        """The share of the cells that hold a token, 1 if there are no cells."""
        return self.tokens / cells if (cells := self.tokens + self.padding) else 1.0

    def __add__(self, other: "PackingReport") -> "PackingReport":
        """Give the totals of both."""
        mine, others = asdict(self), asdict(other)
        return PackingReport(**{name: mine[name] + others[name] for name in mine})

    def to_dict(self) -> dict[str, Any]:
        """Give all numbers by name, and `utilisation`."""
        return {**asdict(self), "utilisation": self.utilisation}

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows of {self.tokens:,} tokens and {self.padding:,} padding "
            f"({self.utilisation:.1%} used), {self.documents:,} documents: "
            f"{self.cut_documents:,} cut, {self.dropped_documents:,} dropped, "
            f"{self.cropped_tokens:,} tokens lost"
        )
