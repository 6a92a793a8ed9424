"""olmo: NAME.npy, NAME.csv.gz and NAME.label_mask, for the datasets of OLMo-core.

NAME.npy             ids of 2 or 4 bytes back to back, without a NumPy header
NAME.csv.gz          a line for each document, no header: start, end, id, src, loc; start and end
                     are in tokens, src is the native shard, loc the index of the document in it
NAME.label_mask      one byte per id, 1 = train on it

Readers of local files ignore the csv.gz and split after every end token, so each document must end
with it and not contain it elsewhere. One of three rules applies to all documents of a source, and
is checked for each document:

unchanged  documents already end with the token
moved      documents begin with the token, which is moved to their end
added      documents do not contain the token, which is appended, with a 0 in the mask

A shard without documents has no files, since these readers cannot open empty ones. `*.npy` matches
all ids of a source and split, and `*.label_mask` all masks, in the same order.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports.corpus import Corpus, SourceFacts
from nanotok_ray.exports.layout import Document, ExportedUnit, Layout, Target, WrittenUnit
from nanotok_ray.exports.unit import Unit
from nanotok_ray.formats import DocumentBatch
from nanotok_ray.storage import Folder

_BOS = "<|bos|>"
_MASK = ".label_mask"
_GZIP = 31  # zlib's wbits for a gzip header, which contains no file name and no time


class _Rule(Enum):
    """How the end token gets to the end of the documents of a source."""

    UNCHANGED = "unchanged"
    MOVED = "moved"
    ADDED = "added"


@dataclass(frozen=True, kw_only=True)
class Olmo(Layout):
    """Ids that OLMo-core splits at an end token, and label masks."""

    name: ClassVar[str] = "olmo"
    format: ClassVar[str] = "olmo 1"
    reader: ClassVar[str] = (
        "ai2-olmo-core's NumpyFSLDataset and NumpyPackedFSLDataset, told dtype uint16 or uint32 as "
        "item_bytes is 2 or 4, and the id of end_token as eos_token_id"
    )
    masks: ClassVar[str | None] = "NAME.label_mask, a byte for each id, as label_mask_paths"

    end_token: str = _BOS
    """The special token that ends documents for the readers."""

    def check(self, corpus: Corpus) -> None:
        """Refuse an unknown end token, or one at another position in a source's documents.

        Raises:
            ExportError: The message names the special tokens, or the source.
        """
        self._end(corpus)
        for facts in corpus.sources:
            self._rule_of(corpus, facts.name)

    def write(self, unit: Unit, target: Target) -> WrittenUnit:
        """Link or write ids and masks; write start and end of the documents.

        Raises:
            ExportError: A document contains the end token before its end, where readers split.
        """
        rule, end = self._rule_of(unit.corpus, unit.source), self._end(unit.corpus)
        if not unit.documents:
            return WrittenUnit(documents=0, tokens=0)
        with ExitStack() as stack:
            files = _Files(unit, target, stack, changed=rule is not _Rule.UNCHANGED)
            for batch in unit.batches():
                self._refuse_wrong(batch, rule, end, unit.source)
                files.write(_changed(batch, rule, end))
            files.finish()
        if rule is _Rule.UNCHANGED:
            target.link(unit, ".bin", f"{unit.name}.npy")
            if unit.has_masks:
                target.link(unit, ".mask", unit.name + _MASK)
        return WrittenUnit(documents=unit.documents, tokens=files.tokens)

    def expected(self, unit: Unit) -> Iterator[Document]:
        """Yield each document with the end token at its end."""
        rule, end = self._rule_of(unit.corpus, unit.source), self._end(unit.corpus)
        for ids, mask in super().expected(unit):
            if rule is _Rule.MOVED:
                yield np.roll(ids, -1), None if mask is None else np.roll(mask, -1)
            elif rule is _Rule.ADDED:
                last = np.array([end], dtype=ids.dtype)
                yield np.append(ids, last), None if mask is None else np.append(mask, np.uint8(0))
            else:
                yield ids, mask

    def read(self, exported: ExportedUnit, folder: Folder) -> Iterator[Document]:
        """Split the ids after each end token, and compare with start and end in the csv.gz."""
        names = exported.names(".npy")
        if not names:
            return
        ids = np.frombuffer(folder.read_bytes(names[0]), dtype=f"<u{exported.unit.item_bytes}")
        ends = np.flatnonzero(ids == self._end(exported.unit.corpus)) + 1
        if not len(ends) or int(ends[-1]) != len(ids):
            raise CorruptOutputError(f"{folder.join(names[0])} does not end with {self.end_token}")
        (index_name,) = exported.names(".csv.gz")
        bounds = [0, *ends.tolist()]
        if _read_index(folder.read_bytes(index_name)) != list(pairwise(bounds)):
            raise CorruptOutputError(
                f"{folder.join(index_name)} has other documents than {self.end_token} ends"
            )
        mask = exported.array(folder, _MASK, "u1")
        if mask is not None and len(mask) != len(ids):
            raise CorruptOutputError(
                f"{folder.join(exported.unit.name)}{_MASK} does not have a byte for each id"
            )
        for start, stop in pairwise(bounds):
            yield ids[start:stop], None if mask is None else mask[start:stop]

    def _end(self, corpus: Corpus) -> int:
        number = corpus.special_tokens.get(self.end_token)
        if number is None:
            raise ExportError(
                f"layout 'olmo': end_token = {self.end_token!r} is not a special token of this "
                f"output; these are {', '.join(corpus.special_tokens) or 'none'}"
            )
        return number

    def _rule_of(self, corpus: Corpus, source: str) -> _Rule:
        """Return the rule for the documents of a source, or of those that are mixed.

        Raises:
            ExportError: The rules of mixed sources differ, or as for `_rule`.
        """
        rules = {facts.name: self._rule(facts, corpus) for facts in corpus.sources_of(source)}
        if len(set(rules.values())) > 1:
            first, *others = rules
            other = next(name for name in others if rules[name] is not rules[first])
            raise ExportError(
                f"layout 'olmo': sources {first} and {other} are mixed, and {self.end_token} ends "
                "their documents in different ways; give both the same source.prepend and "
                "source.append, or name another special token, as olmo:end_token=..."
            )
        return next(iter(rules.values()))

    def _rule(self, facts: SourceFacts, corpus: Corpus) -> _Rule:
        """Return the rule for the documents of a source.

        Raises:
            ExportError: Documents have the end token twice, or neither at their start nor their
                end.
        """
        end = self._end(corpus)
        if facts.kind != "text":  # rendered documents begin with <|bos|>
            return _Rule.MOVED if self.end_token == _BOS else _Rule.ADDED
        around = [*facts.prepend, *facts.append]
        if end not in around:
            return _Rule.ADDED
        if around.count(end) == 1 and facts.append[-1:] == (end,):
            return _Rule.UNCHANGED
        if around.count(end) == 1 and facts.prepend[:1] == (end,):
            return _Rule.MOVED
        raise ExportError(
            f"layout 'olmo': source {facts.name} puts {self.end_token} twice or not at an edge of "
            "its documents, where OLMo-core would cut them; name another special token, as "
            f"olmo:end_token={_other(corpus, around)}"
        )

    def _refuse_wrong(self, batch: DocumentBatch, rule: _Rule, end: int, source: str) -> None:
        """Refuse the first document that readers would split elsewhere than at its end.

        Raises:
            ExportError: The message names source, shard, document and reason.
        """
        positions = np.flatnonzero(batch.ids == end)
        starts, stops = batch.positions[:-1], batch.positions[1:]
        wanted = {_Rule.UNCHANGED: stops - 1, _Rule.MOVED: starts, _Rule.ADDED: positions[:0]}[rule]
        if np.array_equal(positions, wanted) and (rule is _Rule.ADDED or (starts < stops).all()):
            return
        for number, (start, stop) in enumerate(pairwise(batch.positions.tolist())):
            first, last = np.searchsorted(positions, (start, stop))
            why = _why((positions[first:last] - start).tolist(), stop - start, rule)
            if why:
                raise ExportError(
                    f"layout 'olmo': source {source}, shard {batch.shard}, "
                    f"document {batch.first + number} {why.format(self.end_token)}; OLMo-core cuts "
                    "after each of them: name a special token that documents hold at one edge or "
                    "nowhere with olmo:end_token=..."
                )


def _why(positions: list[int], length: int, rule: _Rule) -> str:
    """Return the problem of a document with the end token at these positions; "" if none.

    >>> _why([2], 3, _Rule.UNCHANGED), _why([0, 4], 5, _Rule.MOVED)
    ('', 'holds {} again at place 4')
    """
    if rule is _Rule.ADDED:
        return f"holds {{}} at place {positions[0]}" if positions else ""
    edge, side = (0, "begin") if rule is _Rule.MOVED else (length - 1, "end")
    if not length:
        return f"is empty: it does not {side} with {{}}"
    others = [position for position in positions if position != edge]
    if others:
        return f"holds {{}} again at place {others[0]}"
    return "" if positions else f"does not {side} with {{}}"


def _other(corpus: Corpus, used: Sequence[int]) -> str:
    """Return a special token that is not among the used ones, for advice."""
    return next(
        (name for name, number in corpus.special_tokens.items() if number not in used), "..."
    )


def _changed(batch: DocumentBatch, rule: _Rule, end: int) -> DocumentBatch:
    """Return the documents of a batch, each with the end token at its end."""
    mask, positions, stops = batch.mask, batch.positions, batch.positions[1:]
    if rule is _Rule.UNCHANGED:
        return batch
    if rule is _Rule.ADDED:
        ids: Any = np.insert(batch.ids, stops, end)
        mask = None if mask is None else np.insert(mask, stops, 0)
        return replace(batch, ids=ids, mask=mask, positions=positions + np.arange(len(positions)))
    mask = None if mask is None else _rotated(mask, positions)
    return replace(batch, ids=_rotated(batch.ids, positions), mask=mask)


def _rotated(values: npt.NDArray[Any], positions: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Move the first value of each document to its end; no document may be empty.

    >>> _rotated(np.array([9, 1, 2, 8, 7, 3]), np.array([0, 3, 4, 6])).tolist()
    [1, 2, 9, 8, 3, 7]
    """
    moved = np.roll(values, -1)
    moved[positions[1:] - 1] = values[positions[:-1]]
    return moved


class _Files:
    """The files of a unit that are being written; equal documents make equal bytes.

    Ids and masks are among them if they are changed.
    """

    def __init__(self, unit: Unit, target: Target, stack: ExitStack, *, changed: bool) -> None:
        self._name = unit.name
        self._index = stack.enter_context(target.create(_index_name(unit.name)))
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._ids = self._mask = None
        if changed:
            self._ids = stack.enter_context(target.create(f"{unit.name}.npy"))
        if changed and unit.has_masks:
            self._mask = stack.enter_context(target.create(unit.name + _MASK))
        self.tokens = 0
        """Number of tokens written so far, or linked later."""

    def write(self, batch: DocumentBatch) -> None:
        """Append the documents of a batch."""
        if self._ids is not None:
            self._ids.write(batch.ids.data)
        if self._mask is not None and batch.mask is not None:
            self._mask.write(batch.mask.data)
        bounds = (self.tokens + batch.positions).tolist()
        lines = (self._line(batch, number, *span) for number, span in enumerate(pairwise(bounds)))
        self._index.write(self._gzip.compress("".join(lines).encode()))
        self.tokens = bounds[-1]

    def _line(self, batch: DocumentBatch, number: int, start: int, end: int) -> str:
        document = batch.first + number
        field = _field(batch.document_id(number) or f"{self._name}#{document}")
        return f"{start},{end},{field},{_field(self._name)},{document}\n"

    def finish(self) -> None:
        """Write the remaining documents."""
        self._index.write(self._gzip.flush())


def _field(text: str) -> str:
    r"""Return a text as a field of a line: quoted if necessary, with \n and \r for line breaks.

    Readers split the file into lines before they parse quotes.

    >>> print(_field('say "a", b'), _field("c\nd"))
    "say ""a"", b" c\nd
    """
    text = text.replace("\r", "\\r").replace("\n", "\\n")
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def _index_name(unit_name: str) -> str:
    """Return the name of the csv.gz for readers, which replace each .npy in the name of the ids.

    >>> _index_name("web/train/a-00"), _index_name("web/train/a.npy-00")
    ('web/train/a-00.csv.gz', 'web/train/a.csv.gz-00.csv.gz')
    """
    folder, slash, name = f"{unit_name}.npy".rpartition("/")
    return folder + slash + name.replace(".npy", ".csv.gz")


def _read_index(data: bytes) -> list[tuple[int, int]]:
    """Return start and end of each document from a csv.gz."""
    lines = zlib.decompress(data, wbits=_GZIP).decode().split("\n")[:-1]
    return [(int(start), int(end)) for start, end, *_ in (line.split(",", 2) for line in lines)]
