"""The export stage, in threads or as tasks, and the verification of exports."""

import secrets
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from nanotok_ray.errors import (
    CorruptOutputError,
    ExportError,
    IncompleteOutputError,
    NanotokError,
    RecipeError,
)
from nanotok_ray.exports import (
    EXPORT_NAME,
    EXPORTS,
    SCATTERED,
    SCATTERED_TO_VERIFY,
    Corpus,
    ExportedUnit,
    ExportWork,
    Layout,
    SamePass,
    Target,
    begin,
    check_folder,
    check_unit,
    check_unit_files,
    export_of,
    export_unit,
    layout_of,
    mark_unfinished,
    parse_layout,
    read_corpus,
    read_export,
    remove_orphans,
    units_of,
    write_export,
)
from nanotok_ray.formats import MANIFEST_NAME, Export, ExportRecord, StoredShard
from nanotok_ray.job.events import Event
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.lease import leased
from nanotok_ray.job.ordering import Ordering
from nanotok_ray.job.probes import output_folder
from nanotok_ray.job.stage import Stage, TaskRules, complete, run_checks
from nanotok_ray.job.task import Task
from nanotok_ray.job.tokenize import TokenizePlan
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards import Record, Results, StoredRecords, file_problem
from nanotok_ray.storage import Folder

if TYPE_CHECKING:
    from typing_extensions import Self

A = TypeVar("A")
R = TypeVar("R")


STAGE = "export"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    """The values of an export, and the work that this call did."""

    folder: str
    export: Export
    """The content of export.json."""
    units_done: int
    """The number of units that this call exported; the others existed."""
    removed: int
    """The number of files of former exports that were removed."""
    unchanged: bool
    """Whether the export was complete before this call."""


def export_folder(out: Folder, layout: Layout) -> Folder:
    """Return the default folder of an export of an output."""
    return Folder(out.inside(f"{EXPORTS}/{layout.name}"))


def export(
    out: Folder,
    layout: Layout,
    runtime: Runtime,
    *,
    folder: Folder | None = None,
) -> ExportResult:
    """Write a finished output in another layout.

    Args:
        out: The output folder of a job.
        layout: The layout with its options.
        runtime: The executor and the listener.
        folder: The folder to write to; None: `export/NAME` in the output.

    Raises:
        IncompleteOutputError: The output has no manifest.
        ExportError: The layout cannot hold this output, or the folder holds other files.
        CorruptOutputError: A shard is damaged, or the output changed during the export.
        SliceError: Units failed permanently.
        OutputInUseError: Another run holds the lease of the output that contains the folder.
        LeaseLostError: Another run has taken over the output.
    """
    exporting = ExportPlan.of(out, layout, folder=folder)
    if exporting.is_done:
        return exporting.run(runtime)
    session = runtime.session() if exporting.has_tasks else nullcontext()
    with session, _held(out, exporting.folder, runtime) as guarded:
        current = ExportPlan.of(
            out, layout, folder=folder
        )  # the previous holder may have changed it
        return current.run(guarded)


@contextmanager
def _held(out: Folder, folder: Folder, runtime: Runtime) -> Iterator[Runtime]:
    """Hold the lease of the output that contains the folder, which excludes other runs.

    Yields the runtime with a listener which checks that the lease is still held.
    """
    if not folder.url.startswith(f"{out.url}/"):
        yield runtime
        return
    with leased(out, command="export", on_event=runtime.on_event) as lease:

        def guarded(event: Event) -> None:
            lease.guard(event)
            runtime.on_event(event)

        yield replace(runtime, on_event=guarded)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportPlan:
    """The units of an export, and the records of the finished ones."""

    layout: Layout
    corpus: Corpus
    shards: Sequence[StoredShard]
    """All shards of the output."""
    folder: Folder
    stored: StoredRecords[ExportWork, ExportRecord]
    is_complete: bool
    """Whether export.json exists for this layout, these options and this output."""
    is_published: bool
    """Whether the finished units were part of a finished export."""
    made: Container[str] = ()
    """The names of the records of the slices that workers of this run have exported."""
    ordering: Ordering | None = None
    """The ordered train documents; None: they are exported as the output has them."""

    @classmethod
    def of(
        cls,
        out: Folder,
        layout: Layout,
        *,
        folder: Folder | None = None,
        is_published: bool | None = None,
        made: Container[str] = (),
    ) -> "Self":
        """Create the value from an output and its existing export.

        With `is_published` None, export.json shows whether the export was finished.
        """
        corpus, shards = read_corpus(out)
        layout.check(corpus)
        target = folder or export_folder(out, layout)
        check_folder(target)
        finished = _finished(target, layout, corpus)
        ordering = _ordering(corpus, shards, layout, target, finished)
        works = _works(corpus, shards, layout, ordering, target)
        return cls(
            layout=layout,
            corpus=corpus,
            shards=shards,
            folder=target,
            stored=_results(target, works).find(),
            is_complete=finished is not None,
            is_published=target.exists(EXPORT_NAME) if is_published is None else is_published,
            made=made,
            ordering=ordering,
        )

    @property
    def todo(self) -> list[ExportWork]:
        """The units without a record, or whose files are missing."""
        return self.stored.missing

    @property
    def is_done(self) -> bool:
        """Whether the export is complete."""
        return self.is_complete and not self.todo

    def run(self, runtime: Runtime) -> ExportResult:
        """Export the unfinished units, then write the common files and export.json.

        The units run as tasks of the open session.
        """
        if self.is_done:
            return self._result(read_export(self.folder))
        stored, ordering, units_done = self.stored, self.ordering, 0
        if ordering is not None and self.has_tasks:
            mark_unfinished(self.folder)
            ordering = ordering.scattered(runtime)
            works = _works(self.corpus, self.shards, self.layout, ordering, self.folder)
            stored = _results(self.folder, works).find()
        begin(self.folder, self.corpus, _exported(stored))
        if self.has_tasks:
            stage = Stage(
                name=STAGE,
                results=_results(self.folder, stored.items),
                tasks_of=lambda items: [_task(work) for work in items],
                rules=TaskRules(fatal=(NanotokError,)),
                check=self._check,
            )
            completed = complete(stage, runtime, stored=stored)
            stored, units_done = completed.stored, len(completed.made)
        exported = _exported(stored)
        self._check_output()  # files of a job that runs now would look like orphaned files
        joint = Target(self.folder)
        unread = self.layout.finish(exported, joint)
        self.folder.remove_below(f"{SCATTERED}/")
        removed = remove_orphans(self.folder, self.corpus, exported, joint.files)
        self._check_output()
        records = [item.record for item in exported]
        export = export_of(
            self.layout,
            self.corpus,
            exported,
            joint.files,
            unread=unread,
            mixture=None if ordering is None else ordering.documents(records),
        )
        write_export(self.folder, export)
        return self._result(export, units_done=units_done, removed=removed)

    @property
    def has_tasks(self) -> bool:
        """Whether units must be exported, or the files of finished units must be checked."""
        if self.todo or (self.ordering is not None and self.ordering.end is None):
            return True
        return any(self._must_check(work) for work, _ in self.stored.done)

    def _must_check(self, work: ExportWork) -> bool:
        """Return whether the files of a finished unit must be read.

        Those of a finished export were, and so were those that workers of this run have exported.
        """
        is_made = self.layout.is_by_slice and work.unit.shards[0].record_name in self.made
        return not self.is_published and not is_made

    def _check(self, work: ExportWork, record: Record[ExportRecord]) -> Task | None:
        """Return the task that compares the files of a unit with its record."""
        del record
        if not self._must_check(work):
            return None
        return replace(_task(work), work=check_unit_files, shared=())

    def _result(self, export: Export, *, units_done: int = 0, removed: int = 0) -> ExportResult:
        return ExportResult(
            folder=self.folder.url,
            export=export,
            units_done=units_done,
            removed=removed,
            unchanged=self.is_done,
        )

    def _check_output(self) -> None:
        out = self.corpus.out
        if read_corpus(out)[0].manifest_sha256 != self.corpus.manifest_sha256:
            raise CorruptOutputError(
                f"{out.join(MANIFEST_NAME)} changed while it was exported: a job ran; export again"
            )


def _ordering(
    corpus: Corpus,
    shards: Sequence[StoredShard],
    layout: Layout,
    target: Folder,
    finished: Export | None,
    *,
    files_in: str = SCATTERED,
) -> Ordering | None:
    """Return the ordered train documents, or None for a layout without an order.

    Raises:
        ExportError: The layout cannot hold the mixture, or the documents cannot be ordered.
    """
    if layout.order is None:
        return None
    end = None if finished is None or finished.mixture is None else finished.mixture.end
    ordering = Ordering.of(corpus, shards, layout.order, folder=target, files_in=files_in, end=end)
    layout.check(ordering.corpus)
    return ordering


def _works(
    corpus: Corpus,
    shards: Sequence[StoredShard],
    layout: Layout,
    ordering: Ordering | None,
    target: Folder,
) -> list[ExportWork]:
    """Return all units of an export; no ordered ones as long as their end is not known."""
    units, joined = [], layout.joined
    if ordering is not None:
        units = ordering.units(joined=joined)
        shards = [shard for shard in shards if shard.split != "train"]
    units += units_of(corpus, shards, joined=joined)
    return [ExportWork(unit=unit, layout=layout, folder=target.url) for unit in units]


def _results(target: Folder, items: Sequence[ExportWork]) -> Results[ExportWork, ExportRecord]:
    return Results(items=items, folder=target, kind=ExportRecord, below=("",))


def _exported(stored: StoredRecords[ExportWork, ExportRecord]) -> list[ExportedUnit]:
    return [ExportedUnit(unit=work.unit, record=record.value) for work, record in stored.done]


def _finished(target: Folder, layout: Layout, corpus: Corpus) -> Export | None:
    """Return export.json if it is of this layout, these options and this output."""
    try:
        export = read_export(target)
    except (IncompleteOutputError, CorruptOutputError):
        return None
    values = [export.layout, export.layout_format, export.options, export.manifest_sha256]
    is_same = values == [layout.name, layout.format, layout.options, corpus.manifest_sha256]
    is_there = all(target.size(file.name) == file.size for file in export.joint_files)
    return export if is_same and is_there else None


def _task(work: ExportWork) -> Task:
    unit = work.unit
    return Task(
        name=f"export {work.layout.name} {unit.name}",
        work=export_unit,
        argument=work,
        num_bytes=unit.num_bytes,
        inputs=unit.inputs,
        shared=output_folder(work.folder),
    )


def layouts_of(recipe: Recipe) -> list[Layout]:
    """Return the layouts that a recipe names.

    Raises:
        RecipeError: A layout, an option or a source of a mixture does not exist.
    """
    try:
        layouts = [parse_layout(text) for text in recipe.output.layouts]
    except ExportError as error:
        raise RecipeError(f"output.layouts: {error}") from error
    names = [source.name for source in recipe.sources]
    for layout in layouts:
        weights = {} if layout.order is None else layout.order.weights or {}
        if wrong := [name for name in weights if name not in names]:
            raise RecipeError(
                f"output.layouts: the weights of {layout.name} name {wrong[0]!r}, which is not a "
                f"source of the recipe; the sources are {', '.join(names)}"
            )
    return layouts


def same_pass(recipe: Recipe, tokenizing: TokenizePlan, out: Folder) -> SamePass | None:
    """Return the layouts that workers write while they tokenize, or None if there are none.

    Raises:
        ExportError: A layout cannot hold the output, or its folder holds other files.
    """
    layouts = layouts_of(recipe)
    if not layouts:
        return None
    corpus = Corpus(out=out, facts=tokenizing.facts, manifest_sha256="")
    for layout in layouts:
        layout.check(corpus)
        check_folder(export_folder(out, layout))
    targets = tuple((layout, export_folder(out, layout).url) for layout in layouts)
    return SamePass(corpus=corpus, layouts=targets)


def exportings(
    recipe: Recipe,
    out: Folder,
    *,
    finished: Container[str] | None = None,
    made: Container[str] = (),
) -> list[ExportPlan]:
    """Return the exports of a finished output that the recipe names.

    Args:
        recipe: The recipe.
        out: The output folder.
        finished: The layouts whose exports were finished before this run; None: export.json shows.
        made: The names of the records of the slices that workers of this run have exported.
    """
    return [
        ExportPlan.of(
            out,
            layout,
            is_published=None if finished is None else layout.name in finished,
            made=made,
        )
        for layout in layouts_of(recipe)
    ]


def finished_exports(recipe: Recipe, out: Folder) -> set[str]:
    """Return the names of the layouts of a recipe that have a finished export."""
    names = (layout.name for layout in layouts_of(recipe))
    return {name for name in names if out.exists(f"{EXPORTS}/{name}/{EXPORT_NAME}")}


CHECK_STAGE = "verify"


def verify_export(folder: Folder, out: Folder, runtime: Runtime) -> tuple[Export, list[str]]:
    """Compare every document of an export with the shards.

    Returns:
        The content of export.json, and the problems.

    Raises:
        IncompleteOutputError: The export or the output is not finished.
        CorruptOutputError: export.json, the manifest or shards.idx cannot be read.
        TransientIOError: A remote store failed temporarily.
    """
    export = read_export(folder)
    layout = layout_of(export, name=folder.join(EXPORT_NAME))
    corpus, shards = read_corpus(out)
    if export.manifest_sha256 != corpus.manifest_sha256:
        return export, [
            f"{folder.url} is not an export of the current output {out.url}: export again"
        ]
    own = f"{SCATTERED_TO_VERIFY}/{secrets.token_hex(4)}"  # another verification can run meanwhile
    ordering = _ordering(corpus, shards, layout, folder, export, files_in=own)
    try:
        with runtime.session():
            if ordering is not None:
                ordering = ordering.scattered(runtime)
            works = _works(corpus, shards, layout, ordering, folder)
            tasks = [replace(_task(work), work=check_unit, shared=()) for work in works]
            checks = run_checks(CHECK_STAGE, tasks, runtime, fatal=(NanotokError,))
    finally:
        folder.remove_below(f"{own}/")
    joint = (file_problem(folder, file) for file in export.joint_files)
    listed = [problem for check in checks for problem in check.result]
    return export, listed + list(filter(None, joint))
