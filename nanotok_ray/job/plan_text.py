"""The plan of a job as text for users."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nanotok_ray.formats import EngineSummary
from nanotok_ray.formats.codec import omitted
from nanotok_ray.job.changes import PlanChanges
from nanotok_ray.job.conversations import ConversationSample
from nanotok_ray.job.doctor.disk import Space
from nanotok_ray.job.functions import FunctionSample
from nanotok_ray.sources import SourceOverview
from nanotok_ray.units import few, format_bytes, format_estimate, printable, quantity


@dataclass(frozen=True, kw_only=True, slots=True)
class StageEstimate:
    """The estimated time of a stage, with the fields of its JSON."""

    seconds: float | None
    """None: unknown."""
    from_: str
    """The origin of the estimate, for people."""
    tasks: int | None = None
    """The number of Ray tasks; None for a stage without slices, as the next two."""
    megabytes_per_second: float | None = None
    per_cpu: bool | None = None
    """Whether the rate is that of one CPU, and not of all CPUs of a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """The estimated time of a job, and the disk space that it needs."""

    cpus: int
    seconds: float | None
    """None: unknown."""
    stages: Mapping[str, StageEstimate]
    space: tuple[Space, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class FrozenPlan:
    """The result of writing plan.json."""

    status: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePlan:
    """What a stage does: its results that are missing, and those that exist."""

    todo: int
    done: int
    bytes: int | None = omitted()
    """The estimated bytes to read; None for a stage without slices, as the next one."""
    largest_slice: int | None = omitted()


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerPlan:
    """A tokenizer that a file of another tool defines."""

    engine: EngineSummary
    around: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    """The special tokens before and after each document, by text source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanSummary:
    """The plan of a job for users, with the fields of its JSON."""

    status: str
    output: str
    sources: tuple[SourceOverview, ...]
    notes: tuple[str, ...]
    changes: PlanChanges | None
    """None without an earlier plan."""
    tokenizer: TokenizerPlan | None = omitted()
    """None if no file of another tool defines the tokenizer, or if it is not known."""
    count: StagePlan | None = omitted()
    """None if the command does not have the stage, as the next ones."""
    learn: StagePlan | None = omitted()
    also: StagePlan | None = omitted()
    """The smaller tokenizers."""
    tokenize: StagePlan | None = omitted()
    functions: tuple[FunctionSample, ...] = omitted(())
    """The first rows of each source with a function."""
    conversations: tuple[ConversationSample, ...] = omitted(())
    """The first conversations of each source; empty if the tokenizer is not known."""
    estimate: Estimate | None = omitted()
    frozen: FrozenPlan | None = omitted()

    @property
    def stages(self) -> dict[str, StagePlan]:
        """The stages that the command has, in the order of the job."""
        parts = {name: getattr(self, name) for name in ("count", "learn", "also", "tokenize")}
        return {name: part for name, part in parts.items() if part is not None}


_INDENT = " " * 12
_LONG_SECONDS = 60.0


def plan_text(plan: PlanSummary) -> str:
    """Return the plan as lines: output, sources, notes, changes, remaining work, estimates."""
    lines = [f"output      {resolved(plan.output)}"]
    for source in plan.sources:
        lines += _source_lines(source)
    if plan.tokenizer is not None:
        lines += _tokenizer_lines(plan.tokenizer)
    for function in plan.functions:
        lines += _function_lines(function)
    for sample in plan.conversations:
        lines += _conversation_lines(sample)
    lines += [f"note        {note}" for note in plan.notes]
    if plan.changes is not None:
        lines += change_lines(plan.changes)
    lines += [stage_line(name, stage) for name, stage in plan.stages.items()]
    if plan.estimate is not None:
        lines += _estimate_lines(plan.estimate)
        lines += [f"space       {space.text()}" for space in plan.estimate.space]
    if plan.frozen is not None:
        lines.append(_frozen_line(plan.frozen, plan.sources))
    return "\n".join(lines)


def resolved(location: str) -> str:
    """Return the location of a folder, followed by its absolute path if it is a relative path.

    >>> resolved("s3://bucket/out"), resolved("/data/out")
    ('s3://bucket/out', '/data/out')
    """
    if "://" in location or Path(location).is_absolute():
        return location
    return f"{location} ({Path(location).absolute()})"


def _source_lines(source: SourceOverview) -> Iterator[str]:
    documents, groups, val = source.documents, source.groups, source.val
    count = "documents unknown" if documents is None else quantity(documents, "document")
    stored, decoded = format_bytes(source.stored_bytes), format_bytes(source.bytes)
    yield (
        f"source      {source.name}: {quantity(source.files, 'file')}, {stored} stored, "
        f"about {decoded} of text, {count}"
    )
    read_as = f"{source.format}{_dialects(source.dialects)}"
    yield f"{_INDENT}{read_as} in {resolved(source.root)}, split {source.split}"
    splits = ", ".join(f"{number:,} {split}" for split, number in source.slices.items())
    grouped = f"; {quantity(groups.files, 'small file')} in {quantity(groups.groups, 'group')}"
    size = f"the largest {format_bytes(source.largest_slice)}"
    yield f"{_INDENT}slices: {splits}; {size}{grouped if groups.groups else ''}"
    if val.files:
        share = val.stored_bytes / max(1, source.stored_bytes)
        listed = few(val.first, val.files)
        yield f"{_INDENT}val: {listed} ({share:.1%} of the bytes)"


def _tokenizer_lines(tokenizer: TokenizerPlan) -> Iterator[str]:
    yield f"tokenizer   {tokenizer.engine.text}"
    for source, (before, after) in tokenizer.around.items():
        yield f"{_INDENT}a document of {source}: {' '.join([*before, 'TEXT', *after])}"


_MAX_ROW_CHARS = 160
"""Characters of a row that are shown, before and after its function."""


def _function_lines(sample: FunctionSample) -> Iterator[str]:
    """Yield what a function makes of the first rows, and some of them: - before, + after."""
    listed = [(f"{why} ({number:,})") for why, number in sample.dropped.items()]
    dropped = f"; dropped: {', '.join(listed)}" if listed else ""
    rows, documents = quantity(sample.rows, "row"), quantity(sample.documents, "document")
    yield f"function    {sample.source}: {sample.function}; of {rows}, {documents}{dropped}"
    for line, number in sample.errors.items():
        yield f"{_INDENT}raised for {quantity(number, 'row')}: {printable(line)}"
    for example in sample.examples:
        yield f"{_INDENT}- {_shortened(example.before)}"
        yield from (f"{_INDENT}+ {_shortened(text)}" for text in example.after)


def _shortened(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _MAX_ROW_CHARS else f"{line[:_MAX_ROW_CHARS]}..."


_MAX_SHOWN = 1200
"""Characters of the first conversation that are shown."""
_MAX_UNTRAINED = 400
"""Characters that are shown of a passage of it that is not trained on."""


def _conversation_lines(sample: ConversationSample) -> Iterator[str]:
    """Yield how conversations are rendered, and the first one, its trained parts in [[ ]]."""
    share = sample.trained / max(1, sample.tokens)
    number = quantity(sample.documents, "conversation")
    yield (
        f"chat        {sample.source}: {sample.template}; of the first {number}, {share:.1%} of "
        f"{quantity(sample.tokens, 'token')} trained on"
    )
    marked = [f"[[{one.text}]]" if one.trained else _middle(one.text) for one in sample.passages]
    text = printable("".join(marked), lines=True)
    shown = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    yield from (f"{_INDENT}{line}" for line in shown.splitlines())


def _middle(text: str) -> str:
    """Shorten a long text in its middle, so that what follows it is shown."""
    half = _MAX_UNTRAINED // 2
    return text if len(text) <= _MAX_UNTRAINED else f"{text[:half]} ... {text[-half:]}"


def _dialects(files: Mapping[str, int]) -> str:
    """Return the names of the dialects, with the number of files of each if there are several.

    >>> _dialects({}), _dialects({"messages": 3}), _dialects({"gsm8k": 1, "messages": 3})
    ('', ' of messages', ' of gsm8k (1 file) and messages (3 files)')
    """
    if len(files) < 2:  # noqa: PLR2004 - one needs no number
        return "".join(f" of {name}" for name in files)
    counted = [f"{name} ({quantity(n, 'file')})" for name, n in files.items()]
    return f" of {', '.join(counted[:-1])} and {counted[-1]}"


def change_lines(changes: PlanChanges) -> Iterator[str]:
    """Yield the lines that list the changes since the plan was frozen; no lines without changes."""
    slices = changes.slices
    for source in changes.sources:
        described = [f"{file.file}: {file.why}" for file in source.changed]
        parts = [
            f"{len(names):,} {word} ({few(names, len(names))})"
            for word, names in (
                ("added", source.added),
                ("changed", described),
                ("removed", source.removed),
            )
            if names
        ]
        yield f"changed     {source.source}: {', '.join(parts)}"
    for change in changes.reading:
        was, current = change.before or "none", change.now or "none"
        yield f"changed     {change.source}: {change.what} is {current}, it was {was}"
    before, now = changes.slice_bytes
    if before != now:
        yield f"changed     limits.slice_bytes was {before:,}, is {now:,}: new slices are cut"
    if slices.new or slices.gone:
        yield (
            f"{_INDENT}slices: {slices.same:,} as in the saved plan, {slices.new:,} new, "
            f"{slices.gone:,} removed"
        )


def stage_line(name: str, stage: StagePlan) -> str:
    """Return the line that describes a stage.

    >>> stage_line("count", StagePlan(todo=2, done=1_000, bytes=5_000_000))
    'count       2 to do, 1,000 done, about 5.0 MB'
    """
    size = f", about {format_bytes(stage.bytes)}" if stage.bytes else ""
    return f"{name:<11} {stage.todo:,} to do, {stage.done:,} done{size}"


def _estimate_lines(estimate: Estimate) -> Iterator[str]:
    if estimate.seconds is None:
        yield "estimate    time unknown, because there is no text to measure with; pass --rate"
        return
    if not estimate.stages:
        yield "estimate    nothing to count, learn or tokenize"
        return
    known = {
        name: stage.seconds for name, stage in estimate.stages.items() if stage.seconds is not None
    }
    parts = ", ".join(f"{name} {format_estimate(seconds)}" for name, seconds in known.items())
    cpus = quantity(estimate.cpus, "CPU")
    left_out = [name for name in estimate.stages if name not in known]
    without = f", {' and '.join(left_out)} not estimated" if left_out else ""
    yield f"estimate    {format_estimate(estimate.seconds)} on {cpus}: {parts}{without}"
    for name in known:
        stage = estimate.stages[name]
        rate = stage.megabytes_per_second
        if rate is not None:
            per = " a CPU" if stage.per_cpu else ""
            tasks = quantity(stage.tasks or 0, "Ray task")
            yield f"{_INDENT}{name} in {tasks} at {rate:,.1f} MB/s{per}: {stage.from_}"
        else:
            yield f"{_INDENT}{name}: {stage.from_}"
    yield from _idle_lines(estimate, known)


def _idle_lines(estimate: Estimate, known: Mapping[str, float]) -> Iterator[str]:
    """Yield advice if a stage of over a minute has fewer tasks than there are CPUs."""
    for name, seconds in known.items():
        tasks = estimate.stages[name].tasks or estimate.cpus
        if tasks < estimate.cpus and seconds > _LONG_SECONDS:
            yield (
                f"{_INDENT}{name} keeps at most {tasks:,} of {estimate.cpus:,} CPUs busy; "
                "a smaller limits.slice_bytes makes more slices"
            )


def _frozen_line(frozen: FrozenPlan, sources: Sequence[SourceOverview]) -> str:
    if frozen.status == "not frozen":
        return (
            f"not saved   the output is finished; a job replaces {frozen.path} when it changes "
            "the output"
        )
    if frozen.status == "in use":
        return f"not saved   another run has locked this output; {frozen.path} is its plan"
    before = ", as before" if frozen.status == "as before" else ""
    by_hash = any(source.split.startswith("share:") for source in sources)
    later = "files that are added later belong to train"
    if by_hash:
        later += "; with split = share:S, the hash of each document decides"
    return f"saved       {frozen.path}{before}; {later}"
