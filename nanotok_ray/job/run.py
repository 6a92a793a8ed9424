"""One run over one output folder: what it found there, and the lease under which it changes it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from nanotok_ray.errors import OutputInUseError
from nanotok_ray.formats.manifest import MANIFEST_NAME, PLAN_NAME, TOKENIZER_FOLDER
from nanotok_ray.job.dry_run_text import change_lines
from nanotok_ray.job.events import Note, ignore
from nanotok_ray.job.executor import current_executor
from nanotok_ray.job.existing import (
    check_losses,
    frozen_bytes,
    plan_changes,
    plan_for,
    published_settings,
)
from nanotok_ray.job.journaling import StageTimes
from nanotok_ray.job.lease import Lease, free_number, leased
from nanotok_ray.job.probes import shared_folders
from nanotok_ray.job.train import train
from nanotok_ray.job.training import (
    Training,
    add_smaller,
    finished_learning,
    lacks_extension,
    lacks_smaller,
    learn_record,
    notes_on_sizes,
    replace_extension,
)
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards.output import Record
from nanotok_ray.sources import Plan, plan_from_json, plan_to_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, differing_files

T = TypeVar("T")

MAX_LOCK_ATTEMPTS = 3


class OutdatedError(Exception):
    """Another run has changed the output since this one looked at it."""


@dataclass(slots=True)
class OutputLock:
    """What a run knows of the lease of its output; made before anything else is looked at."""

    out: Folder
    command: str
    seen: int | None
    """The number of the lease that nobody held when the output was looked at; None: one held it."""
    lease: Lease | None = None

    @classmethod
    def of(cls, out: Folder, *, command: str) -> "OutputLock":
        """Read who holds the lease, and take nothing."""
        return cls(out=out, command=command, seen=free_number(out))

    @contextmanager
    def taken(self, watch: StageTimes) -> Iterator[None]:
        """Hold the lease while the block runs; `watch` checks it with every event.

        Raises:
            OutdatedError: another run held it since the output was looked at.
            OutputInUseError: another run holds it.
        """
        if self.lease is not None:
            yield
            return
        with leased(self.out, command=self.command, on_event=watch) as lease:
            if self.seen is None or lease.number != self.seen + 1:
                raise OutdatedError
            self.lease, watch.check = lease, lease.guard
            watch.journaling.leased(lease.number)
            try:
                yield
            except OutdatedError:
                raise
            except BaseException as error:  # said before the lease is let go
                watch.journaling.failed(error)
                raise
            finally:
                self.lease, watch.check = None, ignore
        self.seen = lease.number

    def check(self) -> None:
        """Ask storage whether this run may still change the output.

        Raises:
            LeaseLostError: it may not.
        """
        assert self.lease is not None, "nothing is changed without the lease"
        self.lease.check()


def retried_when_outdated(out: str, run: Callable[[], T]) -> T:
    """Run a job, and from the start again where another run came between looking and doing.

    Raises:
        OutputInUseError: that happened again and again.
    """
    for _ in range(MAX_LOCK_ATTEMPTS):
        try:
            return run()
        except OutdatedError:
            continue
    raise OutputInUseError(
        f"other runs changed {out} each of the {MAX_LOCK_ATTEMPTS} times that this one looked at "
        "it: run this command again when they have ended"
    )


STALE_TOKENIZER = (
    "the tokenizer stays as it was learned, before inputs were added, changed or removed; "
    "--relearn learns it from those of now, and then every shard is written again"
)


@dataclass(frozen=True, slots=True)
class Start:
    """How a run was started, beside its recipe, and its notes; a run that starts over keeps it."""

    command: str
    workers: int | None
    resplit: bool
    watch: StageTimes
    relearn: bool = False
    noted: set[str] = field(default_factory=set)

    def note(self, text: str) -> None:
        """Report a note, once."""
        if text not in self.noted:
            self.noted.add(text)
            self.watch(Note(text=text))


@dataclass(slots=True)
class Run:
    """One run over one output folder."""

    recipe: Recipe
    out: Folder
    plan: Plan
    frozen: bytes | None
    """plan.json as it was found."""
    published: Mapping[str, Any]
    """The settings of each source in the manifest as it was found; empty if there was none."""
    hold: OutputLock
    start: Start
    learned: Record | None = None
    """The learn record, if this job is to learn the tokenizer."""
    is_of_other_inputs: bool = False
    """Whether that was learned before inputs were added, changed or removed."""
    has_changed: bool = False
    """Whether anything was written."""

    @classmethod
    def of(cls, recipe: Recipe, start: Start) -> Self:
        """Make the plan, under the splits that an earlier one froze."""
        out = Folder(recipe.output.path)
        hold = OutputLock.of(out, command=start.command)
        frozen = frozen_bytes(out)
        before = None if frozen is None else plan_from_json(frozen)
        plan = plan_for(recipe, out, resplit=start.resplit)
        check_losses(recipe.output, out, before, plan)
        for note in [*plan.notes, *_changes(before, plan)]:
            start.note(note)
        return cls(recipe, out, plan, frozen, published_settings(out), hold, start)

    @property
    def watch(self) -> StageTimes:
        """What is called with all events."""
        return self.start.watch

    def session(self) -> AbstractContextManager[None]:
        """Open a session, once there is something to do: its nodes must share the folders."""
        shared = shared_folders(self.out.url, self.recipe.output.work)
        return current_executor().session(workers=self.start.workers, shared=shared)

    @contextmanager
    def changing(self, *, on_ray: bool = True) -> Iterator[None]:
        """Open Ray if it is needed, and hold the lease."""
        with self.session() if on_ray else nullcontext(), self.hold.taken(self.watch):
            yield

    def begin_changes(self) -> None:
        """Take the manifest away, then freeze the plan."""
        self.hold.check()
        if frozen_bytes(self.out) != self.frozen:  # by `nanotok plan`, which takes no lease
            raise OutdatedError
        if self.out.exists(MANIFEST_NAME):
            self.out.remove(MANIFEST_NAME)
        data = plan_to_json(self.plan)
        if data != self.frozen:
            self.out.write_whole(PLAN_NAME, data)
            self.frozen = data

    def train(self, training: Training) -> Tokenizer:
        """Run the counting stage and the learner."""
        self.begin_changes()
        tokenizer = train(training, self.out, on_event=self.watch)
        self.has_changed = True
        self.learned = learn_record(self.out)
        return tokenizer

    def complete(self, training: Training, tokenizer: Tokenizer) -> None:
        """Write what is missing of a tokenizer that was learned before.

        That is other special tokens added to it, and smaller tokenizers: of these the manifest says
        nothing, and stays.
        """
        for text in notes_on_sizes(training, tokenizer, self.out):
            self.start.note(text)
        self.is_of_other_inputs = training.is_of_other_inputs
        if self.is_of_other_inputs:
            self.start.note(STALE_TOKENIZER)
        if lacks_extension(training, tokenizer, self.out):
            with self.changing(on_ray=False):
                self.begin_changes()
                replace_extension(training, tokenizer, self.out)
                self.has_changed = True
            self.start.note(
                "the special tokens added to the tokenizer are others now: it was not learned again"
            )
        if lacks_smaller(training, tokenizer, self.out):
            with self.changing(on_ray=False):
                self.has_changed = bool(add_smaller(training, tokenizer, self.out))
        self.learned = finished_learning(training, self.out)

    def adopt(self, tokenizer: Tokenizer) -> Tokenizer:
        """Write a tokenizer from elsewhere into the output folder, unless it is there."""
        folder = self.out.join(TOKENIZER_FOLDER)
        if not differing_files(tokenizer.model, folder):
            return tokenizer
        with self.changing(on_ray=False):
            self.begin_changes()
            tokenizer.save(folder, overwrite=True)
        return tokenizer


def _changes(before: Plan | None, plan: Plan) -> list[str]:
    """Return a line on each difference from the plan that was frozen."""
    changed = plan_changes(before, plan)
    return [] if changed is None else [" ".join(line.split()) for line in change_lines(changed)]
