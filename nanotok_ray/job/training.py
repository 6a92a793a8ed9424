"""The training stage, which learns the tokenizer of an output.

A tokenizer whose record matches the settings and the inputs is not learned again.
"""

import time
from collections.abc import Iterator
from typing import Final

from nanotok_ray.counts import PartSums, SpanSums, default_threads
from nanotok_ray.errors import SourceError
from nanotok_ray.formats import (
    TOKENIZER_FOLDER,
    Counted,
    CountedSource,
    DroppedSpans,
    TrainingReport,
)
from nanotok_ray.job.bad_documents import first_quarantined
from nanotok_ray.job.counting import CountedSlices, Training, count, counted_sources
from nanotok_ray.job.events import Advanced, Note, OnEvent, StageEnded, StageStarted
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.learned import notes_on_sizes, write_beside
from nanotok_ray.job.reducing import (
    SIGNS_OF_DAMAGE,
    WeightedCounts,
    merge_first,
    remove_damaged_sums,
    sum_parts,
)
from nanotok_ray.job.stage import format_failure
from nanotok_ray.job.superwords import learn_superwords
from nanotok_ray.sources import check_limits
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import (
    REACHED,
    LearnedTokenizer,
    Made,
    Tokenizer,
    train_tokenizer,
    why_stopped,
)
from nanotok_ray.units import few, quantity


def train(training: Training, out: Folder, runtime: Runtime) -> Tokenizer:
    """Count the slices, sum the counts, learn the tokenizer and save it; requires a session.

    If the sum shows that a stored file of counts is damaged, the damaged files are made again.

    Raises:
        SliceError: Slices failed permanently.
        QuarantineLimitError: Too many documents could not be used.
        SourceError: The inputs have no documents.
        CorruptOutputError: Counts that were just made are damaged.
    """
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        counted = _count(training, runtime)
        counts = [(training, counted)]
        try:
            return _learn_from(training, counted, out, runtime, counts)
        except SIGNS_OF_DAMAGE:
            removed = [remove_damaged_sums(*each, on_event=runtime.on_event) for each in counts]
            if attempt == _MAX_ATTEMPTS or not any(removed):
                raise
    raise AssertionError("the last attempt returns or raises")


_MAX_ATTEMPTS: Final = 3
"""Counts of spans, pairs and segments can be damaged, and the damage is seen in this order."""


def _count(training: Training, runtime: Runtime) -> CountedSlices:
    counted = count(training, runtime)
    _check(training, counted)
    for ended in counted.skipped:
        runtime.on_event(Note(text=f"skipped in learning:{format_failure(ended)}"))
    return counted


def _learn_from(
    training: Training,
    counted: CountedSlices,
    out: Folder,
    runtime: Runtime,
    counts: list[tuple[Training, CountedSlices]],
) -> Tokenizer:
    """Sum the counts and learn; counts that are made for that are appended to `counts`."""

    def learn(training: Training, summed: WeightedCounts, out: Folder) -> Tokenizer:
        if training.recipe.learner.memory is not None:
            return runtime.executor.learn(training, summed, out, on_event=runtime.on_event)
        threads = default_threads()
        return learn_tokenizer(training, summed, out, threads=threads, on_event=runtime.on_event)

    if training.recipe.tokenizer.superwords is not None:
        return learn_superwords(training, counted, out, runtime, learn, recounts=counts)
    counted = merge_first(training.recipe.output.work, counted, runtime)
    return learn(training, sum_parts(WeightedCounts.of(training, counted), runtime), out)


def _check(training: Training, counted: CountedSlices) -> None:
    work = Folder(training.recipe.output.work)
    slices = [count_work.slice for count_work in counted.items]
    check_limits(
        documents=sum(record.value.documents.in_ for record in counted.records),
        quarantined=counted.reasons,
        limits=training.recipe.limits,
        where=work.join("counts"),
        first=lambda tails: first_quarantined(
            work, zip(slices, counted.records, strict=True), tails=tails
        ),
    )
    if not counted.sum("texts"):
        files = {piece.file.path for slice_ in training.slices for piece in slice_.pieces}
        bad = sum(counted.reasons.values())
        raise SourceError(
            f"no text to learn a tokenizer from: the train split of {quantity(len(files), 'file')} "
            f"({few(sorted(files))}) has no documents besides {bad:,} quarantined ones; add texts, "
            "or correct the split, the limits or the column of the source"
        )


def learn_tokenizer(
    training: Training, summed: WeightedCounts, out: Folder, *, threads: int, on_event: OnEvent
) -> Tokenizer:
    """Learn a tokenizer from the count files and write its files, the record last.

    Raises:
        CorruptOutputError: A count file is damaged, or its sums differ from the records.
        CountOverflowError: A sum exceeds 2**64 - 1.
    """
    reduced = _reduced(summed, on_event=on_event)
    learned = _learn(training, summed, reduced, threads=threads, on_event=on_event)
    learned = learned.extended_with(training.recipe.tokenizer.extend)
    learned.save(out.inside(TOKENIZER_FOLDER), overwrite=True)
    write_beside(training, learned, out)
    for text in (*_notes(learned.report), *notes_on_sizes(training, learned.tokenizer, out)):
        on_event(Note(text=text))
    return learned.tokenizer


def _reduced(summed: WeightedCounts, *, on_event: OnEvent) -> SpanSums | PartSums:
    """Sum the count files, or return the sums that tasks have written."""
    if summed.parts:
        return summed.reduced()
    num_files = len(summed.counted.files)
    on_event(StageStarted(stage="reduce", todo=num_files, num_done=0, num_bytes=0))
    start = time.perf_counter()

    def on_progress(done: int, total: int) -> None:
        files = num_files * done // max(total, 1)
        on_event(Advanced(stage="reduce", done=files, todo=num_files, num_bytes=done))

    reduced = summed.reduced(on_progress)
    seconds = time.perf_counter() - start
    on_event(StageEnded(stage="reduce", seconds=seconds, num_bytes=summed.num_bytes))
    return reduced


def _learn(
    training: Training,
    summed: WeightedCounts,
    reduced: SpanSums | PartSums,
    *,
    threads: int,
    on_event: OnEvent,
) -> LearnedTokenizer:
    settings = training.train_settings
    on_event(StageStarted(stage="learn", todo=settings.num_merges, num_done=0, num_bytes=0))
    start = time.perf_counter()
    made = 0

    def on_progress(done: int, todo: int, last: Made | None) -> None:
        nonlocal made
        made = done
        on_event(Advanced(stage="learn", done=done, todo=todo, num_bytes=0, last=last))

    learned = train_tokenizer(
        reduced,
        settings,
        _counted(training, summed, reduced),
        threads=threads,
        on_progress=on_progress,
    )
    before = 0 if training.first is None else len(training.first.learned.merges)
    num_merges = len(learned.learned.merges) - before
    if made < num_merges:  # learning ended before the number that was asked for
        on_progress(num_merges, settings.num_merges, None)
    size = summed.counted.sum("text_bytes")
    on_event(StageEnded(stage="learn", seconds=time.perf_counter() - start, num_bytes=size))
    return learned


def _counted(training: Training, summed: WeightedCounts, reduced: SpanSums | PartSums) -> Counted:
    """Return the section of the training report on the counts."""
    counted, totals = summed.counted, reduced.totals
    return Counted(
        documents=_documents(training, counted),
        texts=counted.sum("texts"),
        text_bytes=counted.sum("text_bytes"),
        spans=totals.spans,
        distinct_spans=totals.distinct_spans,
        span_bytes=reduced.weighted_bytes,
        gaps=counted.sum("gaps"),
        code_points=counted.sum("code_points"),
        quarantined=counted.reasons,
        sources=_sources(training, summed),
        weight_unit=summed.weights.unit,
        min_count=summed.min_count,
        dropped=DroppedSpans(
            distinct_spans=totals.dropped_distinct,
            spans=totals.dropped_spans,
            bytes=totals.dropped_bytes,
        ),
        skipped_slices=tuple(ended.task.name for ended in counted.skipped),
    )


def _sources(training: Training, summed: WeightedCounts) -> dict[str, CountedSource]:
    """Return the unweighted counts and the weight of each source."""
    sums = {name: summed.counted.by_source(name) for name in ("texts", "text_bytes", "spans")}
    return {
        source.name: CountedSource(
            weight=source.weight,
            multiplier=summed.weights.multipliers[source.name],
            **{name: sums[name].get(source.name, 0) for name in sums},
        )
        for source in counted_sources(training.recipe)
    }


def _documents(training: Training, counted: CountedSlices) -> int | None:
    """Return the number of counted documents.

    With max_chars the result is None, because the number of documents that workers read beyond the
    limit is not deterministic.
    """
    if training.recipe.limits.max_chars is not None:
        return None
    documents = [record.value.documents for record in counted.records]
    return sum(count.in_ - count.quarantined for count in documents)


def _notes(report: TrainingReport) -> Iterator[str]:
    """Yield notes on results that the user may not have intended."""
    if report.stop_reason != REACHED:
        yield (
            f"learning stopped: {why_stopped(report)}; the tokenizer has "
            f"{report.vocab_size_reached:,} ids, {report.vocab_size_asked:,} were asked for"
        )
    if report.dropped.spans:
        yield (
            f"min_count = {report.min_count:,} left out {report.dropped.spans:,} of "
            f"{quantity(report.spans, 'span')}, "
            f"{report.dropped.distinct_spans:,} different ones"
        )
    if report.differs_from_rustbpe:
        yield (
            "the merges differ from those that rustbpe learns from the same documents, because of "
            f"{', '.join(report.differs_from_rustbpe)}"
        )
    if report.base is not None and report.base.unreachable:
        yield (
            f"{quantity(len(report.base.unreachable), 'new token')} cannot be made of the bytes of "
            f"a span, the first has id {report.base.unreachable[0]}"
        )
    if report.gaps:
        yield (f"the pattern left {report.gaps:,} gaps in the texts; each gap is a separate span")
