"""Reads the fields of a SentencePiece model that encoding depends on.

The file is a message of Protocol Buffers, `ModelProto` of sentencepiece_model.proto. Only the
fields below are read, with a bound on each length, and no object is made for any other field.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.model import MAX_TOKENS

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""The types of pieces."""
BPE = 2
"""The type of a model that merges pairs."""
SPACE = "\u2581"
"""The character that stands for a space in pieces."""
UNKNOWN_TEXT = " \u2047 "
"""What the library decodes the unknown piece to, unless the model says otherwise."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT = 10
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


@dataclass(frozen=True, slots=True)
class PieceRow:
    """A piece of the vocabulary; its id is its index."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PieceModel:
    """The vocabulary and the settings of a model, with the defaults of the format."""

    pieces: tuple[PieceRow, ...]
    model_type: int = 1
    byte_fallback: bool = False
    treat_whitespace_as_suffix: bool = False
    bos_id: int = 1
    unknown_text: str = UNKNOWN_TEXT
    """What the unknown piece is decoded to."""
    charsmap: bytes = b""
    """The compiled rules of normalization; empty: characters stay as they are."""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True


def byte_of(piece: str) -> int:
    """Return the byte of a piece of type `BYTE`, such as <0x0A>.

    Raises:
        TokenizerError: The piece has another form.
    """
    match = _BYTE.fullmatch(piece)
    if match is None:
        raise TokenizerError(f"the piece {piece!r:.60} is of type BYTE, and names no byte")
    return int(match[1], 16)


def bytes_of_piece(piece: str) -> bytes:
    r"""Return the bytes of a piece in the middle of a text.

    >>> bytes_of_piece("\u2581the"), bytes_of_piece("<0x0A>")
    (b' the', b'\n')
    """
    return bytes([byte_of(piece)]) if _BYTE.fullmatch(piece) else piece.replace(SPACE, " ").encode()


def piece_model(data: bytes, *, name: str) -> PieceModel:
    """Return the model of a file.

    Raises:
        TokenizerError: The file is not such a message, or has too many pieces.
    """
    pieces: list[PieceRow] = []
    values: dict[str, int | bytes] = {}
    try:
        for field, value in _fields(memoryview(data)):
            if field == _PIECES:
                pieces.append(_piece(value))
                if len(pieces) > MAX_TOKENS:
                    break
            elif field in _SETTINGS:
                values |= _settings(value, _SETTINGS[field])
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise TokenizerError(f"{name} is no SentencePiece model: {error}") from None
    if not 0 < len(pieces) <= MAX_TOKENS:
        raise TokenizerError(
            f"{name} is no SentencePiece model: it has {len(pieces):,} pieces, and 1 to "
            f"{MAX_TOKENS:,} are read"
        )
    numbers = {key: value for key, value in values.items() if isinstance(value, int)}
    texts = {key: value for key, value in values.items() if isinstance(value, bytes)}
    return PieceModel(
        pieces=tuple(pieces),
        model_type=numbers.get("model_type", 1),
        bos_id=_signed(numbers.get("bos_id", 1)),
        unknown_text=texts.get("unknown_text", UNKNOWN_TEXT.encode()).decode(errors="replace"),
        charsmap=texts.get("charsmap", b""),
        **{key: bool(value) for key, value in numbers.items() if key in _FLAGS},
    )


_PIECES = 1
_SETTINGS = {
    2: {
        3: "model_type",
        24: "treat_whitespace_as_suffix",
        35: "byte_fallback",
        41: "bos_id",
        44: "unknown_text",
    },
    3: {
        2: "charsmap",
        3: "add_dummy_prefix",
        4: "remove_extra_whitespaces",
        5: "escape_whitespaces",
    },
}
"""The read fields of `TrainerSpec` and `NormalizerSpec`, by the field of each in `ModelProto`."""
_FLAGS = {
    *("treat_whitespace_as_suffix", "byte_fallback", "add_dummy_prefix"),
    *("remove_extra_whitespaces", "escape_whitespaces"),
}
_Value = int | memoryview


def _piece(value: _Value) -> PieceRow:
    text, score, kind = "", 0.0, NORMAL
    for field, part in _fields(_message(value)):
        match field, part:
            case 1, memoryview():
                text = bytes(part).decode()
            case 2, memoryview():
                (score,) = struct.unpack("<f", part)
            case 3, int():
                kind = part
    return PieceRow(text, score, kind)


def _settings(value: _Value, names: dict[int, str]) -> dict[str, int | bytes]:
    return {
        names[field]: bytes(part) if isinstance(part, memoryview) else part
        for field, part in _fields(_message(value))
        if field in names
    }


def _message(value: _Value) -> memoryview:
    if not isinstance(value, memoryview):
        raise TypeError("a message is a number")
    return value


def _fields(data: memoryview) -> Iterator[tuple[int, _Value]]:
    """Yield the number and the value of each field of a message."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == _VARINT:
            number, position = _varint(data, position)
            yield key >> 3, number
            continue
        size = _SIZES.get(kind)
        if kind == _BYTES:
            size, position = _varint(data, position)
        if size is None or size > len(data) - position:
            raise ValueError(f"a field of type {kind} ends after the file, at byte {position}")
        yield key >> 3, data[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    number = 0
    for index in range(_MAX_VARINT):
        byte = data[position + index]
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:  # noqa: PLR2004 - the last byte has no high bit
            return number, position + index + 1
    raise ValueError(f"a number has more than {_MAX_VARINT} bytes, at byte {position}")


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
