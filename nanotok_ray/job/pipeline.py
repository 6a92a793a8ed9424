"""The job from its plan to its summary; `_Run` reads from top to bottom.

Storage holds all state: the same job resumes where it stopped, and does nothing if the output is
complete. The manifest is removed before anything changes, and written last.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from nanotok_ray.errors import LeaseLostError, NanotokError, SourceError, VerificationError
from nanotok_ray.formats import (
    MANIFEST_NAME,
    PLAN_NAME,
    REPORT_PAGE_NAME,
    SUMMARY_NAME,
    TOKENIZER_FOLDER,
    FinishedRun,
    LearnRecord,
    ShardRecord,
    to_json,
)
from nanotok_ray.job.bad_documents import first_quarantined
from nanotok_ray.job.changes import setting_changes
from nanotok_ray.job.counting import Training
from nanotok_ray.job.duplicates import find_lists
from nanotok_ray.job.events import Activity, Note, Planned, StageEnded, StageStarted, ignore
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.exporting import (
    ExportPlan,
    ExportResult,
    exportings,
    finished_exports,
    same_pass,
)
from nanotok_ray.job.frozen_plan import frozen_bytes
from nanotok_ray.job.job_plan import JobPlan, decide, planned_stages
from nanotok_ray.job.journal import runs_in
from nanotok_ray.job.journaling import RunRecorder, stages_of_last_run
from nanotok_ray.job.learned import LearnedOutput, learn_record
from nanotok_ray.job.lease import Lease, free_number, leased, refuse_if_held
from nanotok_ray.job.probes import Shared, shared_folders, shared_sources, store_risk
from nanotok_ray.job.summary import (
    DONE,
    UNCHANGED,
    Summary,
    corpus_summary,
    empty_split_notes,
    engine_summary,
    export_summary,
    learned_summary,
    stage_time,
    unused_notes,
    verified_files,
)
from nanotok_ray.job.tokenize import TokenizePlan, tokenize
from nanotok_ray.job.training import train
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards import (
    ExpectedSlice,
    Output,
    Record,
    StoredRecords,
    Verification,
    remove_temporaries,
    verify_output,
)
from nanotok_ray.sources import QUARANTINE, check_limits, plan_to_json
from nanotok_ray.storage import Folder, write_checked
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.units import quantity

WritePage = Callable[[Folder, Folder], object]
"""Writes the report page of an output, given its folder and the work folder, at the end of a run.
Its errors do not fail the run."""

MAX_ERROR_CHARS = 400


def no_page(output: Folder, work: Folder) -> None:
    """Write no report page."""


@dataclass(frozen=True, slots=True)
class Start:
    """The arguments of a run other than its recipe."""

    command: str
    """prepare, train or tokenize."""
    resplit: bool = False
    relearn: bool = False


def run_job(
    recipe: Recipe, start: Start, runtime: Runtime, *, write_page: WritePage = no_page
) -> Summary:
    """Run the job of a command.

    A run that held the lease writes a report page, even if it failed, but not if it was terminated.

    Args:
        recipe: The recipe.
        start: The command and its options.
        runtime: The executor and the listener.
        write_page: Writes the report page.

    Raises:
        NanotokError: A subclass. Nothing is published, and finished slices are kept.
    """
    executor = runtime.executor
    executor.check()  # before planning, which can take long
    watch = RunRecorder(
        recipe,
        start.command,
        executor.name,
        on_event=runtime.on_event,
        metrics=executor.metrics(),
    )
    return _Run(recipe, start, replace(runtime, on_event=watch), watch, write_page).run()


class _Run:
    """One run, which makes its plan, executes it under the lease, and returns the summary."""

    def __init__(
        self,
        recipe: Recipe,
        start: Start,
        runtime: Runtime,
        watch: RunRecorder,
        write_page: WritePage,
    ) -> None:
        self.recipe, self.start, self.write_page = recipe, start, write_page
        self.runtime, self.watch, self.out = runtime, watch, Folder(recipe.output.path)
        self.noted: set[str] = set()
        self.learned: Record[LearnRecord] | None = None
        self.has_changed = False
        self.risk: str | None = None

    def run(self) -> Summary:
        """Make the plan, and execute it unless the output is complete.

        The plan is made before the lease is taken, which can wait. It is made again under the lease
        if another run has held the lease, or `nanotok plan` has written plan.json, meanwhile.
        """
        number = free_number(self.out)
        if number is None and not self.out.exists(MANIFEST_NAME):  # otherwise it may be complete
            refuse_if_held(self.out)
        self.plan = self._decide()
        if self.plan.is_done:
            return self._repeat()
        stages = planned_stages(self.plan, stages_of_last_run(self.out))
        self.watch(Planned(stages=tuple(stages)))
        if number is None:
            refuse_if_held(self.out)
        self.risk = store_risk(self.out, is_accepted=self.recipe.output.unsafe_store)
        if self.risk is not None:
            self._note(self.risk)
        with self._session_of_plan(), self._leased():
            is_other = number is None or self.lease.number != number + 1
            is_same = not is_other and frozen_bytes(self.out) == self.plan.frozen
            if is_same and not self.plan.plan.is_pending:
                return self._execute()
            if not is_same:
                self.plan = self._decide()
            self._find_duplicates()
            if self.plan.is_done:
                return self._repeat()
            with self._session_of_plan():
                return self._execute()

    def _find_duplicates(self) -> None:
        """Find the duplicates that the keys of slices depend on, and make the plan with them."""
        if self.plan.plan.is_pending:
            find_lists(self.recipe, self.plan.plan, self.out, self.runtime)
            self.plan = self._decide()

    def _decide(self) -> JobPlan:
        """Make the plan and report its notes."""
        start = self.start
        plan = decide(
            self.recipe,
            start.command,
            resplit=start.resplit,
            relearn=start.relearn,
            on_event=self.watch,
        )
        for note in (*plan.plan.notes, *plan.change_notes(), *plan.notes):
            self._note(note)
        return plan

    def _note(self, text: str) -> None:
        """Report a note, once."""
        if text not in self.noted:
            self.noted.add(text)
            self.watch(Note(text=text))

    @contextmanager
    def _leased(self) -> Iterator[None]:
        """Hold the lease while the block runs; every event checks it.

        The journal ends under the lease, then the report page is written, also for a failed run. A
        run that is interrupted or terminated has no time for the page.
        """
        watch = self.watch
        with leased(self.out, command=self.start.command, on_event=watch) as lease:
            self.lease: Lease = lease
            watch.check = lease.guard
            try:
                watch.begin(lease.number)
                yield
            except BaseException as error:  # recorded before the release
                watch.failed(error)
                if isinstance(error, NanotokError) and not isinstance(error, LeaseLostError):
                    self._end()
                raise
            else:
                watch.done()
                self._end()
            finally:
                watch.check = ignore

    def _repeat(self) -> Summary:
        """Return the summary of a complete output."""
        plan = self.plan
        assert plan.tokenizer is not None
        if plan.output is not None and plan.tokenizing is not None:
            self._check(plan.output, plan.tokenizing.stored)
        exports = self._export(plan.exports)
        if not self.out.exists(REPORT_PAGE_NAME) and runs_in(self.out):
            self._write_page()  # the last run was stopped before it wrote the page
        return self._summary(plan.tokenizer, plan.output, exports=exports)

    def _execute(self) -> Summary:
        """Learn the tokenizer, tokenize, publish and export, as far as the plan asks for it."""
        plan, tokenizer = self.plan, self.plan.tokenizer
        if plan.training is not None and tokenizer is None:
            tokenizer = self._train(plan.training.training)
        elif plan.training is not None:
            self._complete(plan.training.learned)
        elif plan.adopts:
            self._adopt(plan.tokenizer)
        assert tokenizer is not None
        if plan.command == "train":
            return self._summary(tokenizer)
        if plan.output is not None:
            self.has_changed |= not all(exporting.is_done for exporting in plan.exports)
            return self._summary(tokenizer, plan.output, exports=self._export(plan.exports))
        return self._tokenize(plan.tokenizing or self._decide_tokenizing(tokenizer))

    def _train(self, training: Training) -> Tokenizer:
        """Run the counting stage and the learner."""
        self._begin_changes()
        tokenizer = train(training, self.out, self.runtime)
        self.has_changed = True
        self.learned = learn_record(self.out)
        return tokenizer

    def _complete(self, learned: LearnedOutput) -> None:
        """Write the missing files of a tokenizer that was learned before.

        These are the tokenizer with other added special tokens, damaged files, and smaller
        tokenizers. The manifest does not list smaller tokenizers and is kept.
        """
        if learned.rewrites:
            self._begin_changes()
            if learned.lacks_extension:
                self._note(
                    "the special tokens of tokenizer.extend have changed; the tokenizer was not "
                    "learned again"
                )
            learned.rewrite()
            self.has_changed = True
        elif learned.lacks_smaller:
            self.has_changed |= bool(learned.add_smaller())
        self.learned = learn_record(self.out)

    def _adopt(self, tokenizer: Tokenizer | None) -> None:
        """Write a tokenizer that was not learned here into the output folder."""
        assert tokenizer is not None
        folder = self.out.inside(TOKENIZER_FOLDER)
        self._begin_changes()
        tokenizer.save(folder, overwrite=True)

    def _decide_tokenizing(self, tokenizer: Tokenizer) -> TokenizePlan:
        """Return the slices to tokenize with a tokenizer that was just learned."""
        tokenizing = self.plan.tokenizing_with(tokenizer)
        notes = tokenizing.stored.notes(self.out)
        for note in (*notes, *setting_changes(self.plan.published, tokenizing.settings)):
            self._note(note)
        return tokenizing

    def _tokenize(self, tokenizing: TokenizePlan) -> Summary:
        """Run the tokenizing stage, verify the output and publish it."""
        export_pass = same_pass(self.recipe, tokenizing, self.out)
        exported = finished_exports(self.recipe, self.out)
        self._begin_changes()
        if export_pass is not None:
            export_pass.begin()
        completed = tokenize(
            tokenizing,
            self.out,
            self.runtime,
            is_published=bool(self.plan.published),
            same_pass=export_pass,
        )
        output = tokenizing.output([record for _, record in completed.stored.done])
        self._check(output, completed.stored)
        totals = output.manifest.totals
        for note in (*unused_notes(totals["all"].unused_text), *empty_split_notes(totals)):
            self._note(note)
        verification = self._verify(output)
        self.watch(Activity(text="publishing the manifest"))
        self._publish(output)
        self.has_changed = True
        exports = self._export(
            exportings(self.recipe, self.out, finished=exported, made=completed.made)
        )
        summary = self._summary(tokenizing.tokenizer, output, verification, exports=exports)
        summary = replace(summary, times=self.watch.times())
        self.out.write_bytes(SUMMARY_NAME, to_json(summary.values))
        return summary

    def _publish(self, output: Output) -> None:
        """Publish shards.idx and the manifest, unless another run has taken over the lease.

        The lease is checked directly before each of them appears, and again afterwards. A manifest
        that appeared too late is removed.
        """
        try:
            output.publish(self.out, check=self.lease.check)
            self.lease.check()
        except LeaseLostError:
            output.withdraw(self.out, is_in_use=free_number(self.out) is None)
            raise

    def _session_of_plan(self) -> AbstractContextManager[None]:
        """Open a session for the tasks of the plan, if it has some."""
        if not self.plan.has_tasks:
            return nullcontext()
        tokenizing = self.plan.tokenizing
        libraries = () if tokenizing is None else tokenizing.libraries
        return self._session(*shared_sources(self.plan.plan), *libraries)

    @contextmanager
    def _session(self, *others: Shared) -> Iterator[None]:
        """Open a session, whose nodes must share the folders, some sources and a library."""
        shared = (*shared_folders(self.out.url, self.recipe.output.work), *others)
        self.watch(Activity(text=self.runtime.executor.starting()))
        with self.runtime.session(shared):
            yield
            self.watch(Activity(text="closing the session"))

    def _begin_changes(self) -> None:
        """Remove the manifest and the report page, then freeze the plan."""
        self.lease.check()
        if self.out.exists(MANIFEST_NAME):
            self.out.remove(MANIFEST_NAME)
        with suppress(OSError):  # no error of the page fails the run
            self.out.remove(REPORT_PAGE_NAME)
        data = plan_to_json(self.plan.plan)
        if data != frozen_bytes(self.out):
            write_checked(self.out, PLAN_NAME, data)

    def _export(self, todo: Sequence[ExportPlan]) -> list[ExportResult]:
        """Write the output in the other layouts of the recipe."""
        results = []
        for exporting in todo:
            with self._session() if exporting.has_tasks else nullcontext():
                results.append(exporting.run(self.runtime))
        return results

    def _summary(
        self,
        tokenizer: Tokenizer,
        output: Output | None = None,
        check: Verification | None = None,
        *,
        exports: Sequence[ExportResult] = (),
    ) -> Summary:
        """Return the summary of the run so far."""
        learned, training = None, self.plan.training
        record = self.learned
        if record is None and training is not None:
            record = training.learned.record
        if record is not None and training is not None:
            learned = learned_summary(
                record.value,
                tokenizer,
                not_reached=training.training.sizes_not_reached(tokenizer),
                of_other_inputs=training.training.is_of_other_inputs,
            )
        run = FinishedRun(
            status=DONE if self.has_changed else UNCHANGED,
            output=self.out.url,
            stages={name: stage_time(*times) for name, times in self.watch.stages.items()},
            vocab_size=tokenizer.get_vocab_size(),
            tokenizer_sha256=tokenizer.sha256,
            engine=engine_summary(tokenizer),
            learned=learned,
            verified=None if check is None else verified_files(check),
            compared_by_size=0 if output is None else self._num_kept(),
            exports=tuple(export_summary(result.folder, result.export) for result in exports),
            functions={
                source.name: source.transform.name
                for source in self.plan.plan.sources
                if source.transform is not None
            },
            risk=self.risk,
        )
        return Summary(run, None if output is None else corpus_summary(output.manifest))

    def _num_kept(self) -> int:
        """Return the number of published slices that were kept, whose files were not read."""
        tokenizing = self.plan.tokenizing
        if tokenizing is None or not self.plan.published:
            return 0
        return len(tokenizing.records)

    def _end(self) -> None:
        """Write the report page and remove what killed processes left."""
        self._write_page()
        with suppress(OSError):  # `nanotok gc` removes them too
            sources = [source.name for source in self.recipe.sources]
            remove_temporaries(self.out, Folder(self.recipe.output.work), sources=sources)

    def _write_page(self) -> None:
        """Write the report page, or report a note if it cannot be written."""
        self.watch.on_event(Activity(text="writing the report page"))
        try:
            self.write_page(self.out, Folder(self.recipe.output.work))
        except Exception as error:  # no error of the page changes the result of the run
            cause = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARS]
            self.watch.on_event(
                Note(
                    text=f"the report page was not written ({cause}): `nanotok report "
                    f"{self.out.url}` does it"
                )
            )

    def _check(self, output: Output, stored: StoredRecords[ExpectedSlice, ShardRecord]) -> None:
        totals = output.manifest.totals["all"]
        if totals.documents.in_ == 0:
            number = len(list(self.plan.plan.slices()))
            raise SourceError(
                f"no documents in {quantity(number, 'slice')}: the files are empty; check `paths` "
                "in the recipe"
            )
        records = [(expected.slice, record) for expected, record in stored.done]
        check_limits(
            documents=totals.documents.in_,
            quarantined=totals.quarantined,
            limits=self.recipe.limits,
            where=self.out.join(QUARANTINE.rstrip("/")),
            first=lambda tails: first_quarantined(self.out, records, tails=tails),
        )

    def _verify(self, output: Output) -> Verification:
        """Check the records together; workers have read the files of their slices back."""
        slices = output.manifest.slices
        self.watch(StageStarted(stage="verify", todo=slices, num_done=0, num_bytes=0))
        start = time.perf_counter()
        verification = verify_output(self.out, unpublished=output, depth="names")
        self.watch(StageEnded(stage="verify", seconds=time.perf_counter() - start, num_bytes=0))
        if not verification.passed:
            raise VerificationError(verification.format_problems(self.out.url))
        return verification
