"""Exporting as a stage: what is not exported yet, in threads or as tasks on Ray, then export.json.

Takes a finished output and a layout; how a unit is written and checked is not known here. The same
call again goes on where it stopped, and does nothing when there is nothing to do.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

from nanotok_ray.cluster.engine import Task
from nanotok_ray.cluster.events import Event, OnEvent, ignore
from nanotok_ray.cluster.executor import current_executor
from nanotok_ray.cluster.fan_out import fan_out
from nanotok_ray.cluster.here import run_here
from nanotok_ray.cluster.lease import leased
from nanotok_ray.cluster.probes import output_folder
from nanotok_ray.errors import CorruptOutputError, IncompleteOutputError
from nanotok_ray.export import (
    EXPORTS,
    Corpus,
    Exported,
    ExportWork,
    Layout,
    Target,
    begin,
    check_folder,
    export_unit,
    export_values,
    finished_units,
    read_corpus,
    read_export,
    remove_strangers,
    units_of,
    write_export,
)
from nanotok_ray.formats.manifest import MANIFEST_NAME
from nanotok_ray.storage import Folder

STAGE = "export"

Runner = Callable[[Sequence[ExportWork], int], None]
"""Exports units, of which so many were done already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    """What an export is, and how much of it this call did."""

    folder: str
    values: dict[str, Any]
    """What export.json says."""
    units_done: int
    """Units that were exported by this call; the others were there."""
    removed: int
    """Files of former exports that were removed."""
    unchanged: bool
    """Whether there was nothing to do."""


def export_folder(out: Folder, layout: Layout) -> Folder:
    """Give the folder in which an output's export lies unless told otherwise."""
    return Folder(out.join(f"{EXPORTS}/{layout.name}"))


def export(
    out: Folder,
    layout: Layout,
    *,
    folder: Folder | None = None,
    workers: int | None = None,
    on_event: OnEvent = ignore,
) -> ExportResult:
    """Write a finished output in another layout.

    Args:
        out: the output folder of a job.
        layout: the layout with its options.
        folder: where to; None: `export/NAME` in the output.
        workers: CPUs of a local Ray, or any number on the cluster that RAY_ADDRESS names; None:
            threads of this process.
        on_event: told of start, progress, notes and end.

    Raises:
        IncompleteOutputError: there is no manifest.
        ExportError: the layout cannot hold this output, or the folder holds something else.
        CorruptOutputError: a native file is not what it should be, or the output changed meanwhile.
        SliceError: units failed for good, on Ray.
        OutputInUseError: another run has the output, in which the folder lies.
        LeaseLostError: another run has taken the output over.
    """
    exporting = Exporting.of(out, layout, folder=folder)
    if exporting.is_done:
        return exporting.run(in_threads(on_event))
    use_ray = workers is not None and bool(exporting.todo)
    session = current_executor().session(workers=workers) if use_ray else nullcontext()
    with session, _held(out, exporting.folder, on_event) as told:
        own = Exporting.of(out, layout, folder=folder)  # who held it may have changed all
        return own.run(on_ray(told) if use_ray else in_threads(told))


@contextmanager
def _held(out: Folder, folder: Folder, on_event: OnEvent) -> Iterator[OnEvent]:
    """Hold the lease of the output whose folder is written to: no job, gc or export comes between.

    Gives who is to be told of events: each asks whether the lease is still held.
    """
    if not folder.url.startswith(f"{out.url}/"):
        yield on_event
        return
    with leased(out, command="export", on_event=on_event) as lease:

        def told(event: Event) -> None:
            lease.guard(event)
            on_event(event)

        yield told


@dataclass(frozen=True, kw_only=True, slots=True)
class Exporting:
    """What is to be exported, and what is done already."""

    layout: Layout
    corpus: Corpus
    folder: Folder
    works: tuple[ExportWork, ...]
    found: tuple[Exported | None, ...]
    """In the order of `works`; None: to do."""
    is_whole: bool
    """Whether export.json is there, and of this layout, these options and this output."""

    @classmethod
    def of(cls, out: Folder, layout: Layout, *, folder: Folder | None = None) -> Self:
        """Look at an output and at what was exported of it."""
        corpus, shards = read_corpus(out)
        layout.check(corpus)
        target = folder or export_folder(out, layout)
        check_folder(target)
        units = units_of(corpus, shards, joined=layout.joined)
        works = tuple(
            ExportWork(unit=unit, layout=layout, corpus=corpus, folder=target.url) for unit in units
        )
        return cls(
            layout=layout,
            corpus=corpus,
            folder=target,
            works=works,
            found=_finished(target, works),
            is_whole=_is_whole(target, layout, corpus),
        )

    @property
    def todo(self) -> list[ExportWork]:
        """Units that have no record, or whose files are not there."""
        return [work for work, own in zip(self.works, self.found, strict=True) if own is None]

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do."""
        return self.is_whole and not self.todo

    def run(self, run: Runner) -> ExportResult:
        """Export what is not there, then what stands for all of it."""
        if self.is_done:
            return self._result(read_export(self.folder))
        todo = self.todo
        begin(self.folder, self.corpus, [own for own in self.found if own is not None])
        if todo:
            run(todo, len(self.works) - len(todo))
        exported = self._exported(again=bool(todo))
        self._check_output()  # a job that runs now writes files that would pass for strangers
        joint = Target(self.folder)
        unread = self.layout.finish(exported, self.corpus, joint)
        removed = remove_strangers(self.folder, self.corpus, exported, joint.files)
        self._check_output()
        values = export_values(self.layout, self.corpus, exported, joint.files, unread=unread)
        write_export(self.folder, values)
        return self._result(values, removed=removed)

    def _result(self, values: dict[str, Any], *, removed: int = 0) -> ExportResult:
        return ExportResult(
            folder=self.folder.url,
            values=values,
            units_done=len(self.todo),
            removed=removed,
            unchanged=self.is_done,
        )

    def _exported(self, *, again: bool) -> list[Exported]:
        found = _finished(self.folder, self.works) if again else self.found
        exported = [own for own in found if own is not None]
        if len(exported) != len(found):
            raise CorruptOutputError(
                f"{self.folder.url}: {len(found) - len(exported)} units were written and cannot be "
                "read here; is the folder on storage that every node shares?"
            )
        return exported

    def _check_output(self) -> None:
        out = self.corpus.out
        if read_corpus(out)[0].manifest_sha256 != self.corpus.manifest_sha256:
            raise CorruptOutputError(
                f"{out.join(MANIFEST_NAME)} changed while it was exported: a job ran; export again"
            )


def in_threads(on_event: OnEvent) -> Runner:
    """Export in threads of this process."""

    def run(works: Sequence[ExportWork], kept: int) -> None:
        sizes = [work.unit.num_bytes for work in works]
        for _ in run_here(STAGE, export_unit, works, sizes=sizes, kept=kept, on_event=on_event):
            pass

    return run


def on_ray(on_event: OnEvent) -> Runner:
    """Export as tasks of the Ray session that is open."""

    def run(works: Sequence[ExportWork], kept: int) -> None:
        tasks = [_task(work) for work in works]
        fan_out(STAGE, tasks, kept=kept, on_event=on_event)

    return run


def _finished(target: Folder, works: Sequence[ExportWork]) -> tuple[Exported | None, ...]:
    units, keys = [work.unit for work in works], [work.key for work in works]
    return tuple(finished_units(target, units, keys))


def _is_whole(target: Folder, layout: Layout, corpus: Corpus) -> bool:
    try:
        found = read_export(target)
    except (IncompleteOutputError, CorruptOutputError):
        return False
    own = [found[key] for key in ("layout", "layout_format", "options", "manifest_sha256")]
    is_same = own == [layout.name, layout.format, layout.options, corpus.manifest_sha256]
    return is_same and all(
        target.size(file["name"]) == file["size"] for file in found["joint_files"]
    )


def _task(work: ExportWork) -> Task:
    unit = work.unit
    return Task(
        name=f"export {work.layout.name} {unit.name}",
        work=export_unit,
        argument=work,
        num_bytes=unit.num_bytes,
        inputs=(work.corpus.out.join(f"{unit.shards[0].facts.name}.bin"),),
        shared=output_folder(work.folder),
    )
