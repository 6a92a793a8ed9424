"""The stage that divides the train documents of an output by the sections of an order.

The units of an ordered export read their documents from the scatter files that it writes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from nanotok_ray.errors import ExportError, NanotokError, PackingError
from nanotok_ray.exports import (
    ENTRY,
    Corpus,
    Order,
    ScatterFiles,
    ScatterWork,
    Section,
    Sections,
    Unit,
    scatter,
    units_in_order,
)
from nanotok_ray.formats import (
    ExportRecord,
    MixedSource,
    OrderedDocuments,
    OrderEnd,
    ScatterRecord,
    SourceUse,
    StoredShard,
    key_of,
)
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.probes import output_folder
from nanotok_ray.job.stage import Stage, TaskRules, complete
from nanotok_ray.job.task import Task
from nanotok_ray.loader import Mixture, Shards, open_shards
from nanotok_ray.shards import Record, Results, file_problem
from nanotok_ray.storage import Folder

if TYPE_CHECKING:
    from typing_extensions import Self

SECTION_BYTES = 256 << 20
"""Bytes of the ids of a section, on average."""
SCATTER_BYTES = 256 << 20
"""Bytes of the shards of a scatter file at most, unless a single shard has more."""

MAX_EPOCHS = 1_000_000
"""The documents of a source are written at most about this number of times."""

_FORMAT = "nanotok-order 1"
_MARGIN: Final = Fraction(51, 50)
"""The documents are first divided up to an estimate of the end times this number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ordering:
    """The train documents of an output in an order."""

    corpus: Corpus
    """The output, with the names of the sources that are mixed."""
    order: Order
    shards: Shards
    """All train shards of the output."""
    stored_shards: Sequence[StoredShard]
    """The same shards, as the output describes them."""
    section_documents: int
    """The number of documents of each section but the last."""
    files: ScatterFiles
    folder: str
    """URL of the folder of the export."""
    end: OrderEnd | None
    """None: it is not known yet which document is the last."""

    @classmethod
    def of(
        cls,
        corpus: Corpus,
        shards: Sequence[StoredShard],
        order: Order,
        *,
        folder: Folder,
        files_in: str,
        end: OrderEnd | None,
    ) -> "Self":
        """Create the value.

        Args:
            corpus: The output.
            shards: All of its shards.
            order: The order.
            folder: The folder of the export.
            files_in: The name of the folder of the scatter files in it.
            end: The end according to a finished export of this output in this order, if any.

        Raises:
            ExportError: There are no tokens, or a weight names something other than a source.
        """
        opened = open_shards(corpus.out.url, "train")
        try:
            mixture = Mixture.of(opened, order.settings)
        except PackingError as error:
            raise ExportError(f"the documents cannot be ordered: {error}") from error
        stored = tuple(shard for shard in shards if shard.split == "train")
        ranges = _ranges(opened, mixture)
        tokens = _tokens_per_document(opened, mixture)
        documents = max(1, int(SECTION_BYTES / (tokens * corpus.item_bytes)))
        if order.tokens is None:
            end = OrderEnd(sections=-(-len(opened) // documents), last_tokens=None)
        else:
            _check_epochs(mixture, documents=int(order.tokens / tokens))
        return cls(
            corpus=replace(corpus, mixed=tuple(ranges)),
            order=order,
            shards=opened,
            stored_shards=stored,
            section_documents=documents,
            files=ScatterFiles(
                mixture=mixture,
                ranges=ranges,
                suffixes=frozenset(
                    suffix for shard in stored if shard.source in ranges for suffix in shard.sizes
                ),
                item_bytes=corpus.item_bytes,
                order_key=_key(opened, order, documents),
                folder=folder.inside(files_in),
            ),
            folder=folder.url,
            end=end,
        )

    def units(self, *, joined: int | None) -> list[Unit]:
        """Return the units of the documents; none as long as the end is not known."""
        if self.end is None:
            return []
        ends, last = self._sections(self.end.sections).ends, self.end.sections - 1
        size = self.corpus.item_bytes * _tokens_per_document(self.shards, self.files.mixture)
        sections = [
            Section(
                number=number,
                documents=(documents := sum(ends[number + 1]) - sum(taken)),
                tokens=self.end.last_tokens if number == last else None,
                taken=taken,
                num_bytes=int(documents * size),
            )
            for number, taken in enumerate(ends[:-1])
        ]
        return units_in_order(self.corpus, sections, self.files, joined=joined)

    def scattered(self, runtime: Runtime) -> "Self":
        """Write the scatter files, and return the value with their names and the end.

        A session must be open.

        Raises:
            CorruptOutputError: A shard of the output is damaged.
            SliceError: Tasks failed permanently.
        """
        number = self._expected_sections() if self.end is None else self.end.sections
        while True:
            works = self._works(self._sections(number))
            folder = Folder(self.files.folder)
            stage = Stage(
                name="scatter",
                results=Results(items=works, folder=folder, kind=ScatterRecord, below=("",)),
                tasks_of=lambda items: [self._task(work) for work in items],
                rules=TaskRules(fatal=(NanotokError,)),
                check=_check,
            )
            done = complete(stage, runtime).stored.done
            end = self._find_end([record.value for _, record in done], number)
            if end is not None:
                names = tuple(work.name for work in works)
                return replace(self, end=end, files=replace(self.files, names=names))
            number *= 2

    def documents(self, records: Iterable[ExportRecord]) -> OrderedDocuments:
        """Return what the records of all units say of the documents."""
        assert self.end is not None
        rows = self.shards.index.rows[self.shards.rows]
        uses = [record.sources for record in records]
        sources = {}
        for number, name in enumerate(self.shards.sources):
            own = rows[rows["source"] == number]
            total = SourceUse(int(own["documents"].sum()), int(own["tokens"].sum()))
            if total.documents:
                sources[name] = _mixed_source(total, [use[name] for use in uses if name in use])
        return OrderedDocuments(end=self.end, sources=sources)

    def _sections(self, number: int) -> Sections:
        return Sections.of(
            self.files.mixture,
            number=number,
            documents=self.section_documents,
            end=len(self.shards) if self.order.tokens is None else None,
        )

    def _expected_sections(self) -> int:
        """Return a number of sections that has the tokens of the order, in all likelihood."""
        assert self.order.tokens is not None
        per_section = self.section_documents * _tokens_per_document(self.shards, self.files.mixture)
        expected = int(self.order.tokens / per_section * _MARGIN) + 2
        if self.order.weights is None and self.order.tokens <= self.shards.num_tokens:
            return min(expected, -(-len(self.shards) // self.section_documents))
        return expected

    def _find_end(self, records: Sequence[ScatterRecord], number: int) -> OrderEnd | None:
        """Return the end, or None if all sections together have too few tokens."""
        if self.order.tokens is None:
            return self.end
        tokens, folder = np.zeros(number, dtype=np.int64), Folder(self.files.folder)
        for record in records:
            (file,) = (file for file in record.files if file.name.endswith(".index"))
            data = folder.read_verified(file.name, sha256=file.sha256)
            tokens += np.frombuffer(data, dtype=ENTRY)["tokens"].astype(np.int64)
        ends = np.cumsum(tokens)
        last = int(np.searchsorted(ends, self.order.tokens))
        if last == number:
            return None
        before = int(ends[last] - tokens[last])
        return OrderEnd(sections=last + 1, last_tokens=self.order.tokens - before)

    def _works(self, sections: Sections) -> list[ScatterWork]:
        starts = self.shards.starts.tolist()
        return [
            ScatterWork(
                unit=Unit(
                    source=self.stored_shards[group.start].source,
                    split="train",
                    number=0,
                    name=self.stored_shards[group.start].name,
                    shards=tuple(self.stored_shards[group.start : group.stop]),
                    corpus=self.corpus,
                    batch_bytes=SCATTER_BYTES,
                ),
                first=starts[group.start],
                sections=sections,
                suffixes=self.files.suffixes,
                folder=self.files.folder,
                order_key=self.files.order_key,
            )
            for group in _groups(self.stored_shards, self.corpus.mixed)
        ]

    def _task(self, work: ScatterWork) -> Task:
        return Task(
            name=f"scatter {work.unit.name}",
            work=scatter,
            argument=work,
            num_bytes=work.unit.num_bytes,
            inputs=work.unit.inputs,
            shared=output_folder(self.folder),
        )


def _check(work: ScatterWork, record: Record[ScatterRecord]) -> Task:
    """Return the task that reads a scatter file that an unfinished run has left."""
    return Task(
        name=f"check {work.name}",
        work=_problems,
        argument=(work.folder, record.value),
        num_bytes=work.unit.num_bytes,
    )


def _problems(stored: tuple[str, ScatterRecord]) -> list[str]:
    folder = Folder(stored[0])
    return list(filter(None, (file_problem(folder, file) for file in stored[1].files)))


def _key(shards: Shards, order: Order, documents: int) -> str:
    """Return the sha256 of all values on which the documents of a section depend."""
    weights = order.settings.weights
    return key_of(
        {
            "format": _FORMAT,
            "documents": shards.fingerprint,
            "sources": shards.sources,
            "weights": None if weights is None else sorted(weights.items()),
            "shuffle": order.shuffle,
            "section": documents,
        }
    )


def _ranges(shards: Shards, mixture: Mixture) -> dict[str, range]:
    """Return the documents of each source that is mixed."""
    streams = [stream.documents for stream in mixture.streams]
    return {
        name: documents
        for name, documents in shards.ranges().items()
        if any(documents.start in stream for stream in streams)
    }


def _tokens_per_document(shards: Shards, mixture: Mixture) -> Fraction:
    """Return the average number of tokens of a document of a mixture."""
    tokens = shards.index.rows["tokens"][shards.rows]
    shares = [Fraction(1, step) for step in mixture.steps or (1,)]
    average = Fraction(0)
    for share, stream in zip(shares, mixture.streams, strict=True):
        bounds = stream.documents.start, stream.documents.stop
        first, last = np.searchsorted(shards.starts, bounds)
        average += share * int(tokens[first:last].sum()) / len(stream.documents)
    return average / sum(shares)


def _check_epochs(mixture: Mixture, *, documents: int) -> None:
    for count, stream in zip(mixture.taken_before(documents), mixture.streams, strict=True):
        epochs = count // len(stream.documents)
        if epochs > MAX_EPOCHS:
            raise ExportError(
                f"source {stream.name!r} has {len(stream.documents):,} documents, and each would "
                f"be written {epochs:,} times, more than {MAX_EPOCHS:,}; lower its weight or tokens"
            )


def _groups(shards: Sequence[StoredShard], sources: Sequence[str]) -> Iterator[range]:
    """Yield the adjacent shards of each scatter file."""
    for source, members in groupby(range(len(shards)), lambda number: shards[number].source):
        numbers = list(members) if source in sources else []
        size, first = 0, 0
        for position, number in enumerate(numbers):
            if size and size + shards[number].num_bytes > SCATTER_BYTES:
                yield range(numbers[first], number)
                size, first = 0, position
            size += shards[number].num_bytes
        if numbers:
            yield range(numbers[first], numbers[-1] + 1)


def _mixed_source(total: SourceUse, uses: Sequence[SourceUse]) -> MixedSource:
    documents, tokens = sum(use.documents for use in uses), sum(use.tokens for use in uses)
    is_whole = documents >= total.documents
    return MixedSource(
        documents=documents,
        tokens=tokens,
        epochs=documents / total.documents,
        left_out_documents=0 if is_whole else total.documents - documents,
        left_out_tokens=0 if is_whole else total.tokens - tokens,
    )
