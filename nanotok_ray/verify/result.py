"""What a verification found: numbers, problems, and what could not be checked."""

from dataclasses import dataclass, field

SHOWN_PROBLEMS = 20


@dataclass(slots=True)
class Verification:
    """What was checked, and every problem found, in the order of the plan."""

    slices: int = 0
    shards: int = 0
    documents: int = 0
    tokens: int = 0
    sampled: int = 0
    """Documents decoded and compared with their source."""
    source_bytes: int = 0
    """Bytes of the documents that were read again from the sources."""
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    """Slices that could not be checked, and why: nothing is known of them."""

    @property
    def passed(self) -> bool:
        """Whether all was checked and no problem was found."""
        return not self.problems and not self.unchecked

    def told(self, folder: str) -> str:
        """Give the problems as lines, with what to do about them."""
        lines = []
        if self.problems:
            lines += [f"{folder}: {len(self.problems)} problems", *_shown(self.problems)]
            lines.append(
                "delete the files named above and run the job again: it makes only those anew"
            )
        if self.unchecked:
            number = f"{len(self.unchecked)} of {self.slices} slices"
            lines += [f"{folder}: {number} could not be checked", *_shown(self.unchecked)]
            lines.append("nothing is known of these: verify again")
        return "\n".join(lines)


def _shown(told: list[str]) -> list[str]:
    shown = [f"  {each}" for each in told[:SHOWN_PROBLEMS]]
    if len(told) > SHOWN_PROBLEMS:
        shown.append(f"  and {len(told) - SHOWN_PROBLEMS} more")
    return shown
