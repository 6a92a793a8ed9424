"""First fan-out and learner: the train split's texts to a tokenizer folder.

What was counted before is not counted again, and a tokenizer whose record matches is not learned
again. Does not know the second fan-out.
"""

from collections.abc import Callable, Iterator, Sequence

from nanotok_ray.cluster.engine import Ended, SharedFolder, Task, num_cpus
from nanotok_ray.cluster.events import OnEvent
from nanotok_ray.cluster.fan_out import fan_out
from nanotok_ray.cluster.learn_record import finished_learning
from nanotok_ray.cluster.learner import learn_tokenizer, reasons_of
from nanotok_ray.cluster.probes import WORK_PROBES
from nanotok_ray.cluster.stages import CountWork, count_work
from nanotok_ray.cluster.training import Training
from nanotok_ray.errors import SourceError
from nanotok_ray.manifest import TOKENIZER_FOLDER
from nanotok_ray.output import Record, finished_record
from nanotok_ray.quarantine import check_limits
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer


def finished_tokenizer(training: Training, out: Folder) -> Tokenizer | None:
    """Give the tokenizer of the output folder if it is the one to be learned."""
    record = finished_learning(training, out)
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
        documents=sum(record.values["documents"]["in"] for record in records),
        quarantined=reasons_of(records),
        limits=training.recipe.limits,
        where=Folder(training.recipe.output.work).join("counts"),
    )
    if not sum(record.values["texts"] for record in records):
        files = [piece.path for each in training.slices for piece in each.pieces]
        raise SourceError(
            f"no documents at all in {len(files)} files, the first of them {files[0]}"
        )
    return learn_tokenizer(training, records, out, on_event=on_event)


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
            inputs=tuple(file.url for file in work.slice.files),
            shared=(SharedFolder(url=Folder(work.work).url, probes=WORK_PROBES),),
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
