"""The rule of nanochat's loader, said again in few lines over lists: what loaders must equal.

Files are lists of row groups, those lists of documents, those lists of ids. Row groups without
documents give none, as quarantined rows are not there.
"""

from collections.abc import Iterator
from itertools import count


def plain_reads(files, *, rank, world_size, size, state=None) -> Iterator:
    """Yield documents and (pq_idx, rg_idx, epoch), without end."""
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
    """Yield inputs, targets and state as lists and a dictionary, without end."""
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
    """Take the largest that fits, else the shortest and crop it; the first of equals."""
    fitting = [len(document) for document in buffer if len(document) <= room]
    wanted = max(fitting) if fitting else min(map(len, buffer))
    at = next(at for at, document in enumerate(buffer) if len(document) == wanted)
    return buffer.pop(at)[:room]
