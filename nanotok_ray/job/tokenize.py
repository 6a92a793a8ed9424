"""The tokenizing stage, which writes the shards of every slice of the plan."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nanotok_ray.errors import NanotokError, RecipeError, TokenizerError, TransientIOError
from nanotok_ray.exports import SamePass
from nanotok_ray.formats import (
    RECOGNIZE,
    TOKENIZER_FOLDER,
    FimSettings,
    OutputFacts,
    ShardRecord,
    ShardSettings,
    TemplateSettings,
)
from nanotok_ray.job.bad_documents import give_up_after, slice_rules
from nanotok_ray.job.counting import Training
from nanotok_ray.job.events import Note
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.probes import output_folder
from nanotok_ray.job.stage import Stage, StageResult, complete, format_failure
from nanotok_ray.job.task import SharedLibrary, Task, TaskResult
from nanotok_ray.job.work import (
    TokenizeWork,
    reused_slice_problems,
    tokenize_work,
    tokenized_record,
)
from nanotok_ray.recipe import (
    FIM_TOKENS,
    GROUNDING,
    IMAGE_TOKENS,
    SPECIAL_TOKENS,
    LimitsRecipe,
    Recipe,
    SourceRecipe,
    fim_tokens_of,
    image_token_of,
)
from nanotok_ray.shards import (
    ExpectedSlice,
    Output,
    Record,
    Results,
    StoredRecords,
    assemble,
    expected_records,
    is_skipped,
    output_facts,
    skip_slice,
    slice_results,
    write_record,
)
from nanotok_ray.shards.check import check_slice, record_problems, work_of
from nanotok_ray.sources import Plan, Slice
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import FileModel, Tokenizer, template_settings
from nanotok_ray.units import few, quantity

_MAX_CHECKED = 4
"""Slices whose sample is encoded again by the installed version of a library."""


def check_special_tokens(recipe: Recipe, training: Training | None) -> None:
    """Check that the tokenizer to be learned will have the special tokens of all sources.

    Raises:
        RecipeError: It will lack a special token.
    """
    known: Collection[str] | None = recipe.tokenizer.all_special_tokens
    if training is not None and training.base is not None:
        known = {*training.base.tokenizer.special_tokens, *recipe.tokenizer.extend}
    if known is not None:
        for source in recipe.sources:
            _check_source(source, known, (source.prepend, source.append))


def shard_settings(recipe: Recipe, source: SourceRecipe, tokenizer: Tokenizer) -> ShardSettings:
    """Return the settings for the shards of a source.

    Raises:
        RecipeError: The tokenizer lacks a special token that its documents need.
    """
    is_composed, is_vision = source.kind != "text", source.kind == "vision"
    limits, known = recipe.limits, tokenizer.special_tokens
    around = around_text(source, tokenizer)
    template = _template(source, tokenizer)
    if template is None:
        _check_source(source, known, around)
    return ShardSettings(
        tokenizer_sha256=tokenizer.sha256,
        gaps=recipe.tokenizer.gaps,
        prepend=around[0],
        append=around[1],
        max_document_bytes=limits.max_document_bytes,
        max_shard_tokens=limits.shard_tokens(tokenizer.model.id_bytes),
        max_tokens=limits.max_tokens if is_composed else None,
        too_long=limits.too_long if is_composed else "keep",
        untrainable=limits.untrainable if is_composed else "keep",
        image_token=_image_token(source, known) if is_vision else None,
        image_tokens=source.image_tokens,
        grounding=_grounding(source, known),
        train_prompt=source.train_prompt,
        special_text=_special_text(source, template),
        fim=_fim(source, known),
        template=template,
    )


def _template(source: SourceRecipe, tokenizer: Tokenizer) -> TemplateSettings | None:
    """Return the chat template of a source, or None if nanochat's rendering is used."""
    if source.kind != "chat":
        return None
    try:
        settings = template_settings(
            tokenizer.model,
            source.template,
            training_template=source.training_template,
            arguments=json.loads(source.template_args),
            date=source.template_date,
            tools=source.tools,
            train_on=source.train_on,
            untrained=source.untrained,
        )
    except TokenizerError as error:
        raise RecipeError(f"source.{source.name}.template: {error}") from error
    unused = [key for key in _OF_TEMPLATES if key in source.model_fields_set]
    if settings is None and unused:
        raise RecipeError(
            f"source.{source.name}.{unused[0]} has no use without a chat template: conversations "
            "are rendered as nanochat does; remove it, or set template"
        )
    return settings


_OF_TEMPLATES = (
    *("training_template", "template_args", "template_date", "tools", "train_on", "untrained"),
)
"""Keys of a recipe for sources with a chat template."""


def _special_text(source: SourceRecipe, template: TemplateSettings | None) -> str:
    """Return the rule for names of special tokens in the documents of a source."""
    if source.kind != "chat" or template is not None:
        return source.special_text
    if "special_text" in source.model_fields_set and source.special_text != "text":
        raise RecipeError(
            f"source.{source.name}.special_text = {source.special_text!r}, but nanochat's "
            'rendering never takes text for special tokens; remove it, or set it to "text"'
        )
    return "text"


def around_text(
    source: SourceRecipe, tokenizer: Tokenizer
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the special tokens before and after each document of a text source.

    A tokenizer that a file of another tool defines brings its own, unless the recipe sets them.
    """
    if source.kind != "text" or not isinstance(tokenizer.model, FileModel):
        return source.prepend, source.append
    said, defaults = source.model_fields_set, tokenizer.model.description
    return (
        source.prepend if "prepend" in said else defaults.prepend,
        source.append if "append" in said else defaults.append,
    )


def _check_source(
    source: SourceRecipe, known: Collection[str], around: Sequence[Sequence[str]]
) -> None:
    if source.kind == "text":
        _check_around(source, known, around)
        _fim(source, known)
        return
    is_vision = source.kind == "vision"
    has_turns = not is_vision or source.dialect == "messages"
    _check(SPECIAL_TOKENS if has_turns else ("<|bos|>", "<|assistant_end|>"), source, known)
    if is_vision:
        _image_token(source, known)
        _grounding(source, known)


def _fim(source: SourceRecipe, known: Collection[str]) -> FimSettings | None:
    """Return how the documents of a source are rearranged, or None if they are not."""
    if not source.fim_rate:
        return None
    tokens = source.fim_tokens or fim_tokens_of(known)
    key = f"source.{source.name}.fim_tokens"
    has = f"the special tokens of the tokenizer, {few([*known])}"
    if tokens is None:
        raise RecipeError(
            f"source.{source.name}.fim_rate = {source.fim_rate} needs special tokens of prefix, "
            f"middle and suffix, such as {FIM_TOKENS[0][0]}, and none are known among {has}; name "
            f"three of these as {key}, or add the line `extend = {json.dumps(FIM_TOKENS[0])}` "
            "under [tokenizer]"
        )
    missing = [name for name in tokens if name not in known]
    if missing:
        raise RecipeError(
            f"{key} has {missing[0]!r}, which is not among {has}; name three of these, or add the "
            f"line `extend = {json.dumps(missing)}` under [tokenizer]"
        )
    prefix, middle, suffix = tokens
    return FimSettings(
        rate=source.fim_rate, spm_rate=source.fim_spm_rate, tokens=(prefix, middle, suffix)
    )


def _check_around(
    source: SourceRecipe, known: Collection[str], around: Sequence[Sequence[str]]
) -> None:
    for key, names in zip(("prepend", "append"), around, strict=True):
        for name in names:
            if name not in known:
                raise RecipeError(
                    f"source.{source.name}.{key} has {name!r}, which is not among the special "
                    f"tokens of the tokenizer, {list(known)}; set {key} to one of these or to [], "
                    f"or add the line `extend = [{json.dumps(name)}]` under [tokenizer]"
                )


def _check(names: tuple[str, ...], source: SourceRecipe, known: Collection[str]) -> None:
    missing = [name for name in names if name not in known]
    if missing:
        raise RecipeError(
            f"source {source.name!r} is of kind {source.kind}, which is rendered with "
            f"{missing[0]}, and the tokenizer has no such special token; add the line `extend = "
            f"{json.dumps(missing)}` under [tokenizer]{_OTHER_WAY.get(source.kind, '')}"
        )


_OTHER_WAY = {"chat": ", or name a chat template as template of the source"}


def _image_token(source: SourceRecipe, known: Collection[str]) -> str:
    if source.image_token is not None:
        _check((source.image_token,), source, known)
        return source.image_token
    token = image_token_of(known)
    if token is None:
        raise RecipeError(
            f"source {source.name!r} has images, and the tokenizer has none of the special tokens "
            f'{", ".join(IMAGE_TOKENS)}; add the line `extend = ["preset:seed"]` under '
            f"[tokenizer], or name another as source.{source.name}.image_token"
        )
    return token


def _grounding(source: SourceRecipe, known: Collection[str]) -> tuple[str, ...]:
    if source.kind != "vision" or not source.grounding:
        return ()
    _check(GROUNDING, source, known)
    return GROUNDING


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizePlan:
    """The input of the stage: the slices with their keys, and the existing records."""

    plan: Plan
    settings: Mapping[str, ShardSettings]
    tokenizer: Tokenizer
    stored: StoredRecords[ExpectedSlice, ShardRecord]
    """The slices with their keys, and the existing records without those of skipped slices."""
    limits: LimitsRecipe
    give_up_after: int | None
    """The number of documents, all bad, after which the limits are exceeded; None: no number."""
    notes: tuple[str, ...] = ()
    """Notes for the user on shards of other versions of the tokenizer's library."""

    @property
    def records(self) -> list[Record[ShardRecord]]:
        """The existing records in the order of the slices."""
        return [record for _, record in self.stored.done]

    @property
    def todo(self) -> list[ExpectedSlice]:
        """The slices without a record, or whose files are missing."""
        return self.stored.missing

    @property
    def libraries(self) -> tuple[SharedLibrary, ...]:
        """The library that encodes, or that finds names of special tokens, unless the core does."""
        version = self.tokenizer.engine_version
        if any(each.special_text == RECOGNIZE for each in self.settings.values()):
            version = version or self.tokenizer.recognizer_version
        return () if version is None else (SharedLibrary(version),)

    @property
    def facts(self) -> OutputFacts:
        """What the manifest says of the sources and the tokenizer."""
        return output_facts(self.plan, settings=self.settings, tokenizer=self.tokenizer)

    def output(self, records: Sequence[Record[ShardRecord]]) -> Output:
        """Build the manifest and the shard index from the records of all slices."""
        return assemble(self.plan, records, settings=self.settings, tokenizer=self.tokenizer)


def tokenizing_of(recipe: Recipe, plan: Plan, tokenizer: Tokenizer, out: Folder) -> TokenizePlan:
    """Return the slices of a plan with the records that exist in the output."""
    settings = {source.name: shard_settings(recipe, source, tokenizer) for source in recipe.sources}
    expected = tuple(expected_records(plan, settings))
    stored = _results(out, expected, tokenizer).find()
    records = {name: record for name, record in stored.records.items() if not is_skipped(record)}
    stored, notes = _of_this_engine(replace(stored, records=records), tokenizer, out)
    return TokenizePlan(
        plan=plan,
        settings=settings,
        tokenizer=tokenizer,
        stored=stored,
        notes=notes,
        limits=recipe.limits,
        give_up_after=give_up_after(recipe.limits, plan.slices()),
    )


def _of_this_engine(
    stored: StoredRecords[ExpectedSlice, ShardRecord], tokenizer: Tokenizer, out: Folder
) -> tuple[StoredRecords[ExpectedSlice, ShardRecord], tuple[str, ...]]:
    """Return the records that remain with the installed version of the library, and notes.

    A sample of the slices that another version has written is encoded again. If an id differs,
    the records of all slices of other versions are left out.
    """
    current = tokenizer.engine_version
    others = [(item, record) for item, record in stored.done if record.value.engine != current]
    if not others:
        return stored, ()
    checked, problem = 0, None
    for item, record in others[:: -(-len(others) // _MAX_CHECKED)]:
        work = work_of(out, item, record, model=tokenizer.model)
        try:
            result = check_slice(replace(work, depth="sample"))
        except (NanotokError, OSError) as error:
            problem = problem or str(error)
            continue
        checked += result.sampled
        problem = problem or next(iter(result.problems), None)
    names = " and ".join(sorted({str(record.value.engine) for _, record in others}))
    slices = f"{quantity(len(others), 'slice')} encoded with {names}"
    if problem is None:
        documents = quantity(checked, "document")
        same = f"{current} gives the same ids for a sample of {documents}"
        return stored, (f"{slices}: kept, because {same}",)
    gone = {item.record_name for item, _ in others}
    remaining = {name: record for name, record in stored.records.items() if name not in gone}
    note = f"{slices}: encoded again with {current}, because of a sample: {problem}"
    return replace(stored, records=remaining), (note,)


def _results(
    out: Folder, expected: Sequence[ExpectedSlice], tokenizer: Tokenizer
) -> Results[ExpectedSlice, ShardRecord]:
    """Return the results of slices; a record must agree with its slice."""

    def problems(item: ExpectedSlice, record: ShardRecord) -> Iterable[str]:
        return record_problems(record, item_bytes=tokenizer.model.id_bytes, slice_=item.slice)

    return slice_results(out, expected, problems=problems)


def tokenize(
    tokenizing: TokenizePlan,
    out: Folder,
    runtime: Runtime,
    *,
    is_published: bool = False,
    same_pass: SamePass | None = None,
) -> StageResult[ExpectedSlice, ShardRecord]:
    """Tokenize the unfinished slices and return the records of all slices; requires a session.

    With `same_pass` workers also export each slice that they tokenize. Unless the output was
    published, the files of finished slices are read and compared with their records.

    A slice that failed permanently and may be skipped gets a record that marks it as skipped. The
    next run tries it again.

    Raises:
        SliceError: More slices failed permanently than the recipe allows to skip.
        QuarantineLimitError: All documents read so far are bad, and too many for the limits.
    """

    def leave_out(ended: TaskResult) -> None:
        """Write the records of skipped slices, except those recorded before their task failed."""
        work: TokenizeWork = ended.task.argument
        for expected in work.expected:
            if tokenized_record(out, expected) is None:
                record = _skip(expected.slice, expected.settings, out)
                write_record(out, expected.record_name, record)
        runtime.on_event(Note(text=f"skipped in the shards:{format_failure(ended)}"))

    def check(expected: ExpectedSlice, record: Record[ShardRecord]) -> Task:
        """Return the task that reads the files of a slice, which no manifest names."""
        work = work_of(out, expected, record, model=tokenizing.tokenizer.model)
        return Task(
            name=f"check {_name(expected)}",
            work=reused_slice_problems,
            argument=work,
            num_bytes=work.file_bytes,
        )

    stage = Stage(
        name="tokenize",
        results=_results(out, tokenizing.stored.items, tokenizing.tokenizer),
        tasks_of=lambda todo: [_task(group, tokenizing, out, same_pass) for group in _reads(todo)],
        rules=slice_rules("tokenize", out, tokenizing.limits, after=tokenizing.give_up_after),
        check=None if is_published else check,
        leave_out=leave_out,
    )
    return complete(stage, runtime, stored=tokenizing.stored)


def _reads(todo: Sequence[ExpectedSlice]) -> Iterable[list[ExpectedSlice]]:
    """Group slices by the pieces they read: both splits of a share."""
    groups: dict[object, list[ExpectedSlice]] = {}
    for expected in todo:
        groups.setdefault(expected.slice.reads, []).append(expected)
    return groups.values()


def _skip(slice_: Slice, settings: ShardSettings, out: Folder) -> ShardRecord:
    """Write the quarantine file of a skipped slice, and return its record."""
    try:
        return skip_slice(slice_, settings, out=out)
    except TransientIOError:  # another file had the name of the quarantine file, and is removed now
        return skip_slice(slice_, settings, out=out)


def _task(
    expected: Sequence[ExpectedSlice],
    tokenizing: TokenizePlan,
    out: Folder,
    same_pass: SamePass | None,
) -> Task:
    slice_ = expected[0].slice
    work = TokenizeWork(
        expected=tuple(expected),
        out=out.url,
        tokenizer=out.inside(TOKENIZER_FOLDER),
        same_pass=same_pass,
        give_up_after=tokenizing.give_up_after,
    )
    return Task(
        name=f"tokenize {' and '.join(map(_name, expected))}",
        work=tokenize_work,
        argument=work,
        num_bytes=slice_.num_bytes,
        slices=len(expected),
        inputs=tuple(file.url for file in slice_.files),
        shared=(*output_folder(out.url), *tokenizing.libraries),
    )


def _name(expected: ExpectedSlice) -> str:
    slice_ = expected.slice
    return f"{slice_.source}/{slice_.split}/{slice_.name_for(expected.key)}"
