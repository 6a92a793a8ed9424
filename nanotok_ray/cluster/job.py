"""The job: plan, first fan-out, learner, second fan-out, verification, manifest.

Storage holds all state: the same job started again goes on where it stopped, and does nothing when
there is nothing to do. The manifest is removed before anything changes and written last.
"""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from nanotok_ray.cluster.changed import plan_changes, published_settings, setting_changes
from nanotok_ray.cluster.events import Note, OnEvent, StageEnded, StageStarted, ignore
from nanotok_ray.cluster.existing import existing_tokenizer, plan_for
from nanotok_ray.cluster.learn_record import finished_learning, learn_record
from nanotok_ray.cluster.outlook_text import change_lines
from nanotok_ray.cluster.probes import shared_folders
from nanotok_ray.cluster.session import ray_session
from nanotok_ray.cluster.smaller import add_smaller, notes_on_sizes
from nanotok_ray.cluster.stage_times import StageTimes
from nanotok_ray.cluster.tokenize import Tokenizing, tokenize, tokenizing_of
from nanotok_ray.cluster.train import finished_tokenizer, train
from nanotok_ray.cluster.training import Training, training_of
from nanotok_ray.errors import IncompleteOutputError, SourceError, VerificationError
from nanotok_ray.manifest import (
    MANIFEST_NAME,
    PLAN_NAME,
    SHARDS_INDEX_NAME,
    TOKENIZER_FOLDER,
    to_json,
)
from nanotok_ray.output import Output, Record
from nanotok_ray.plan import Plan, plan_from_json, plan_to_json
from nanotok_ray.quarantine import check_limits
from nanotok_ray.recipe import Recipe
from nanotok_ray.report import Summary, summarise
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, copy_span_table, differing_files
from nanotok_ray.verify import Verification, verify_output

SUMMARY_NAME = "run/summary.json"


def prepare(
    recipe: Recipe,
    *,
    workers: int | None = None,
    resplit: bool = False,
    on_event: OnEvent = ignore,
) -> Summary:
    """Learn the tokenizer if need be, then tokenize the corpus.

    Raises:
        NanotokError: a class of `nanotok_ray.errors`; nothing is published, what was done is kept.
    """
    job = _Job.of(recipe, workers=workers, resplit=resplit, on_event=on_event)
    if recipe.tokenizer.path is not None:
        use = recipe.tokenizer.uses_span_table
        return job.tokenize(job.adopt(Tokenizer.load(recipe.tokenizer.path, span_table=use)))
    training = training_of(recipe, job.plan)
    tokenizer = finished_tokenizer(training, job.out)
    if tokenizer is not None:
        job.complete(training, tokenizer)
        return job.tokenize(tokenizer)
    with job.session():
        return job.tokenize(job.train(training))


def train_tokenizer(
    recipe: Recipe,
    *,
    workers: int | None = None,
    resplit: bool = False,
    on_event: OnEvent = ignore,
) -> Summary:
    """Learn the tokenizer and stop there.

    Raises:
        NanotokError: a class of `nanotok_ray.errors`.
    """
    job = _Job.of(recipe, workers=workers, resplit=resplit, on_event=on_event)
    training = training_of(recipe, job.plan)
    tokenizer = finished_tokenizer(training, job.out)
    if tokenizer is not None:
        job.complete(training, tokenizer)
        return job.summary(tokenizer)
    with job.session():
        tokenizer = job.train(training)
    return job.summary(tokenizer)


def tokenize_corpus(
    recipe: Recipe,
    *,
    workers: int | None = None,
    resplit: bool = False,
    on_event: OnEvent = ignore,
) -> Summary:
    """Tokenize the corpus with the tokenizer that is there.

    That is `tokenizer.path` of the recipe, else the one in the output folder.

    Raises:
        NanotokError: a class of `nanotok_ray.errors`.
    """
    job = _Job.of(recipe, workers=workers, resplit=resplit, on_event=on_event)
    tokenizer = existing_tokenizer(recipe, job.out)
    if tokenizer is None:
        raise IncompleteOutputError(
            f"no tokenizer in {job.out.join(TOKENIZER_FOLDER)}: train one first, "
            "or name one as tokenizer.path in the recipe"
        )
    return job.tokenize(job.adopt(tokenizer))


@dataclass(slots=True)
class _Job:
    """One run over one output folder."""

    recipe: Recipe
    out: Folder
    plan: Plan
    frozen: bytes | None
    """plan.json as it was found."""
    published: Mapping[str, Any]
    """The settings of each source in the manifest as it was found; empty if there was none."""
    watch: StageTimes
    workers: int | None
    learned: Record | None = None
    """The learn record, if this job is to learn the tokenizer."""
    has_changed: bool = False
    """Whether anything was written."""

    @classmethod
    def of(cls, recipe: Recipe, *, workers: int | None, resplit: bool, on_event: OnEvent) -> "_Job":
        """Make the plan, under the splits that an earlier one froze."""
        out = Folder(recipe.output.path)
        plan = plan_for(recipe, out, resplit=resplit)
        frozen = out.read_bytes(PLAN_NAME) if out.exists(PLAN_NAME) else None
        watch = StageTimes(on_event)
        for note in [*plan.notes, *_changes(frozen, plan)]:
            watch(Note(text=note))
        return cls(
            recipe=recipe,
            out=out,
            plan=plan,
            frozen=frozen,
            published=published_settings(out),
            watch=watch,
            workers=workers,
        )

    def session(self) -> AbstractContextManager[None]:
        """Open Ray, once there is something to do, and check that its nodes share the folders."""
        shared = shared_folders(self.out.url, self.recipe.output.work)
        return ray_session(workers=self.workers, shared=shared)

    def begin_changes(self) -> None:
        """Take the manifest away, then freeze the plan."""
        if self.out.exists(MANIFEST_NAME):
            self.out.remove(MANIFEST_NAME)
        data = plan_to_json(self.plan)
        if data != self.frozen:
            self.out.write_whole(PLAN_NAME, data)
            self.frozen = data

    def train(self, training: Training) -> Tokenizer:
        """Run the first fan-out and the learner."""
        self.begin_changes()
        tokenizer = train(training, self.out, on_event=self.watch)
        self.has_changed = True
        self.learned = learn_record(self.out)
        return tokenizer

    def complete(self, training: Training, tokenizer: Tokenizer) -> None:
        """Write what smaller tokenizers are missing of one that was learned before.

        The manifest says nothing of them and stays.
        """
        for text in notes_on_sizes(training, tokenizer, self.out):
            self.watch(Note(text=text))
        self.has_changed = bool(add_smaller(training, tokenizer, self.out))
        self.learned = finished_learning(training, self.out)

    def adopt(self, tokenizer: Tokenizer) -> Tokenizer:
        """Write a tokenizer from elsewhere into the output folder, unless it is there.

        Its span table comes along, if it has one that is used.
        """
        folder = self.out.join(TOKENIZER_FOLDER)
        if not differing_files(tokenizer.model, folder):
            return tokenizer
        self.begin_changes()
        tokenizer.save(folder)
        path = self.recipe.tokenizer.path
        if path is not None and tokenizer.span_table_size:
            copy_span_table(path, folder)
        return tokenizer

    def tokenize(self, tokenizer: Tokenizer) -> Summary:
        """Run the second fan-out where needed, verify, publish."""
        tokenizing = tokenizing_of(self.recipe, self.plan, tokenizer, self.out)
        published = self._published(tokenizing)
        if published is not None:
            return self.summary(tokenizer, published)
        for change in setting_changes(self.published, tokenizing.settings):
            self.watch(Note(text=change))
        self.begin_changes()
        with self.session() if tokenizing.todo else nullcontext():
            records = tokenize(tokenizing, self.out, on_event=self.watch)
        output = tokenizing.output(records)
        self._check(output)
        verification = self._verify(output)
        output.publish(self.out)
        self.has_changed = True
        summary = self.summary(tokenizer, output, verification)
        self.out.write_whole(SUMMARY_NAME, to_json(summary.values))
        return summary

    def summary(
        self, tokenizer: Tokenizer, output: Output | None = None, check: Verification | None = None
    ) -> Summary:
        """Say what the run did, so far."""
        return summarise(
            self.out.url,
            tokenizer=tokenizer,
            learned=self.learned,
            stages=self.watch.stages,
            manifest=None if output is None else output.manifest,
            verification=check,
            unchanged=not self.has_changed,
        )

    def _published(self, tokenizing: Tokenizing) -> Output | None:
        """Give the output if it is already there, whole and from this very plan."""
        records = [record for record in tokenizing.records if record is not None]
        if tokenizing.todo or self.frozen != plan_to_json(self.plan):
            return None
        output = tokenizing.output(records)
        names = {MANIFEST_NAME: output.manifest_bytes, SHARDS_INDEX_NAME: output.shards_index}
        same = all(
            self.out.exists(name) and self.out.read_bytes(name) == data
            for name, data in names.items()
        )
        return output if same else None

    def _check(self, output: Output) -> None:
        totals = output.manifest["totals"]["all"]
        if totals["documents"]["in"] == 0:
            raise SourceError(f"no documents at all in {len(list(self.plan.slices()))} slices")
        check_limits(
            documents=totals["documents"]["in"],
            quarantined=totals["quarantined"],
            limits=self.recipe.limits,
            where=self.out.join("quarantine"),
        )

    def _verify(self, output: Output) -> Verification:
        slices, size = output.manifest["slices"], output.manifest["totals"]["all"]["text_bytes"]
        self.watch(StageStarted(stage="verify", todo=slices, kept=0, num_bytes=0))
        start = time.perf_counter()
        verification = verify_output(self.out, unpublished=output)
        self.watch(StageEnded(stage="verify", seconds=time.perf_counter() - start, num_bytes=size))
        if not verification.passed:
            raise VerificationError(verification.told(self.out.url))
        return verification


def _changes(frozen: bytes | None, plan: Plan) -> list[str]:
    changed = plan_changes(None if frozen is None else plan_from_json(frozen), plan)
    return [] if changed is None else [" ".join(line.split()) for line in change_lines(changed)]
