"""Runs the learner as one Ray task, with the required memory and on the required node.

The task writes the same files as the learner and yields its events. If its worker or node dies,
the task is run again from the start.
"""

import queue
import threading
from collections.abc import Iterator, Sequence

from nanotok_ray.cluster.nodes import RayNode, alive_nodes
from nanotok_ray.cluster.session import first_line
from nanotok_ray.errors import NanotokError, SliceError
from nanotok_ray.formats import TOKENIZER_FOLDER
from nanotok_ray.job.counting import Training
from nanotok_ray.job.events import Event, Note, OnEvent
from nanotok_ray.job.reducing import WeightedCounts
from nanotok_ray.job.training import learn_tokenizer
from nanotok_ray.recipe import LearnerRecipe
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, written_tokenizer

ATTEMPTS = 3


def learn_in_task(
    training: Training, summed: WeightedCounts, out: Folder, *, on_event: OnEvent
) -> Tokenizer:
    """Run the learner as a separate task according to `[learner]` of the recipe.

    Raises:
        SliceError: Its worker or node died in every attempt.
        NanotokError: An error of the learner.
    """
    import ray  # noqa: PLC0415 - the session has set its environment before

    learner = training.recipe.learner
    for note in placement_notes(learner, alive_nodes()):
        on_event(Note(text=note))
    remote = ray.remote(
        num_cpus=learner.cpus,
        memory=learner.memory,
        max_retries=0,
        num_returns="streaming",
        label_selector=_label(learner.label),
    )(learning_events)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            for reference in remote.options(name="learn").remote(training, summed, out):
                on_event(ray.get(reference))
            break
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, NanotokError) else error from None
        except ray.exceptions.RayError as error:
            text = first_line(error)
            if attempt == ATTEMPTS:
                raise SliceError(
                    f"the learner's task died {ATTEMPTS} times, at last by {type(error).__name__}: "
                    f"{text}; give it more memory (learner.memory) or another node (learner.label)"
                ) from error
            on_event(Note(text=f"the learner's task died ({text}) and is tried again"))
    return written_tokenizer(out.inside(TOKENIZER_FOLDER))


def learning_events(training: Training, summed: WeightedCounts, out: Folder) -> Iterator[Event]:
    """Learn and yield the events, inside the task."""
    events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()

    def learn() -> None:
        try:
            threads = training.recipe.learner.cpus
            learn_tokenizer(training, summed, out, threads=threads, on_event=events.put)
        except BaseException as error:
            events.put(error)
        else:
            events.put(None)

    thread = threading.Thread(target=learn, name="learner")
    thread.start()
    while (event := events.get()) is not None:
        if isinstance(event, BaseException):
            raise event
        yield event
    thread.join()


def placement_notes(learner: LearnerRecipe, nodes: Sequence[RayNode]) -> Iterator[str]:
    """Yield a note if no node matches the request, so that the task waits, possibly forever."""
    wanted = _label(learner.label) or {}
    fitting = [
        node
        for node in nodes
        if node.memory >= (learner.memory or 0)
        and node.cpus >= learner.cpus
        and wanted.items() <= node.labels.items()
    ]
    if not fitting:
        text = f" and the label {learner.label}" if learner.label else ""
        yield (
            f"no node has {learner.memory:,} bytes of memory, {learner.cpus} CPUs{text} for the "
            "learner: it waits until the cluster has one"
        )


def _label(label: str | None) -> dict[str, str] | None:
    if label is None:
        return None
    key, _, value = label.partition("=")
    return {key: value}
