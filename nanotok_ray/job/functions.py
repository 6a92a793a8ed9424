"""What the functions of sources make of the first documents, before a job starts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nanotok_ray.sources import Plan, SliceReading, tried

_MAX_EXAMPLES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionExample:
    """A row before and after a function."""

    before: str
    after: tuple[str, ...]
    """The documents that it became; none if it was dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionSample:
    """What the function of a source makes of the first rows."""

    source: str
    function: str
    rows: int
    documents: int
    dropped: Mapping[str, int]
    """Rows that are dropped, by reason."""
    errors: Mapping[str, int]
    """Rows for which it raised an error, by the last line of the traceback."""
    examples: tuple[FunctionExample, ...]
    """The first rows that it changes or drops."""


def sample_functions(plan: Plan) -> Iterator[FunctionSample]:
    """Yield a sample of each source of a plan that has a function and documents.

    Raises:
        SourceError, TransientIOError: The documents cannot be read, or the function is not as it
            must be.
    """
    seen: set[str] = set()
    for slice_ in plan.slices():
        if slice_.transform is None or slice_.source in seen:
            continue
        trial = tried(SliceReading(slice_))
        if trial is None:
            continue
        seen.add(slice_.source)
        rows = [(before, trial.after(row)) for row, before in enumerate(trial.before)]
        changed = [
            FunctionExample(before=before, after=after)
            for row, (before, after) in enumerate(rows)
            if after != (before,) and row not in trial.errors
        ]
        errors = [*trial.errors.values()]
        yield FunctionSample(
            source=slice_.source,
            function=slice_.transform.name,
            rows=len(trial.before),
            documents=len(trial.documents),
            dropped=trial.dropped,
            errors={line: errors.count(line) for line in dict.fromkeys(errors)},
            examples=tuple(changed[:_MAX_EXAMPLES]),
        )
