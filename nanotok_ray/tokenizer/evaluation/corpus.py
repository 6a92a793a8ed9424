"""Reads texts from named files, up to a number of bytes.

Batches of texts have a label for each text if a column is named. Documents that are not texts are
counted by reason.
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
    DocumentRules,
    Piece,
    ReadingRules,
    decoded_bytes,
    find_named,
    read_piece,
)

KINDS: Final = ("text", "chat")

NO_LABEL: Final = "(none)"
"""The label of a document whose column is empty."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Files under one name, and the rules by which they are read."""

    name: str
    paths: tuple[str, ...]
    """Files, folders, globs and URLs."""
    rules: ReadingRules = field(default_factory=ReadingRules)
    """The rules of reading. The texts of a chat are those of its messages. A carried column is the
    label by which documents are grouped, such as their language.
    """


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Texts:
    """Consecutive texts, all valid UTF-8."""

    documents: Documents
    labels: Sequence[str] | None = None
    """The label of each text; None: no labels."""


class CorpusReader:
    """One pass over a corpus; its counts are complete after the pass."""

    def __init__(self, corpus: Corpus, *, max_bytes: int) -> None:
        """Find the files; the pass ends with the text that reaches `max_bytes`.

        Raises:
            RecipeError: The values of the corpus contradict each other.
            SourceError: Files are missing, cannot be read, or do not match the corpus.
            TransientIOError: A remote store failed in a way that a retry can solve.
        """
        self.corpus = corpus
        files = find_named(corpus.paths, corpus.rules)
        self._files, self._columns = files.files, files.columns
        self._left = max_bytes
        total = decoded_bytes(self._files)
        self.estimated_bytes = min(total, max_bytes)
        """Expected bytes of texts; an estimate for compressed files."""
        self.notes = files.notes
        """Notes on the files for a person."""
        self.is_cut = False
        """Whether texts were skipped because of `max_bytes`."""
        self.set_aside: dict[str, int] = {}
        """Number of documents that are not texts, by reason."""

    def __iter__(self) -> Iterator[Texts]:
        """Yield the texts in batches, in order.

        Raises:
            SourceError: A file no longer exists, or changed during the pass.
            TransientIOError: A remote store failed in a way that a retry can solve.
        """
        for file in self._files:
            piece = Piece.of(file)
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
        column = self._columns[piece.file.format]
        documents = DocumentRules(kind=rules.kind, column=column, id_column=rules.id_column)
        return iter(read_piece(piece, documents))

    def _texts(self, batch: Batch, piece: Piece) -> Texts:
        for bad in batch.bad:
            self._note(bad.reason)
        ids = batch.document_ids
        labels = None if ids is None else [id_.decode() or NO_LABEL for id_ in ids]
        if piece.file.dialect is None:
            return Texts(documents=batch.documents, labels=labels)
        texts = texts_of(Dialect(kind="chat", name=piece.file.dialect), batch.documents)
        for reason in texts.problems.values():
            self._note(reason)
        if labels is not None:
            labels = np.repeat(np.array(labels, dtype=object), np.diff(texts.bounds)).tolist()
        return Texts(documents=texts.texts, labels=labels)

    def _cut(self, texts: Texts) -> Texts:
        """Return the texts up to the one that reaches `max_bytes`."""
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
