"""From count files to the tokenizer folder: add up, learn, save, report, record."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nanotok_ray.counts.reduce import CountPart, Reduced, SpanTotals, Weights, reduce_counts
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats.manifest import TOKENIZER_FOLDER, to_json
from nanotok_ray.job.counting import CountedSlices
from nanotok_ray.job.events import Advanced, Note, OnEvent, StageEnded, StageStarted
from nanotok_ray.job.training import Training, counted_sources, notes_on_sizes, write_beside
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Model, Tokenizer, make_model
from nanotok_ray.tokenizer.merges import REACHED, Learned, Made, learn_reduced
from nanotok_ray.tokenizer.report import REPORT_NAME, Counted, training_report, why_stopped


@dataclass(frozen=True, kw_only=True, slots=True)
class Summed:
    """What was counted, by what it was multiplied, and the sum."""

    counted: CountedSlices
    weights: Weights
    reduced: Reduced


def sum_counts(training: Training, counted: CountedSlices, *, on_event: OnEvent) -> Summed:
    """Sum the files of what was counted.

    Raises:
        CorruptOutputError: a file is damaged, or the sum is not that of the records.
        CountOverflowError: a sum would pass 2**64 - 1.
        SourceError: a source is to have a share, and has no text.
    """
    sources = counted_sources(training.recipe)
    weights = Weights.of(sources, text_bytes=counted.by_source("text_bytes"))
    folder = Folder(training.recipe.output.work)
    parts = [
        CountPart(url=folder.join(name), weight=weights.multipliers[source])
        for source, name in counted.files
    ]
    on_event(StageStarted(stage="reduce", todo=len(parts), num_done=0, num_bytes=0))
    start = time.perf_counter()

    def on_progress(done: int, total: int) -> None:
        files = len(parts) * done // max(total, 1)
        on_event(Advanced(stage="reduce", done=files, todo=len(parts), num_bytes=done))

    reduced = reduce_counts(
        parts, min_count=training.recipe.tokenizer.min_count, on_progress=on_progress
    )
    found, expected = reduced.totals.spans, counted.sum("spans")
    if found != expected:
        raise CorruptOutputError(
            f"the count files in {folder.join('counts')} hold {found:,} spans, their records say "
            f"{expected:,}: remove the folder and run the job again"
        )
    size = sum(record.values["files"][0]["size"] for record in counted.records)
    on_event(StageEnded(stage="reduce", seconds=time.perf_counter() - start, num_bytes=size))
    return Summed(counted=counted, weights=weights, reduced=reduced)


def learn_tokenizer(
    training: Training, counted: CountedSlices, out: Folder, *, threads: int, on_event: OnEvent
) -> Tokenizer:
    """Learn from the count files, and write all that comes of it.

    The record is written last. What smaller tokenizers a former run left and this one does not
    write again goes, as they were cut from another tokenizer.
    """
    summed = sum_counts(training, counted, on_event=on_event)
    learned = _learn(training, summed, threads=threads, on_event=on_event)
    recipe = training.recipe.tokenizer
    model = make_model(
        learned.merges.tolist(),
        pattern=training.settings.pattern,
        special_tokens=recipe.learned_special_tokens,
    )
    tokenizer = Tokenizer(model.extended(recipe.extend))
    tokenizer.save(out.join(TOKENIZER_FOLDER), overwrite=True)
    report = _report(training, summed, learned, model)
    out.write_whole(f"{TOKENIZER_FOLDER}/{REPORT_NAME}", to_json(report))
    write_beside(training, tokenizer, report, out)
    for text in (*_notes(report), *notes_on_sizes(training, tokenizer, out)):
        on_event(Note(text=text))
    return tokenizer


def _learn(training: Training, summed: Summed, *, threads: int, on_event: OnEvent) -> Learned:
    recipe = training.recipe.tokenizer
    on_event(StageStarted(stage="learn", todo=recipe.num_merges, num_done=0, num_bytes=0))
    start = time.perf_counter()
    made = 0

    def on_progress(done: int, todo: int, last: Made | None) -> None:
        nonlocal made
        made = done
        on_event(Advanced(stage="learn", done=done, todo=todo, num_bytes=0, last=last))

    learned = learn_reduced(
        summed.reduced,
        num_merges=recipe.num_merges,
        min_pair_count=recipe.min_pair_count * summed.weights.unit,
        max_token_bytes=recipe.max_token_bytes,
        threads=threads,
        on_progress=on_progress,
    )
    if made < len(learned.merges):  # learning ended before the number that was asked for
        on_progress(len(learned.merges), recipe.num_merges, None)
    size = summed.counted.sum("text_bytes")
    on_event(StageEnded(stage="learn", seconds=time.perf_counter() - start, num_bytes=size))
    return learned


def _report(training: Training, summed: Summed, learned: Learned, model: Model) -> dict[str, Any]:
    recipe, counted = training.recipe.tokenizer, summed.counted
    totals = summed.reduced.totals
    summary = Counted(
        documents=_documents(training, counted),
        texts=counted.sum("texts"),
        text_bytes=counted.sum("text_bytes"),
        spans=totals.spans,
        distinct_spans=totals.distinct_spans,
        span_bytes=SpanTotals.of(learned.span_offsets, learned.span_counts).span_bytes,
        gaps=counted.sum("gaps"),
        code_points=counted.sum("code_points"),
        quarantined=counted.reasons,
        sources=_sources(training, summed),
        weight_unit=summed.weights.unit,
        min_count=recipe.min_count,
        dropped={
            "distinct_spans": totals.dropped_distinct,
            "spans": totals.dropped_spans,
            "bytes": totals.dropped_bytes,
        },
        skipped_slices=[ended.task.name for ended in counted.skipped],
    )
    return training_report(
        model,
        vocab_size=recipe.vocab_size,
        counts=learned.counts,
        applied=learned.applied,
        stop_reason=learned.stop_reason,
        counted=summary,
        min_pair_count=recipe.min_pair_count,
        max_token_bytes=recipe.max_token_bytes,
    )


def _sources(training: Training, summed: Summed) -> dict[str, Any]:
    """Return for each source what was counted, without its weight, and the weight."""
    sums = {name: summed.counted.by_source(name) for name in ("texts", "text_bytes", "spans")}
    return {
        source.name: {
            "weight": source.weight,
            "multiplier": summed.weights.multipliers[source.name],
            **{name: sums[name].get(source.name, 0) for name in sums},
        }
        for source in counted_sources(training.recipe)
    }


def _documents(training: Training, counted: CountedSlices) -> int | None:
    """Count the documents; with max_chars more are read than counted, how many is chance."""
    if training.recipe.limits.max_chars is not None:
        return None
    documents = [record.values["documents"] for record in counted.records]
    return sum(int(count["in"]) - int(count["quarantined"]) for count in documents)


def _notes(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on what of the result was perhaps not meant."""
    if report["stop_reason"] != REACHED:
        yield (
            f"learning stopped: {why_stopped(report)}; the tokenizer has "
            f"{report['vocab_size_reached']:,} ids, {report['vocab_size_asked']:,} were asked for"
        )
    if report["dropped"]["spans"]:
        yield (
            f"min_count = {report['min_count']:,} left out {report['dropped']['spans']:,} of "
            f"{report['spans']:,} spans, {report['dropped']['distinct_spans']:,} different ones"
        )
    if report["differs_from_rustbpe"]:
        yield (
            f"the merges are not those that rustbpe learns from the same documents, because of "
            f"{', '.join(report['differs_from_rustbpe'])}"
        )
    if report["gaps"]:
        yield (
            f"the pattern left {report['gaps']:,} gaps in the texts; each is kept as a span of its "
            "own"
        )
