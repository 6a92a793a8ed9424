"""The counting stage: which slices are counted for learning, and up to which character."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from nanotok_ray import _core
from nanotok_ray.counts import CountSettings, resolve_pattern
from nanotok_ray.errors import PlanError, VocabularySizeError
from nanotok_ray.formats import (
    CountRecord,
    HashRecord,
    MergeRecord,
    PartRecord,
    SumRecord,
    key_of,
)
from nanotok_ray.job.bad_documents import give_up_after, slice_rules
from nanotok_ray.job.events import Note
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.probes import work_folder
from nanotok_ray.job.stage import Stage, TaskRules, complete
from nanotok_ray.job.task import Task, TaskResult
from nanotok_ray.job.work import (
    CountWork,
    HashWork,
    MergeWork,
    PartWork,
    ReduceWork,
    count_work,
)
from nanotok_ray.recipe import GROUNDING, Recipe, SourceRecipe
from nanotok_ray.shards import Record, Results, StoredRecords
from nanotok_ray.sources import Plan, Slice
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import (
    Base,
    LearnedTokenizer,
    SuperwordRules,
    Tokenizer,
    TrainSettings,
    base_of,
    open_tokenizer,
)

if TYPE_CHECKING:
    from typing_extensions import Self

_Work = TypeVar("_Work", CountWork, HashWork, MergeWork, PartWork, ReduceWork)
R = TypeVar("R", CountRecord, HashRecord, MergeRecord, PartRecord, SumRecord)

LEARN_FORMAT = "nanotok-learn 3"


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """The input of learning: the slices, how they are counted, and the vocabulary settings."""

    recipe: Recipe
    slices: tuple[Slice, ...]
    settings: CountSettings
    """Settings for sources whose texts contain no special tokens."""
    base: Base | None = None
    """The tokenizer that learning continues."""
    first: LearnedTokenizer | None = None
    """The tokenizer of the first stage, if tokens of several words are learned now."""
    min_merge_count: int = 1
    """The count that the last merge of several words must have."""
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
        more: dict[str, Any] = {}
        if self.base is not None:
            more["base"] = self.base.tokenizer.sha256
        if (superwords := recipe.superwords) is not None:
            more["superwords"] = [*superwords[:3], self.superword_pattern]
        return {
            "format": LEARN_FORMAT,
            **more,
            "max_chars": self.recipe.limits.max_chars,
            "vocab_size": self.train_settings.vocab_size,
            "special_tokens": list(recipe.learned_special_tokens),
            "min_pair_count": recipe.min_pair_count,
            "max_token_bytes": recipe.max_token_bytes,
            "min_count": recipe.min_count,
            "weights": {source.name: source.weight for source in counted_sources(self.recipe)},
        }

    @property
    def train_settings(self) -> TrainSettings:
        """The settings of learning, without the weights of sources."""
        recipe, base = self.recipe.tokenizer, self.base
        size = recipe.vocab_size
        if base is not None and recipe.add is not None:
            size = base.num_ids + recipe.add
        return TrainSettings(
            vocab_size=size,
            pattern=self.settings.pattern,
            special_tokens=recipe.learned_special_tokens,
            min_pair_count=recipe.min_pair_count,
            max_token_bytes=recipe.max_token_bytes,
            base=base,
            superwords=self._superwords,
        )

    @property
    def superword_pattern(self) -> str:
        """The pattern of tokens of several words, which the recipe asks for."""
        recipe = self.recipe.tokenizer
        assert recipe.superwords is not None, "the caller has seen it"
        return resolve_pattern(recipe.superwords.pattern_after(recipe.pattern))

    @property
    def num_superword_merges(self) -> int:
        """The number of merges after the first stage."""
        recipe = self.recipe.tokenizer
        assert recipe.superwords is not None, "the caller has seen it"
        return recipe.vocab_size - recipe.superwords.from_size

    @property
    def _superwords(self) -> SuperwordRules | None:
        """The rules of the second stage, if it is learned now."""
        superwords = self.recipe.tokenizer.superwords
        if superwords is None or self.first is None:
            return None
        return SuperwordRules(
            first=self.first,
            pattern=self.superword_pattern,
            max_words=superwords.max_words,
            forbidden=superwords.forbidden.encode(),
            min_merge_count=self.min_merge_count,
        )

    def sizes_not_reached(self, tokenizer: Tokenizer) -> list[int]:
        """Return the vocabulary sizes of the recipe that are above that of a learned tokenizer."""
        recipe = self.recipe.tokenizer
        reached = tokenizer.get_vocab_size() - len(recipe.extend)
        sizes = (self.train_settings.vocab_size, *recipe.also)
        return sorted(size for size in sizes if size > reached)

    def settings_of(self, slice_: Slice) -> CountSettings:
        """Return the settings of a slice, which count its texts as they will be encoded."""
        source = next(
            candidate for candidate in self.recipe.sources if candidate.name == slice_.source
        )
        return replace(self.settings, grounding=GROUNDING) if source.grounding else self.settings

    def work(
        self, slice_: Slice, *, budget: int | None = None, give_up_after: int | None = None
    ) -> CountWork:
        """Return the task that counts a slice, up to `budget` code points if it is given."""
        settings = self.settings_of(slice_)
        if budget is not None:
            settings = replace(settings, budget=budget)
        return CountWork(
            slice=slice_,
            settings=settings,
            work=self.recipe.output.work,
            give_up_after=give_up_after,
        )


def counted_sources(recipe: Recipe) -> list[SourceRecipe]:
    """Return the sources from which the tokenizer is learned, in the order of the recipe."""
    return [source for source in recipe.sources if source.count]


def training_of(recipe: Recipe, plan: Plan) -> Training:
    """Return the training for a plan.

    Raises:
        PlanError: The plan has no slice to count.
        PatternError: The pattern cannot be compiled.
        TokenizerError: The base cannot be opened or continued, or has as many ids as requested.
        RecipeError: The base lacks a special token of a source.
    """
    counted = {source.name for source in counted_sources(recipe)}
    slices = tuple(slice_ for slice_ in plan.slices(split="train") if slice_.source in counted)
    if not slices:
        raise PlanError(
            "no train split to learn a tokenizer from: name a source of kind text (or with "
            "count = true) that has train files, or an existing tokenizer as tokenizer.path"
        )
    base = None if recipe.tokenizer.base is None else base_of(open_tokenizer(recipe.tokenizer.base))
    if base is None:
        pattern = resolve_pattern(recipe.tokenizer.pattern)
        _core.Splitter(pattern)  # raises for a bad pattern before any task does
    else:
        pattern = base.count_pattern
    settings = CountSettings(
        pattern=pattern,
        gaps=recipe.tokenizer.gaps,
        doc_cap=recipe.limits.doc_cap,
        max_document_bytes=recipe.limits.max_document_bytes,
    )
    training = Training(recipe=recipe, slices=slices, settings=settings, base=base)
    if recipe.tokenizer.superwords is not None:
        _core.Splitter(training.superword_pattern)
    _check_sizes(training)
    return training


def first_stage(training: Training) -> Training:
    """Return the training of the words alone, without special tokens."""
    recipe = training.recipe
    superwords = recipe.tokenizer.superwords
    assert superwords is not None, "the caller has seen it"
    size = superwords.from_size - len(recipe.tokenizer.learned_special_tokens)
    changes = {
        "vocab_size": size,
        "special_tokens": (),
        "extra_special_tokens": (),
        "extend": (),
        "also": (),
        "superword": None,
    }
    tokenizer = recipe.tokenizer.model_copy(update=changes)
    return replace(training, recipe=recipe.model_copy(update={"tokenizer": tokenizer}))


def _check_sizes(training: Training) -> None:
    """Check the vocabulary sizes before anything is counted.

    Raises:
        VocabularySizeError: A size is not larger than that of the base.
    """
    base = training.base
    size = training.train_settings.vocab_size  # which is checked
    if base is None:
        return
    for also in training.recipe.tokenizer.also:
        if not base.num_ids < also <= size:
            raise VocabularySizeError(
                f"tokenizer.also has {also}: between {base.num_ids}, the ids of tokenizer.base, "
                f"and {size} are possible"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedSlices:
    """The count files for learning, and the skipped slices."""

    items: tuple[CountWork, ...]
    """In the order of the plan; with max_chars, the slices up to the cut."""
    records: tuple[Record[CountRecord], ...]
    """The record of each slice in `items`."""
    files: tuple[tuple[str, str], ...]
    """The source and the path in the work folder of each file to sum."""
    keys: tuple[str, ...]
    """The key of each file."""
    skipped: tuple[TaskResult, ...] = ()
    """The slices that could not be counted, at most as many as the recipe allows."""

    def by_source(self, name: str) -> dict[str, int]:
        """Return the sum of a field of the records for each source."""
        sums: Counter[str] = Counter()
        for work, record in zip(self.items, self.records, strict=True):
            sums[work.slice.source] += int(getattr(record.value, name))
        return dict(sums)

    def sum(self, name: str) -> int:
        """Return the sum of a field of all records."""
        return sum(self.by_source(name).values())

    @property
    def reasons(self) -> dict[str, int]:
        """The number of documents that could not be used, by reason."""
        total: Counter[str] = Counter()
        for record in self.records:
            total.update(record.value.quarantined)
        return dict(sorted(total.items()))


@dataclass(kw_only=True, slots=True)
class CountProgress:
    """The slices of a training, and the records of those that are counted.

    With max_chars, slices are counted in rounds until they exceed the limit; then the slice that
    exceeds it is counted again, up to the limit, as nanochat does.
    """

    training: Training
    stored: StoredRecords[CountWork, CountRecord]
    """The slices, and the records so far."""
    skipped: list[TaskResult] = field(default_factory=list)
    """The slices that failed, which are not counted again."""

    @classmethod
    def of(cls, training: Training, *, give_up_after: int | None = None) -> "Self":
        """Create the value with the records in the work folder."""
        items = [training.work(slice_, give_up_after=give_up_after) for slice_ in training.slices]
        return cls(training=training, stored=counts_results(items, CountRecord).find())

    def add(self, stored: StoredRecords[CountWork, CountRecord]) -> None:
        """Add the records of slices that were counted."""
        self.stored = replace(self.stored, records={**self.stored.records, **stored.records})

    def stored_of(self, items: Sequence[CountWork]) -> StoredRecords[CountWork, CountRecord]:
        """Return some slices with their records so far."""
        return replace(self.stored, items=items, damaged=())

    @property
    def limit(self) -> float:
        """The maximum number of code points."""
        limit = self.training.recipe.limits.max_chars
        return math.inf if limit is None else limit

    def round(self) -> list[CountWork]:
        """Return the first slices that may reach the limit together, counted or not.

        The first round assumes one code point per byte, which is the maximum, so that no slice is
        counted needlessly. Later rounds use the ratio of the slices that were counted.
        """
        rate, expected, chosen = self._points_per_byte(), 0.0, []
        for work in self._usable_items():
            if expected > self.limit:
                break
            chosen.append(work)
            record = self.stored.records.get(work.record_name)
            expected += work.num_bytes * rate if record is None else record.value.code_points
        return chosen

    def missing(self) -> list[CountWork]:
        """Return the slices to count in the next round; none if the limit is reached."""
        return self.stored_of(self.round()).missing

    def selected(self) -> list[CountWork]:
        """Return the slices up to the limit, the last one cut if it exceeds the limit.

        Call this when no slice is missing.
        """
        total = 0
        selected: list[CountWork] = []
        for work in self._usable_items():
            points = self.stored.records[work.record_name].value.code_points
            if total + points > self.limit:
                return [*selected, self.training.work(work.slice, budget=int(self.limit) - total)]
            total += points
            selected.append(work)
        return selected

    def counted(self, items: Sequence[CountWork]) -> CountedSlices:
        """Return slices and their records; slices without a record are left out."""
        done = self.stored_of(items).done
        return CountedSlices(
            items=tuple(work for work, _ in done),
            records=tuple(record for _, record in done),
            files=tuple((work.slice.source, f"{work.name}.arrow") for work, _ in done),
            keys=tuple(work.key for work, _ in done),
            skipped=tuple(self.skipped),
        )

    def _usable_items(self) -> Iterator[CountWork]:
        skipped = {ended.task.argument.name for ended in self.skipped}
        return (work for work in self.stored.items if work.name not in skipped)

    def _points_per_byte(self) -> float:
        counted = self.stored.done
        num_bytes = sum(work.num_bytes for work, _ in counted)
        points = sum(record.value.code_points for _, record in counted)
        return min(1.0, points / num_bytes) if num_bytes and points else 1.0


def count(training: Training, runtime: Runtime) -> CountedSlices:
    """Count the slices that are not counted yet; requires a session.

    Raises:
        SliceError: More slices failed permanently than the recipe allows to skip.
        QuarantineLimitError: All documents read so far are bad, and too many for the limits.
    """
    after = give_up_after(training.recipe.limits, training.slices)
    progress = CountProgress.of(training, give_up_after=after)
    limits, folder = training.recipe.limits, Folder(training.recipe.output.work)
    for note in progress.stored.notes(folder):
        runtime.on_event(Note(text=note))
    progress.stored.remove_damaged(folder)

    def run(
        items: Sequence[CountWork], stored: StoredRecords[CountWork, CountRecord] | None = None
    ) -> None:
        skipped = len(progress.skipped)
        rules = slice_rules("count", folder, limits, after=after, skipped=skipped)
        stage = counts_stage("count", items, CountRecord, count_work, rules=rules)
        completed = complete(stage, runtime, stored=stored)
        progress.add(completed.stored)
        progress.skipped += completed.skipped

    is_complete = False
    while not is_complete:
        items = progress.round()
        run(items, progress.stored_of(items))
        is_complete = not progress.missing()
    selected = progress.selected()
    if cut := progress.stored_of(selected).missing:
        run(cut)
    return progress.counted(selected)


def counts_results(items: Sequence[_Work], kind: type[R]) -> Results[_Work, R]:
    """Return the results of works, at least one, whose files are in the work folder."""
    below = sorted({f"{work.name.rpartition('/')[0]}/" for work in items})
    return Results(items=items, folder=Folder(items[0].work), kind=kind, below=below)


def counts_stage(
    name: str,
    items: Sequence[_Work],
    kind: type[R],
    work_of: Callable[[_Work], object],
    *,
    rules: TaskRules,
) -> Stage[_Work, R]:
    """Return the stage in which workers call `work_of` with each work, at least one."""

    def task(work: _Work) -> Task:
        return Task(
            name=f"{name} {work.name.partition('/')[2]}",
            work=work_of,
            argument=work,
            num_bytes=work.num_bytes,
            inputs=work.inputs,
            shared=work_folder(work.work),
        )

    return Stage(
        name=name,
        results=counts_results(items, kind),
        tasks_of=lambda todo: [task(work) for work in todo],
        rules=rules,
    )
