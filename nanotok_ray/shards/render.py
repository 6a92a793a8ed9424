"""Batches of a slice to documents ready to be written: framed texts, rendered conversations.

Quarantines what cannot be used and keeps the account that the record states. Knows no files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core, chat
from nanotok_ray.document_index import MAX_DOCUMENT_TOKENS
from nanotok_ray.documents import Documents
from nanotok_ray.errors import SplitError
from nanotok_ray.segments import ROLES, compose
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
    over_max_tokens: int = 0
    """Documents of more tokens than max_tokens."""
    truncated: int = 0
    """Conversations cut at max_tokens."""
    trainable_tokens: int = 0
    """Tokens under mask 1."""
    without_trainable_token: int = 0
    """Conversations without any."""
    images: int = 0
    """Images of vision documents."""
    roles: dict[str, int] = field(default_factory=dict)
    """Tokens of each role that occurs, of conversations and vision documents."""
    special_tokens: dict[str, int] = field(default_factory=dict)
    """How often the id of each special token that occurs was written."""


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
        kept, ids, lengths = self._encode_all(piece, batch)
        if not len(kept):
            return None
        whole = len(kept) == len(batch.documents)
        self._account_texts(batch.documents if whole else batch.documents.take(kept))
        return self._rendered(piece, batch, kept, ids=ids, lengths=lengths)

    def _encode_all(
        self, piece: int, batch: Batch
    ) -> tuple[npt.NDArray[np.int64], Ids, npt.NDArray[np.int64]]:
        """Give (kept, ids, lengths) of a batch, leaving out only what cannot be used."""
        kept = np.arange(len(batch.documents), dtype=np.int64)
        try:
            ids, lengths = self._encode(batch.documents)
        except SplitError:
            kept = kept[[self._can_encode(piece, batch, index) for index in range(len(kept))]]
            ids, lengths = self._encode(batch.documents.take(kept))
        fits = lengths <= MAX_DOCUMENT_TOKENS
        if fits.all():
            return kept, ids, lengths
        for index, length in zip(kept[~fits], lengths[~fits], strict=True):
            self.reading.quarantine(piece, batch, int(index), reason=_too_many(int(length)))
        kept = kept[fits]
        return kept, *self._encode(batch.documents.take(kept))

    def _can_encode(self, piece: int, batch: Batch, index: int) -> bool:
        try:
            self._encode(batch.documents.take([index]))
        except SplitError as error:
            self.reading.quarantine(piece, batch, index, reason=split_reason(error))
            return False
        return True

    def _encode(self, documents: Documents) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Give all ids, and how many each text has; those of a source stand within their frame."""
        is_text = self.reading.slice.kind == "text"
        names = (self.settings.prepend, self.settings.append) if is_text else ((), ())
        before, after = ([self.tokenizer.encode_special(name) for name in own] for own in names)
        ids, offsets = self.tokenizer.encode_documents(
            documents, before=before, after=after, gaps=self.settings.gaps
        )
        return ids, np.diff(offsets)

    def _rendered(
        self,
        piece: int,
        batch: Batch,
        kept: npt.NDArray[np.int64],
        *,
        ids: Ids,
        lengths: npt.NDArray[np.int64],
        mask: npt.NDArray[np.uint8] | None = None,
    ) -> Rendered:
        document_ids = batch.document_ids
        for name, number in self.tokenizer.special_tokens.items():
            _count(self.account.special_tokens, name, int((ids == number).sum()))
        return Rendered(
            ids=ids,
            lengths=lengths,
            mask=mask,
            images=None,
            sizes=np.diff(batch.documents.offsets)[kept],
            piece=piece,
            group=batch.group,
            kept=kept,
            rows=batch.numbers[kept],
            document_ids=None if document_ids is None else document_ids.take(kept),
        )

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
        return self._rendered(
            piece,
            batch,
            np.asarray(kept, dtype=np.int64),
            ids=_narrow(ids, self.tokenizer.model.id_bytes),
            lengths=np.asarray(lengths, dtype=np.int64),
            mask=np.asarray(mask, dtype=np.uint8),
        )

    def _render(self, conversation: chat.Conversation) -> tuple[list[int], list[int]]:
        """Render a conversation, cut it where the recipe says so, and count that."""
        composed = compose(
            self._encode_text, self.tokenizer.encode_special, chat.layout(conversation)
        )
        ids, mask = composed.ids, composed.mask
        limit = self.settings.max_tokens
        if limit is not None and len(ids) > limit:
            self.account.over_max_tokens += 1
            self.account.truncated += 1
        for label in composed.labels[:limit]:
            _count(self.account.roles, ROLES[label >> 1], 1)
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


def _count(counts: dict[str, int], name: str, number: int) -> None:
    """Add to what was counted of a name; what never occurs is not named."""
    if number:
        counts[name] = counts.get(name, 0) + number


def _narrow(ids: Sequence[int], id_bytes: int) -> Ids:
    """Give ids as the narrowest array that holds every id of the tokenizer."""
    is_narrow = id_bytes == np.dtype(np.uint16).itemsize
    return np.asarray(ids, dtype=np.uint16) if is_narrow else np.asarray(ids, dtype=np.uint32)


def _too_many(length: int) -> str:
    return f"too many tokens: {length:,}, an index holds at most {MAX_DOCUMENT_TOKENS:,}"
