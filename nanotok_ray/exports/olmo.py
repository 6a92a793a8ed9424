"""olmo: NAME.npy, NAME.csv.gz and NAME.label_mask, as OLMo-core's datasets take.

NAME.npy             ids of 2 or 4 bytes back to back, no NumPy header
NAME.csv.gz          a line for each document, no header: start, end, id, src, loc; start and end
                     are in tokens; src is the native shard, loc the document's place in it
NAME.label_mask      a byte for each id, 1 = train on it

Readers of local files ignore the csv.gz and cut after every end token, so that each document has to
end with it and hold it nowhere else. One of three things is done, the same for all documents of a
source, each of which is checked:

unchanged  its documents end with it as they are
moved      its documents begin with it: it goes from the front of each to the end
added      its documents do not hold it: it is added to the end of each, with a 0 in the mask

A shard without documents has no files: those readers cannot open empty ones. `*.npy` names all ids
of a source and split, and `*.label_mask` all masks, in one order.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports.corpus import Corpus, SourceFacts
from nanotok_ray.exports.layout import Document, Exported, Layout, Target, Written
from nanotok_ray.exports.native import Batch, Ids, Mask, NativeShard, Positions
from nanotok_ray.exports.unit import Unit
from nanotok_ray.storage import Folder

_BOS = "<|bos|>"
_MASK = ".label_mask"
_GZIP = 31  # zlib's number for: with a gzip header, which names no file and no time


class _Rule(Enum):
    """How the documents of a source come to end with the end token."""

    UNCHANGED = "unchanged"
    MOVED = "moved"
    ADDED = "added"


@dataclass(frozen=True, kw_only=True)
class Olmo(Layout):
    """Ids that OLMo-core cuts at an end token, and its label masks."""

    name: ClassVar[str] = "olmo"
    format: ClassVar[str] = "olmo 1"
    reader: ClassVar[str] = (
        "ai2-olmo-core's NumpyFSLDataset and NumpyPackedFSLDataset, told dtype uint16 or uint32 as "
        "item_bytes is 2 or 4, and the id of end_token as eos_token_id"
    )
    masks: ClassVar[str | None] = "NAME.label_mask, a byte for each id, as label_mask_paths"

    end_token: str = _BOS
    """The special token that ends documents for these readers."""

    def check(self, corpus: Corpus) -> None:
        """Refuse an end token that is none, or that its source puts at another place.

        Raises:
            ExportError: saying which there are, or which source it is.
        """
        self._end(corpus)
        for facts in corpus.sources:
            self._rule(facts, corpus)

    def write(self, unit: Unit, corpus: Corpus, target: Target) -> Written:
        """Link or write ids and masks; write where documents begin and end.

        Raises:
            ExportError: a document holds the end token where readers would cut it.
        """
        (shard,) = unit.shards
        rule, end = self._rule_of(unit, corpus), self._end(corpus)
        if not unit.documents:
            return Written(documents=0, tokens=0)
        with ExitStack() as stack:
            files = _Files(unit, target, stack, changed=rule is not _Rule.UNCHANGED)
            for batch in shard.batches():
                self._refuse_wrong(batch, rule, end, shard)
                files.write(batch, _changed(batch, rule, end))
            files.finish()
        if rule is _Rule.UNCHANGED:
            target.link(shard, ".bin", f"{unit.name}.npy")
            if unit.has_masks:
                target.link(shard, ".mask", unit.name + _MASK)
        return Written(documents=unit.documents, tokens=files.tokens)

    def expected(self, unit: Unit, corpus: Corpus) -> Iterator[Document]:
        """Yield each document with its end token at its end."""
        rule, end = self._rule_of(unit, corpus), self._end(corpus)
        for ids, mask in super().expected(unit, corpus):
            if rule is _Rule.MOVED:
                yield np.roll(ids, -1), None if mask is None else np.roll(mask, -1)
            elif rule is _Rule.ADDED:
                last = np.array([end], dtype=ids.dtype)
                yield np.append(ids, last), None if mask is None else np.append(mask, np.uint8(0))
            else:
                yield ids, mask

    def read(self, exported: Exported, corpus: Corpus, folder: Folder) -> Iterator[Document]:
        """Cut the ids after each end token, and compare with the start and end in the csv.gz."""
        names = exported.names(".npy")
        if not names:
            return
        ids = np.frombuffer(folder.read_bytes(names[0]), dtype=f"<u{corpus.item_bytes}")
        ends = np.flatnonzero(ids == self._end(corpus)) + 1
        if not len(ends) or int(ends[-1]) != len(ids):
            raise CorruptOutputError(f"{folder.join(names[0])} does not end with {self.end_token}")
        (index_name,) = exported.names(".csv.gz")
        bounds = [0, *ends.tolist()]
        if _read_index(folder.read_bytes(index_name)) != list(pairwise(bounds)):
            raise CorruptOutputError(
                f"{folder.join(index_name)} has other documents than {self.end_token} ends"
            )
        masks = exported.names(_MASK)
        mask = np.frombuffer(folder.read_bytes(masks[0]), dtype=np.uint8) if masks else None
        if mask is not None and len(mask) != len(ids):
            raise CorruptOutputError(f"{folder.join(masks[0])} does not have a byte for each id")
        for start, stop in pairwise(bounds):
            yield ids[start:stop], None if mask is None else mask[start:stop]

    def _end(self, corpus: Corpus) -> int:
        found = corpus.special_tokens.get(self.end_token)
        if found is None:
            raise ExportError(
                f"layout 'olmo': end_token = {self.end_token!r} is not a special token of this "
                f"output; these are {', '.join(corpus.special_tokens) or 'none'}"
            )
        return found

    def _rule_of(self, unit: Unit, corpus: Corpus) -> _Rule:
        (facts,) = (one for one in corpus.sources if one.name == unit.source)
        return self._rule(facts, corpus)

    def _rule(self, facts: SourceFacts, corpus: Corpus) -> _Rule:
        """Return what is done to the documents of a source.

        Raises:
            ExportError: they are made with the end token twice, or not at an edge.
        """
        end = self._end(corpus)
        if facts.kind != "text":  # rendered: <|bos|> is first in each
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

    def _refuse_wrong(self, batch: Batch, rule: _Rule, end: int, shard: NativeShard) -> None:
        """Refuse the first document that readers would cut elsewhere than at its end.

        Raises:
            ExportError: naming source, shard, document and why.
        """
        positions = np.flatnonzero(batch.ids == end)
        starts, stops = batch.positions[:-1], batch.positions[1:]
        wanted = {_Rule.UNCHANGED: stops - 1, _Rule.MOVED: starts, _Rule.ADDED: positions[:0]}[rule]
        if np.array_equal(positions, wanted) and (rule is _Rule.ADDED or (starts < stops).all()):
            return
        for number, (start, stop) in enumerate(pairwise(batch.positions.tolist())):
            found = (
                positions[np.searchsorted(positions, start) : np.searchsorted(positions, stop)]
                - start
            )
            why = _why(found.tolist(), stop - start, rule)
            if why:
                raise ExportError(
                    f"layout 'olmo': source {shard.facts.source}, shard {shard.facts.name}, "
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
    """Return a special token that is not among these, for advice."""
    return next(
        (name for name, number in corpus.special_tokens.items() if number not in used), "..."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Changed:
    """The documents of a batch, each with its end token at its end."""

    ids: Ids
    mask: Mask | None
    lengths: Positions


def _changed(batch: Batch, rule: _Rule, end: int) -> _Changed:
    lengths, stops = np.diff(batch.positions), batch.positions[1:]
    if rule is _Rule.UNCHANGED:
        return _Changed(ids=batch.ids, mask=batch.mask, lengths=lengths)
    if rule is _Rule.ADDED:
        mask = None if batch.mask is None else np.insert(batch.mask, stops, 0)
        ids: Any = np.insert(batch.ids, stops, end)
        return _Changed(ids=ids, mask=mask, lengths=lengths + 1)
    mask = None if batch.mask is None else _rotated(batch.mask, batch.positions)
    return _Changed(ids=_rotated(batch.ids, batch.positions), mask=mask, lengths=lengths)


def _rotated(values: npt.NDArray[Any], positions: Positions) -> npt.NDArray[Any]:
    """Move the first value of each document, none of them empty, behind its last.

    >>> _rotated(np.array([9, 1, 2, 8, 7, 3]), np.array([0, 3, 4, 6])).tolist()
    [1, 2, 9, 8, 3, 7]
    """
    moved = np.roll(values, -1)
    moved[positions[1:] - 1] = values[positions[:-1]]
    return moved


class _Files:
    """The files of a unit being written: the same bytes for the same documents.

    Ids and masks are among them if these are changed.
    """

    def __init__(self, unit: Unit, target: Target, stack: ExitStack, *, changed: bool) -> None:
        self._name = unit.shards[0].facts.name
        self._index = stack.enter_context(target.create(_index_name(unit.name)))
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._ids = self._mask = None
        if changed:
            self._ids = stack.enter_context(target.create(f"{unit.name}.npy"))
        if changed and unit.has_masks:
            self._mask = stack.enter_context(target.create(unit.name + _MASK))
        self.tokens = 0
        """Written so far, or linked later."""

    def write(self, batch: Batch, changed: _Changed) -> None:
        """Add the documents of a batch."""
        if self._ids is not None:
            self._ids.write(changed.ids.data)
        if self._mask is not None and changed.mask is not None:
            self._mask.write(changed.mask.data)
        bounds = [self.tokens, *(self.tokens + np.cumsum(changed.lengths)).tolist()]
        lines = (self._line(batch, number, *span) for number, span in enumerate(pairwise(bounds)))
        self._index.write(self._gzip.compress("".join(lines).encode()))
        self.tokens = bounds[-1]

    def _line(self, batch: Batch, number: int, start: int, end: int) -> str:
        document = batch.first + number
        document_id = batch.document_ids[number] if batch.document_ids is not None else ""
        field = _field(document_id or f"{self._name}#{document}")
        return f"{start},{end},{field},{_field(self._name)},{document}\n"

    def finish(self) -> None:
        """Write what is left."""
        self._index.write(self._gzip.flush())


def _field(text: str) -> str:
    r"""Return a text as a field of a line: quoted where need be, line breaks as \n and \r.

    Readers split the file into lines before they look for quotes.

    >>> print(_field('say "a", b'), _field("c\nd"))
    "say ""a"", b" c\nd
    """
    text = text.replace("\r", "\\r").replace("\n", "\\n")
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def _index_name(unit_name: str) -> str:
    """Return where readers look for the csv.gz: each .npy in the name of the ids is replaced.

    >>> _index_name("web/train/a-00"), _index_name("web/train/a.npy-00")
    ('web/train/a-00.csv.gz', 'web/train/a.csv.gz-00.csv.gz')
    """
    folder, slash, name = f"{unit_name}.npy".rpartition("/")
    return folder + slash + name.replace(".npy", ".csv.gz")


def _read_index(data: bytes) -> list[tuple[int, int]]:
    """Return start and end of each document of a csv.gz."""
    lines = zlib.decompress(data, wbits=_GZIP).decode().split("\n")[:-1]
    return [(int(start), int(end)) for start, end, *_ in (line.split(",", 2) for line in lines)]
