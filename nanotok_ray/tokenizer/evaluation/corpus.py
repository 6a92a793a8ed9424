"""Named files to texts, up to so many bytes of them.

Batches of texts have a label for each text if a column has one. What is not a text is counted by
reason.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from nanotok_ray.chat import texts_of
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents
from nanotok_ray.sources import (
    Batch,
    Piece,
    ReadingRules,
    SourceFile,
    estimated_bytes,
    find_named,
    read_piece,
)

KINDS: Final = ("text", "chat")

NO_LABEL: Final = "(none)"
"""The label of a document whose column is empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Files under one name, and how they are read."""

    name: str
    paths: tuple[str, ...]
    """Files, folders, globs and URLs."""
    rules: ReadingRules = field(default_factory=ReadingRules)
    """Of a chat the texts of its messages are taken; what is carried along is a label: what
    documents are grouped by, as their language."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Texts:
    """Texts that follow each other, all of them UTF-8."""

    documents: Documents
    labels: Sequence[str] | None = None
    """Of each text; None: there are none."""


class CorpusReader:
    """One pass over a corpus; the account is whole once it is over."""

    def __init__(self, corpus: Corpus, *, max_bytes: int) -> None:
        """Find the files; a pass ends after the text that reaches `max_bytes`.

        Raises:
            RecipeError: The values of the corpus are impossible together.
            SourceError: Files are missing, cannot be read, or are not what the corpus says.
            TransientIOError: A remote store failed in a way that may pass.
        """
        self.corpus = corpus
        found = find_named(corpus.paths, corpus.rules)
        self._files = found.files
        self._left = max_bytes
        whole = sum(estimated_bytes(file, _whole(file)) for file in self._files)
        self.estimated_bytes = min(whole, max_bytes)
        """How much there will be, roughly where files are compressed."""
        self.notes = found.notes
        """What a person should know of the files."""
        self.is_cut = False
        """Whether texts were left out because of `max_bytes`."""
        self.set_aside: dict[str, int] = {}
        """How many documents were no texts, by the kind of the reason."""

    def __iter__(self) -> Iterator[Texts]:
        """Yield the texts in batches, in order.

        Raises:
            SourceError: A file is gone, or changes while it is read.
            TransientIOError: A remote store failed in a way that may pass.
        """
        for file in self._files:
            piece = _whole(file)
            for batch in self._batches(piece):
                texts = self._texts(batch, piece)
                if not len(texts.documents):
                    continue
                if self._left <= 0:
                    self.is_cut = True
                    return
                yield self._cut(texts)

    def _batches(self, piece: Piece) -> Iterator[Batch]:
        rules = self.corpus.rules
        return iter(
            read_piece(
                piece,
                kind=rules.kind,
                column=rules.column_of(piece.format),
                id_column=rules.id_column,
            )
        )

    def _texts(self, batch: Batch, piece: Piece) -> Texts:
        for bad in batch.bad:
            self._note(bad.reason)
        ids = batch.document_ids
        labels = None if ids is None else [id_.decode() or NO_LABEL for id_ in ids]
        if piece.dialect is None:
            return Texts(documents=batch.documents, labels=labels)
        found = texts_of(Dialect(kind="chat", name=piece.dialect), batch.documents)
        for reason in found.problems.values():
            self._note(reason)
        if labels is not None:
            labels = np.repeat(np.array(labels, dtype=object), np.diff(found.bounds)).tolist()
        return Texts(documents=found.texts, labels=labels)

    def _cut(self, texts: Texts) -> Texts:
        """Return texts up to the one with which there are enough bytes."""
        documents = texts.documents
        enough = int(np.searchsorted(documents.offsets, documents.offsets[0] + self._left))
        stop = min(enough, len(documents))
        self.is_cut = self.is_cut or stop < len(documents)
        part = documents.part(0, stop)
        self._left -= part.num_bytes
        return Texts(documents=part, labels=None if texts.labels is None else texts.labels[:stop])

    def _note(self, reason: str) -> None:
        kind = reason.partition(":")[0]
        self.set_aside[kind] = self.set_aside.get(kind, 0) + 1


def _whole(file: SourceFile) -> Piece:
    return file.piece(0, len(file.layout) if file.format == "parquet" else file.size)
