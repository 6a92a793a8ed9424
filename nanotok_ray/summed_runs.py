"""Sorted runs that come one after the other, kept as few, and as one when asked.

Takes runs; each row is merged a few times only, and held about once. Does not know where runs come
from.
"""

from typing import TYPE_CHECKING

from nanotok_ray import _core

if TYPE_CHECKING:
    from nanotok_ray.count_file import Run


class SummedRuns:
    """The sum of runs.

    >>> from nanotok_ray.count_columns import checked_run, columns_of
    >>> run, _ = checked_run(*columns_of([("a", 1), ("b", 2)]), name="here", first_row=0)
    >>> sums = SummedRuns()
    >>> sums.add(run), sums.add(run), sorted(sums.run()[3].tolist())
    (None, None, [2, 4])
    """

    def __init__(self) -> None:
        self._runs: list[Run] = []
        """Each has more than twice the rows of the next."""

    def __len__(self) -> int:
        """Give how many runs are kept; 0 if none was ever added."""
        return len(self._runs)

    def add(self, run: "Run") -> None:
        """Add a run; nothing is changed by one that cannot be added.

        Raises:
            CountOverflowError: a sum would pass 2**64 - 1.
        """
        runs = [*self._runs, run]
        while len(runs) > 1 and len(runs[-2][3]) <= 2 * len(runs[-1][3]):
            last = runs.pop()
            runs[-1] = _core.merge_runs([runs[-1], last])
        self._runs = runs

    def run(self, *more: "Run") -> "Run":
        """Make one run of all, and of more that are added with them, and give it.

        Raises:
            CountOverflowError: a sum would pass 2**64 - 1; nothing is added then.
        """
        if more or len(self._runs) != 1:
            self._runs = [_core.merge_runs([*self._runs, *more])]
        return self._runs[0]
