"""Whether ids belong to their document: decoded by a table and encoded again by tiktoken."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.chat.reference import segments_of
from nanotok_ray.chat.segments import Segment, compose
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents.batch import to_utf8
from nanotok_ray.shards.settings import CheckedCount, ShardSettings
from nanotok_ray.shards.sink import Ids
from nanotok_ray.tokenizer import Tokenizer

if TYPE_CHECKING:
    import tiktoken


LEAST_DOCUMENTS = 3
LEAST_PER_MILLE = 3
"""Of the bytes: whichever of the two is more."""

WINDOW_BYTES = 64 << 10
"""Of a longer document only a piece of so many bytes is checked and counted."""


class Sample:
    """The sample of one slice, while its batches go by."""

    def __init__(self, seed: str) -> None:
        """Start without documents."""
        self._seed = seed
        self._picks = 0
        self._seen = 0
        self.documents = 0
        """Documents in the sample."""
        self.bytes = 0
        """Bytes of them that are checked."""

    def choose(self, sizes: npt.NDArray[np.int64]) -> Iterator[int]:
        """Yield the documents of the next batch that belong to the sample.

        >>> sample = Sample("seed")
        >>> len(list(sample.choose(np.array([5, 0, 7, 1])))), sample.documents
        (3, 3)
        """
        self._seen += int(sizes.sum())
        taken: set[int] = set()
        while self._wants_more() and len(taken) < len(sizes):
            number = self._pick(len(sizes), taken)
            taken.add(number)
            self.documents += 1
            self.bytes += min(int(sizes[number]), WINDOW_BYTES)
            yield number

    def _wants_more(self) -> bool:
        return self.documents < LEAST_DOCUMENTS or self.bytes * 1000 < LEAST_PER_MILLE * self._seen

    def _pick(self, count: int, taken: set[int]) -> int:
        """Return the next free number after a pseudo-random one."""
        self._picks += 1
        number = _core.hash64(f"{self._seed} {self._picks}".encode()) % count
        while number in taken:
            number = (number + 1) % count
        return number


NO_PACKAGE = "tiktoken is not installed"
SHARED_BYTES = "merges share bytes"
NO_PATTERN = "tiktoken cannot compile the pattern"
PANIC = "tiktoken panicked"
GAPS = "the pattern leaves gaps"
NOT_LEARNED = "no learner makes these merges"


@dataclass(frozen=True, slots=True)
class NoCrossCheck:
    """The reason why a text is not cross-checked with tiktoken."""

    reason: str


class TiktokenCrossCheck:
    """tiktoken with the merges of a tokenizer, or why there is none: `silence`."""

    def __init__(self, encoding: "tiktoken.Encoding | None", silence: NoCrossCheck | None) -> None:
        self._encoding = encoding
        self.silence = silence
        """Why no text can be cross-checked; None: texts can."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Self:
        """Build tiktoken's tables; takes 0.1 s for 32,768 ids."""
        if tokenizer.model.duplicates():
            return cls(None, NoCrossCheck(SHARED_BYTES))
        try:
            return cls(tokenizer.to_tiktoken(), None)
        except ImportError:
            return cls(None, NoCrossCheck(NO_PACKAGE))
        except ValueError:  # its regex engine knows less than ours
            return cls(None, NoCrossCheck(NO_PATTERN))
        except BaseException as error:
            if not _is_panic(error):
                raise
            return cls(None, NoCrossCheck(PANIC))

    def ids(self, text: str) -> list[int] | NoCrossCheck:
        """Return tiktoken's ids of a text, special tokens in it being text."""
        if self._encoding is None:
            assert self.silence is not None
            return self.silence
        try:
            ids = self._encoding.encode_ordinary(text)
        except BaseException as error:
            if not _is_panic(error):
                raise
            return NoCrossCheck(PANIC)
        if self._encoding.decode_bytes(ids) != text.encode():
            return NoCrossCheck(GAPS)  # it drops what the pattern does not match
        return ids


def disagreement(tokenizer: Tokenizer) -> NoCrossCheck | None:
    """Return why tiktoken may correctly return other ids than ours; None: it may not.

    It merges the two neighbours whose joined bytes have the lowest id, where our rule is the lowest
    merge of two ids. That is the same if by tiktoken's rule, too, every token comes from the two
    parts of its merge, as all that are learned do. Slow: only called where ids differ.
    """
    ranks = tokenizer.model.ranks()
    tokens = tokenizer.model.tokens
    for number, (left, right) in enumerate(tokenizer.model.merges, start=256):
        if _parts(tokens[number], ranks, below=number) != [tokens[left], tokens[right]]:
            return NoCrossCheck(NOT_LEARNED)
    return None


def _parts(token: bytes, ranks: dict[bytes, int], *, below: int) -> Sequence[bytes]:
    """Merge the bytes of a token as tiktoken does, with the merges before its own alone."""
    parts = [token[at : at + 1] for at in range(len(token))]
    while len(parts) > 1:
        joined = [ranks.get(a + b, below) for a, b in pairwise(parts)]
        lowest = min(joined)
        if lowest >= below:
            break
        at = joined.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def _is_panic(error: BaseException) -> bool:
    """Return whether it is a panic in native code; its class can be neither caught nor imported."""
    return type(error).__name__ == "PanicException"


_BLOCK = 1 << 20  # tokens


@dataclass(frozen=True, slots=True)
class CheckTables:
    """What comparing needs of a tokenizer."""

    num_tokens: int
    """Ids below it are those of text."""
    lengths: npt.NDArray[np.int32]
    spelling: dict[int, bytes]
    """Bytes of every id; of special tokens their names."""
    splitter: _core.Splitter
    cross_check: TiktokenCrossCheck

    def spelled(self, ids: Ids) -> bytes:
        """Return the bytes that ids stand for."""
        spelling = self.spelling.__getitem__
        return b"".join(b"".join(map(spelling, block.tolist())) for block in blocks(ids))


def blocks(ids: Ids) -> Iterator[Ids]:
    """Yield ids in parts, so that what is worked out for each takes little memory."""
    for start in range(0, len(ids), _BLOCK):
        yield ids[start : start + _BLOCK]


@lru_cache(maxsize=2)
def check_tables(tokenizer: Tokenizer) -> CheckTables:
    """Build the tables, or return the cached ones of one of the last two tokenizers."""
    model = tokenizer.model
    special = {number: name.encode() for name, number in model.special_tokens.items()}
    return CheckTables(
        num_tokens=len(model.tokens),
        lengths=model.token_lengths(),
        spelling=dict(enumerate(model.tokens)) | special,
        splitter=_core.Splitter(model.pattern),
        cross_check=TiktokenCrossCheck.of(tokenizer),
    )


LONG_SPAN = "a span above 64 KiB"
LOOKS_FURTHER = "the pattern looks past the piece"

_SEED_BYTES = 1 << 20  # of a long document, so many seed the window
_MIDDLE = 4096


class TextChecker:
    """Compares texts with their ids, and counts how many."""

    def __init__(
        self, *, settings: ShardSettings, tokenizer: Tokenizer, count: CheckedCount
    ) -> None:
        """Build the tables, or take those of the last tokenizer."""
        self._settings, self._tokenizer = settings, tokenizer
        self._tables = check_tables(tokenizer)
        self._count = count

    def problem(self, document: bytes | npt.NDArray[np.uint8], ids: Ids) -> str | None:
        """Return how ids differ from those of a text; None: they do not.

        Args:
            document: the text as UTF-8.
            ids: all of its ids, special tokens before and after it included.
        """
        data = np.frombuffer(document, dtype=np.uint8)
        self._count.documents += 1
        self._count.bytes += min(len(data), WINDOW_BYTES)
        return self._text_problem(data, ids)

    def _text_problem(self, document: npt.NDArray[np.uint8], ids: Ids) -> str | None:
        special = self._tokenizer.encode_special
        prepended, appended = list(self._settings.prepend), list(self._settings.append)
        before, after = [*map(special, prepended)], [*map(special, appended)]
        end = len(ids) - len(after)
        if ids[: len(before)].tolist() != before or ids[end:].tolist() != after:
            return f"its ids are not within {prepended} and {appended}"
        text_ids = ids[len(before) : end]
        if len(text_ids) and int(text_ids.max()) >= self._tables.num_tokens:
            return f"its ids hold {int(text_ids.max())}, which is no id of text"
        found = sum(int(self._tables.lengths[block].sum()) for block in blocks(text_ids))
        if found != len(document):
            return f"its ids stand for {found:,} bytes, it has {len(document):,}"
        return self._piece_problem(document, text_ids)

    def _piece_problem(self, document: npt.NDArray[np.uint8], text_ids: Ids) -> str | None:
        """Compare all of a document, or as many whole spans of a long one as fit the window."""
        edges = np.array([0, len(document)], dtype=np.int64)
        if len(document) > WINDOW_BYTES:
            edges = self._tables.splitter.boundaries(
                document, _window_start(document), WINDOW_BYTES
            )
        start, stop = int(edges[0]), int(edges[-1])
        if start == stop and len(document):
            return self._tokens_problem(document, text_ids)
        first, last = (
            _token_at(self._tables.lengths, text_ids, position) for position in (start, stop)
        )
        if first is None or last is None:
            return f"a token crosses the border of a span, at byte {start} or {stop}"
        piece, ids = document[start:stop].tobytes(), text_ids[first:last]
        if self._tables.spelled(ids) != piece:
            return f"bytes {start} to {stop} are not what its ids decode to"
        answer = self._tables.cross_check.ids(piece.decode())
        if isinstance(answer, NoCrossCheck):
            self._silent(answer)
            return None
        if answer != ids.tolist():
            return self._explain(piece, edges, is_whole=len(piece) == len(document))
        self._count.encoded_again += 1
        return None

    def _tokens_problem(self, document: npt.NDArray[np.uint8], text_ids: Ids) -> str | None:
        """Decode some tokens in the middle of a document that has no span short enough."""
        first = len(text_ids) // 2
        start = sum(int(self._tables.lengths[block].sum()) for block in blocks(text_ids[:first]))
        spelled = self._tables.spelled(text_ids[first : first + _MIDDLE])
        if spelled != document[start : start + len(spelled)].tobytes():
            return f"bytes {start} to {start + len(spelled)} are not what its ids decode to"
        self._silent(NoCrossCheck(LONG_SPAN))
        return None

    def _explain(self, piece: bytes, edges: npt.NDArray[np.int64], *, is_whole: bool) -> str | None:
        """Count why tiktoken may return other ids; without a reason, return that as the problem."""
        silence = disagreement(self._tokenizer)
        if silence is None and not is_whole:
            alone = self._tables.splitter.boundaries(np.frombuffer(piece, np.uint8), 0, len(piece))
            if not np.array_equal(alone, edges - edges[0]):
                silence = NoCrossCheck(LOOKS_FURTHER)
        if silence is not None:
            self._silent(silence)
            return None
        return f"tiktoken gives other ids for its bytes {edges[0]} to {edges[-1]}"

    def _silent(self, silence: NoCrossCheck) -> None:
        self._count.not_encoded_again[silence.reason] += 1


def _window_start(document: npt.NDArray[np.uint8]) -> int:
    """Return where the window in a long document starts: pseudorandom, but always the same."""
    seed = len(document).to_bytes(8, "little") + document[:_SEED_BYTES:97].tobytes()
    return _core.hash64(seed) % (len(document) - WINDOW_BYTES + 1)


def _token_at(lengths: npt.NDArray[np.int32], ids: Ids, position: int) -> int | None:
    """Return which token begins at a byte, as many as there are at the end; None: none does.

    >>> _token_at(np.array([1, 3]), np.array([0, 1, 0], np.uint16), 4)
    2
    """
    number = 0
    for block in blocks(ids):
        if position == 0:
            break
        ends = np.cumsum(lengths[block], dtype=np.int64)
        inside = int(np.searchsorted(ends, position))
        if inside < len(ends):
            return number + inside + 1 if ends[inside] == position else None
        position -= int(ends[-1])
        number += len(block)
    return number if position == 0 else None


LONGEST_CONVERSATION = 1 << 20
"""Characters of its texts; longer ones are decoded, but not encoded again."""

LONG_CONVERSATION = "a conversation above 1 MiB"

_DECODED_BLOCK = 1 << 16  # ids that are decoded at a time


class RenderedChecker:
    """Compares conversations and vision documents with their ids, and counts how many."""

    def __init__(
        self,
        *,
        settings: ShardSettings,
        tokenizer: Tokenizer,
        count: CheckedCount,
        longest: int = LONGEST_CONVERSATION,
    ) -> None:
        """Build the tables, or take those of the last tokenizer.

        Documents whose texts have more than `longest` characters are not encoded again.
        """
        self._longest = longest
        self._tokenizer, self._count = tokenizer, count
        self._tables = check_tables(tokenizer)
        self._limit = settings.max_tokens if settings.too_long == "cut" else None

    def problem(
        self,
        document: bytes,
        dialect: Dialect,
        ids: Ids,
        mask: npt.NDArray[np.uint8] | None,
        images: npt.NDArray[np.integer] | None,
    ) -> str | None:
        """Return how ids, mask and images differ from those of a document; None: they do not.

        Args:
            document: its JSON.
            dialect: how that is read.
            ids: all of its ids.
            mask: as long as the ids.
            images: (n, 2), where the tokens of each image begin and end; None: of no vision
                document.
        """
        self._count.documents += 1
        self._count.bytes += len(document)
        if mask is None or len(mask) != len(ids):
            return "it has no mask of its length"
        segments = segments_of(document, dialect)
        is_cut = self._limit is not None and len(ids) == self._limit
        trained = [segment for segment in segments if segment.mask]
        for part_ids, part in ((ids, segments), (ids[mask == 1], trained)):
            if not self._decodes_to(_spelled(part), part_ids, is_cut=is_cut):
                return "its ids, or those under mask 1, do not decode to its messages"
        spans = [] if images is None else [(start, end) for start, end in images.tolist()]
        return self._rendering_problem(segments, ids, mask, spans)

    def _decodes_to(self, text: bytes, ids: Ids, *, is_cut: bool) -> bool:
        """Return whether ids decode to a text, or to its start; a block of them at a time."""
        position = 0
        for start in range(0, len(ids), _DECODED_BLOCK):
            decoded = self._tables.spelled(ids[start : start + _DECODED_BLOCK])
            if decoded != text[position : position + len(decoded)]:
                return False
            position += len(decoded)
        return is_cut or position == len(text)

    def _rendering_problem(
        self,
        segments: Sequence[Segment],
        ids: Ids,
        mask: npt.NDArray[np.uint8],
        images: list[tuple[int, int]],
    ) -> str | None:
        answers = self._answers(segments)
        if isinstance(answers, NoCrossCheck):
            self._silent(answers)
            return None
        given = iter(answers)
        expected = compose(lambda _: next(given), self._tokenizer.encode_special, segments)
        limit = self._limit
        if images != expected.images:
            return f"its images are at {images}, rendered with tiktoken at {expected.images}"
        if (ids.tolist(), mask.tolist()) != (expected.ids[:limit], expected.mask[:limit]):
            silence = disagreement(self._tokenizer)
            if silence is None:
                return "rendered with tiktoken it has other ids or another mask"
            self._silent(silence)
            return None
        self._count.encoded_again += 1
        return None

    def _answers(self, segments: Sequence[Segment]) -> list[list[int]] | NoCrossCheck:
        """Return tiktoken's ids of each text, or why it has none of one of them."""
        texts = [segment.text for segment in segments if not segment.is_special]
        if sum(map(len, texts)) > self._longest:
            return NoCrossCheck(LONG_CONVERSATION)
        answers: list[list[int]] = []
        for text in texts:
            answer = self._tables.cross_check.ids(to_utf8(text).decode())
            if isinstance(answer, NoCrossCheck):
                return answer
            answers.append(answer)
        return answers

    def _silent(self, silence: NoCrossCheck) -> None:
        """Count why there is no cross-check with tiktoken, which is no problem."""
        self._count.not_encoded_again[silence.reason] += 1


def _spelled(segments: Sequence[Segment]) -> bytes:
    """Return what the ids of segments decode to."""
    return b"".join(to_utf8(segment.text) * segment.count for segment in segments)
