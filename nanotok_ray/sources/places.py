"""Where quarantined documents are, as people count: lines and rows from 1 on.

Takes entries and the pieces of their files; reads files of lines again, up to the entries, to count
the lines. Does not know why a document was quarantined.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import BinaryIO, Final

from nanotok_ray.errors import NanotokError
from nanotok_ray.quarantine import TAIL, QuarantineEntry
from nanotok_ray.sources.files import Piece
from nanotok_ray.sources.stored import DecodedStream, ReadAccount, StoredFile, open_piece

MOST_COUNTED_BYTES: Final = 256 << 20
"""Decoded bytes of a file that are read to count lines; further on the byte is named."""

_BLOCK_BYTES = 1 << 18
_LINES = {"jsonl", "lines"}
_ROWS = re.compile(rf"^({TAIL}: rows )(\d+)(?= to )")


def places_of(entries: Sequence[QuarantineEntry], pieces: Iterable[Piece]) -> list[str]:
    """Return the place of each entry: its file, and the line or row; of a tail, what it follows."""
    by_file = {piece.path: piece for piece in pieces}
    positions: dict[str, set[int]] = defaultdict(set)
    for entry in entries:
        positions[entry.file].add(entry.position)
    lines = {
        file: _line_numbers(by_file[file], sorted(own))
        for file, own in positions.items()
        if file in by_file and by_file[file].format in _LINES
    }
    return [_told(each, by_file.get(each.file), lines.get(each.file, {})) for each in entries]


def reason_of(entry: QuarantineEntry) -> str:
    """Return the reason of an entry with rows as people count them.

    >>> entry = QuarantineEntry(
    ...     source="web", file="a", row=6, position=6, hash64=None, bytes=7,
    ...     reason="tail: rows 6 to 9 cannot be read (corrupt)",
    ... )
    >>> reason_of(entry)
    'tail: rows 7 to 9 cannot be read (corrupt)'
    """
    return _ROWS.sub(lambda found: f"{found[1]}{int(found[2]) + 1}", entry.reason)


def _told(entry: QuarantineEntry, piece: Piece | None, lines: Mapping[int, int]) -> str:
    if piece is None or piece.format == "document":
        return entry.file
    is_tail = entry.kind == TAIL
    if piece.format == "parquet":
        return f"{entry.file}{' from' if is_tail else ','} row {entry.position + 1:,}"
    line = lines.get(entry.position)
    if line is None:
        return f"{entry.file}{' from' if is_tail else ','} byte {entry.position:,}"
    if not is_tail:
        return f"{entry.file}, line {line:,}"
    return f"{entry.file} after line {line - 1:,}" if line > 1 else f"{entry.file} from line 1"


def _line_numbers(piece: Piece, positions: Sequence[int]) -> dict[int, int]:
    """Return the number of the line that begins at each position, as far as they are counted."""
    wanted = [position for position in positions if position <= MOST_COUNTED_BYTES]
    numbers: dict[int, int] = {}
    line, done = 1, 0
    try:
        with _decoded(replace(piece, start=0)) as file:
            for position in wanted:
                while done < position and (data := file.read(min(_BLOCK_BYTES, position - done))):
                    line += data.count(b"\n")
                    done += len(data)
                if done == position:
                    numbers[position] = line
    except (NanotokError, OSError):  # the place is told without the line
        return numbers
    return numbers


@contextmanager
def _decoded(piece: Piece) -> Iterator[BinaryIO | DecodedStream]:
    if piece.compression is None:
        with open_piece(piece) as file:
            yield file
        return
    with (
        StoredFile(piece, account=ReadAccount()) as stored,
        closing(DecodedStream(stored, url=piece.url, compression=piece.compression)) as stream,
    ):
        yield stream
