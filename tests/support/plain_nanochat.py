"""The rules of nanochat's loaders in a few lines with lists, as the reference of the loaders.

Files are lists of row groups, which are lists of documents, which are lists of ids. Row groups
without documents yield nothing, as if all rows were quarantined.
"""

from collections.abc import Iterator
from itertools import count


def plain_reads(files, *, rank, world_size, size, state=None) -> Iterator:
    """Yield documents and (pq_idx, rg_idx, epoch) endlessly."""
    begin = state or {}
    for epoch in count(begin.get("epoch", 1)):
        is_first = state is not None and epoch == begin["epoch"]
        for number, groups in enumerate(files):
            if is_first and number < begin["pq_idx"]:
                continue
            first = rank
            if is_first and number == begin["pq_idx"]:
                first = (begin["rg_idx"] // world_size + 1) * world_size + rank
            for group in range(first, len(groups), world_size):
                documents = [each for each in groups[group] if each is not None]
                for at in range(0, len(documents), size):
                    yield documents[at : at + size], (number, group, epoch)


def plain_batches(
    files, *, rank, world_size, batch_size, length, size, buffer_size, state=None
) -> Iterator:
    """Yield inputs, targets and state as lists and a dictionary endlessly."""
    reads = plain_reads(files, rank=rank, world_size=world_size, size=size, state=state)
    buffer = []
    place = (0, 0, 1)
    while True:
        rows = []
        for _ in range(batch_size):
            row = []
            while len(row) < length + 1:
                while len(buffer) < buffer_size:
                    documents, place = next(reads)
                    buffer += documents
                row += _next_piece(buffer, length + 1 - len(row))
            rows.append(row)
        inputs, targets = [row[:-1] for row in rows], [row[1:] for row in rows]
        yield inputs, targets, dict(zip(("pq_idx", "rg_idx", "epoch"), place, strict=True))


def _next_piece(buffer, room):
    """Return the largest that fits, else the shortest, cropped; of equal ones the first."""
    fitting = [len(document) for document in buffer if len(document) <= room]
    wanted = max(fitting) if fitting else min(map(len, buffer))
    at = next(at for at, document in enumerate(buffer) if len(document) == wanted)
    return buffer.pop(at)[:room]


def plain_sft_batches(
    conversations, *, batch_size, length, buffer_size, pad, rank=0, world_size=1
) -> Iterator:
    """Yield inputs, targets, consumed conversations and epoch, like nanochat's `chat_sft`.

    Conversations are pairs of ids and masks; those that do not fit a row stay in the buffer.
    """
    buffer, cursor, consumed, epoch = [], rank, rank, 1
    while True:
        rows = []
        for _ in range(batch_size):
            row = []
            while len(row) < length + 1:
                while len(buffer) < buffer_size:
                    buffer.append(conversations[cursor])
                    cursor += world_size
                    if cursor >= len(conversations):
                        cursor, epoch = cursor % len(conversations), epoch + 1
                fitting = [len(ids) for ids, _ in buffer if len(ids) <= length + 1 - len(row)]
                if not fitting:
                    row += [(pad, 0)] * (length + 1 - len(row))
                    break
                at = next(at for at, (ids, _) in enumerate(buffer) if len(ids) == max(fitting))
                row += zip(*buffer.pop(at), strict=True)
                consumed += world_size
            rows.append(row)
        inputs = [[number for number, _ in row[:-1]] for row in rows]
        targets = [[number if mask else -1 for number, mask in row[1:]] for row in rows]
        yield inputs, targets, consumed, epoch
