"""The counting stage: which slices are counted for learning, and up to which character."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nanotok_ray import _core
from nanotok_ray.counts import CountSettings, resolve_pattern
from nanotok_ray.errors import PlanError
from nanotok_ray.formats import CountRecord, key_of
from nanotok_ray.job.bad_documents import GivingUp, give_up_after
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.probes import work_folder
from nanotok_ray.job.stage import Stage, TaskRules, complete
from nanotok_ray.job.task import Task, TaskResult
from nanotok_ray.job.work import CountWork, count_work
from nanotok_ray.recipe import GROUNDING, Recipe, SourceRecipe
from nanotok_ray.shards import Record, Results
from nanotok_ray.sources import Plan, Slice
from nanotok_ray.storage import Folder

LEARN_FORMAT = "nanotok-learn 3"


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """The input of learning: the slices, how they are counted, and the vocabulary settings."""

    recipe: Recipe
    slices: tuple[Slice, ...]
    settings: CountSettings
    """Settings for sources whose texts contain no special tokens."""
    reused_key: str | None = None
    """The key of an existing tokenizer that was learned by the same rules from other inputs and is
    kept; None if the tokenizer is learned from these inputs."""

    @property
    def key(self) -> str:
        """Hash of everything that the merges depend on, which excludes added special tokens."""
        return self._current_key if self.reused_key is None else self.reused_key

    @property
    def is_of_other_inputs(self) -> bool:
        """Whether the kept tokenizer was learned before inputs were added, changed or removed."""
        return self.key != self._current_key

    @property
    def rules_key(self) -> str:
        """Hash of everything that the merges depend on except the inputs."""
        read = {
            (slice_.source, slice_.kind, slice_.column, slice_.share): self.settings_of(
                slice_
            ).to_dict()
            for slice_ in self.slices
        }
        return key_of(
            {**self._rules, "read": [[*how, settings] for how, settings in sorted(read.items())]}
        )

    @property
    def _current_key(self) -> str:
        counts = [self.settings_of(slice_).key(slice_) for slice_ in self.slices]
        return key_of({**self._rules, "counts": counts})

    @property
    def _rules(self) -> dict[str, Any]:
        recipe = self.recipe.tokenizer
        return {
            "format": LEARN_FORMAT,
            "max_chars": self.recipe.limits.max_chars,
            "vocab_size": recipe.vocab_size,
            "special_tokens": list(recipe.learned_special_tokens),
            "min_pair_count": recipe.min_pair_count,
            "max_token_bytes": recipe.max_token_bytes,
            "min_count": recipe.min_count,
            "weights": {source.name: source.weight for source in counted_sources(self.recipe)},
        }

    def settings_of(self, slice_: Slice) -> CountSettings:
        """Return the settings of a slice, which count its texts as they will be encoded."""
        source = next(
            candidate for candidate in self.recipe.sources if candidate.name == slice_.source
        )
        return replace(self.settings, grounding=GROUNDING) if source.grounding else self.settings

    def work(self, slice_: Slice, *, budget: int | None = None) -> CountWork:
        """Return the task that counts a slice, up to `budget` code points if it is given."""
        settings = self.settings_of(slice_)
        if budget is not None:
            settings = replace(settings, budget=budget)
        return CountWork(slice=slice_, settings=settings, work=self.recipe.output.work)


def counted_sources(recipe: Recipe) -> list[SourceRecipe]:
    """Return the sources from which the tokenizer is learned, in the order of the recipe."""
    return [source for source in recipe.sources if source.count]


def training_of(recipe: Recipe, plan: Plan) -> Training:
    """Return the training for a plan.

    Raises:
        PlanError: The plan has no slice to count.
        PatternError: The pattern cannot be compiled.
    """
    counted = {source.name for source in counted_sources(recipe)}
    slices = tuple(slice_ for slice_ in plan.slices(split="train") if slice_.source in counted)
    if not slices:
        raise PlanError(
            "no train split to learn a tokenizer from: name a source of kind text (or with "
            "count = true) that has train files, or an existing tokenizer as tokenizer.path"
        )
    pattern = resolve_pattern(recipe.tokenizer.pattern)
    _core.Splitter(pattern)  # raises for a bad pattern before any task does
    settings = CountSettings(
        pattern=pattern,
        gaps=recipe.tokenizer.gaps,
        doc_cap=recipe.limits.doc_cap,
        max_document_bytes=recipe.limits.max_document_bytes,
    )
    return Training(recipe=recipe, slices=slices, settings=settings)


def next_round(
    items: Sequence[CountWork],
    known: Mapping[str, Record[CountRecord]],
    *,
    passed_over: Container[str],
    limit: int,
) -> list[CountWork]:
    """Return the slices to count next, none if the counted ones reach the limit or are all.

    A slice is chosen if the slices before it are not expected to reach the limit. The first round
    assumes one code point per byte, which is the maximum, so that no slice is counted needlessly.
    Later rounds use the ratio of the slices that were counted.
    """
    rate = _points_per_byte(items, known)
    expected, chosen = 0.0, []
    is_known = True
    for work in items:
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
    items: Sequence[CountWork],
    known: Mapping[str, Record[CountRecord]],
    *,
    passed_over: Container[str],
    limit: int,
) -> tuple[list[CountWork], tuple[CountWork, int] | None]:
    """Return the slices before the cut, and the slice to cut with its number of code points.

    The second value is None if the slices together do not exceed the limit.
    """
    total = 0
    selected: list[CountWork] = []
    for work in items:
        if work.name in passed_over:
            continue
        points = _points(known[work.name])
        if total + points > limit:
            return selected, (work, limit - total)
        total += points
        selected.append(work)
    return selected, None


def _points_per_byte(items: Sequence[CountWork], known: Mapping[str, Record[CountRecord]]) -> float:
    there = [work for work in items if work.name in known]
    num_bytes = sum(work.slice.num_bytes for work in there)
    points = sum(_points(known[work.name]) for work in there)
    return min(1.0, points / num_bytes) if num_bytes and points else 1.0


def _points(record: Record[CountRecord]) -> int:
    return record.value.code_points


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedSlices:
    """The count files for learning, and the skipped slices."""

    items: tuple[CountWork, ...]
    """In the order of the plan; with max_chars, the slices up to the cut."""
    records: tuple[Record[CountRecord], ...]
    """The record of each slice in `works`."""
    files: tuple[tuple[str, str], ...]
    """The source and the path in the work folder of each file to sum."""
    keys: tuple[str, ...]
    """The key of each file."""
    skipped: tuple[TaskResult, ...] = ()
    """The slices that could not be counted, at most as many as the recipe allows."""

    def by_source(self, name: str) -> dict[str, int]:
        """Return the sum of a field of the records for each source."""
        sums: dict[str, int] = {}
        for work, record in zip(self.items, self.records, strict=True):
            source = work.slice.source
            sums[source] = sums.get(source, 0) + int(getattr(record.value, name))
        return sums

    def sum(self, name: str) -> int:
        """Return the sum of a field of all records."""
        return sum(self.by_source(name).values())

    @property
    def reasons(self) -> dict[str, int]:
        """The number of documents that could not be used, by reason."""
        total: dict[str, int] = {}
        for record in self.records:
            for reason, number in record.value.quarantined.items():
                total[reason] = total.get(reason, 0) + number
        return dict(sorted(total.items()))


def _stage(
    training: Training, items: Sequence[CountWork], *, skipped: int = 0
) -> Stage[CountWork, CountRecord]:
    """Return the stage that counts slices, of which `skipped` failed in an earlier round."""
    limits, folder = training.recipe.limits, Folder(training.recipe.output.work)
    after = items[0].give_up_after if items else None
    return Stage(
        name="count",
        results=count_results(items, folder),
        tasks_of=lambda todo: [_task(work) for work in todo],
        rules=TaskRules(
            on_result=GivingUp("count", folder, limits, after),
            max_skipped=limits.max_skipped_slices - skipped,
            deadline=limits.slice_deadline,
        ),
    )


def count_results(items: Sequence[CountWork], folder: Folder) -> Results[CountWork, CountRecord]:
    """Return the results of counting slices in a work folder."""
    below = sorted({f"{work.name.rpartition('/')[0]}/" for work in items})
    return Results(items=items, folder=folder, kind=CountRecord, below=below)


def _task(work: CountWork) -> Task:
    return Task(
        name=f"count {work.name.removeprefix('counts/')}",
        work=count_work,
        argument=work,
        num_bytes=work.slice.num_bytes,
        inputs=tuple(file.url for file in work.slice.files),
        shared=work_folder(work.work),
    )


def count(training: Training, runtime: Runtime) -> CountedSlices:
    """Count the slices that are not counted yet; requires a session.

    Raises:
        SliceError: More slices failed permanently than the recipe allows to skip.
        QuarantineLimitError: All documents read so far are bad, and too many for the limits.
    """
    after = give_up_after(training.recipe.limits, training.slices)
    items = [replace(training.work(slice_), give_up_after=after) for slice_ in training.slices]
    limit = training.recipe.limits.max_chars
    if limit is not None:
        return _count_up_to(training, items, limit, runtime)
    completed = complete(_stage(training, items), runtime)
    return counted_of(items, _by_name(items, completed.records), completed.skipped)


def finished_counts(items: Sequence[CountWork]) -> dict[str, Record[CountRecord]]:
    """Return the records of the counted slices, by the name of the work."""
    if not items:
        return {}
    return _by_name(items, count_results(items, Folder(items[0].work)).find().records)


def _by_name(
    items: Sequence[CountWork], records: Sequence[Record[CountRecord] | None]
) -> dict[str, Record[CountRecord]]:
    pairs = zip(items, records, strict=True)
    return {work.name: record for work, record in pairs if record is not None}


def _count_up_to(
    training: Training, items: Sequence[CountWork], limit: int, runtime: Runtime
) -> CountedSlices:
    """Count up to and including the document that exceeds the limit, as nanochat does."""
    known: dict[str, Record[CountRecord]] = {}
    skipped: list[TaskResult] = []
    left_out: set[str] = set()

    def run(chosen: Sequence[CountWork]) -> None:
        stage = _stage(training, chosen, skipped=len(skipped))
        completed = complete(stage, runtime)
        known.update(_by_name(chosen, completed.records))
        skipped.extend(completed.skipped)
        left_out.update(ended.task.argument.name for ended in completed.skipped)

    known |= finished_counts(items)
    while chosen := next_round(items, known, passed_over=left_out, limit=limit):
        run(chosen)
    selected, cut = cut_of(items, known, passed_over=left_out, limit=limit)
    if cut is not None:
        work, budget = cut
        selected.append(training.work(work.slice, budget=budget))
        run(selected[-1:])
    return counted_of(selected, known, skipped)


def counted_of(
    items: Sequence[CountWork],
    records: Mapping[str, Record[CountRecord]],
    skipped: Sequence[TaskResult] = (),
) -> CountedSlices:
    """Combine slices and their records, which are given by name; others are left out."""
    items = [work for work in items if work.name in records]
    return CountedSlices(
        items=tuple(items),
        records=tuple(records[work.name] for work in items),
        files=tuple((work.slice.source, f"{work.name}.arrow") for work in items),
        keys=tuple(records[work.name].value.key for work in items),
        skipped=tuple(skipped),
    )
