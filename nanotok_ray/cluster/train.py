"""First fan-out and learner: the train split's texts to a tokenizer folder.

What was counted before is not counted again, and a tokenizer whose record matches is not learned
again. Does not know the second fan-out.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nanotok_ray import _core
from nanotok_ray.cluster.engine import Ended, Task, num_cpus
from nanotok_ray.cluster.events import Advanced, Note, OnEvent, StageEnded, StageStarted
from nanotok_ray.cluster.fan_out import fan_out
from nanotok_ray.cluster.span_table import add_span_table
from nanotok_ray.cluster.stages import CountWork, count_work
from nanotok_ray.counts import CountSettings
from nanotok_ray.errors import PlanError, SourceError
from nanotok_ray.manifest import RECORD_FORMAT, TOKENIZER_FOLDER, key_of, to_json
from nanotok_ray.merges import REACHED, Learned, Made, learn_merges
from nanotok_ray.output import Record, finished_record
from nanotok_ray.patterns import resolve_pattern
from nanotok_ray.plan import Plan, Slice
from nanotok_ray.quarantine import check_limits
from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import FILE_NAMES, Tokenizer, make_model

LEARN_RECORD = "records/learn.json"
LEARN_FORMAT = "nanotok-learn 1"
REPORT_NAME = "report.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """What is to be learned: from which slices, how counted, how large."""

    recipe: Recipe
    slices: tuple[Slice, ...]
    settings: CountSettings

    @property
    def key(self) -> str:
        """Everything the tokenizer depends on."""
        own = self.recipe.tokenizer
        return key_of(
            {
                "format": LEARN_FORMAT,
                "counts": [self.settings.key(each) for each in self.slices],
                "max_chars": self.recipe.limits.max_chars,
                "vocab_size": own.vocab_size,
                "special_tokens": list(own.special_tokens),
            }
        )

    def work(self, each: Slice, *, budget: int | None = None) -> CountWork:
        """Give the counting of one slice, with a budget of code points if it has one."""
        settings = self.settings
        if budget is not None:
            settings = CountSettings(
                pattern=settings.pattern,
                gaps=settings.gaps,
                doc_cap=settings.doc_cap,
                budget=budget,
            )
        return CountWork(slice=each, settings=settings, work=self.recipe.output.work)


def training_of(recipe: Recipe, plan: Plan) -> Training:
    """Say what is to be learned from a plan.

    Raises:
        PlanError: nothing is to be counted.
        PatternError: the pattern cannot be compiled.
    """
    counted = {source.name for source in recipe.sources if source.count}
    slices = tuple(each for each in plan.slices(split="train") if each.source in counted)
    if not slices:
        raise PlanError(
            "no train split to learn a tokenizer from: name a source of kind text (or with "
            "count = true) that has train files, or an existing tokenizer as tokenizer.path"
        )
    pattern = resolve_pattern(recipe.tokenizer.pattern)
    _core.Splitter(pattern)  # compiled here once, so that a bad one is not found by every task
    settings = CountSettings(
        pattern=pattern,
        gaps=recipe.tokenizer.gaps,
        doc_cap=recipe.limits.doc_cap,
    )
    return Training(recipe=recipe, slices=slices, settings=settings)


def finished_tokenizer(training: Training, out: Folder) -> Tokenizer | None:
    """Give the tokenizer of the output folder if it is the one to be learned."""
    record = finished_record(out, LEARN_RECORD, key=training.key)
    if record is None:
        return None
    use = training.recipe.tokenizer.uses_span_table
    tokenizer = Tokenizer.load(out.join(TOKENIZER_FOLDER), span_table=use)
    # Another one may have been put there since, as by a recipe with tokenizer.path.
    return tokenizer if tokenizer.sha256 == record.values.get("tokenizer_sha256") else None


def finished_counts(training: Training) -> int:
    """Give the number of slices that were counted before."""
    return sum(_finished(training.work(each)) is not None for each in training.slices)


def train(training: Training, out: Folder, *, on_event: OnEvent) -> Tokenizer:
    """Count, merge, learn and save, with the span table if one is asked for. Needs a Ray session.

    Raises:
        SliceError: slices failed for good.
        QuarantineLimitError: too many documents could not be used.
        SourceError: there was no text at all.
    """
    records = _count(training, on_event)
    check_limits(
        documents=_sum(records, "in"),
        quarantined=_reasons(records),
        limits=training.recipe.limits,
        where=Folder(training.recipe.output.work).join("counts"),
    )
    if not sum(record.values["texts"] for record in records):
        files = [piece.path for each in training.slices for piece in each.pieces]
        raise SourceError(
            f"no documents at all in {len(files)} files, the first of them {files[0]}"
        )
    learned = _learn(training, records, on_event)
    tokenizer = _save(training, records, learned, out, on_event)
    for text in _notes(training, records, learned, tokenizer):
        on_event(Note(text=text))
    return tokenizer


def _count(training: Training, on_event: OnEvent) -> list[Record]:
    """Count all slices, or with max_chars those up to the document that passes it."""
    limit = training.recipe.limits.max_chars
    works = [training.work(each) for each in training.slices]
    if limit is None:
        _run(works, on_event)
        return [_record(work) for work in works]
    return list(_count_up_to(training, works, limit, on_event))


def _count_up_to(
    training: Training, works: Sequence[CountWork], limit: int, on_event: OnEvent
) -> Iterator[Record]:
    """Give the records of the slices that lie before the cut, then that of the cut slice.

    As in nanochat, the document that passes the limit is counted whole and is the last.
    """
    place = {work.name: number for number, work in enumerate(works)}
    points: dict[int, int] = {}

    def is_enough(ended: Ended) -> bool:
        if ended.error is None:
            number = place[ended.task.argument.name]
            points[number] = _record(works[number]).values["code_points"]
        return _prefix(points) > limit

    for number, work in enumerate(works):
        record = _finished(work)
        if record is not None:
            points[number] = record.values["code_points"]
    if _prefix(points) <= limit:
        _run(works, on_event, window=2 * num_cpus(), is_enough=is_enough)
    total = 0
    for number, work in enumerate(works):
        if total + points[number] > limit:
            cut = training.work(work.slice, budget=limit - total)
            _run([cut], on_event)
            yield _record(cut)
            return
        total += points[number]
        yield _record(work)


def _prefix(points: dict[int, int]) -> int:
    """Sum the code points of the leading slices that are all known."""
    total = number = 0
    while number in points:
        total += points[number]
        number += 1
    return total


def _run(
    works: Sequence[CountWork],
    on_event: OnEvent,
    *,
    window: int | None = None,
    is_enough: Callable[[Ended], bool] | None = None,
) -> None:
    todo = [work for work in works if _finished(work) is None]
    tasks = [
        Task(
            name=f"count {work.name.removeprefix('counts/')}",
            work=count_work,
            argument=work,
            num_bytes=work.slice.num_bytes,
        )
        for work in todo
    ]
    fan_out(
        "count",
        tasks,
        kept=len(works) - len(todo),
        on_event=on_event,
        window=window,
        is_enough=is_enough,
    )


def _finished(work: CountWork) -> Record | None:
    return finished_record(
        Folder(work.work), f"{work.name}.json", key=work.settings.key(work.slice)
    )


def _record(work: CountWork) -> Record:
    record = _finished(work)
    if record is None:
        raise SourceError(
            f"the count file {work.name} was made and is gone; who else writes to {work.work}?"
        )
    return record


def _learn(training: Training, records: Sequence[Record], on_event: OnEvent) -> Learned:
    own = training.recipe.tokenizer
    folder = Folder(training.recipe.output.work)
    urls = [folder.join(record.values["files"][0]["name"]) for record in records]
    on_event(StageStarted(stage="learn", todo=own.num_merges, kept=0, num_bytes=0))
    start = time.perf_counter()

    def on_progress(done: int, todo: int, _last: Made | None) -> None:
        on_event(Advanced(stage="learn", done=done, todo=todo, num_bytes=0))

    learned = learn_merges(urls, num_merges=own.num_merges, on_progress=on_progress)
    size = sum(record.values["text_bytes"] for record in records)
    on_event(StageEnded(stage="learn", seconds=time.perf_counter() - start, num_bytes=size))
    return learned


def _save(
    training: Training,
    records: Sequence[Record],
    learned: Learned,
    out: Folder,
    on_event: OnEvent,
) -> Tokenizer:
    own = training.recipe.tokenizer
    model = make_model(
        learned.merges.tolist(),
        pattern=training.settings.pattern,
        special_tokens=own.special_tokens,
    )
    tokenizer = Tokenizer(model)
    tokenizer.save(out.join(TOKENIZER_FOLDER))
    tokenizer = add_span_table(tokenizer, learned, out, max_spans=own.span_table, on_event=on_event)
    report = {
        "vocab_size_asked": own.vocab_size,
        "vocab_size_reached": tokenizer.get_vocab_size(),
        "stop_reason": learned.stop_reason,
        "distinct_spans": learned.distinct_spans,
        "spans": learned.spans,
        "gaps": sum(record.values["gaps"] for record in records),
        "texts": sum(record.values["texts"] for record in records),
        "text_bytes": sum(record.values["text_bytes"] for record in records),
        "code_points": sum(record.values["code_points"] for record in records),
        "quarantined": _reasons(records),
    }
    out.write_whole(f"{TOKENIZER_FOLDER}/{REPORT_NAME}", to_json(report))
    names = [f"{TOKENIZER_FOLDER}/{name}" for name in (*FILE_NAMES, REPORT_NAME)]
    record = {
        "format": RECORD_FORMAT,
        "stage": "learn",
        "key": training.key,
        "tokenizer_sha256": tokenizer.sha256,
        "report": report,
        "files": [
            {"name": name, "size": out.size(name), "sha256": out.sha256(name)} for name in names
        ],
    }
    out.write_whole(LEARN_RECORD, to_json(record))
    return tokenizer


def _notes(
    training: Training, records: Sequence[Record], learned: Learned, tokenizer: Tokenizer
) -> Iterator[str]:
    """Say what of the result was perhaps not meant."""
    if learned.stop_reason != REACHED:
        asked = training.recipe.tokenizer.vocab_size
        yield (
            f"learning stopped: {learned.stop_reason}; the tokenizer has "
            f"{tokenizer.get_vocab_size():,} ids, {asked:,} were asked for"
        )
    gaps = sum(record.values["gaps"] for record in records)
    if gaps:
        yield f"the pattern left {gaps:,} gaps in the texts; each is kept as a span of its own"


def _sum(records: Sequence[Record], name: str) -> int:
    return sum(record.values["documents"][name] for record in records)


def _reasons(records: Sequence[Record]) -> dict[str, int]:
    total: dict[str, int] = {}
    for record in records:
        for reason, number in record.values["quarantined"].items():
            total[reason] = total.get(reason, 0) + number
    return dict(sorted(total.items()))
