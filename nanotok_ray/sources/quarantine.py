"""Documents that could not be used: their entries, their locations, and limits of their number."""

import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from json.encoder import encode_basestring_ascii as _quoted
from typing import Annotated, BinaryIO, Final

from nanotok_ray.errors import CorruptOutputError, NanotokError, QuarantineLimitError
from nanotok_ray.formats import from_values
from nanotok_ray.formats.codec import omitted
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.sources.files import Piece
from nanotok_ray.sources.stored import DecodedStream, ReadAccount, StoredFile, open_planned
from nanotok_ray.storage import Folder

QUARANTINE = "quarantine/"
"""The folder of quarantine files in the output folder."""

TAIL = "tail"
"""Reason of the single entry for rows that could not be enumerated."""
SKIPPED = "skipped"
"""Reason of the single entry for each piece of a slice that failed entirely, if the recipe allows
that; it does not count towards the limits.
"""
DROPPED = "dropped"
"""Reason of a document that a rule of the user excludes; it does not count towards the limits."""

BY_CHOICE = frozenset({DROPPED, SKIPPED})
"""Reasons that come from the user's own rules."""

COUNTED_SUFFIX = ".quarantine.jsonl"
"""Suffix of a quarantine file beside a count file."""

MAX_ID_CHARS = 1000
"""Limit of the document's id in its entry, which is one line for people."""

_PACK_ENTRIES = 4096
_PACK_LEVEL = 1  # the lines are similar, so that each needs only a few bytes
_HASH = re.compile("[0-9a-f]{16}")
_ROLES = ("system", "user", "assistant", "tool", "developer", "function", "None")
_SPEAKER = re.compile(r"^(Message \d+ (?:is from|has role) )(.*)( but should be )", re.DOTALL)
_PARTICULAR = re.compile(":|, got ")
_NUMBER = re.compile(r"(?<![\w-])\d+\b")  # not the number in "UTF-8"


def kind_of_reason(reason: str) -> str:
    """Return a reason without the details of a document, so that there are few kinds.

    Removed are the text after a colon or ", got ", numbers, and speakers of unknown roles.

    >>> kind_of_reason("12 <image> placeholders but 1 image_token_counts")
    'N <image> placeholders but N image_token_counts'
    >>> kind_of_reason("Message 1 is from user but should be from assistant")
    'Message N is from user but should be from assistant'
    """
    text = _SPEAKER.sub(lambda match: f"{match[1]}{_role(match[2])}{match[3]}", reason)
    return _NUMBER.sub("N", _PARTICULAR.split(text, maxsplit=1)[0])


def _role(speaker: str) -> str:
    return speaker if speaker in _ROLES else "another"


_Number = Annotated[int, lambda number: 0 <= number < 1 << 64]


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantineEntry:
    """A document, or a tail, that is not in the output.

    >>> entry = QuarantineEntry(
    ...     source="web", file="a", row=3, position=120, reason="invalid JSON", hash64=None,
    ...     bytes=7,
    ... )
    >>> entry.to_json()[:61]
    '{"bytes":7,"file":"a","hash64":null,"id":null,"position":120,'
    """

    source: str
    file: str
    """Path relative to its source."""
    row: _Number
    """Parquet: row in the file. Line formats: index of the document in the range that was read."""
    position: _Number
    """Parquet: row in the file. Line formats: byte in the decoded file. A document: 0."""
    reason: str
    """The reason, usually with details of this document after a colon."""
    hash64: Annotated[str, _HASH.fullmatch] | None
    """The document's hash64 as 16 hex digits; None if there are no bytes to hash."""
    bytes: _Number
    """Size of the document; of a tail, and of a compressed file too large to decode, the stored
    size.
    """
    id: str | None = omitted()
    """The first 1,000 characters of the value of the `id_column`; None if there is none or if it
    is unknown.
    """

    @property
    def kind(self) -> str:
        """The reason without the details of this document.

        >>> entry = QuarantineEntry(
        ...     source="a", file="a", row=0, position=0, hash64=None, bytes=7,
        ...     reason="Message 3 is from Ann: 7 but should be from user",
        ... )
        >>> entry.kind
        'Message N is from another but should be from user'
        """
        return kind_of_reason(self.reason)

    def to_json(self) -> str:
        """Return the entry as one line of JSON with sorted keys, without the line break."""
        hash64, id_json = _or_null(self.hash64), _or_null(self.id)
        return (
            f'{{"bytes":{self.bytes},"file":{_quoted(self.file)},"hash64":{hash64},"id":{id_json},'
            f'"position":{self.position},"reason":{_quoted(self.reason)},"row":{self.row},'
            f'"source":{_quoted(self.source)}}}'
        )


def _or_null(text: str | None) -> str:
    return "null" if text is None else _quoted(text)


class Quarantined:
    """The entries of one slice in order, compressed: ten million entries take 100 to 300 MB.

    >>> quarantined = Quarantined()
    >>> quarantined.add(
    ...     QuarantineEntry(
    ...         source="web", file="a", row=3, position=9, reason="tail: x", hash64=None, bytes=7
    ...     )
    ... )
    >>> len(quarantined), quarantined.reasons, [entry.row for entry in quarantined]
    (1, {'tail': 1}, [3])
    """

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()
        self._packs: list[bytes] = []
        self._lines: list[str] = []  # lines that are not compressed yet

    def add(self, entry: QuarantineEntry) -> None:
        """Append an entry."""
        self._kinds[entry.kind] += 1
        self._lines.append(f"{entry.to_json()}\n")
        if len(self._lines) == _PACK_ENTRIES:
            self._packs.append(zlib.compress("".join(self._lines).encode(), _PACK_LEVEL))
            self._lines.clear()

    def __len__(self) -> int:
        return self._kinds.total()

    def __iter__(self) -> Iterator[QuarantineEntry]:
        """Yield the entries."""
        for block in self.blocks():
            yield from filter(None, map(entry_of, block.splitlines()))

    @property
    def reasons(self) -> dict[str, int]:
        """Number of entries of each kind of reason, in the order of the kinds."""
        return dict(sorted(self._kinds.items()))

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes of the quarantine file: one entry per line, thousands per block."""
        yield from map(zlib.decompress, self._packs)
        if self._lines:
            yield "".join(self._lines).encode()


def entry_of(line: bytes) -> QuarantineEntry | None:
    """Parse a line of a quarantine file of any writer; return None if it is not an entry.

    >>> entry_of(b'{"row": 3}') is None
    True
    """
    try:
        return from_values(QuarantineEntry, json.loads(line), name=QUARANTINE)
    except (ValueError, RecursionError, CorruptOutputError):
        return None


def is_quarantine_file(name: str) -> bool:
    """Return whether a file of an output or work folder is a quarantine file.

    >>> is_quarantine_file("counts/web/a-00000-0123456789abcdef.quarantine.jsonl")
    True
    """
    return name.startswith(QUARANTINE) or name.endswith(COUNTED_SUFFIX)


def write_quarantine(folder: Folder, entries: Quarantined, *, name: str) -> tuple[int, str]:
    """Publish a quarantine file, and return its size and sha256."""
    with folder.create_once(name) as file:
        for block in entries.blocks():
            file.write(block)
    return file.size, file.sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstBad:
    """The first document that was quarantined, except by a rule of the user, or the first tail."""

    location: str
    """Source, file, and line or row, for people."""
    reason: str
    listed: str
    """The quarantine file that contains it."""


def check_limits(
    *,
    documents: int,
    quarantined: Mapping[str, int],
    limits: LimitsRecipe,
    where: str,
    first: Callable[[bool], FirstBad | None] = lambda _: None,
) -> None:
    """Raise an error if too many documents of a result are missing.

    Args:
        documents: the number of documents that were read, including quarantined ones.
        quarantined: the number of quarantined documents for each kind of reason.
        limits: the limits of the recipe.
        where: the folder of the quarantine files, for a message without a first entry.
        first: called if a limit is exceeded, with True for the first tail, otherwise for the first
            entry; it returns None if that is unknown.

    Raises:
        QuarantineLimitError: The number of tails, or the number or the share of documents, exceeds
            its limit.
    """
    bad = {kind: number for kind, number in quarantined.items() if kind not in BY_CHOICE}
    counted = sum(bad.values())
    reasons = ", ".join(f"{kind} ({number:,})" for kind, number in bad.items())
    tails = quarantined.get(TAIL, 0)
    if tails > limits.max_tails:
        raise QuarantineLimitError(
            _tails_message(tails, limits.max_tails, first(True), where=where)
        )
    counts = f"{counted:,} of {documents:,}"
    if limits.max_quarantined is not None and counted > limits.max_quarantined:
        raise QuarantineLimitError(
            f"{counts} documents were quarantined, limits.max_quarantined = "
            f"{limits.max_quarantined}: {reasons}; "
            f"{format_first_bad(first(False), where=where)}"
        )
    if counted > limits.max_quarantined_share * documents:
        raise QuarantineLimitError(
            f"{counts} documents were quarantined, more than limits.max_quarantined_share = "
            f"{limits.max_quarantined_share}: {reasons}; "
            f"{format_first_bad(first(False), where=where)}"
        )


def _tails_message(tails: int, max_tails: int, first: FirstBad | None, *, where: str) -> str:
    of = "1 file is" if tails == 1 else f"{tails:,} files are"
    more = f" and {tails - 1:,} more" if tails > 1 else ""
    location = "" if first is None else f" {first.location}{more}."
    listed = where if first is None else first.listed
    reason = "" if first is None else f"; {first.reason}"
    return (
        f"{of} truncated or damaged (limits.max_tails allows {max_tails:,}):{location} Replace "
        f"{'it' if tails == 1 else 'them'}, or raise the limit{reason}; listed in {listed}"
    )


def format_first_bad(first: FirstBad | None, *, where: str) -> str:
    """Return a text with the first document, the list of all documents, and the next step."""
    if first is None:
        return f"see {where}, correct the input or raise the limit"
    return (
        f"the first is {first.location}: {first.reason}; see {first.listed}, correct the input or "
        "raise the limit"
    )


MAX_COUNTED_BYTES: Final = 256 << 20
"""Decoded bytes of a file that are read to count lines; beyond them, the position in bytes is
reported.
"""

_BLOCK_BYTES = 1 << 18
_LINES = {"jsonl", "lines"}
_ROWS = re.compile(rf"^({TAIL}: rows )(\d+)(?= to )")


def locations_of(entries: Sequence[QuarantineEntry], pieces: Iterable[Piece]) -> list[str]:
    """Return the location of each entry: file and line or row; of a tail, the row before it."""
    by_file = {piece.file.path: piece for piece in pieces}
    positions: dict[str, set[int]] = defaultdict(set)
    for entry in entries:
        positions[entry.file].add(entry.position)
    lines = {
        file: _line_numbers(by_file[file], sorted(starts))
        for file, starts in positions.items()
        if file in by_file and by_file[file].file.format in _LINES
    }
    return [
        _location(entry, by_file.get(entry.file), lines.get(entry.file, {})) for entry in entries
    ]


def reason_of(entry: QuarantineEntry) -> str:
    """Return the reason of an entry with rows counted from 1.

    >>> entry = QuarantineEntry(
    ...     source="web", file="a", row=6, position=6, hash64=None, bytes=7,
    ...     reason="tail: rows 6 to 9 cannot be read (corrupt)",
    ... )
    >>> reason_of(entry)
    'tail: rows 7 to 9 cannot be read (corrupt)'
    """
    return _ROWS.sub(lambda match: f"{match[1]}{int(match[2]) + 1}", entry.reason)


def _location(entry: QuarantineEntry, piece: Piece | None, lines: Mapping[int, int]) -> str:
    if piece is None or piece.file.format == "document":
        return entry.file
    is_tail = entry.kind == TAIL
    if piece.file.format == "parquet":
        return f"{entry.file}{' from' if is_tail else ','} row {entry.position + 1:,}"
    line = lines.get(entry.position)
    if line is None:
        return f"{entry.file}{' from' if is_tail else ','} byte {entry.position:,}"
    if not is_tail:
        return f"{entry.file}, line {line:,}"
    return f"{entry.file} after line {line - 1:,}" if line > 1 else f"{entry.file} from line 1"


def _line_numbers(piece: Piece, positions: Sequence[int]) -> dict[int, int]:
    """Return the number of the line at each position, as far as lines are counted."""
    wanted = [position for position in positions if position <= MAX_COUNTED_BYTES]
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
    except (NanotokError, OSError):  # the location is reported without the line
        return numbers
    return numbers


@contextmanager
def _decoded(piece: Piece) -> Iterator[BinaryIO | DecodedStream]:
    if piece.file.compression is None:
        with open_planned(piece.file) as file:
            yield file
        return
    with (
        StoredFile(piece, account=ReadAccount()) as stored,
        closing(DecodedStream(stored)) as stream,
    ):
        yield stream
