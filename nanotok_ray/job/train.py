"""Counting and learning: the train split's texts to a tokenizer folder.

A tokenizer whose record matches is not learned again.
"""

from nanotok_ray.counts.patterns import default_threads
from nanotok_ray.errors import SourceError
from nanotok_ray.formats.manifest import TOKENIZER_FOLDER
from nanotok_ray.job.counting import CountedSlices, count, merge_first
from nanotok_ray.job.events import Note, OnEvent
from nanotok_ray.job.executor import current_executor
from nanotok_ray.job.learner import learn_tokenizer
from nanotok_ray.job.stage import first_quarantined, format_failure
from nanotok_ray.job.training import Training, finished_learning, reusable_training, with_extension
from nanotok_ray.sources.quarantine import check_limits
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, written_tokenizer


def finished_tokenizer(training: Training, out: Folder) -> Tokenizer | None:
    """Return the tokenizer of the output folder if it is the one to be learned.

    If the recipe adds other special tokens to it than were added, it is returned with those.
    """
    record = finished_learning(training, out)
    if record is None:
        return None
    tokenizer = written_tokenizer(out.join(TOKENIZER_FOLDER))
    # Another one may have been put there since, as by a recipe with tokenizer.path.
    if tokenizer.sha256 != record.values.get("tokenizer_sha256"):
        return None
    return with_extension(tokenizer, record, training.recipe.tokenizer.extend)


def current_tokenizer(
    training: Training, out: Folder, *, relearn: bool
) -> tuple[Training, Tokenizer | None]:
    """Return the tokenizer that the output has and that is to be used, and the training it is of.

    Unless it is to be learned again, one that was learned by the same rules stays, whatever inputs
    have come since. If there is none to use, the training is what is to be learned.
    """
    if not relearn:
        reusable = reusable_training(training, out)
        tokenizer = finished_tokenizer(reusable, out)
        if tokenizer is not None:
            return reusable, tokenizer
    return training, finished_tokenizer(training, out)


def train(training: Training, out: Folder, *, on_event: OnEvent) -> Tokenizer:
    """Count, merge, learn and save. Needs a Ray session.

    Raises:
        SliceError: slices failed for good.
        QuarantineLimitError: too many documents could not be used.
        SourceError: there was no text at all.
    """
    counted = count(training, on_event=on_event)
    _check(training, counted)
    for ended in counted.skipped:
        on_event(Note(text=f"left out of learning:{format_failure(ended)}"))
    counted = merge_first(training.recipe.output.work, counted, on_event=on_event)
    if training.recipe.learner.memory is None:
        threads = default_threads()
        return learn_tokenizer(training, counted, out, threads=threads, on_event=on_event)
    return current_executor().learn(training, counted, out, on_event=on_event)


def _check(training: Training, counted: CountedSlices) -> None:
    work = Folder(training.recipe.output.work)
    slices = [count_work.slice for count_work in counted.works]
    check_limits(
        documents=sum(record.values["documents"]["in"] for record in counted.records),
        quarantined=counted.reasons,
        limits=training.recipe.limits,
        where=work.join("counts"),
        first=lambda tails: first_quarantined(
            work, zip(slices, counted.records, strict=True), tails=tails
        ),
    )
    if not counted.sum("texts"):
        files = [piece.path for slice_ in training.slices for piece in slice_.pieces]
        raise SourceError(
            f"no documents at all in {len(files)} files, the first of them {files[0]}"
        )
