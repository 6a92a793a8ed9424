"""A `.tiktoken` file, base64 of a token's bytes, a space and its rank on each line, as our model.

Pattern and special tokens are not in it: they are given.
"""

import base64
import binascii
import io
from collections.abc import Mapping, Sequence

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign.ranks import MAX_TOKENS, model_of_ranks
from nanotok_ray.tokenizer.model import Model

_MAX_DIGITS = 10


def from_rank_file(
    data: bytes,
    *,
    pattern: str,
    special_tokens: Sequence[str] | Mapping[str, int] = (),
    name: str,
) -> Model:
    """Give the model of a file; special tokens without ids get those after the last rank.

    Raises:
        TokenizerError: A line is not as it must be, names a token or a rank that was there; or as
            `model_of_ranks`. The message names the file and, where it can, the line.
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
    if not isinstance(special_tokens, Mapping):
        special_tokens = _numbered(special_tokens, first=len(ranks))
    return model_of_ranks(ranks, pattern=pattern, special_tokens=special_tokens, name=name)


def _parsed(line: bytes, *, name: str) -> tuple[bytes, int]:
    parts = line.split()
    if len(parts) != 2:  # noqa: PLR2004 - token and rank
        raise TokenizerError(f"{name}: expected base64, a space and a rank, found {line[:80]!r}")
    try:
        token = base64.b64decode(parts[0], validate=True)
    except binascii.Error as error:
        raise TokenizerError(f"{name}: {parts[0][:80]!r} is no base64: {error}") from error
    if not (parts[1].isdigit() and len(parts[1]) <= _MAX_DIGITS):
        raise TokenizerError(f"{name}: {parts[1][:80]!r} is no rank")
    return token, int(parts[1])


def _numbered(names: Sequence[str], *, first: int) -> dict[str, int]:
    if isinstance(names, str):
        raise TokenizerError(f"special_tokens is one name, {names!r}: put it into a list")
    numbered = {text: number for number, text in enumerate(names, first)}
    if len(numbered) != len(names):
        twice = next(text for text in names if list(names).count(text) > 1)
        raise TokenizerError(f"the special token {twice!r} is given twice")
    return numbered
