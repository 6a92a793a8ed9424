"""How much of a slice was looked at, as its record says it.

Counts, and gives plain values. Does not know how documents are compared.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ProofCount:
    """What was looked at, as the record says it."""

    documents: int = 0
    bytes: int = 0
    """Of these documents, 64 KiB of a longer text."""
    encoded_again: int = 0
    """Documents for which tiktoken gave the same ids."""
    not_encoded_again: Counter[str] = field(default_factory=Counter)
    """Documents for which it could not be asked, by reason."""

    def to_dict(self) -> dict[str, Any]:
        """Give plain values, for a record."""
        return {
            "documents": self.documents,
            "bytes": self.bytes,
            "encoded_again": self.encoded_again,
            "not_encoded_again": dict(sorted(self.not_encoded_again.items())),
        }
