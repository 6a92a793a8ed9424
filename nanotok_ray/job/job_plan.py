"""The plan of a command as data, which a job executes and a dry run prints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nanotok_ray.errors import IncompleteOutputError, RecipeError, TokenizerError
from nanotok_ray.formats import (
    MANIFEST_NAME,
    SHARDS_INDEX_NAME,
    TOKENIZER_FOLDER,
    ShardRecord,
    ShardSettings,
    StageTime,
    joined_values,
)
from nanotok_ray.job.changes import check_losses, plan_changes, setting_changes
from nanotok_ray.job.conversations import ConversationSample, sample_conversations
from nanotok_ray.job.counting import CountProgress, Training, training_of
from nanotok_ray.job.events import Activity, OnEvent, PlannedStage, ignore
from nanotok_ray.job.exporting import ExportPlan, exportings, layouts_of
from nanotok_ray.job.forecast import MIN_SECONDS
from nanotok_ray.job.frozen_plan import frozen_bytes, plan_for, published_settings
from nanotok_ray.job.functions import FunctionSample
from nanotok_ray.job.learned import LearnedOutput, existing_tokenizer
from nanotok_ray.job.plan_text import (
    Estimate,
    FrozenPlan,
    PlanSummary,
    StagePlan,
    TokenizerPlan,
    change_lines,
    plan_text,
)
from nanotok_ray.job.reducing import MERGE_ABOVE
from nanotok_ray.job.stage import REUSE_STAGE
from nanotok_ray.job.summary import engine_summary
from nanotok_ray.job.tokenize import (
    TokenizePlan,
    around_text,
    check_special_tokens,
    tokenizing_of,
)
from nanotok_ray.recipe import Recipe
from nanotok_ray.recipe.superwords import learner_bytes
from nanotok_ray.shards import Output, Record
from nanotok_ray.sources import Plan, Slice, overview, plan_from_json, plan_to_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, differing_files
from nanotok_ray.units import format_bytes, quantity

STALE_TOKENIZER = (
    "the tokenizer is kept, although inputs were added, changed or removed since it was learned; "
    "--relearn learns it again from the current inputs, and then every shard is written again"
)

OTHER_SETTINGS = (
    "the tokenizer of the output was learned with other settings than those of the recipe, such as "
    "tokenizer.vocab_size; it is learned again, and then every shard is written again"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPlan:
    """What a job learns, from which counts, and which parts exist already."""

    learned: LearnedOutput
    """The training, and the tokenizer of the output that is kept."""
    progress: CountProgress
    """The slices to count for it, and the records of those that are counted."""

    @property
    def training(self) -> Training:
        """The input of learning."""
        return self.learned.training

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The existing tokenizer that is kept; None if it must be learned."""
        return self.learned.tokenizer

    @property
    def count(self) -> list[Slice]:
        """The slices to count; with max_chars, those of the first round."""
        if self.tokenizer is not None:
            return []
        return [work.slice for work in self.progress.missing()]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPlan:
    """What `prepare`, `train` or `tokenize` does with an output, and why.

    The keys of shards depend on the tokenizer. If a tokenizer must be learned, the job therefore
    plans tokenizing after training, with `tokenizing_with`.
    """

    command: str
    recipe: Recipe
    out: Folder
    plan: Plan
    """The splits and slices."""
    frozen: bytes | None
    """The existing plan.json; None if there is none."""
    published: Mapping[str, ShardSettings]
    """The settings of each source in the existing manifest; empty without a manifest."""
    training: TrainingPlan | None
    """None if the command learns no tokenizer."""
    tokenizer: Tokenizer | None
    """The existing tokenizer that is used; None if it must be learned."""
    tokenizing: TokenizePlan | None
    """The slices to tokenize; None if this is unknown before training, or not requested."""
    output: Output | None
    """The published output of exactly this plan; None if it must be published."""
    exports: tuple[ExportPlan, ...] = ()
    """The exports of that output, finished or unfinished."""
    adopts: bool = False
    """Whether a tokenizer that was not learned here is written into the output."""
    functions: tuple[FunctionSample, ...] = ()
    """The first documents of each source with a function."""
    conversations: tuple[ConversationSample, ...] = ()
    """The first conversations of each source with a chat template that has slices to tokenize."""
    estimate: Estimate | None = None
    """Estimates of time and disk space; None if not estimated."""
    freezing: FrozenPlan | None = None
    """The result of writing plan.json; None if it was not written."""
    notes: tuple[str, ...] = ()
    """Notes for the user, shown before the job starts."""

    @property
    def is_done(self) -> bool:
        """Whether the output is complete, so that nothing must be done."""
        if self.tokenizer is None or self.adopts or self.plan.is_pending:
            return False
        training = self.training
        if training is not None and (training.learned.rewrites or training.learned.lacks_smaller):
            return False
        if self.command == "train":
            return True
        return self.output is not None and all(exporting.is_done for exporting in self.exports)

    @property
    def has_tasks(self) -> bool:
        """Whether workers will have tasks, as far as this is known."""
        return (
            self.tokenizer is None
            or self.plan.is_pending
            or (self.tokenizing is not None and bool(self.tokenizing.todo))
            or bool(self.reused)
            or any(exporting.has_tasks for exporting in self.exports)
        )

    @property
    def reused(self) -> list[Record[ShardRecord]]:
        """The records of slices that an unfinished run has tokenized, whose files are checked."""
        if self.tokenizing is None or self.published:
            return []
        return self.tokenizing.records

    def tokenizing_with(self, tokenizer: Tokenizer) -> TokenizePlan:
        """Return the slices to tokenize with the tokenizer that was learned."""
        return tokenizing_of(self.recipe, self.plan, tokenizer, self.out)

    @property
    def before(self) -> Plan | None:
        """The plan that was frozen before; None if there is none."""
        return None if self.frozen is None else plan_from_json(self.frozen)

    @property
    def todo(self) -> dict[str, list[Slice]]:
        """The unfinished slices of the stages count and tokenize that the command runs."""
        stages: dict[str, list[Slice]] = {}
        if self.training is not None:
            stages["count"] = self.training.count
        if self.command != "train":
            stages["tokenize"] = (
                list(self.plan.slices())
                if self.tokenizing is None
                else [expected.slice for expected in self.tokenizing.todo]
            )
        return stages

    @property
    def values(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return joined_values(_summary(self))

    def change_notes(self) -> list[str]:
        """Return a line for each difference from the frozen plan."""
        changes = plan_changes(self.before, self.plan)
        return [] if changes is None else [" ".join(line.split()) for line in change_lines(changes)]

    def text(self) -> str:
        """Return the plan as lines of text."""
        return plan_text(_summary(self))


def stage_plans(plan: JobPlan) -> dict[str, StagePlan]:
    """Return what each stage of a command does, as far as its results are numbered."""
    todo, training = plan.todo, plan.training
    stages: dict[str, StagePlan] = {}
    if training is not None:
        is_there = training.tokenizer is not None
        done = len(training.progress.stored.records)
        stages["count"] = _stage_of_slices(todo["count"], done=done)
        stages["learn"] = StagePlan(todo=int(not is_there), done=int(is_there))
        if also := plan.recipe.tokenizer.also:
            missing = len(training.learned.missing_sizes)
            stages["also"] = StagePlan(todo=missing, done=len(also) - missing)
    if plan.command != "train":
        done = sum(1 for _ in plan.plan.slices()) - len(todo["tokenize"])
        stages["tokenize"] = _stage_of_slices(todo["tokenize"], done=done)
    return stages


def decide(
    recipe: Recipe,
    command: str = "prepare",
    *,
    resplit: bool = False,
    relearn: bool = False,
    on_event: OnEvent = ignore,
) -> JobPlan:
    """Decide what a command does with the output of a recipe, without writing anything.

    Args:
        recipe: The recipe.
        command: prepare, train or tokenize.
        resplit: Assign train and val again instead of keeping the splits of an earlier plan.
        relearn: Learn the tokenizer from the current inputs, even if it was learned before.
        on_event: Called as files are opened.

    Raises:
        NanotokError: The error that the job itself would raise before it starts.
    """
    _check_command(recipe, command)
    out = Folder(recipe.output.path)
    frozen = frozen_bytes(out)
    plan = plan_for(recipe, out, resplit=resplit, on_event=on_event)
    on_event(Activity(text="comparing with the results that are there"))
    check_losses(recipe.output, out, None if frozen is None else plan_from_json(frozen), plan)
    training = None
    if command == "train" or (command == "prepare" and recipe.tokenizer.path is None):
        relearn = relearn or command == "train"
        wanted = training_of(recipe, plan)
        if command == "prepare":
            check_special_tokens(recipe, wanted)
        learned = LearnedOutput.find(wanted, out, relearn=relearn)
        training = TrainingPlan(learned=learned, progress=CountProgress.of(learned.training))
    tokenizer = _tokenizer(recipe, out) if training is None else training.tokenizer
    tokenizing, output = None, None
    adopts = training is None and _is_other(tokenizer, out)
    if command != "train" and tokenizer is not None:
        tokenizing = tokenizing_of(recipe, plan, tokenizer, out)
        if not adopts and (
            training is None or not training.learned.rewrites
        ):  # else it is written anew
            output = _published(tokenizing, out, frozen)
    announced = JobPlan(
        command=command,
        recipe=recipe,
        out=out,
        plan=plan,
        frozen=frozen,
        published=published_settings(out),
        training=training,
        tokenizer=tokenizer,
        tokenizing=tokenizing,
        conversations=_conversations(tokenizing, recipe),
        output=output,
        adopts=adopts,
        exports=() if output is None else tuple(exportings(recipe, out)),
    )
    return replace(announced, notes=tuple(_notes(announced)))


def _check_command(recipe: Recipe, command: str) -> None:
    """Refuse what a command cannot do with a recipe, before anything is read."""
    if command == "prepare":
        check_special_tokens(recipe, None)
        layouts_of(recipe)
    if command == "train" and recipe.tokenizer.path is not None:
        raise RecipeError(
            f"tokenizer.path = {recipe.tokenizer.path!r} names an existing tokenizer, so there is "
            "nothing to learn; use `nanotok prepare` or `nanotok tokenize`, or remove the key"
        )


def _conversations(
    tokenizing: TokenizePlan | None, recipe: Recipe
) -> tuple[ConversationSample, ...]:
    """Return the first conversations of sources with a template, if the tokenizer is known."""
    if tokenizing is None:
        return ()
    return tuple(sample_conversations(tokenizing, recipe.limits, templates=True))


def reads_of(slices: Iterable[Slice]) -> list[Slice]:
    """Return one slice for each read of pieces, as both splits of a share are read together."""
    return list({slice_.reads: slice_ for slice_ in slices}.values())


def planned_stages(plan: JobPlan, last: Mapping[str, StageTime]) -> Iterator[PlannedStage]:
    """Yield the stages that a job will have.

    Args:
        plan: The plan of the job.
        last: Seconds and bytes of each stage in the last run of this output.
    """
    stages = stage_plans(plan)
    if plan.plan.is_pending:
        yield _planned("hash", last, size=plan.plan.num_bytes)
        yield _planned("duplicates", last)
    if plan.training is not None and plan.tokenizer is None:
        yield from _learning_stages(plan.training, stages["count"], last)
    if plan.command != "train" and plan.output is None:
        if plan.reused:
            yield _planned(REUSE_STAGE, last)
        size = stages["tokenize"].bytes or 0
        yield _planned("tokenize", last if size else {}, size=size, seconds=None if size else 0.0)
        # Here it compares records; their files were checked as they were written.
        yield _planned("verify", last, seconds=0.0)
        late = [layout for layout in layouts_of(plan.recipe) if size and not layout.is_by_slice]
    else:
        late = [exporting.layout for exporting in plan.exports if exporting.has_tasks]
    for layout in late:
        names = ("export",) if layout.order is None else ("scatter", "export")
        yield from (_planned(name, last) for name in names)


def _learning_stages(
    training: TrainingPlan, counting: StagePlan, last: Mapping[str, StageTime]
) -> Iterator[PlannedStage]:
    if counting.todo:
        yield _planned("count", last, size=counting.bytes or 0)
    if len(training.progress.stored.items) > MERGE_ABOVE:
        yield _planned("merge", last)
    yield _planned("reduce", last)
    yield _planned("learn", last)
    if training.training.recipe.tokenizer.superwords is not None:
        second = ("pairs", "segments", "reduce", "learn")
        yield from (_planned(name, last) for name in second)


def _summary(plan: JobPlan) -> PlanSummary:
    """Return a plan for users."""
    return PlanSummary(
        status="planned",
        output=plan.out.url,
        sources=overview(plan.plan),
        notes=plan.notes,
        changes=plan_changes(plan.before, plan.plan),
        tokenizer=_tokenizer_plan(plan),
        functions=plan.functions,
        conversations=plan.conversations,
        estimate=plan.estimate,
        frozen=plan.freezing,
        **stage_plans(plan),
    )


def _tokenizer_plan(plan: JobPlan) -> TokenizerPlan | None:
    tokenizer = plan.tokenizer
    engine = None if tokenizer is None else engine_summary(tokenizer)
    if tokenizer is None or engine is None:
        return None
    texts = [source for source in plan.recipe.sources if source.kind == "text"]
    around = {source.name: around_text(source, tokenizer) for source in texts}
    return TokenizerPlan(engine=engine, around=around)


def _notes(announced: JobPlan) -> Iterator[str]:
    """Yield the notes for the user on a plan."""
    recipe, out, tokenizing = announced.recipe, announced.out, announced.tokenizing
    yield from announced.plan.notes
    if announced.plan.is_pending:
        yield (
            "duplicates are found first; only then is it known which slices are counted and "
            "tokenized already"
        )
    yield from _setting_notes(recipe, announced.command)
    if announced.tokenizer is not None and announced.tokenizer.origin is not None:
        yield f"the tokenizer is {announced.tokenizer.origin} of the Hugging Face hub"
    if announced.training is not None:
        yield from _training_notes(announced.training)
    if tokenizing is not None:
        yield from (note for sample in announced.conversations for note in sample.notes)
        yield from tokenizing.stored.notes(out)
        yield from tokenizing.notes
        yield from setting_changes(announced.published, tokenizing.settings)
    elif announced.command != "train":
        yield from _pending_notes(announced)
    elif announced.published and announced.tokenizer is None:
        yield (
            f"{out.url} is published; if the learned tokenizer is another one, its manifest is "
            "removed, and the output cannot be read until `nanotok tokenize` has run"
        )


def _setting_notes(recipe: Recipe, command: str) -> Iterator[str]:
    """Yield notes on settings that have no effect."""
    settings = recipe.tokenizer
    if settings.path is not None and "vocab_size" in settings.model_fields_set:
        yield (
            f"tokenizer.vocab_size = {settings.vocab_size:,} has no effect: the tokenizer is that "
            f"of tokenizer.path, {settings.path}"
        )
    limits, kinds = recipe.limits, {source.kind for source in recipe.sources}
    if command != "train" and kinds == {"text"}:
        for name in sorted({"max_tokens", "too_long", "untrainable"} & limits.model_fields_set):
            yield (
                f"limits.{name} = {getattr(limits, name)!r} has no effect: it is for conversations "
                "and documents with images, and all sources are of kind text"
            )


def _training_notes(plan: TrainingPlan) -> Iterator[str]:
    base, num_ids = plan.training.base, plan.training.train_settings.vocab_size
    if plan.tokenizer is None and base is not None:
        yield (
            f"learning continues {plan.training.recipe.tokenizer.base}: "
            f"{quantity(num_ids - base.num_ids, 'new token')} after its {base.num_ids:,} ids"
        )
    if plan.tokenizer is None and (superwords := plan.training.recipe.tokenizer.superwords):
        size = sum(slice_.num_bytes for slice_ in reads_of(plan.training.slices))
        memory = format_bytes(learner_bytes(size))
        yield (
            f"from {superwords.from_size:,} ids on, tokens of up to {superwords.max_words} words "
            "are learned; the texts are read two more times for this, and the learner takes at "
            f"most about {memory} of memory"
        )
    yield from plan.learned.notes()
    if plan.training.is_of_other_inputs:
        yield STALE_TOKENIZER
    if plan.tokenizer is None and plan.learned.has_other_rules:
        yield OTHER_SETTINGS
    settings = plan.training.recipe.tokenizer
    if plan.learned.missing_sizes and settings.extend:
        added = len(settings.extend)
        sizes = ", ".join(f"{size + added:,}" for size in sorted(settings.also))
        yield (
            f"tokenizer.extend adds {quantity(added, 'special token')} to every size of "
            f"tokenizer.also: the smaller tokenizers have {sizes} ids"
        )
    if plan.training.recipe.limits.max_chars is not None and plan.count:
        yield (
            f"limits.max_chars limits counting to {quantity(len(plan.count), 'slice')} at first, "
            "then to as many more as are needed to reach the limit, at most "
            f"{len(plan.progress.stored.missing):,} in all"
        )


def _tokenizer(recipe: Recipe, out: Folder) -> Tokenizer:
    """Return the existing tokenizer, for a command that learns none.

    Raises:
        IncompleteOutputError: The output has no tokenizer.
    """
    tokenizer = existing_tokenizer(recipe, out)
    if tokenizer is None:
        raise IncompleteOutputError(
            f"no tokenizer in {out.join(TOKENIZER_FOLDER)}: train one first, "
            "or name one as tokenizer.path in the recipe"
        )
    return tokenizer


def _is_other(tokenizer: Tokenizer | None, out: Folder) -> bool:
    """Return whether the output has a different tokenizer or none."""
    return tokenizer is not None and bool(
        differing_files(tokenizer.model, out.inside(TOKENIZER_FOLDER))
    )


def _pending_notes(announced: JobPlan) -> Iterator[str]:
    """Yield notes on differences from the published output, and on leftover tokenizers."""
    recipe = announced.recipe
    try:
        former = existing_tokenizer(recipe, announced.out)
    except TokenizerError:  # the stored tokenizer is damaged and will be replaced
        return
    if former is None:
        return
    tokenizing = announced.tokenizing_with(former)
    yield from setting_changes(announced.published, tokenizing.settings)
    todo, slices = len(tokenizing.todo), len(tokenizing.stored.items)
    training, size = announced.training, recipe.tokenizer.vocab_size
    if training is not None:
        size = training.training.train_settings.vocab_size
    max_size = size + len(recipe.tokenizer.extend)
    if former.get_vocab_size() <= max_size and todo < slices:
        yield (
            f"the tokenizer will be relearned; if the result is identical, {todo:,} of {slices:,} "
            "slices are tokenized, otherwise all of them"
        )


def _published(tokenizing: TokenizePlan, out: Folder, frozen: bytes | None) -> Output | None:
    """Return the published output if it is complete and has exactly this plan, else None."""
    if tokenizing.todo or frozen != plan_to_json(tokenizing.plan):
        return None
    output = tokenizing.output(tokenizing.records)
    names = {MANIFEST_NAME: output.manifest_bytes, SHARDS_INDEX_NAME: output.shards_index}
    is_same = all(out.exists(name) and out.read_bytes(name) == data for name, data in names.items())
    return output if is_same else None


def _stage_of_slices(todo: Sequence[Slice], *, done: int) -> StagePlan:
    sizes = [slice_.num_bytes for slice_ in reads_of(todo)]
    return StagePlan(
        todo=len(todo),
        done=done,
        bytes=sum(sizes),
        largest_slice=max(sizes, default=0),
    )


def _planned(
    name: str, last: Mapping[str, StageTime], *, size: int = 0, seconds: float | None = None
) -> PlannedStage:
    stage = last.get(name)
    if stage is not None and not size:
        seconds = stage.seconds
    elif stage is not None and stage.bytes and stage.seconds >= MIN_SECONDS:
        seconds = stage.seconds * size / stage.bytes
    return PlannedStage(name=name, num_bytes=size, seconds=seconds)
