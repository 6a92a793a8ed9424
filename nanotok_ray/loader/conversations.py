"""Batches for fine-tuning, packed by the rule of nanochat's `chat_sft`; every row has targets.

The input is conversations as ids and masks, rendered by a tokenizer or stored in shards.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import PackingError
from nanotok_ray.loader.settings import MAX_LENGTH, TooLong, check_too_long, integer
from nanotok_ray.loader.shards import Shards

Conversation = tuple[Sequence[int], Sequence[int]]
"""Ids and their mask: 1 for a token that is trained on."""
IGNORED = -1
"""The target of a position that is not trained on."""


class StoredConversations(Sequence[Conversation]):
    """The conversations of shards, in their order."""

    def __init__(self, shards: Shards) -> None:
        """Check that all sources of the shards are chats.

        Raises:
            PackingError: A source is not a chat source.
        """
        kinds = shards.manifest.kinds
        if others := [name for name in shards.ranges() if kinds[name] != "chat"]:
            raise PackingError(
                f"source {others[0]!r} is of kind {kinds[others[0]]}, conversations are of kind "
                "chat: select them with `source=`"
            )
        self._shards = shards

    def __len__(self) -> int:
        """Return the number of conversations."""
        return len(self._shards)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - as Sequence has it
        """Return ids and mask of a conversation, or a list for a slice."""
        mask = self._shards.mask(index)
        assert mask is not None, "chats have masks"
        return self._shards[index].tolist(), mask.tolist()


_Sized = TypeVar("_Sized", bound=tuple[Sized, object])


class _Buffer(Generic[_Sized]):
    """Conversations to choose from: each of them ids, of which there are some, with their mask."""

    def __init__(self) -> None:
        self._items: dict[int, _Sized] = {}
        self._order: list[tuple[int, int]] = []  # (length, -number), sorted
        self._added = 0

    def __len__(self) -> int:
        return len(self._items)

    def add(self, conversation: _Sized) -> None:
        self._items[self._added] = conversation
        insort(self._order, (len(conversation[0]), -self._added))
        self._added += 1

    def take(self, room: int) -> _Sized | None:
        """Remove and return the largest that fits, the first of equal ones, or None."""
        index = bisect_right(self._order, (room, 0)) - 1
        return None if index < 0 else self._items.pop(-self._order.pop(index)[1])


def best_fit_rows(
    conversations: Iterator[_Sized], *, length: int, buffer_size: int
) -> Iterator[list[_Sized]]:
    """Yield rows of whole conversations by the rule of `ConversationLoader`, in one pass.

    Args:
        conversations: Ids with their mask, of 1 to `length` ids each.
        length: The limit of the ids of a row.
        buffer_size: The number of conversations to choose from.

    >>> conversations = [([5] * n, None) for n in (3, 4, 1, 2)]
    >>> rows = best_fit_rows(iter(conversations), length=6, buffer_size=3)
    >>> [[len(ids) for ids, _ in row] for row in rows]
    [[4, 2], [3, 1]]
    """
    buffer: _Buffer[_Sized] = _Buffer()
    row: list[_Sized] = []
    room = length
    while True:
        for conversation in islice(conversations, buffer_size - len(buffer)):
            buffer.add(conversation)
        largest = buffer.take(room)
        if largest is not None:
            row.append(largest)
            room -= len(largest[0])
        elif row:
            yield row
            row, room = [], length
        else:
            return


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationSettings:
    """The settings that determine the conversations of each row."""

    batch_size: int
    """Number of rows of a batch of one rank; nanochat's device_batch_size."""
    length: int
    """Inputs of a row, in tokens; nanochat's max_seq_len."""
    buffer_size: int = 100
    """Number of conversations to choose from."""
    max_tokens: int = 2048
    """Maximum length of a conversation, even if a row has more room, as in nanochat."""
    too_long: TooLong = "crop"
    """Whether a conversation with more than `max_tokens` or length + 1 tokens is cropped to this
    number or skipped."""
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        """Check all values.

        Raises:
            PackingError: A value is out of its range.
        """
        for name in ("batch_size", "buffer_size", "max_tokens", "world_size"):
            integer(name, getattr(self, name), minimum=1)
        integer("length", self.length, minimum=1, maximum=MAX_LENGTH)
        integer("rank", self.rank, minimum=0, maximum=self.world_size - 1)
        check_too_long(self.too_long)

    @property
    def capacity(self) -> int:
        """The number of tokens of a row: its inputs, and the target of the last input."""
        return self.length + 1

    @property
    def limit(self) -> int:
        """The maximum number of tokens of a conversation that is not too long."""
        return min(self.max_tokens, self.capacity)


class ConversationLoader:
    """An endless sequence of batches of whole conversations.

    The rule is nanochat's: each place in a row gets the largest buffered conversation that fits,
    the first one of equal size. If none fits, the row ends in padding without targets. Two rules
    differ, so that every row has targets, since the mean loss of other rows is NaN:

    - A conversation that does not fit into a row is cropped or skipped (`too_long`). In nanochat
      it stays in the buffer forever, until the buffer contains only such conversations and all
      rows are padding.
    - A conversation without tokens to learn, originally or after cropping, is skipped.

    Both count as consumed. Without such conversations, the rows equal those of nanochat.
    """

    def __init__(
        self, conversations: Sequence[Conversation], settings: ConversationSettings, *, pad: int
    ) -> None:
        """Start at the first conversation of the rank; `pad` is the id that fills rows.

        Raises:
            PackingError: There is no conversation.
        """
        if not len(conversations):
            raise PackingError("there is no conversation to pack")
        self._conversations = conversations
        self._settings = settings
        self._pad = pad
        self._buffer: _Buffer[Conversation] = _Buffer()
        self._cursor = settings.rank % len(conversations)
        self._left_out_in_turn = 0
        self.consumed = settings.rank
        """Conversations of all ranks that are in rows or were skipped, as nanochat counts them."""
        self.epoch = 1
        """The number of the pass from which the buffer is filled."""
        self.batches = 0
        """Number of batches so far."""
        self.cropped = 0
        """Number of cropped conversations so far."""
        self.left_out = 0
        """Number of skipped conversations so far."""

    def __iter__(self) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield batches endlessly."""
        while True:
            yield self.next_batch()

    def next_batch(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return inputs and targets, (batch_size, length) int64; -1 marks ignored targets.

        Raises:
            PackingError: A whole pass has no conversation with targets.
        """
        rows, capacity = self._settings.batch_size, self._settings.capacity
        ids = np.full((rows, capacity), self._pad, dtype=np.int64)
        masks = np.zeros((rows, capacity), dtype=np.bool_)
        for row in range(rows):
            end = 0
            while (conversation := self._next_that_fits(capacity - end)) is not None:
                tokens, mask = conversation
                ids[row, end : end + len(tokens)] = tokens
                masks[row, end : end + len(tokens)] = mask
                end += len(tokens)
        self.batches += 1
        return ids[:, :-1], np.where(masks[:, 1:], ids[:, 1:], IGNORED)

    def _next_that_fits(self, room: int) -> Conversation | None:
        """Remove and return the largest conversation of the buffer that fits, or None."""
        if not room:
            return None
        self._refill()
        conversation = self._buffer.take(room)
        if conversation is not None:
            self.consumed += self._settings.world_size
        return conversation

    def _refill(self) -> None:
        while len(self._buffer) < self._settings.buffer_size:
            conversation = self._read()
            if conversation is None:
                self._leave_out()
            else:
                self._left_out_in_turn = 0
                self._buffer.add(conversation)

    def _read(self) -> Conversation | None:
        """Return the next conversation for packing, or None if it is skipped."""
        ids, mask = self._conversations[self._cursor]
        self._cursor += self._settings.world_size
        if self._cursor >= len(self._conversations):
            self._cursor %= len(self._conversations)
            self.epoch += 1
        if len(ids) > self._settings.limit:
            if self._settings.too_long == "drop":
                return None
            ids, mask = ids[: self._settings.limit], mask[: self._settings.limit]
            self.cropped += any(mask[1:])
        return (ids, mask) if any(mask[1:]) else None

    def _leave_out(self) -> None:
        self.left_out += 1
        self.consumed += self._settings.world_size
        self._left_out_in_turn += 1
        if self._left_out_in_turn > len(self._conversations):
            raise PackingError(
                f"none of {len(self._conversations)} conversations has a token to train on in its "
                f"first {self._settings.limit} tokens: use longer rows, or inspect their masks "
                "with `nanotok inspect`"
            )
