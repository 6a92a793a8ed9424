"""First fan-out: a count file for every slice that is counted, those from before kept.

With `max_chars`, slices are counted in rounds until their code points pass it. Does not know what
is learned from the counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nanotok_ray.cluster.engine import Ended, Task
from nanotok_ray.cluster.events import OnEvent
from nanotok_ray.cluster.fan_out import fan_out
from nanotok_ray.cluster.giving_up import GivingUp, give_up_after
from nanotok_ray.cluster.max_chars import cut_of, next_round
from nanotok_ray.cluster.probes import work_folder
from nanotok_ray.cluster.stages import CountWork, count_work
from nanotok_ray.cluster.training import Training
from nanotok_ray.errors import SourceError
from nanotok_ray.shards.output import Record, finished_records
from nanotok_ray.storage import Folder


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedSlices:
    """The count files that are learned from, and the slices that were left out."""

    works: tuple[CountWork, ...]
    """In the order of the plan; with max_chars those up to the cut."""
    records: tuple[Record, ...]
    """Of each work."""
    files: tuple[tuple[str, str], ...]
    """Source and path in the work folder of every file that is to be summed."""
    skipped: tuple[Ended, ...] = ()
    """Slices that could not be counted, no more than the recipe lets be."""

    def by_source(self, name: str) -> dict[str, int]:
        """Sum a number of the records for each source."""
        sums: dict[str, int] = {}
        for work, record in zip(self.works, self.records, strict=True):
            source = work.slice.source
            sums[source] = sums.get(source, 0) + int(record.values[name])
        return sums

    def sum(self, name: str) -> int:
        """Sum a number of all records."""
        return sum(self.by_source(name).values())

    @property
    def reasons(self) -> dict[str, int]:
        """How many documents could not be used, by reason."""
        total: dict[str, int] = {}
        for record in self.records:
            for reason, number in record.values["quarantined"].items():
                total[reason] = total.get(reason, 0) + number
        return dict(sorted(total.items()))


def count(training: Training, *, on_event: OnEvent) -> CountedSlices:
    """Count what is not counted yet. Needs a Ray session.

    Raises:
        SliceError: more slices failed for good than the recipe lets be skipped.
        QuarantineLimitError: so many documents were read, all bad, that the limits cannot be kept.
    """
    after = give_up_after(training.recipe.limits, training.slices)
    works = [replace(training.work(each), give_up_after=after) for each in training.slices]
    limit = training.recipe.limits.max_chars
    if limit is not None:
        return _count_up_to(training, works, limit, on_event)
    skipped = _run(training, works, finished_counts(works), on_event)
    return _counted(works, skipped)


def finished_counts(works: Sequence[CountWork]) -> dict[str, Record]:
    """Give the records of the slices that are counted, by the name of the work."""
    if not works:
        return {}
    wanted = [(f"{work.name}.json", work.settings.key(work.slice)) for work in works]
    prefixes = sorted({work.name.rpartition("/")[0] + "/" for work in works})
    found = finished_records(Folder(works[0].work), wanted, below=prefixes)
    return {
        work.name: record for work, record in zip(works, found, strict=True) if record is not None
    }


def _count_up_to(
    training: Training, works: Sequence[CountWork], limit: int, on_event: OnEvent
) -> CountedSlices:
    """Count up to the document that passes the limit: as in nanochat, it is whole and the last."""
    known = finished_counts(works)
    skipped: dict[str, Ended] = {}
    while chosen := next_round(works, known, passed_over=skipped, limit=limit):
        ended = _run(training, chosen, known, on_event, skipped=len(skipped))
        skipped |= {each.task.argument.name: each for each in ended}
        known |= finished_counts([work for work in chosen if work.name not in known])
    whole, cut = cut_of(works, known, passed_over=skipped, limit=limit)
    if cut is not None:
        work, budget = cut
        last = [training.work(work.slice, budget=budget)]
        ended = _run(training, last, finished_counts(last), on_event, skipped=len(skipped))
        skipped |= {each.task.argument.name: each for each in ended}
        whole += last
    return _counted(whole, list(skipped.values()))


def _run(
    training: Training,
    works: Sequence[CountWork],
    known: Mapping[str, Record],
    on_event: OnEvent,
    *,
    skipped: int = 0,
) -> list[Ended]:
    """Count what is not known; `skipped` slices have been left out before."""
    todo = [work for work in works if work.name not in known]
    after = works[0].give_up_after if works else None
    shared = work_folder(training.recipe.output.work)
    tasks = [
        Task(
            name=f"count {work.name.removeprefix('counts/')}",
            work=count_work,
            argument=work,
            num_bytes=work.slice.num_bytes,
            inputs=tuple(file.url for file in work.slice.files),
            shared=shared,
        )
        for work in todo
    ]
    return fan_out(
        "count",
        tasks,
        kept=len(works) - len(todo),
        on_event=on_event,
        on_result=GivingUp(
            "count", Folder(training.recipe.output.work), training.recipe.limits, after
        ),
        max_skipped=training.recipe.limits.max_skipped_slices - skipped,
        deadline=training.recipe.limits.slice_deadline,
    )


def counted_of(
    works: Sequence[CountWork], records: Mapping[str, Record], skipped: Sequence[Ended] = ()
) -> CountedSlices:
    """Put together what was counted: works, and the records of all of them by name."""
    return CountedSlices(
        works=tuple(works),
        records=tuple(records[work.name] for work in works),
        files=tuple((work.slice.source, f"{work.name}.arrow") for work in works),
        skipped=tuple(skipped),
    )


def _counted(works: Sequence[CountWork], skipped: Sequence[Ended]) -> CountedSlices:
    """Read the records back, from storage alone."""
    left_out = {ended.task.argument.name for ended in skipped}
    chosen = [work for work in works if work.name not in left_out]
    records = finished_counts(chosen)
    for work in chosen:
        if work.name not in records:
            raise SourceError(
                f"the count file {work.name} was made and is gone; who else writes to {work.work}?"
            )
    return counted_of(chosen, records, skipped)
