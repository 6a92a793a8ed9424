"""Where counting ends under `max_chars`: which slices are needed next, and which one is cut.

nanochat's rule: documents are taken in order until their code points (each document capped first)
pass the limit; the one that passes it is whole and the last. Starts nothing, reads nothing.
"""

from collections.abc import Container, Mapping, Sequence

from nanotok_ray.cluster.stages import CountWork
from nanotok_ray.shards.output import Record


def next_round(
    works: Sequence[CountWork],
    known: Mapping[str, Record],
    *,
    passed_over: Container[str],
    limit: int,
) -> list[CountWork]:
    """Give the slices to count next; none once the leading ones pass the limit or are all there.

    A slice is chosen if those before it are not expected to pass the limit. At first a byte is
    taken for a code point, of which there cannot be more, so that no slice is counted in vain;
    in later rounds a byte is worth what it was in those that are known.
    """
    rate = _points_per_byte(works, known)
    expected, chosen = 0.0, []
    is_known = True
    for work in works:
        if expected > limit:
            break
        if work.name in passed_over:
            continue
        record = known.get(work.name)
        if record is None:
            is_known = False
            chosen.append(work)
            expected += work.slice.num_bytes * rate
        else:
            expected += _points(record)
    return [] if is_known else chosen


def cut_of(
    works: Sequence[CountWork],
    known: Mapping[str, Record],
    *,
    passed_over: Container[str],
    limit: int,
) -> tuple[list[CountWork], tuple[CountWork, int] | None]:
    """Give the slices that lie before the cut, and the one it lies in with its code points left.

    No slice is cut where the limit is not passed at all.
    """
    total = 0
    whole: list[CountWork] = []
    for work in works:
        if work.name in passed_over:
            continue
        points = _points(known[work.name])
        if total + points > limit:
            return whole, (work, limit - total)
        total += points
        whole.append(work)
    return whole, None


def _points_per_byte(works: Sequence[CountWork], known: Mapping[str, Record]) -> float:
    there = [work for work in works if work.name in known]
    num_bytes = sum(work.slice.num_bytes for work in there)
    points = sum(_points(known[work.name]) for work in there)
    return min(1.0, points / num_bytes) if num_bytes and points else 1.0


def _points(record: Record) -> int:
    return int(record.values["code_points"])
