"""Batches of a slice to documents ready to be written: framed texts, rendered conversations.

Quarantines what cannot be used and keeps the account that the record states. Knows no files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core, chat
from nanotok_ray.documents import Documents
from nanotok_ray.errors import SplitError
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import Ids
from nanotok_ray.shards.writer import Rendered
from nanotok_ray.slices import SliceReading, split_reason
from nanotok_ray.sources import Batch
from nanotok_ray.tokenizer import Tokenizer


@dataclass(slots=True)
class Account:
    """What the record says beyond documents and files."""

    text_bytes: int = 0
    """UTF-8 bytes of the texts that were encoded."""
    special_text: int = 0
    """How often a special token was spelled out in the texts, where it stays text."""
    truncated: int = 0
    """Conversations cut at max_tokens."""
    trainable_tokens: int = 0
    """Tokens under mask 1."""
    without_trainable_token: int = 0
    """Conversations without any."""


@dataclass(slots=True)
class Renderer:
    """Turns the batches of one reading into documents, in order."""

    settings: ShardSettings
    tokenizer: Tokenizer
    reading: SliceReading
    account: Account = field(default_factory=Account)

    def render(self, piece: int, batch: Batch) -> Rendered | None:
        """Give the documents of a batch that could be used; None if there is none."""
        render = self._texts if self.reading.slice.kind == "text" else self._conversations
        return render(piece, batch)

    def _texts(self, piece: int, batch: Batch) -> Rendered | None:
        kept, ids, offsets = self._encode_all(piece, batch)
        if not len(kept):
            return None
        whole = len(kept) == len(batch.documents)
        self._account_texts(batch.documents if whole else batch.documents.take(kept))
        ids, lengths = frame(
            ids,
            offsets,
            before=[self.tokenizer.encode_special(name) for name in self.settings.prepend],
            after=[self.tokenizer.encode_special(name) for name in self.settings.append],
        )
        return Rendered(
            ids=ids,
            lengths=lengths,
            mask=None,
            piece=piece,
            group=batch.group,
            rows=batch.numbers[kept],
        )

    def _encode_all(
        self, piece: int, batch: Batch
    ) -> tuple[npt.NDArray[np.int64], Ids, npt.NDArray[np.int64]]:
        """Give (kept, ids, offsets) of a batch, leaving out only what cannot be split."""
        kept = np.arange(len(batch.documents), dtype=np.int64)
        try:
            return kept, *self._encode(batch.documents)
        except SplitError:
            kept = kept[[self._can_encode(piece, batch, index) for index in range(len(kept))]]
            return kept, *self._encode(batch.documents.take(kept))

    def _can_encode(self, piece: int, batch: Batch, index: int) -> bool:
        try:
            self._encode(batch.documents.take([index]))
        except SplitError as error:
            self.reading.quarantine(piece, batch, index, reason=split_reason(error))
            return False
        return True

    def _encode(self, documents: Documents) -> tuple[Ids, npt.NDArray[np.int64]]:
        return self.tokenizer.encode_documents(documents, gaps=self.settings.gaps)

    def _conversations(self, piece: int, batch: Batch) -> Rendered | None:
        ids: list[int] = []
        mask: list[int] = []
        lengths: list[int] = []
        kept: list[int] = []
        texts: list[str] = []
        for index in range(len(batch.documents)):
            try:
                conversation = chat.parse_conversation(batch.documents[index])
                own_ids, own_mask = self._render(conversation)
            except SplitError as error:
                self.reading.quarantine(piece, batch, index, reason=split_reason(error))
                continue
            except chat.MALFORMED as error:
                self.reading.quarantine(piece, batch, index, reason=chat.reason_of(error))
                continue
            ids += own_ids
            mask += own_mask
            lengths.append(len(own_ids))
            kept.append(index)
            texts += chat.message_texts(conversation)
            self.account.without_trainable_token += 1 not in own_mask
        if not kept:
            return None
        self._account_texts(Documents.from_strings(texts))
        self.account.trainable_tokens += sum(mask)
        return Rendered(
            ids=_narrow(ids, self.tokenizer.model.id_bytes),
            lengths=np.asarray(lengths, dtype=np.int64),
            mask=np.asarray(mask, dtype=np.uint8),
            piece=piece,
            group=batch.group,
            rows=batch.numbers[kept],
        )

    def _render(self, conversation: chat.Conversation) -> tuple[list[int], list[int]]:
        """Render a conversation, cut it where the recipe says so, and count that."""
        ids, mask = chat.render(
            self._encode_text, self.tokenizer.encode_special, conversation, max_tokens=None
        )
        limit = self.settings.max_tokens
        if limit is not None and len(ids) > limit:
            self.account.truncated += 1
        return ids[:limit], mask[:limit]

    def _encode_text(self, text: str) -> list[int]:
        ids, _ = self._encode(Documents.from_strings([text]))
        numbers: list[int] = ids.tolist()
        return numbers

    def _account_texts(self, documents: Documents) -> None:
        self.account.text_bytes += documents.num_bytes
        self.account.special_text += _core.count_occurrences(
            documents.data, documents.offsets, list(self.tokenizer.special_tokens)
        )


def _narrow(ids: Sequence[int], id_bytes: int) -> Ids:
    """Give ids as the narrowest array that holds every id of the tokenizer."""
    is_narrow = id_bytes == np.dtype(np.uint16).itemsize
    return np.asarray(ids, dtype=np.uint16) if is_narrow else np.asarray(ids, dtype=np.uint32)


def frame(
    ids: Ids, offsets: npt.NDArray[np.int64], *, before: Sequence[int], after: Sequence[int]
) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Put ids before and after each document: (all ids back to back, length of each document).

    >>> frame(np.array([7, 8], np.uint16), np.array([0, 2, 2]), before=[1], after=[])[0].tolist()
    [1, 7, 8, 1]
    """
    lengths = np.diff(offsets) + len(before) + len(after)
    if not before and not after:
        return ids, lengths
    ends = np.cumsum(lengths)
    framed = np.empty(int(ends[-1]), dtype=ids.dtype)
    is_text = np.ones(len(framed), dtype=bool)
    for places, numbers in ((ends - lengths, before), (ends - len(after), after)):
        for shift, number in enumerate(numbers):
            framed[places + shift] = number
            is_text[places + shift] = False
    framed[is_text] = ids
    return framed, lengths
