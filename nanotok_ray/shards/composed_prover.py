"""Are the ids, mask and images of a conversation or vision document its own?

Takes one document as its JSON, its dialect, and what was written of it; gives what is wrong. The
document is read in plain Python, decoded by a plain table and encoded again by tiktoken: none of
the core's code. Does not know files, nor which documents are looked at.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nanotok_ray.chat.reference import segments_of
from nanotok_ray.chat.segments import Segment, compose
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents.batch import to_utf8
from nanotok_ray.shards.proof_count import ProofCount
from nanotok_ray.shards.proof_tables import proof_tables
from nanotok_ray.shards.second_opinion import Silence, disagreement
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import Ids
from nanotok_ray.tokenizer import Tokenizer

LONGEST_CONVERSATION = 1 << 20
"""Characters of its texts; longer ones are decoded, but not encoded again."""

LONG_CONVERSATION = "a conversation above 1 MiB"

_BLOCK = 1 << 16  # ids that are decoded at a time


class ComposedProver:
    """Compares conversations and vision documents with their ids, and counts how many."""

    def __init__(
        self,
        *,
        settings: ShardSettings,
        tokenizer: Tokenizer,
        count: ProofCount,
        longest: int = LONGEST_CONVERSATION,
    ) -> None:
        """Build the tables, or take those of the last tokenizer.

        Documents whose texts have more than `longest` characters are not encoded again.
        """
        self._longest = longest
        self._tokenizer, self._count = tokenizer, count
        self._tables = proof_tables(tokenizer)
        self._limit = settings.max_tokens if settings.too_long == "cut" else None

    def problem(
        self,
        document: bytes,
        dialect: Dialect,
        ids: Ids,
        mask: npt.NDArray[np.uint8] | None,
        images: npt.NDArray[np.integer] | None,
    ) -> str | None:
        """Say in what ids, mask and images are not those of a document; None: they are.

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
        trained = [each for each in segments if each.mask]
        for own, told in ((ids, segments), (ids[mask == 1], trained)):
            if not self._decodes_to(_spelled(told), own, is_cut=is_cut):
                return "its ids, or those under mask 1, do not decode to its messages"
        places = [] if images is None else [(start, end) for start, end in images.tolist()]
        return self._rendering_problem(segments, ids, mask, places)

    def _decodes_to(self, text: bytes, ids: Ids, *, is_cut: bool) -> bool:
        """Tell whether ids decode to a text, or to its start; a block of them at a time."""
        place = 0
        for start in range(0, len(ids), _BLOCK):
            own = self._tables.spelled(ids[start : start + _BLOCK])
            if own != text[place : place + len(own)]:
                return False
            place += len(own)
        return is_cut or place == len(text)

    def _rendering_problem(
        self,
        segments: Sequence[Segment],
        ids: Ids,
        mask: npt.NDArray[np.uint8],
        images: list[tuple[int, int]],
    ) -> str | None:
        answers = self._answers(segments)
        if isinstance(answers, Silence):
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

    def _answers(self, segments: Sequence[Segment]) -> list[list[int]] | Silence:
        """Give tiktoken's ids of each text, or why it has none of one of them."""
        texts = [each.text for each in segments if not each.is_special]
        if sum(map(len, texts)) > self._longest:
            return Silence(LONG_CONVERSATION)
        answers: list[list[int]] = []
        for text in texts:
            answer = self._tables.opinion.ids(to_utf8(text).decode())
            if isinstance(answer, Silence):
                return answer
            answers.append(answer)
        return answers

    def _silent(self, silence: Silence) -> None:
        """Count why there is no second opinion, which is no problem."""
        self._count.not_encoded_again[silence.reason] += 1


def _spelled(segments: Sequence[Segment]) -> bytes:
    """Give what the ids of segments decode to."""
    return b"".join(to_utf8(each.text) * each.count for each in segments)
