"""Are a document's ids its own? Decoded by a plain table, and encoded again by tiktoken.

Takes one document and its ids (and mask); gives what is wrong with them. Shares no code with the
core's encoder and decoder, except that a piece of a long text is cut where the core cuts spans.
Does not know files, nor which documents are looked at.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core, chat
from nanotok_ray.documents import to_utf8
from nanotok_ray.shards.proof_count import ProofCount
from nanotok_ray.shards.sample import WINDOW_BYTES
from nanotok_ray.shards.second_opinion import SecondOpinion, Silence, disagreement
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import Ids
from nanotok_ray.tokenizer import Tokenizer

LONGEST_CONVERSATION = 1 << 20
"""UTF-8 bytes of its texts; longer ones are decoded, but not encoded again."""

LONG_SPAN = "a span above 64 KiB"
LONG_CONVERSATION = "a conversation above 1 MiB"
LOOKS_FURTHER = "the pattern looks past the piece"

_BLOCK = 1 << 20  # tokens whose lengths are summed at a time
_MIDDLE = 4096


class Prover:
    """Compares documents of one kind with their ids; `count` says how many."""

    def __init__(self, *, kind: str, settings: ShardSettings, tokenizer: Tokenizer) -> None:
        """Build the tables, or take those of the last tokenizer."""
        self._kind, self._settings, self._tokenizer = kind, settings, tokenizer
        self._tables = _tables(tokenizer)
        self.count = ProofCount()

    def problem(
        self,
        document: bytes | npt.NDArray[np.uint8],
        ids: Ids,
        mask: npt.NDArray[np.uint8] | None,
    ) -> str | None:
        """Say in what ids and mask are not those of a document; None: they are.

        Args:
            document: a text as UTF-8, or a conversation as its JSON line.
            ids: all of its ids, special tokens before and after it included.
            mask: of a conversation, as long as its ids.
        """
        data = np.frombuffer(document, dtype=np.uint8)
        self.count.documents += 1
        if self._kind == "text":
            self.count.bytes += min(len(data), WINDOW_BYTES)
            return self._text_problem(data, ids)
        self.count.bytes += len(data)
        return self._chat_problem(data.tobytes(), ids, mask)

    def _text_problem(self, document: npt.NDArray[np.uint8], ids: Ids) -> str | None:
        special = self._tokenizer.encode_special
        before, after = ([special(each) for each in own] for own in self._frame)
        end = len(ids) - len(after)
        if ids[: len(before)].tolist() != before or ids[end:].tolist() != after:
            return f"its ids are not within {list(self._frame[0])} and {list(self._frame[1])}"
        own = ids[len(before) : end]
        if len(own) and int(own.max()) >= self._tables.num_tokens:
            return f"its ids hold {int(own.max())}, which is no id of text"
        found = sum(int(self._tables.lengths[each].sum()) for each in _blocks(own))
        if found != len(document):
            return f"its ids stand for {found:,} bytes, it has {len(document):,}"
        return self._piece_problem(document, own)

    @property
    def _frame(self) -> tuple[Sequence[str], Sequence[str]]:
        return self._settings.prepend, self._settings.append

    def _piece_problem(self, document: npt.NDArray[np.uint8], own: Ids) -> str | None:
        """Compare all of a document, or as many whole spans of a long one as fit the window."""
        edges = np.array([0, len(document)], dtype=np.int64)
        if len(document) > WINDOW_BYTES:
            edges = self._tables.splitter.boundaries(document, _place(document), WINDOW_BYTES)
        start, stop = int(edges[0]), int(edges[-1])
        if start == stop and len(document):
            return self._tokens_problem(document, own)
        first, last = (_token_at(self._tables.lengths, own, place) for place in (start, stop))
        if first is None or last is None:
            return f"a token crosses the border of a span, at byte {start} or {stop}"
        piece, ids = document[start:stop].tobytes(), own[first:last].tolist()
        if self._spelled(ids) != piece:
            return f"bytes {start} to {stop} are not what its ids decode to"
        answer = self._tables.opinion.ids(piece.decode())
        if isinstance(answer, Silence):
            self._silent(answer)
            return None
        if answer != ids:
            return self._explain(piece, edges, is_whole=len(piece) == len(document))
        self.count.encoded_again += 1
        return None

    def _tokens_problem(self, document: npt.NDArray[np.uint8], own: Ids) -> str | None:
        """Decode some tokens in the middle of a document that has no span short enough."""
        first = len(own) // 2
        start = sum(int(self._tables.lengths[each].sum()) for each in _blocks(own[:first]))
        spelled = self._spelled(own[first : first + _MIDDLE].tolist())
        if spelled != document[start : start + len(spelled)].tobytes():
            return f"bytes {start} to {start + len(spelled)} are not what its ids decode to"
        self._silent(Silence(LONG_SPAN))
        return None

    def _spelled(self, ids: Sequence[int]) -> bytes:
        return b"".join(map(self._tables.spelling.__getitem__, ids))

    def _explain(self, piece: bytes, edges: npt.NDArray[np.int64], *, is_whole: bool) -> str | None:
        """Say why tiktoken may give other ids; if there is no reason, that is the problem."""
        silence = disagreement(self._tokenizer)
        if silence is None and not is_whole:
            alone = self._tables.splitter.boundaries(np.frombuffer(piece, np.uint8), 0, len(piece))
            if not np.array_equal(alone, edges - edges[0]):
                silence = Silence(LOOKS_FURTHER)
        if silence is not None:
            self._silent(silence)
            return None
        return f"tiktoken gives other ids for its bytes {edges[0]} to {edges[-1]}"

    def _silent(self, silence: Silence) -> None:
        self.count.not_encoded_again[silence.reason] += 1

    def _chat_problem(
        self, line: bytes, ids: Ids, mask: npt.NDArray[np.uint8] | None
    ) -> str | None:
        conversation = chat.parse_conversation(line)
        if mask is None or len(mask) != len(ids):
            return "it has no mask of its length"
        limit = self._settings.max_tokens
        is_cut = limit is not None and len(ids) == limit
        wanted = chat.expected_text(conversation), chat.expected_trained_text(conversation)
        decoded = self._spelled(ids.tolist()), self._spelled(ids[mask == 1].tolist())
        for text, own in zip(map(to_utf8, wanted), decoded, strict=True):
            if own != (text[: len(own)] if is_cut else text):
                return "its ids, or those under mask 1, do not decode to its messages"
        return self._rendering_problem(conversation, ids, mask)

    def _rendering_problem(
        self, conversation: chat.Conversation, ids: Ids, mask: npt.NDArray[np.uint8]
    ) -> str | None:
        texts = [to_utf8(text).decode() for text in chat.message_texts(conversation)]
        if sum(map(len, texts)) > LONGEST_CONVERSATION:
            self._silent(Silence(LONG_CONVERSATION))
            return None
        answers = [self._tables.opinion.ids(text) for text in texts]
        for answer in answers:
            if isinstance(answer, Silence):
                self._silent(answer)
                return None
        given = iter([answer for answer in answers if not isinstance(answer, Silence)])
        expected = chat.render(
            lambda _: next(given),
            self._tokenizer.encode_special,
            conversation,
            max_tokens=self._settings.max_tokens,
        )
        if (ids.tolist(), mask.tolist()) != expected:
            silence = disagreement(self._tokenizer)
            if silence is None:
                return "rendered with tiktoken it has other ids or another mask"
            self._silent(silence)
            return None
        self.count.encoded_again += 1
        return None


@dataclass(frozen=True, slots=True)
class _Tables:
    """What comparing needs of a tokenizer."""

    num_tokens: int
    """Ids below it are those of text."""
    lengths: npt.NDArray[np.int32]
    spelling: dict[int, bytes]
    """Bytes of every id; of special tokens their names."""
    splitter: _core.Splitter
    opinion: SecondOpinion


@lru_cache(maxsize=2)
def _tables(tokenizer: Tokenizer) -> _Tables:
    model = tokenizer.model
    special = {number: name.encode() for name, number in model.special_tokens.items()}
    return _Tables(
        num_tokens=len(model.tokens),
        lengths=model.token_lengths(),
        spelling=dict(enumerate(model.tokens)) | special,
        splitter=_core.Splitter(model.pattern),
        opinion=SecondOpinion.of(tokenizer),
    )


def _blocks(ids: Ids) -> Iterator[Ids]:
    """Give ids in parts, so that what is worked out for each takes little memory."""
    for start in range(0, len(ids), _BLOCK):
        yield ids[start : start + _BLOCK]


def _place(document: npt.NDArray[np.uint8]) -> int:
    """Give where to look into a long document: anywhere, but always the same."""
    seed = len(document).to_bytes(8, "little") + document[:_BLOCK:97].tobytes()
    return _core.hash64(seed) % (len(document) - WINDOW_BYTES + 1)


def _token_at(lengths: npt.NDArray[np.int32], ids: Ids, place: int) -> int | None:
    """Give which token begins at a byte, as many as there are at the end; None: none does.

    >>> _token_at(np.array([1, 3]), np.array([0, 1, 0], np.uint16), 4)
    2
    """
    number = 0
    for block in _blocks(ids):
        if place == 0:
            break
        ends = np.cumsum(lengths[block], dtype=np.int64)
        inside = int(np.searchsorted(ends, place))
        if inside < len(ends):
            return number + inside + 1 if ends[inside] == place else None
        place -= int(ends[-1])
        number += len(block)
    return number if place == 0 else None
