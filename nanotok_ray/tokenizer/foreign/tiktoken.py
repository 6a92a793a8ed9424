"""Reads tiktoken's encodings and `.tiktoken` files as a model."""

import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

from nanotok_ray import _core
from nanotok_ray.documents import as_documents
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.model import (
    MAX_TOKENS,
    NUM_BYTES,
    Model,
    check_token_bytes,
    check_vocabulary_bytes,
)


def model_of_ranks(
    ranks: Mapping[bytes, int], *, pattern: str, special_tokens: Mapping[str, int], name: str
) -> Model:
    r"""Return the model that encodes as tiktoken does with these ranks.

    >>> ranks = {bytes([value]): 255 - value for value in range(256)} | {b"ab": 256}
    >>> model = model_of_ranks(ranks, pattern=r"\w+", special_tokens={"<|end|>": 300}, name="f")
    >>> model.merges, model.token(256), model.num_ids
    (((158, 157),), b'ab', 301)

    Raises:
        TokenizerError: The ranks are not byte-level BPE with ids 0..255 for the bytes and no gap
            below the highest token; the message names the reason.
    """
    tokens = _by_rank(ranks, name=name)
    _check_special_tokens(special_tokens, num_tokens=len(tokens), name=name)
    spans = as_documents(tokens)
    try:
        byte_order, merges = _core.merges_of_tokens(spans.data, spans.offsets)
        return Model(
            pattern=pattern,
            unicode_version=_core.UNICODE_VERSION,
            merges=tuple((left, right) for left, right in merges.tolist()),
            special_tokens=dict(sorted(special_tokens.items(), key=itemgetter(1))),
            byte_order=byte_order,
        )
    except TokenizerError as error:
        raise TokenizerError(f"{name}: {error}") from error


def _by_rank(ranks: Mapping[bytes, int], *, name: str) -> Sequence[bytes]:
    """Return the tokens in the order of their ranks, which must be unique and without gaps."""
    if not NUM_BYTES <= len(ranks) <= MAX_TOKENS:
        raise TokenizerError(
            f"{name} has {len(ranks):,} tokens of text: byte-level BPE has from {NUM_BYTES}, the "
            f"bytes, to {MAX_TOKENS:,} here"
        )
    ordered = sorted(ranks.items(), key=itemgetter(1))
    for expected, (token, rank) in enumerate(ordered):
        if rank != expected:
            raise TokenizerError(
                f"{name}: the id of {token[:60]!r} is {rank} where {expected} is the next: ids of "
                "text must go from 0 without a hole or a repeat, special tokens follow them"
            )
    max_token = max(ranks, key=len)
    check_token_bytes(len(max_token), what=f"{name}: token {ranks[max_token]}")
    check_vocabulary_bytes(sum(map(len, ranks)), what=f"{name}: all tokens together")
    return [token for token, _ in ordered]


def _check_special_tokens(special_tokens: Mapping[str, int], *, num_tokens: int, name: str) -> None:
    known: dict[int, str] = {}
    for text, number in special_tokens.items():
        if number < num_tokens:
            raise TokenizerError(
                f"{name}: the special token {text!r} has id {number}, which is one of the "
                f"{num_tokens:,} tokens of text: special tokens must follow them"
            )
        if known.setdefault(number, text) != text:
            raise TokenizerError(
                f"{name}: the special tokens {known[number]!r} and {text!r} share id {number}"
            )


_MAX_DIGITS = 10


def from_rank_file(
    data: bytes,
    *,
    pattern: str,
    special_tokens: Sequence[str] | Mapping[str, int] = (),
    name: str,
) -> Model:
    """Return the model of a file; special tokens without ids receive those after the last rank.

    Raises:
        TokenizerError: A line is malformed or repeats a token or a rank; or as for
            `model_of_ranks`. The message names the file and, if possible, the line.
    """
    ranks = ranks_of_file(data, name=name)
    special_tokens = special_ids(special_tokens, first=len(ranks))
    return model_of_ranks(ranks, pattern=pattern, special_tokens=special_tokens, name=name)


def ranks_of_file(data: bytes, *, name: str) -> dict[bytes, int]:
    """Return the rank of each token of a file.

    Raises:
        TokenizerError: A line is malformed or repeats a token or a rank.
    """
    ranks: dict[bytes, int] = {}
    lines: dict[int, int] = {}
    for number, line in enumerate(io.BytesIO(data), start=1):
        if not line.strip():
            continue
        token, rank = _parsed(line, name=f"{name}, line {number}")
        if token in ranks:
            first = lines[ranks[token]]
            raise TokenizerError(f"{name}, line {number}: the token of line {first} again")
        if rank in lines:
            raise TokenizerError(
                f"{name}, line {number}: rank {rank} is that of line {lines[rank]} too"
            )
        if len(ranks) == MAX_TOKENS:
            raise TokenizerError(f"{name}, line {number}: more than {MAX_TOKENS:,} tokens")
        ranks[token], lines[rank] = rank, number
    return ranks


def _parsed(line: bytes, *, name: str) -> tuple[bytes, int]:
    parts = line.split()
    if len(parts) != 2:  # noqa: PLR2004 - token and rank
        raise TokenizerError(f"{name}: expected base64, a space and a rank, found {line[:80]!r}")
    padding = parts[0] == b"="  # no bytes, as the file of Whisper has it
    try:
        token = b"" if padding else base64.b64decode(parts[0], validate=True)
    except binascii.Error as error:
        raise TokenizerError(f"{name}: {parts[0][:80]!r} is not base64: {error}") from error
    if not (parts[1].isdigit() and len(parts[1]) <= _MAX_DIGITS):
        raise TokenizerError(f"{name}: {parts[1][:80]!r} is not a rank")
    return token, int(parts[1])


def special_ids(names: Sequence[str] | Mapping[str, int], *, first: int) -> Mapping[str, int]:
    """Return the id of each special token; names alone are numbered from `first` on.

    Raises:
        TokenizerError: `names` is a single name, or has a name twice.
    """
    if isinstance(names, Mapping):
        return names
    if isinstance(names, str):
        raise TokenizerError(f"special_tokens is one name, {names!r}: put it into a list")
    numbered = {text: number for number, text in enumerate(names, first)}
    if len(numbered) != len(names):
        twice = next(text for text in names if list(names).count(text) > 1)
        raise TokenizerError(f"the special token {twice!r} is given twice; name it once")
    return numbered


@dataclass(frozen=True, kw_only=True, slots=True)
class EncodingState:
    """The attributes of an encoding of tiktoken, of any type; None if they are missing."""

    pat_str: object
    mergeable_ranks: object
    special_tokens: object


def model_of_state(state: EncodingState, *, name: str) -> Model:
    """Return the model of an encoding.

    Raises:
        TokenizerError: A value is missing or of another type; or as for `model_of_ranks`.
    """
    pattern = state.pat_str
    if not isinstance(pattern, str):
        raise TokenizerError(f"{name}: pat_str is not a str but a {type(pattern).__name__}")
    return model_of_ranks(
        _numbers(state.mergeable_ranks, "mergeable_ranks", bytes, name=name),
        pattern=pattern,
        special_tokens=_numbers(state.special_tokens, "special_tokens", str, name=name),
        name=name,
    )


_Key = TypeVar("_Key", str, bytes)


def _numbers(value: object, key: str, kind: type[_Key], *, name: str) -> dict[_Key, int]:
    if not isinstance(value, dict):
        raise TokenizerError(f"{name}: {key} is not a dict but a {type(value).__name__}")
    for token, number in value.items():
        if type(token) is not kind or type(number) is not int:
            raise TokenizerError(
                f"{name}: {key} must give ids by {kind.__name__}, but holds "
                f"{type(token).__name__}: {type(number).__name__}"
            )
    return value


def from_encoding(encoding: object) -> Model:
    """Return the model of an encoding; texts are encoded like by its `encode_ordinary`.

    Text that the pattern does not match is an exception: tiktoken drops it, here it is encoded.

    Raises:
        TokenizerError: The object is not an encoding of tiktoken, or cannot be converted.
    """
    state = EncodingState(
        pat_str=getattr(encoding, "_pat_str", None),
        mergeable_ranks=getattr(encoding, "_mergeable_ranks", None),
        special_tokens=getattr(encoding, "_special_tokens", None),
    )
    name = f"the tiktoken encoding {getattr(encoding, 'name', '')!r}"
    if None in (state.pat_str, state.mergeable_ranks, state.special_tokens):
        raise TokenizerError(
            "from_tiktoken takes a tiktoken.Encoding, as tiktoken.get_encoding returns, not a "
            f"{type(encoding).__name__}"
        )
    return model_of_state(state, name=name)
