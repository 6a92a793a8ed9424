"""What a comparison of documents with their sources gave."""

from dataclasses import dataclass, field

MOST_PROBLEMS = 5
"""Documents named of a slice; a changed source makes all of them differ."""


@dataclass(slots=True)
class Compared:
    """Grows as documents are compared."""

    documents: int = 0
    source_bytes: int = 0
    problems: list[str] = field(default_factory=list)
    more: int = 0
    """Problems beyond the first few."""

    def add(self, problem: str) -> None:
        """Note a problem, or that there was one more."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more += 1

    def end(self, source: str) -> None:
        """Say how many problems there were beyond those noted."""
        if self.more:
            self.problems.append(f"{source}: and {self.more:,} more of this slice")
