"""The plan of a job and an estimate of its time, without running it."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nanotok_ray.counts import SpanCounts, resolve_pattern
from nanotok_ray.documents import Documents
from nanotok_ray.errors import SplitError
from nanotok_ray.formats import PLAN_NAME, StageTime
from nanotok_ray.job.conversations import sample_conversations
from nanotok_ray.job.doctor.disk import space_for
from nanotok_ray.job.events import Activity, Note, OnEvent, ignore
from nanotok_ray.job.forecast import MIN_SECONDS, TEXT_STAGES
from nanotok_ray.job.frozen_plan import freeze
from nanotok_ray.job.functions import sample_functions
from nanotok_ray.job.job_plan import JobPlan, decide, reads_of
from nanotok_ray.job.journaling import stages_of_last_run
from nanotok_ray.job.plan_text import Estimate, FrozenPlan, StageEstimate
from nanotok_ray.job.probes import store_risk
from nanotok_ray.recipe import Recipe
from nanotok_ray.sources import Slice, SliceReading, TimeIsUpError
from nanotok_ray.storage import Folder
from nanotok_ray.system import usable_cpus
from nanotok_ray.tokenizer import NUM_BYTES, Tokenizer, TrainSettings, learn_merges
from nanotok_ray.units import few

OTHER_SECONDS = 10.0
"""Seconds of a job outside of its stages, measured on two CPUs with a local Ray: 8 to 13."""

SAMPLE_BYTES = 8 << 20
SAMPLE_SECONDS = 1.0
"""The sample ends at this size or after this time, whichever comes first."""
MAX_SAMPLE_SECONDS = 3.0
"""Reading is interrupted after this time if it yields no documents."""

_SAMPLE_SLICES = 16  # maximum number of slices to read, as the first ones may hold no text
_SAMPLE_MERGES = 4096
_SAMPLE_TOKEN_BYTES = 1024  # a long run of one character would make a token above the limit


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """Bytes of text per second, and how they were measured."""

    bytes_per_second: float
    is_per_cpu: bool
    """Whether the rate is that of one CPU, and not of all CPUs of a run."""
    basis: str
    """The origin of the rate, for people."""

    def seconds(self, slices: Sequence[Slice], *, cpus: int) -> float:
        """Estimate the time for slices, at least that of the largest, which uses one CPU."""
        if not slices:
            return 0.0
        sizes = [slice_.num_bytes for slice_ in slices]
        if not self.is_per_cpu:
            return sum(sizes) / self.bytes_per_second
        return max(sum(sizes) / cpus, *sizes) / self.bytes_per_second


def given_rates(megabytes_per_second: float) -> dict[str, Rate]:
    """Return the same rate of one CPU for both stages."""
    basis = "as given by --rate"
    rate = Rate(bytes_per_second=megabytes_per_second * 1e6, is_per_cpu=True, basis=basis)
    return dict.fromkeys(TEXT_STAGES, rate)


def rates_of_run(stages: Mapping[str, StageTime]) -> dict[str, Rate]:
    """Return the rates of the stages of a run.

    >>> rates_of_run({"count": StageTime(seconds=10.0, bytes=50)})["count"].is_per_cpu
    False
    """
    return {
        name: Rate(
            bytes_per_second=stages[name].bytes / stages[name].seconds,
            is_per_cpu=False,
            basis="as in the last run, with the CPUs it had",
        )
        for name in TEXT_STAGES
        if name in stages and stages[name].bytes and stages[name].seconds >= MIN_SECONDS
    }


def measured_rates(
    slices: Sequence[Slice],
    *,
    pattern: str,
    tokenizer: Tokenizer | None,
    on_event: OnEvent = ignore,
) -> dict[str, Rate]:
    """Measure reading, counting and encoding of the first texts of slices on one CPU.

    The result is empty if the slices hold no text. Without a tokenizer, a small one is learned from
    the counts. Writing is not measured. A note names a file that takes too long to read, and the
    first one with a text that cannot be split.

    Raises:
        SourceError, TransientIOError: the texts cannot be read.
    """
    start = time.perf_counter()
    batches = list(_sample(slices, on_event))
    reading = time.perf_counter() - start
    size = sum(batch.num_bytes for _, batch in batches)
    if not size:
        return {}
    counts = SpanCounts(pattern, num_threads=1)
    problems: list[str] = []
    counting = _timed(counts.update, batches, problems)
    if tokenizer is None:
        settings = TrainSettings(
            vocab_size=NUM_BYTES + _SAMPLE_MERGES,
            pattern=pattern,
            special_tokens=(),
            max_token_bytes=_SAMPLE_TOKEN_BYTES,
        )
        _, data, offsets, numbers = counts.run()
        tokenizer = Tokenizer(settings.model(learn_merges([(data, offsets, numbers)], settings)))
    encoding = _timed(tokenizer.encode_documents, batches, problems)
    times = {"count": counting, "tokenize": encoding}
    for text in problems[:1]:
        on_event(Note(text=text))
    basis = f"measured on this machine with {size / 1e6:,.2f} MB of its texts"
    return {
        name: Rate(bytes_per_second=size / (reading + seconds), is_per_cpu=True, basis=basis)
        for name, seconds in times.items()
    }


def _sample(slices: Sequence[Slice], on_event: OnEvent) -> Iterator[tuple[Slice, Documents]]:
    start = time.monotonic()
    end = start + SAMPLE_SECONDS
    size = 0
    for slice_ in slices[:_SAMPLE_SLICES]:
        try:
            for _, batch in SliceReading(slice_, deadline=start + MAX_SAMPLE_SECONDS):
                part = _first_bytes(batch.documents, SAMPLE_BYTES - size)
                yield slice_, part
                size += part.num_bytes
                if size >= SAMPLE_BYTES or time.monotonic() >= end:
                    return
        except TimeIsUpError:
            on_event(Note(text=_slow_text(slice_, size)))
            return
        if time.monotonic() >= end:
            return


def _first_bytes(documents: Documents, num_bytes: int) -> Documents:
    """Return the first documents of this size together, or one document if that is larger."""
    stop = int(np.searchsorted(documents.offsets, documents.offsets[0] + num_bytes, side="right"))
    return documents.part(0, min(max(stop - 1, 1), len(documents)))


def _slow_text(slice_: Slice, size: int) -> str:
    return (
        f"{_files_of(slice_)} gave {size / 1e6:,.2f} MB of text in "
        f"{MAX_SAMPLE_SECONDS:.0f} s, so the estimate of the time is rough"
    )


def _files_of(slice_: Slice) -> str:
    return f"source {slice_.source!r}: {few([repr(piece.file.path) for piece in slice_.pieces])}"


def _timed(
    work: Callable[[Documents], object],
    batches: Sequence[tuple[Slice, Documents]],
    problems: list[str],
) -> float:
    """Return the seconds of work on batches, and add why texts cannot be split to `problems`."""
    start = time.perf_counter()
    for slice_, batch in batches:
        try:
            work(batch)
        except SplitError as error:  # a job would quarantine the text; the others are enough
            problems.append(
                f"{_files_of(slice_)}: a text {error.reason}; a run quarantines it: remove such "
                "texts, or use another pattern or tokenizer"
            )
    return time.perf_counter() - start


def plan_job(
    recipe: Recipe,
    *,
    resplit: bool = False,
    relearn: bool = False,
    cpus: int | None = None,
    rate: float | None = None,
    on_event: OnEvent = ignore,
) -> JobPlan:
    """Return what `prepare` would do with a recipe and how long it may take, and freeze its plan.

    Args:
        recipe: the recipe.
        resplit: assign train and val again instead of keeping the splits of an earlier plan.
        relearn: learn the tokenizer from what there is now, whether or not it was learned before.
        cpus: CPUs to estimate for; None: those of this machine.
        rate: text that one CPU counts or tokenizes, in MB/s; None: as in the last run of this
            output (unless `cpus` is given: how many CPUs it had is not known), else measured.
        on_event: called as files are opened.

    Raises:
        NanotokError: what the job itself would raise before it starts; nothing is frozen then.
    """
    out = Folder(recipe.output.path)
    announced = decide(recipe, resplit=resplit, relearn=relearn, on_event=on_event)
    if not announced.is_done:
        risk = store_risk(out, is_accepted=recipe.output.unsafe_store)
        announced = replace(announced, notes=(*announced.notes, *filter(None, [risk])))
    on_event(Activity(text="estimating the time"))
    last = stages_of_last_run(out)
    known = last if cpus is None else {}
    rates = _rates(announced, recipe, last=known, rate=rate, on_event=on_event)
    cpus = cpus or usable_cpus()
    stages = _stage_estimates(announced, rates, last=last, cpus=cpus)
    tokenized: Counter[str] = Counter()
    for slice_ in reads_of(announced.todo.get("tokenize", ())):
        tokenized[slice_.kind] += slice_.num_bytes
    counted = sum(slice_.num_bytes for slice_ in announced.todo.get("count", ()))
    spaces = space_for(recipe, counted=counted, tokenized=tokenized)
    estimate = Estimate(cpus=cpus, seconds=_total(stages), stages=stages, space=tuple(spaces))
    frozen = FrozenPlan(status=freeze(announced.plan, out), path=out.join(PLAN_NAME))
    conversations = announced.conversations
    if announced.tokenizing is not None:
        conversations += tuple(
            sample_conversations(announced.tokenizing, recipe.limits, templates=False)
        )
    return replace(
        announced,
        estimate=estimate,
        freezing=frozen,
        functions=tuple(sample_functions(announced.plan)),
        conversations=conversations,
    )


def _rates(
    announced: JobPlan,
    recipe: Recipe,
    *,
    last: Mapping[str, StageTime],
    rate: float | None,
    on_event: OnEvent,
) -> dict[str, Rate]:
    needed = {stage for stage in TEXT_STAGES if announced.todo.get(stage)}
    if rate is not None:
        return given_rates(rate)
    known = rates_of_run(last)
    if needed <= known.keys():
        return known
    measured = measured_rates(
        _texts(announced, recipe),
        pattern=_pattern(announced, recipe),
        tokenizer=announced.tokenizer,
        on_event=on_event,
    )
    return measured | known


def _pattern(announced: JobPlan, recipe: Recipe) -> str:
    """Return the pattern with which texts are counted."""
    if announced.training is not None:
        return announced.training.training.settings.pattern
    return resolve_pattern(recipe.tokenizer.pattern)


def _texts(announced: JobPlan, recipe: Recipe) -> Sequence[Slice]:
    """Return the slices of text to measure: the counted ones, or any if none is counted."""
    texts = [slice_ for slice_ in announced.plan.slices() if slice_.kind == "text"]
    counted = {source.name for source in recipe.sources if source.count}
    return [
        slice_ for slice_ in texts if slice_.split == "train" and slice_.source in counted
    ] or texts


def _stage_estimates(
    announced: JobPlan, rates: Mapping[str, Rate], *, last: Mapping[str, StageTime], cpus: int
) -> dict[str, StageEstimate]:
    """Estimate the stages that have slices to process, learning, and the rest of the job."""
    stages: dict[str, StageEstimate] = {}
    for stage in TEXT_STAGES:
        if slices := announced.todo.get(stage):
            stages[stage] = _of_slices(slices, rates.get(stage), cpus=cpus)
    if announced.training is not None and announced.tokenizer is None:
        # The time depends on the spans and not on the bytes.
        seconds = last["learn"].seconds if "learn" in last else None
        basis = "unknown" if seconds is None else "as in the last run"
        stages["learn"] = StageEstimate(seconds=_rounded(seconds), from_=basis)
    if stages:
        basis = "planning, start and end of Ray, and the report page; about 1 s with --local"
        stages["other"] = StageEstimate(seconds=OTHER_SECONDS, from_=basis)
    return stages


def _total(stages: Mapping[str, StageEstimate]) -> float | None:
    """Return the seconds of all stages; None if those of a stage with slices are unknown."""
    if any(name in TEXT_STAGES and stage.seconds is None for name, stage in stages.items()):
        return None
    return round(sum(stage.seconds or 0.0 for stage in stages.values()), 1)


def _of_slices(slices: Sequence[Slice], rate: Rate | None, *, cpus: int) -> StageEstimate:
    reads = reads_of(slices)
    if rate is None:
        return StageEstimate(seconds=None, from_="unknown", tasks=len(reads))
    return StageEstimate(
        seconds=_rounded(rate.seconds(reads, cpus=cpus)),
        from_=rate.basis,
        tasks=len(reads),
        megabytes_per_second=round(rate.bytes_per_second / 1e6, 3),
        per_cpu=rate.is_per_cpu,
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
