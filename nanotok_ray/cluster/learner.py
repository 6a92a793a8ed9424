"""From count files to the tokenizer folder: learn, save, report, record.

Runs in the driver, as all distinct spans fit one machine. Does not know how spans were counted.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nanotok_ray.cluster.events import Advanced, Note, OnEvent, StageEnded, StageStarted
from nanotok_ray.cluster.learn_record import write_learn_record
from nanotok_ray.cluster.smaller import (
    notes_on_sizes,
    reached_sizes,
    remove_other_sizes,
    write_smaller,
)
from nanotok_ray.cluster.span_table import add_span_table
from nanotok_ray.cluster.training import Training
from nanotok_ray.manifest import TOKENIZER_FOLDER, to_json
from nanotok_ray.merges import REACHED, Learned, Made, learn_merges
from nanotok_ray.output import Record
from nanotok_ray.storage import Folder
from nanotok_ray.threads import default_threads
from nanotok_ray.tokenizer import Tokenizer, make_model
from nanotok_ray.training_report import (
    REPORT_NAME,
    Counted,
    bytes_of_spans,
    training_report,
    why_stopped,
)


def learn_tokenizer(
    training: Training, records: Sequence[Record], out: Folder, *, on_event: OnEvent
) -> Tokenizer:
    """Learn from the count files that the records name, and write all that comes of it.

    The record is written last. What smaller tokenizers a former run left and this one does not
    write again goes, as they were cut from another tokenizer.
    """
    learned = _learn(training, records, on_event)
    own = training.recipe.tokenizer
    model = make_model(
        learned.merges.tolist(),
        pattern=training.settings.pattern,
        special_tokens=own.special_tokens,
    )
    tokenizer = Tokenizer(model)
    tokenizer.save(out.join(TOKENIZER_FOLDER))
    tokenizer = add_span_table(tokenizer, learned, out, max_spans=own.span_table, on_event=on_event)
    report = _report(training, records, learned, tokenizer)
    out.write_whole(f"{TOKENIZER_FOLDER}/{REPORT_NAME}", to_json(report))
    sizes = reached_sizes(training, tokenizer)
    write_smaller(tokenizer, report, out, sizes=sizes)
    remove_other_sizes(out, sizes=sizes)
    write_learn_record(training, out, tokenizer=tokenizer, report=report, also=sizes)
    for text in (*_notes(report), *notes_on_sizes(training, tokenizer, out)):
        on_event(Note(text=text))
    return tokenizer


def _learn(training: Training, records: Sequence[Record], on_event: OnEvent) -> Learned:
    own = training.recipe.tokenizer
    folder = Folder(training.recipe.output.work)
    urls = [folder.join(record.values["files"][0]["name"]) for record in records]
    on_event(StageStarted(stage="learn", todo=own.num_merges, kept=0, num_bytes=0))
    start = time.perf_counter()

    def on_progress(done: int, todo: int, last: Made | None) -> None:
        on_event(Advanced(stage="learn", done=done, todo=todo, num_bytes=0, last=last))

    learned = learn_merges(
        urls,
        num_merges=own.num_merges,
        min_pair_count=own.min_pair_count,
        max_token_bytes=own.max_token_bytes,
        threads=default_threads(),
        on_progress=on_progress,
    )
    size = _sum(records, "text_bytes")
    on_event(StageEnded(stage="learn", seconds=time.perf_counter() - start, num_bytes=size))
    return learned


def _report(
    training: Training, records: Sequence[Record], learned: Learned, tokenizer: Tokenizer
) -> dict[str, Any]:
    own = training.recipe.tokenizer
    counted = Counted(
        documents=_documents(training, records),
        texts=_sum(records, "texts"),
        text_bytes=_sum(records, "text_bytes"),
        spans=learned.spans,
        distinct_spans=learned.distinct_spans,
        span_bytes=bytes_of_spans(learned.span_offsets, learned.span_counts),
        gaps=_sum(records, "gaps"),
        code_points=_sum(records, "code_points"),
        quarantined=reasons_of(records),
    )
    return training_report(
        tokenizer.model,
        vocab_size=own.vocab_size,
        counts=learned.counts,
        applied=learned.applied,
        stop_reason=learned.stop_reason,
        counted=counted,
        min_pair_count=own.min_pair_count,
        max_token_bytes=own.max_token_bytes,
    )


def _documents(training: Training, records: Sequence[Record]) -> int | None:
    """Count the documents; with max_chars more are read than counted, how many is chance."""
    if training.recipe.limits.max_chars is not None:
        return None
    documents = [record.values["documents"] for record in records]
    return sum(int(each["in"]) - int(each["quarantined"]) for each in documents)


def _notes(report: Mapping[str, Any]) -> Iterator[str]:
    """Say what of the result was perhaps not meant."""
    if report["stop_reason"] != REACHED:
        yield (
            f"learning stopped: {why_stopped(report)}; the tokenizer has "
            f"{report['vocab_size_reached']:,} ids, {report['vocab_size_asked']:,} were asked for"
        )
    if report["gaps"]:
        yield (
            f"the pattern left {report['gaps']:,} gaps in the texts; each is kept as a span of its "
            "own"
        )


def reasons_of(records: Sequence[Record]) -> dict[str, int]:
    """Give how many documents could not be used, by reason."""
    total: dict[str, int] = {}
    for record in records:
        for reason, number in record.values["quarantined"].items():
            total[reason] = total.get(reason, 0) + number
    return dict(sorted(total.items()))


def _sum(records: Sequence[Record], name: str) -> int:
    return sum(record.values[name] for record in records)
