"""Decoders of tokenizers whose tokens do not stand for the same bytes everywhere."""

import codecs
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents import offsets_of
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.piece_model import (
    BYTE,
    CONTROL,
    SPACE,
    UNKNOWN,
    PieceModel,
    byte_of,
    piece_model,
)

Ids = NDArray[np.uint16] | NDArray[np.uint32]
Offsets = NDArray[np.int64]

_ONE_BYTE = "nanotok-one-byte"
"""Replaces each byte of invalid UTF-8 on its own, as SentencePiece does."""


def _one_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError), "it is for decoding"
    return "\ufffd", error.start + 1


codecs.register_error(_ONE_BYTE, _one_byte)


class TextDecoder(ABC):
    """Decodes rows of ids to texts. The methods are those of `_core.Decoder`."""

    @abstractmethod
    def text(self, ids: list[int]) -> str:
        """Return the text of ids; special tokens are decoded to their names.

        Raises:
            KeyError: An id is not a token.
        """

    def decode(self, ids: Ids) -> bytes:
        """Return the UTF-8 of the text of ids.

        Raises:
            KeyError: An id is not a token.
        """
        return self.text(ids.tolist()).encode()

    def decode_batch(
        self,
        ids: Ids,
        offsets: Offsets,
        *,
        replace: bool = False,  # noqa: ARG002 - a text is always valid UTF-8
    ) -> tuple[NDArray[np.uint8], Offsets]:
        """Return the UTF-8 of the text of each row of ids, and n + 1 offsets.

        Raises:
            KeyError: An id is not a token.
        """
        rows = [self.decode(ids[start:stop]) for start, stop in pairwise(offsets.tolist())]
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        return np.frombuffer(b"".join(rows), dtype=np.uint8), offsets_of(lengths)


class PieceDecoder(TextDecoder):
    """Decodes the ids of a SentencePiece model as the library does.

    The pieces are joined, and bytes that are no UTF-8 become U+FFFD. The space of the first piece
    is removed if encoding puts one before each text. The text of the unknown piece is kept.
    """

    def __init__(self, model: FileModel) -> None:
        """Read the pieces of the file."""
        pieces = piece_model(model.data, name=model.description.file)
        self._special = {number: name for name, number in model.special_tokens.items()}
        self._bytes = {
            number: byte_of(piece.text)
            for number, piece in enumerate(pieces.pieces)
            if piece.kind == BYTE
        }
        self._texts = _texts(pieces)
        self._unknown = {n for n, piece in enumerate(pieces.pieces) if piece.kind == UNKNOWN}
        self._strips = pieces.add_dummy_prefix or pieces.remove_extra_whitespaces
        self._strips_all = pieces.remove_extra_whitespaces

    def text(self, ids: list[int]) -> str:
        """Return the text of ids; control symbols are decoded to their names.

        Raises:
            KeyError: An id is not a token.
        """
        parts: list[str] = []
        waiting = bytearray()
        at_start = self._strips
        for number in ids:
            if (byte := self._bytes.get(number)) is not None:
                waiting.append(byte)
                continue
            if waiting:
                parts.append(waiting.decode(errors=_ONE_BYTE))
                waiting.clear()
                at_start = False
            name = self._special.get(number)
            if name is not None:
                parts.append(name)
                continue
            piece = self._piece(number)
            if at_start and piece.startswith(" ") and number not in self._unknown:
                piece = piece[1:]
                at_start = self._strips_all
            if piece:
                at_start = False
            parts.append(piece)
        return "".join([*parts, waiting.decode(errors=_ONE_BYTE)])

    def _piece(self, number: int) -> str:
        try:
            return self._texts[number]
        except KeyError:
            raise KeyError(f"Invalid token for decoding: {number}") from None


def _texts(model: PieceModel) -> Mapping[int, str]:
    """Return the text of each piece that is neither a byte nor a control symbol."""
    rows: Sequence[tuple[int, str]] = [
        (number, model.unknown_text if piece.kind == UNKNOWN else piece.text.replace(SPACE, " "))
        for number, piece in enumerate(model.pieces)
        if piece.kind not in (BYTE, CONTROL)
    ]
    return dict(rows)
