"""The job: plan, counting, learning, tokenizing, verification, manifest.

Storage holds all state: the same job started again resumes where it stopped, and does nothing when
there is nothing to do. The manifest is removed before anything changes and written last.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from nanotok_ray.errors import (
    IncompleteOutputError,
    LeaseLostError,
    NanotokError,
    OutputInUseError,
    SourceError,
    VerificationError,
)
from nanotok_ray.export import SamePass
from nanotok_ray.formats.manifest import (
    MANIFEST_NAME,
    SHARDS_INDEX_NAME,
    SUMMARY_NAME,
    TOKENIZER_FOLDER,
    to_json,
)
from nanotok_ray.job.events import Note, StageEnded, StageStarted
from nanotok_ray.job.executor import current_executor
from nanotok_ray.job.existing import existing_tokenizer, setting_changes, tokenizer_in
from nanotok_ray.job.exporting import (
    Exporting,
    ExportResult,
    exportings,
    layouts_of,
    same_pass,
)
from nanotok_ray.job.journaling import StageTimes
from nanotok_ray.job.run import Run, Start, retried_when_outdated
from nanotok_ray.job.stage import first_quarantined
from nanotok_ray.job.summary import Summary, summarise
from nanotok_ray.job.tokenize import Tokenizing, check_special_tokens, tokenize, tokenizing_of
from nanotok_ray.job.train import current_tokenizer, finished_tokenizer
from nanotok_ray.job.training import training_of
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards.output import Output, Record
from nanotok_ray.shards.verify import Verification, verify_output
from nanotok_ray.sources import plan_to_json
from nanotok_ray.sources.quarantine import QUARANTINE, check_limits
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer

WritePage = Callable[[Folder], object]
"""Writes the report page of an output; called at the end of a run, and never fails it."""

MAX_ERROR_CHARS = 400


def no_page(output: Folder) -> None:
    """Write no report page."""


def run_job(recipe: Recipe, start: Start, *, write_page: WritePage = no_page) -> Summary:
    """Run the job that a command starts, from the start again where another run came between.

    A run that had the lease leaves a report page, of its failure too; one that is terminated has
    no time for it.

    Args:
        recipe: the recipe.
        start: the command (prepare, train or tokenize) and its options.
        write_page: writes the report page.

    Raises:
        NanotokError: a class of `nanotok_ray.errors`; nothing is published, what was done is kept.
    """
    if start.command == "prepare":
        check_special_tokens(recipe)
        layouts_of(recipe)
    current_executor().check()  # before planning, which may take long
    watch, run = start.watch, _COMMANDS[start.command]
    try:
        with watch.journalled(recipe, start.command):
            summary = retried_when_outdated(recipe.output.path, lambda: run(_Job.of(recipe, start)))
    except (LeaseLostError, OutputInUseError):  # the output is another run's
        raise
    except NanotokError:
        _write(write_page, recipe.output.path, watch)
        raise
    _write(write_page, recipe.output.path, watch)
    return summary


def _write(write_page: WritePage, output: str, watch: StageTimes) -> None:
    """Write the report page, if the run has a journal; a note says why it could not be."""
    if not watch.journaling.has_begun:
        return
    try:
        write_page(Folder(output))
    except Exception as error:  # whatever it is, the run has ended as it has
        cause = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
        text = f"the report page was not written ({cause}): `nanotok report {output}` does it"
        watch.on_event(Note(text=text))


def _prepare(job: "_Job") -> Summary:
    recipe = job.recipe
    if recipe.tokenizer.path is not None:
        return job.tokenize(job.adopt(tokenizer_in(recipe.tokenizer.path, recipe)))
    training = training_of(recipe, job.plan)
    training, tokenizer = current_tokenizer(training, job.out, relearn=job.start.relearn)
    if tokenizer is not None:
        job.complete(training, tokenizer)
        return job.tokenize(tokenizer)
    with job.changing():
        return job.tokenize(job.train(training))


def _train(job: "_Job") -> Summary:
    training = training_of(job.recipe, job.plan)
    tokenizer = finished_tokenizer(training, job.out)
    if tokenizer is not None:
        job.complete(training, tokenizer)
        return job.summary(tokenizer)
    with job.changing():
        tokenizer = job.train(training)
    return job.summary(tokenizer)


def _tokenize(job: "_Job") -> Summary:
    tokenizer = existing_tokenizer(job.recipe, job.out)
    if tokenizer is None:
        raise IncompleteOutputError(
            f"no tokenizer in {job.out.join(TOKENIZER_FOLDER)}: train one first, "
            "or name one as tokenizer.path in the recipe"
        )
    return job.tokenize(job.adopt(tokenizer))


_COMMANDS = {"prepare": _prepare, "train": _train, "tokenize": _tokenize}


class _Job(Run):
    """One run to its end: tokenize, verify, publish, and summarise."""

    def tokenize(self, tokenizer: Tokenizer) -> Summary:
        """Run the tokenizing stage where needed, verify, publish."""
        tokenizing = tokenizing_of(self.recipe, self.plan, tokenizer, self.out)
        published = self._published(tokenizing)
        if published is not None:
            return self.summary(tokenizer, published, exports=self._export_missing())
        for change in setting_changes(self.published, tokenizing.settings):
            self.start.note(change)
        export_pass = same_pass(self.recipe, tokenizing, self.out)
        with self.changing(with_tasks=bool(tokenizing.todo)):
            return self._publish(tokenizing, export_pass)

    def _publish(self, tokenizing: Tokenizing, export_pass: SamePass | None) -> Summary:
        tokenizer = tokenizing.tokenizer
        self.begin_changes()
        if export_pass is not None:
            export_pass.begin()
        records = tokenize(tokenizing, self.out, same_pass=export_pass, on_event=self.watch)
        output = tokenizing.output(records)
        self._check(output, tokenizing, records)
        verification = self._verify(output)
        self.hold.check()
        output.publish(self.out)
        self.hold.check()
        self.has_changed = True
        exports = self._export(exportings(self.recipe, self.out))
        summary = self.summary(tokenizer, output, verification, exports=exports)
        summary.values.update(self.watch.journaling.facts())
        self.out.write_whole(SUMMARY_NAME, to_json(summary.values))
        return summary

    def _export_missing(self) -> list[ExportResult]:
        """Export what a published output lacks, and hold the lease for it."""
        todo = exportings(self.recipe, self.out)
        if all(exporting.is_done for exporting in todo):
            return self._export(todo)
        with self.changing(with_tasks=any(exporting.todo for exporting in todo)):
            self.has_changed = True
            return self._export(todo)

    def _export(self, todo: Sequence[Exporting]) -> list[ExportResult]:
        """Write the output in the other layouts of the recipe."""
        results = []
        for exporting in todo:
            with self.session() if exporting.todo else nullcontext():
                results.append(exporting.run(self.watch))
        return results

    def summary(
        self,
        tokenizer: Tokenizer,
        output: Output | None = None,
        check: Verification | None = None,
        *,
        exports: Sequence[ExportResult] = (),
    ) -> Summary:
        """Return the summary of the run so far."""
        return summarise(
            self.out.url,
            tokenizer=tokenizer,
            learned=self.learned,
            of_other_inputs=self.is_of_other_inputs,
            stages=self.watch.stages,
            manifest=None if output is None else output.manifest,
            verification=check,
            exports=[{"folder": result.folder, **result.values} for result in exports],
            unchanged=not self.has_changed,
        )

    def _published(self, tokenizing: Tokenizing) -> Output | None:
        """Return the output if it is already there, whole and from this very plan."""
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

    def _check(self, output: Output, tokenizing: Tokenizing, records: Sequence[Record]) -> None:
        totals = output.manifest["totals"]["all"]
        if totals["documents"]["in"] == 0:
            number = len(list(self.plan.slices()))
            raise SourceError(
                f"no documents at all in {number} slices: the files are empty; see `paths` in the "
                "recipe"
            )
        slices = [expected.slice for expected in tokenizing.expected]
        check_limits(
            documents=totals["documents"]["in"],
            quarantined=totals["quarantined"],
            limits=self.recipe.limits,
            where=self.out.join(QUARANTINE.rstrip("/")),
            first=lambda tails: first_quarantined(
                self.out, zip(slices, records, strict=True), tails=tails
            ),
        )

    def _verify(self, output: Output) -> Verification:
        """Check what the records say together; each slice's files its worker has read back."""
        slices = output.manifest["slices"]
        self.watch(StageStarted(stage="verify", todo=slices, num_done=0, num_bytes=0))
        start = time.perf_counter()
        verification = verify_output(self.out, unpublished=output, read_files=False)
        self.watch(StageEnded(stage="verify", seconds=time.perf_counter() - start, num_bytes=0))
        if not verification.passed:
            raise VerificationError(verification.format_problems(self.out.url))
        return verification
