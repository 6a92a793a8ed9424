"""Are a text's ids its own? Decoded by a plain table, and encoded again by tiktoken.

Takes one text and its ids; gives what is wrong with them. Shares no code with the core's encoder
and decoder, except that a piece of a long text is cut where the core cuts spans. Does not know
files, nor which documents are looked at.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.shards.proof_count import ProofCount
from nanotok_ray.shards.proof_tables import blocks, proof_tables
from nanotok_ray.shards.sample import WINDOW_BYTES
from nanotok_ray.shards.second_opinion import Silence, disagreement
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import Ids
from nanotok_ray.tokenizer import Tokenizer

LONG_SPAN = "a span above 64 KiB"
LOOKS_FURTHER = "the pattern looks past the piece"

_SEED_BYTES = 1 << 20  # of a long document, so many say where to look
_MIDDLE = 4096


class TextProver:
    """Compares texts with their ids, and counts how many."""

    def __init__(self, *, settings: ShardSettings, tokenizer: Tokenizer, count: ProofCount) -> None:
        """Build the tables, or take those of the last tokenizer."""
        self._settings, self._tokenizer = settings, tokenizer
        self._tables = proof_tables(tokenizer)
        self._count = count

    def problem(self, document: bytes | npt.NDArray[np.uint8], ids: Ids) -> str | None:
        """Say in what ids are not those of a text; None: they are.

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
        before, after = ([special(each) for each in own] for own in self._frame)
        end = len(ids) - len(after)
        if ids[: len(before)].tolist() != before or ids[end:].tolist() != after:
            return f"its ids are not within {list(self._frame[0])} and {list(self._frame[1])}"
        own = ids[len(before) : end]
        if len(own) and int(own.max()) >= self._tables.num_tokens:
            return f"its ids hold {int(own.max())}, which is no id of text"
        found = sum(int(self._tables.lengths[each].sum()) for each in blocks(own))
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
        piece, ids = document[start:stop].tobytes(), own[first:last]
        if self._tables.spelled(ids) != piece:
            return f"bytes {start} to {stop} are not what its ids decode to"
        answer = self._tables.opinion.ids(piece.decode())
        if isinstance(answer, Silence):
            self._silent(answer)
            return None
        if answer != ids.tolist():
            return self._explain(piece, edges, is_whole=len(piece) == len(document))
        self._count.encoded_again += 1
        return None

    def _tokens_problem(self, document: npt.NDArray[np.uint8], own: Ids) -> str | None:
        """Decode some tokens in the middle of a document that has no span short enough."""
        first = len(own) // 2
        start = sum(int(self._tables.lengths[each].sum()) for each in blocks(own[:first]))
        spelled = self._tables.spelled(own[first : first + _MIDDLE])
        if spelled != document[start : start + len(spelled)].tobytes():
            return f"bytes {start} to {start + len(spelled)} are not what its ids decode to"
        self._silent(Silence(LONG_SPAN))
        return None

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
        self._count.not_encoded_again[silence.reason] += 1


def _place(document: npt.NDArray[np.uint8]) -> int:
    """Give where to look into a long document: anywhere, but always the same."""
    seed = len(document).to_bytes(8, "little") + document[:_SEED_BYTES:97].tobytes()
    return _core.hash64(seed) % (len(document) - WINDOW_BYTES + 1)


def _token_at(lengths: npt.NDArray[np.int32], ids: Ids, place: int) -> int | None:
    """Give which token begins at a byte, as many as there are at the end; None: none does.

    >>> _token_at(np.array([1, 3]), np.array([0, 1, 0], np.uint16), 4)
    2
    """
    number = 0
    for block in blocks(ids):
        if place == 0:
            break
        ends = np.cumsum(lengths[block], dtype=np.int64)
        inside = int(np.searchsorted(ends, place))
        if inside < len(ends):
            return number + inside + 1 if ends[inside] == place else None
        place -= int(ends[-1])
        number += len(block)
    return number if place == 0 else None
