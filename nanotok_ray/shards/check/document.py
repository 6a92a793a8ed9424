"""The check of a document: compares its ids, mask and images with its text.

Ids are decoded by a table and compared with those of another library; conversations and vision
documents are rendered by the reference implementation of their dialect, or with Jinja2 if they have
a chat template. The encoder and the renderer are not used. Ids of a tokenizer that changes texts do
not decode to them, and are compared only with those of the library.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.chat import PlainRenderer, Segment, compose, segments_of
from nanotok_ray.dialects import MALFORMED, Dialect, reason_of
from nanotok_ray.documents import Documents, offsets_of, to_utf8
from nanotok_ray.formats import RECOGNIZE, DocumentBatch, Ids, Mask, ShardSettings
from nanotok_ray.shards.check.cross_check import CrossCheck, NoCrossCheckError, cross_check_of
from nanotok_ray.shards.check.fim import OTHER_PARTS, PARTS, ExpectedPart, FimCheck, divided
from nanotok_ray.shards.settings import CheckedCount, dialect_of
from nanotok_ray.tokenizer import FileModel, Tokenizer, char_offsets

WINDOW_BYTES = 64 << 10
"""Of a longer text only a part of this size is checked and counted."""

MAX_CONVERSATION = 1 << 20
"""Characters of the texts of a conversation; longer ones are decoded, but not encoded again."""

LONG_SPAN = "a span above 64 KiB"
SPELLED = "names of special tokens are text"
LOOKS_FURTHER = "the pattern looks past the piece"
LONG_CONVERSATION = "a conversation above 1 MiB"
LONG_DOCUMENT = "a document above 1 MiB"

OTHER_TEXT = "its ids do not decode to it"
OTHER_MASK = "its mask is another, or special tokens are where it has text"

OTHER_IDS = "rendered with {} it has other ids or another mask"

_BLOCK = 1 << 16  # ids; a list of this length needs little memory
_SEED_BYTES = 1 << 20  # bytes of a long document that determine the position of the window
_MIDDLE = 4096


@dataclass(frozen=True, slots=True)
class CheckTables:
    """The tables of a tokenizer that the check needs."""

    is_special: npt.NDArray[np.bool_]
    """Whether an id is that of a special token."""
    is_lossless: bool
    """Whether ids decode to the text that they were made of."""
    lengths: npt.NDArray[np.int32]
    """Number of bytes of each id; for a special token, of its name."""
    spelling: dict[int, bytes]
    """Bytes of every id; for a special token, its name."""
    splitter: _core.Splitter | None
    """The splitter of the core, if it encodes."""
    cross_check: CrossCheck

    def spelled(self, ids: Ids) -> bytes:
        """Return the bytes of ids.

        Raises:
            KeyError: An id is not a token.
        """
        spelling = self.spelling.__getitem__
        return b"".join(b"".join(map(spelling, block.tolist())) for block in _blocks(ids))

    def token_at(self, ids: Ids, position: int) -> int | None:
        """Return the index of the token that begins at a byte, len(ids) at the end, or None."""
        return _token_at(self.lengths, ids, position)

    def size(self, ids: Ids) -> int:
        """Return the number of bytes of ids."""
        return sum(int(self.lengths[block].sum()) for block in _blocks(ids))


@lru_cache(maxsize=2)
def check_tables(tokenizer: Tokenizer, *, recognize: bool) -> CheckTables:
    """Build the tables, or return the cached ones of one of the last two tokenizers."""
    model = tokenizer.model
    special = {number: name.encode() for name, number in model.special_tokens.items()}
    lengths = model.token_lengths()
    for number, name in special.items():
        lengths[number] = len(name)
    if isinstance(model, FileModel):
        pattern = None if model.tables is None else model.tables.pattern
    else:
        pattern = model.pattern
    return CheckTables(
        is_special=model.special_flags(),
        is_lossless=not isinstance(model, FileModel) or model.is_lossless,
        lengths=lengths,
        spelling={**model.text_tokens, **special},
        splitter=None if pattern is None else _core.Splitter(pattern),
        cross_check=cross_check_of(tokenizer, recognize=recognize),
    )


class DocumentCheck:
    """Compares documents of one kind with their ids, and counts them in `count`."""

    def __init__(
        self,
        *,
        kind: str,
        settings: ShardSettings,
        tokenizer: Tokenizer,
        max_conversation: int = MAX_CONVERSATION,
    ) -> None:
        """Build the tables, or reuse those of the last tokenizer.

        Conversations of more than `max_conversation` characters are not encoded again.
        """
        self.kind, self.settings, self.tokenizer = kind, settings, tokenizer
        self.count = CheckedCount()
        self._max_conversation = max_conversation
        self._recognizes = settings.special_text == RECOGNIZE
        self._tables = check_tables(tokenizer, recognize=self._recognizes)
        self._before = tuple(map(tokenizer.encode_special, settings.prepend))
        self._after = tuple(map(tokenizer.encode_special, settings.append))
        self._fim = None if settings.fim is None else FimCheck(settings.fim, tokenizer)
        self._template_checks: dict[Dialect, TemplateCheck] = {}
        self._cut_at = settings.max_tokens if settings.too_long == "cut" else None

    def problem(
        self,
        document: bytes | npt.NDArray[np.uint8],
        ids: Ids,
        mask: Mask | None = None,
        images: npt.NDArray[np.integer] | None = None,
        *,
        dialect: str | None = None,
    ) -> str | None:
        """Return the difference between a document and its ids, mask and images, or None.

        Args:
            document: a text as UTF-8, or the JSON of a conversation or vision document.
            ids: all of its ids, including special tokens before and after it.
            mask: the mask, as long as the ids; None for a text.
            images: start and end of the tokens of each image, of shape (n, 2); None if it cannot
                have images.
            dialect: the name of the document's dialect; None for a text.
        """
        self.count.documents += 1
        try:
            if dialect is None:
                data = np.frombuffer(document, dtype=np.uint8)
                self.count.bytes += min(len(data), WINDOW_BYTES)
                problem = self._text_problem(data, ids)
            else:
                self.count.bytes += len(document)
                read_as = dialect_of(self.settings, self.kind, dialect)
                problem = self._rendered_problem(bytes(document), read_as, ids, mask, images)
        except NoCrossCheckError as reason:  # not a problem
            self.count.not_encoded_again[str(reason)] += 1
            return None
        self.count.encoded_again += problem is None
        return problem

    def differing_texts(self, texts: Documents, documents: DocumentBatch) -> npt.NDArray[np.int64]:
        """Return the indexes of texts that differ from their decoded ids.

        Those of a tokenizer that changes texts are encoded again by the library.
        """
        ids, lengths, positions = documents.ids, documents.lengths, documents.positions
        size = len(self._before) + len(self._after)
        if (lengths < size).any():
            return np.flatnonzero(lengths < size)
        if self._fim is not None and self._tables.is_lossless:
            documents, elsewhere = self._in_order(texts, documents)
            if len(elsewhere):
                return elsewhere
            ids, lengths, positions = documents.ids, documents.lengths, documents.positions
        wrong, is_text = self._surrounded(ids, positions[:-1], positions[1:])
        inner = ids[is_text] if size else ids
        bounds = offsets_of(lengths - size)
        if not self._tables.is_lossless:
            return np.flatnonzero(wrong | self._encoded_otherwise(inner, bounds, texts))
        # The name of a special token and the token itself are decoded to the same bytes.
        special = np.flatnonzero(self._is_special(inner))
        if len(special) and not self._recognizes:
            wrong[np.searchsorted(bounds, special, side="right") - 1] = True
            inner = np.where(self._is_special(inner), inner.dtype.type(self._text_id), inner)
        decoded = Documents.from_arrow(self.tokenizer.decode_batch(inner, bounds, as_bytes=True))
        return np.flatnonzero(wrong | unequal(decoded, texts))

    def _is_special(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Return for each id whether it is not one of a text."""
        flags = self._tables.is_special
        is_special: npt.NDArray[np.bool_] = flags[np.minimum(ids, len(flags) - 1)]
        return is_special | (ids >= len(flags))

    @property
    def _text_id(self) -> int:
        """An id of text."""
        return next(iter(self.tokenizer.model.text_tokens))

    def _encoded_otherwise(
        self, ids: Ids, bounds: npt.NDArray[np.int64], texts: Documents
    ) -> npt.NDArray[np.bool_]:
        """Return for each text whether the library gives other ids."""
        return np.array(
            [
                not self._is_encoded(texts[number], ids[bounds[number] : bounds[number + 1]])
                for number in range(len(texts))
            ],
            dtype=np.bool_,
        )

    def _is_encoded(self, text: bytes, ids: Ids) -> bool:
        """Return whether ids are those of the library, or whether it cannot say."""
        try:
            expected = self._library_ids(np.frombuffer(text, dtype=np.uint8))
        except NoCrossCheckError as reason:
            self.count.not_encoded_again[str(reason)] += 1
            return True
        return np.array_equal(expected, ids)

    def _library_ids(self, text: npt.NDArray[np.uint8]) -> list[int]:
        """Return the library's ids of a text, which is rearranged if the settings say so.

        Raises:
            NoCrossCheckError: The library cannot encode the text.
        """
        parts = self._fim_parts(text) or [ExpectedPart((), 0, text)]
        ids: list[int] = []
        for part in parts:
            ids += part.tokens
            ids += self._tables.cross_check.ids(part.text.tobytes().decode(errors="replace"))
        return ids

    def _fim_parts(self, text: npt.NDArray[np.uint8]) -> list[ExpectedPart] | None:
        """Return the parts of a text that is rearranged, or None for another one."""
        return None if self._fim is None else self._fim.parts(text)

    def _in_order(
        self, texts: Documents, documents: DocumentBatch
    ) -> tuple[DocumentBatch, npt.NDArray[np.int64]]:
        """Return documents with the ids of rearranged ones in the order of their texts.

        The result has no special tokens of prefix, middle and suffix. Also return the indexes of
        the documents that have them at other places.
        """
        first, last = len(self._before), len(self._after)
        rows: list[npt.NDArray[Any]] = [documents.ids[:0]]
        lengths, wrong = documents.lengths, []
        for number, (ids, _) in enumerate(documents.documents()):
            text = texts.data[texts.offsets[number] : texts.offsets[number + 1]]
            if (parts := self._fim_parts(text)) is None:
                rows.append(ids)
                continue
            end = len(ids) - last
            found = divided(ids[first:end], parts, self._tables.token_at)
            if found is None:
                wrong.append(number)
                continue
            by_number = {part.number: own for part, own in zip(parts, found, strict=True)}
            rows += [ids[:first], *(by_number[each] for each in range(len(parts))), ids[end:]]
            lengths[number] -= sum(len(part.tokens) for part in parts)
        ordered = DocumentBatch(ids=np.concatenate(rows), positions=offsets_of(lengths))
        return ordered, np.array(wrong, dtype=np.int64)

    def _surrounded(
        self, ids: Ids, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which documents have wrong ids around the text, and which ids are text."""
        wrong = np.zeros(len(starts), dtype=bool)
        is_text = np.ones(len(ids), dtype=bool)
        for first, numbers in ((starts, self._before), (ends - len(self._after), self._after)):
            for shift, number in enumerate(numbers):
                wrong |= ids[first + shift] != number
                is_text[first + shift] = False
        return wrong, is_text

    def _text_problem(self, document: npt.NDArray[np.uint8], ids: Ids) -> str | None:
        first, end = len(self._before), len(ids) - len(self._after)
        if (
            *ids[:first].tolist(),
            *ids[end:].tolist(),
        ) != self._before + self._after or end < first:
            prepended, appended = list(self.settings.prepend), list(self.settings.append)
            return f"its ids are not within {prepended} and {appended}"
        text_ids, parts = ids[first:end], self._fim_parts(document)
        if parts is None:
            return self._part_problem(document, text_ids)
        if self._needs_library:
            return self._library_problem(document, text_ids)
        return self._parts_problem(parts, text_ids)

    def _parts_problem(self, parts: Sequence[ExpectedPart], ids: Ids) -> str | None:
        """Compare each part of a rearranged document with its ids."""
        found = divided(ids, parts, self._tables.token_at)
        if found is None:
            return OTHER_PARTS
        unchecked: NoCrossCheckError | None = None
        for part, part_ids in zip(parts, found, strict=True):
            try:
                problem = self._part_problem(part.text, part_ids)
            except NoCrossCheckError as reason:  # of the others too, after they were decoded
                unchecked = reason
                continue
            if problem is not None:
                return f"its {PARTS[part.number]}: {problem}"
        if unchecked is not None:
            raise unchecked
        return None

    @property
    def _needs_library(self) -> bool:
        """Whether ids can be compared only with those of the library of the tokenizer."""
        return not self._tables.is_lossless or self._tables.splitter is None

    def _part_problem(self, document: npt.NDArray[np.uint8], text_ids: Ids) -> str | None:
        """Compare ids without special tokens around them with a text or a part of one."""
        special = text_ids[self._is_special(text_ids)]
        if len(special) and not self._recognizes:
            return f"its ids hold {int(special.max())}, which is not an id of text"
        if self._needs_library:
            return self._library_problem(document, text_ids)
        num_bytes = self._tables.size(text_ids)
        if num_bytes != len(document):
            return f"its ids stand for {num_bytes:,} bytes, it has {len(document):,}"
        return self._window_problem(document, text_ids)

    def _library_problem(self, document: npt.NDArray[np.uint8], text_ids: Ids) -> str | None:
        """Compare ids that do not decode to the text with those of the library."""
        if len(document) > MAX_CONVERSATION:
            raise NoCrossCheckError(LONG_DOCUMENT)
        if self._library_ids(document) == text_ids.tolist():
            return None
        return f"{self._tables.cross_check.name} gives other ids"

    def _window_problem(self, document: npt.NDArray[np.uint8], text_ids: Ids) -> str | None:
        """Compare all of a document, or the whole spans of a long one that fit the window."""
        splitter = self._tables.splitter
        assert splitter is not None, "ids that decode to the text are those of the core"
        edges = np.array([0, len(document)], dtype=np.int64)
        if len(document) > WINDOW_BYTES:
            start = _window_start(document)
            edges = splitter.boundaries(document, start, WINDOW_BYTES)
        start, stop = int(edges[0]), int(edges[-1])
        if start == stop and len(document):
            return self._middle_problem(document, text_ids)
        first, last = (self._tables.token_at(text_ids, position) for position in (start, stop))
        if first is None or last is None:
            return f"a token crosses the border of a span, at byte {start} or {stop}"
        piece, ids = document[start:stop].tobytes(), text_ids[first:last]
        if self._tables.spelled(ids) != piece:
            return f"bytes {start} to {stop} are not what its ids decode to"
        text = piece.decode()
        if self._tables.cross_check.ids(text) == ids.tolist():
            return None
        self._tables.cross_check.check_rule(text)
        if len(piece) < len(document):
            alone = splitter.boundaries(np.frombuffer(piece, np.uint8), 0, len(piece))
            if not np.array_equal(alone, edges - start):
                raise NoCrossCheckError(LOOKS_FURTHER)
        name = self._tables.cross_check.name
        return f"{name} gives other ids for its bytes {start} to {stop}"

    def _middle_problem(self, document: npt.NDArray[np.uint8], text_ids: Ids) -> str:
        """Decode tokens in the middle of a document that has no short span."""
        first = len(text_ids) // 2
        start = self._tables.size(text_ids[:first])
        spelled = self._tables.spelled(text_ids[first : first + _MIDDLE])
        if spelled == document[start : start + len(spelled)].tobytes():
            raise NoCrossCheckError(LONG_SPAN)
        return f"bytes {start} to {start + len(spelled)} are not what its ids decode to"

    def _rendered_problem(
        self,
        document: bytes,
        dialect: Dialect,
        ids: Ids,
        mask: Mask | None,
        images: npt.NDArray[np.integer] | None,
    ) -> str | None:
        if mask is None or len(mask) != len(ids):
            return "it has no mask of its length"
        if self.settings.template is not None:
            return self._templated_problem(document, dialect, ids, mask)
        try:
            segments = segments_of(document, dialect)
        except MALFORMED as error:
            return f"the plain reading refuses it: {reason_of(error)}"
        spans = [] if images is None else [(start, end) for start, end in images.tolist()]
        sizes = [segment.count for segment in segments if segment.role == "image"]
        problem = self._policy_problem(ids, mask)
        if self._tables.is_lossless:
            problem = self._decoded_problem(segments, ids, mask) or problem
        if problem is not None:
            return problem
        if [end - start for start, end in spans] != sizes:
            return f"its images are at {spans}, it has images of {sizes} tokens"
        return self._composed_problem(segments, ids, mask, spans)

    def _templated_problem(
        self, document: bytes, dialect: Dialect, ids: Ids, mask: Mask
    ) -> str | None:
        if (problem := self._policy_problem(ids, mask)) is not None:
            return problem
        if len(document) > self._max_conversation:
            raise NoCrossCheckError(LONG_CONVERSATION)
        if dialect not in self._template_checks:
            check = TemplateCheck(self.tokenizer, self.settings, dialect)
            self._template_checks[dialect] = check
        return self._template_checks[dialect].problem(document, ids, mask)

    def _decoded_problem(self, segments: Sequence[Segment], ids: Ids, mask: Mask) -> str | None:
        """Compare the bytes of ids, and those that are trained on, with the segments."""
        try:
            decoded = self._tables.spelled(ids)
        except KeyError:
            return OTHER_TEXT
        # One more byte than decoded shows that a text continues, unless it was cut there.
        limit = len(decoded) + (len(ids) != self._cut_at)
        parts, sizes, size = [], [], 0
        for segment in segments:
            encoded = to_utf8(segment.text)
            copies = min(segment.count, (limit - size) // max(len(encoded), 1) + 1)
            parts.append((encoded * copies)[: limit - size])
            sizes.append(len(parts[-1]))
            size += sizes[-1]
        if b"".join(parts) != decoded:
            return OTHER_TEXT
        expected = np.repeat(
            np.array([segment.mask | segment.is_special << 1 for segment in segments], np.uint8),
            np.array(sizes, np.int64),
        )
        special = self._is_special(ids).astype(np.uint8) << np.uint8(1)
        flags = np.repeat(special | mask, self._tables.lengths[ids])
        return None if np.array_equal(flags, expected) else OTHER_MASK

    def _policy_problem(self, ids: Ids, mask: Mask) -> str | None:
        """Return the reason why the document should be in no shard, or be shorter, or None."""
        limit, rules = self.settings.max_tokens, self.settings
        if limit is not None and len(ids) > limit and rules.too_long != "keep":
            return f"it has {len(ids):,} tokens, limits.max_tokens = {limit:,}"
        if rules.untrainable == "drop" and not mask.any():
            return "it has no token to train on, limits.untrainable = 'drop'"
        return None

    def _composed_problem(
        self, segments: Sequence[Segment], ids: Ids, mask: Mask, images: list[tuple[int, int]]
    ) -> str | None:
        """Compare ids, mask and images with those made of the library's ids of the segments."""
        texts = [to_utf8(part.text).decode() for part in segments if not part.is_special]
        if sum(map(len, texts)) > self._max_conversation:
            raise NoCrossCheckError(LONG_CONVERSATION)
        other, waiting = self._tables.cross_check, iter(texts)
        expected = compose(
            lambda _: other.ids(next(waiting)), self.tokenizer.encode_special, segments
        )
        limit = self._cut_at
        is_equal = (ids.tolist(), mask.tolist()) == (expected.ids[:limit], expected.mask[:limit])
        if is_equal and images == expected.images:
            return None
        other.check_rule(*texts)
        if is_equal:
            return f"its images are at {images}, rendered with {other.name} at {expected.images}"
        return OTHER_IDS.format(other.name)


class LibraryEncoder:
    """Another library as the encoder of texts of a template."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Open the library."""
        self.special_tokens, self.is_wide = tokenizer.special_tokens, tokenizer.is_wide
        self.library: CrossCheck = cross_check_of(tokenizer, recognize=True)
        self._bytes_of = tokenizer.decode_single_token_bytes

    def recognized_with_offsets(
        self, text: str, *, between: str
    ) -> tuple[list[int], Sequence[tuple[int, int]]]:
        """Return the ids of a text by the library, and their positions in characters.

        Raises:
            NoCrossCheckError: The library cannot encode the text.
        """
        if between in text:
            raise NoCrossCheckError(SPELLED)
        ids = self.library.ids(text)
        positions = char_offsets(text, [self._bytes_of(number) for number in ids])
        return self.library.offsets(text) if positions is None else (ids, positions)


class TemplateCheck:
    """Compares the conversations of one dialect, rendered by a template, with ids and masks."""

    def __init__(self, tokenizer: Tokenizer, settings: ShardSettings, dialect: Dialect) -> None:
        """Open the library."""
        template, self._encoder = settings.template, LibraryEncoder(tokenizer)
        assert template is not None, "the source has a chat template"
        self._limit = settings.max_tokens if settings.too_long == "cut" else None
        self._plain = PlainRenderer(
            self._encoder, template, dialect, special_text=settings.special_text
        )

    def problem(self, document: bytes, ids: Ids, mask: Mask) -> str | None:
        """Return the difference between a conversation and its ids and mask, or None.

        Raises:
            NoCrossCheckError: The library cannot encode its text.
        """
        expected = self._plain.plain(document)
        if expected.problems:
            return f"the plain reading refuses it: {expected.problems[0]}"
        wanted = expected.ids[: self._limit], expected.mask[: self._limit]
        if np.array_equal(ids, wanted[0]) and np.array_equal(mask, wanted[1]):
            return None
        name = self._encoder.library.name
        return f"rendered with Jinja2 and {name} it has other ids or another mask"


def unequal(documents: Documents, other: Documents) -> npt.NDArray[np.bool_]:
    """Return for each document whether it differs from that of the other batch."""
    lengths, expected = np.diff(documents.offsets), np.diff(other.offsets)
    if not np.array_equal(lengths, expected):
        return np.array(
            [documents[number] != other[number] for number in range(len(lengths))], dtype=bool
        )
    mine = documents.data[documents.offsets[0] : documents.offsets[-1]]
    theirs = other.data[other.offsets[0] : other.offsets[-1]]
    unequal = np.zeros(len(lengths), dtype=bool)
    if not np.array_equal(mine, theirs):
        positions = np.flatnonzero(mine != theirs) + documents.offsets[0]
        unequal[np.searchsorted(documents.offsets, positions, side="right") - 1] = True
    return unequal


def _blocks(ids: Ids) -> Iterator[Ids]:
    """Yield ids in parts, so that values computed for each id need little memory."""
    for start in range(0, len(ids), _BLOCK):
        yield ids[start : start + _BLOCK]


def _window_start(document: npt.NDArray[np.uint8]) -> int:
    """Return the position of the window in a long document: pseudorandom, but reproducible."""
    seed = len(document).to_bytes(8, "little") + document[:_SEED_BYTES:97].tobytes()
    return _core.hash64(seed) % (len(document) - WINDOW_BYTES + 1)


def _token_at(lengths: npt.NDArray[np.int32], ids: Ids, position: int) -> int | None:
    """Return the index of the token that begins at a byte, len(ids) at the end, or None.

    >>> _token_at(np.array([1, 3]), np.array([0, 1, 0], np.uint16), 4)
    2
    """
    number = 0
    for block in _blocks(ids):
        if position == 0:
            break
        ends = np.cumsum(lengths[block], dtype=np.int64)
        inside = int(np.searchsorted(ends, position))
        if inside < len(ends):
            return number + inside + 1 if ends[inside] == position else None
        position -= int(ends[-1])
        number += len(block)
    return number if position == 0 else None
