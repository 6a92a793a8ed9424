"""The text of a document as its shard must decode, by the reference of its dialect."""

from nanotok_ray.chat import segments_of
from nanotok_ray.dialects import Dialect


def expected_text(document: bytes, dialect: Dialect) -> str:
    """Return the decoded ids of a document: its texts, and special tokens by name."""
    return "".join(segment.text * segment.count for segment in segments_of(document, dialect))


def expected_trained_text(document: bytes, dialect: Dialect) -> str:
    """Return the decoded ids with mask 1."""
    segments = segments_of(document, dialect)
    return "".join(segment.text * segment.count for segment in segments if segment.mask)
