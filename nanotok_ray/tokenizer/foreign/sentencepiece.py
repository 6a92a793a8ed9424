r"""Reads models of SentencePiece.

The core encodes with a BPE model with byte fallback if it can be shown to return the ids of the
library, which encodes otherwise. The library begins with the characters of a text, merges the two
neighbors whose text together is the piece with the highest score, the leftmost first, and replaces
a character without a piece by the pieces of its bytes. The core does the same with bytes:

* The first merges make the characters of pieces from their bytes, and the first two or three bytes
  of a character on the way. No other merge has a part of a character, because all other tokens
  consist of characters, so all characters exist before the first piece is made.
* The next merges make pieces in the order of the scores, which must be different. Both rules choose
  a pair by its joined bytes, so the order of merges is the same. Pieces that merging never makes
  are left out, as the library never makes them.
* What remains of a character without a piece is a token without an id, which becomes the ids of its
  bytes (`Numbering` in the core).
* Models of Llama 2 and Mistral have pieces of several spaces with the same score, the lowest. They
  are made of the spaces that are left in the end, which the core joins (`SpaceRuns`). No other
  piece begins with two spaces, so no merge follows.
* A space and U+2581 are the same symbol for the library; here both are a space.
* Texts are cut before spaces that follow another character if no piece has a space after another
  character: no merge crosses such a cut.
* User-defined symbols are found first, the longest at every position, and no merge crosses them.

Models with rules of normalization, with unused pieces or without byte fallback are encoded by the
library.
"""

import math
import re
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.documents import as_documents
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.core_tables import CoreTables, Normalizer, Step, pattern_of_text
from nanotok_ray.tokenizer.engines import open_sentencepiece
from nanotok_ray.tokenizer.file_model import SENTENCEPIECE_FILE, FileModel, described
from nanotok_ray.tokenizer.foreign.around import around_of
from nanotok_ray.tokenizer.piece_model import (
    BPE,
    BYTE,
    CONTROL,
    NORMAL,
    SPACE,
    UNKNOWN,
    USER_DEFINED,
    PieceModel,
    byte_of,
    bytes_of_piece,
    piece_model,
)

_SPACES_FIRST = re.compile(r" *[^ ]*")
_WITHOUT_ID = 2**32 - 1


def looks_like_sentencepiece(data: bytes) -> bool:
    """Return whether a file can be a SentencePiece model: it begins with a piece."""
    return data[:1] == b"\n" and data[2:3] == b"\n"


def from_sentencepiece(data: bytes, *, name: str, beside: Mapping[str, bytes]) -> FileModel:
    """Return the tokenizer of a SentencePiece model.

    Control symbols are its special tokens. By default the one that begins a text is put before
    each text, as the models of Llama and Mistral expect, unless `tokenizer_config.json` beside the
    file says otherwise.

    Raises:
        TokenizerError: The file is damaged; or the core cannot encode, and the package
            sentencepiece is not installed, or refuses the file.
    """
    model = piece_model(data, name=name)
    texts = [piece.text for piece in model.pieces]
    special = {
        piece.text: number for number, piece in enumerate(model.pieces) if piece.kind == CONTROL
    }
    first = texts[model.bos_id] if 0 <= model.bos_id < len(texts) else None
    default = ((first,) if first in special else (), ())
    tables, reason = None, ""
    try:
        tables = core_tables(model)
    except TokenizerError as error:
        reason = str(error)
        open_sentencepiece(data, name=name)
    names = {number: text for number, text in enumerate(texts) if text not in special}
    return FileModel(
        description=described(
            SENTENCEPIECE_FILE,
            data,
            engine="core" if tables else "sentencepiece",
            special_tokens=special,
            around=around_of(beside, default=default),
        ),
        data=data,
        beside=beside,
        text_tokens={number: bytes_of_piece(text) for number, text in names.items()},
        spelling=names,
        tables=tables,
        reason=reason,
    )


def core_tables(model: PieceModel) -> CoreTables:
    """Return the tables with which the core encodes like the library.

    Raises:
        TokenizerError: The core cannot be shown to do so; the message is the reason.
    """
    _check(model)
    pieces: dict[str, int] = {}
    defined: dict[str, int] = {}
    byte_ids: dict[int, int] = {}
    for number, piece in enumerate(model.pieces):
        if piece.kind == BYTE:
            byte_ids[byte_of(piece.text)] = number
        elif piece.kind in (NORMAL, USER_DEFINED):
            into = pieces if piece.kind == NORMAL else defined
            text = piece.text.replace(SPACE, " ")
            if not text or into.setdefault(text, number) != number:
                raise TokenizerError(f"the piece {text!r:.60} is empty or occurs twice")
    if len(byte_ids) != 256:  # noqa: PLR2004 - all bytes
        raise TokenizerError(f"only {len(byte_ids)} bytes are pieces, so byte fallback is limited")
    runs = _space_runs(model, pieces)
    order = _by_score(model, {text: n for text, n in pieces.items() if n not in runs.values()})
    symbols = _symbols(pieces)
    tokens = [*(bytes([byte]) for byte in range(256)), *symbols, *(text.encode() for text in order)]
    documents = as_documents(tokens)
    merges, _, positions = _core.merges_of_ranks(documents.data, documents.offsets)
    made = positions[256 : 256 + len(merges)]
    if len(made) and (np.diff(made.astype(np.int64)) < 0).any():
        raise TokenizerError("a piece is made of pieces with lower scores")
    ids = {text.encode(): number for text, number in (*pieces.items(), *defined.items())}
    joined = [tokens[position] for position in made.tolist()]
    numbering = [ids.get(bytes([byte]), byte_ids[byte]) for byte in range(256)]
    numbering += [ids.get(token, _WITHOUT_ID) for token in joined]
    others = {token for token in map(str.encode, defined) if len(token) > 1} - {*joined}
    span_tokens = tuple(sorted(others))
    prefix: list[Normalizer] = [("Prepend", " ")] if model.add_dummy_prefix else []
    return CoreTables(
        pattern=_pattern(pieces, defined),
        merges=merges,
        span_tokens=span_tokens,
        numbering=np.array([*numbering, *map(ids.__getitem__, span_tokens)], dtype=np.uint32),
        normalizers=(("Replace", SPACE, " "), *prefix),
        space_runs=_run_table(runs, space=pieces.get(" ")),
    )


def _check(model: PieceModel) -> None:
    """Refuse what the core does not do.

    Raises:
        TokenizerError: The message is the reason.
    """
    kinds = {piece.kind for piece in model.pieces}
    reasons = {
        "its type is not BPE": model.model_type != BPE,
        "it has no byte fallback": not model.byte_fallback,
        "it has rules of normalization": bool(model.charsmap),
        "it removes white space": model.remove_extra_whitespaces,
        "it does not escape white space": not model.escape_whitespaces,
        "white space ends its pieces": model.treat_whitespace_as_suffix,
        "it has unused pieces": bool(kinds - {NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE}),
    }
    for reason, applies in reasons.items():
        if applies:
            raise TokenizerError(
                f"the core does not encode with this SentencePiece model: {reason}"
            )


def _space_runs(model: PieceModel, pieces: Mapping[str, int]) -> dict[int, int]:
    """Return the pieces of several spaces by their numbers of spaces, if all have one score.

    Raises:
        TokenizerError: They have one score, which is not the lowest; or another piece begins with
            several spaces.
    """
    runs = {len(text): n for text, n in pieces.items() if len(text) > 1 and not text.strip(" ")}
    scores = {model.pieces[number].score for number in runs.values()}
    if len(runs) < 2 or len(scores) > 1:  # noqa: PLR2004 - one piece has no equal
        return {}
    others = {n for text, n in pieces.items() if len(text) > 1 and n not in runs.values()}
    lowest = min((model.pieces[number].score for number in others), default=math.inf)
    begins = any(text.startswith("  ") and text.strip(" ") for text in pieces)
    if lowest <= min(scores) or begins or not _cuts_at_spaces(pieces) or " " not in pieces:
        raise TokenizerError("pieces of spaces have the same score as others")
    return runs


def _run_table(runs: Mapping[int, int], *, space: int | None) -> npt.NDArray[np.uint32] | None:
    """Return the id of each number of spaces, in the form that the core accepts."""
    if not runs or space is None:
        return None
    table = np.full(max(runs) + 1, _WITHOUT_ID, dtype=np.uint32)
    for length, number in {1: space, **runs}.items():
        table[length] = number
    return table


def _cuts_at_spaces(pieces: Iterable[str]) -> bool:
    """Return whether spaces only begin pieces."""
    return all(map(_SPACES_FIRST.fullmatch, pieces))


def _by_score(model: PieceModel, pieces: Mapping[str, int]) -> list[str]:
    """Return the pieces of several characters, the highest score first.

    Raises:
        TokenizerError: Two have the same score, or a score is not finite.
    """
    scores = {text: model.pieces[number].score for text, number in pieces.items() if len(text) > 1}
    if not all(map(math.isfinite, scores.values())):
        raise TokenizerError("the score of a piece is not finite")
    if len({*scores.values()}) != len(scores):
        raise TokenizerError("two pieces have the same score")
    return sorted(scores, key=scores.__getitem__, reverse=True)


def _symbols(pieces: Iterable[str]) -> list[bytes]:
    """Return the characters of several bytes and their beginnings, shorter ones first."""
    characters = {character.encode() for character in {*"".join(pieces)}}
    starts = {character[:size] for character in characters for size in range(2, len(character) + 1)}
    return sorted(starts, key=lambda start: (len(start), start))


def _pattern(pieces: Mapping[str, int], defined: Mapping[str, int]) -> str | tuple[Step, ...]:
    last = r" *[^ ]+| +" if _cuts_at_spaces(pieces) else r"[\s\S]+"
    if not defined:
        return last
    longest_first = sorted(defined, key=lambda text: (-len(text), text))
    symbols = "|".join(map(pattern_of_text, longest_first))
    return (symbols, "isolated", False), (last, "isolated", False)
