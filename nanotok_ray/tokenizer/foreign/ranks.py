"""A vocabulary of ranks as our model: the id of each token by its bytes, a pattern, special tokens.

Ranks name no merges. The merge of a token is the pair that encoding its bytes with the tokens of
lower rank ends in: then merging pairs, as our core does, gives what merging the lowest joined
bytes gives, as tiktoken does. Knows no files; `name` is for messages.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from nanotok_ray import _core
from nanotok_ray.documents.batch import as_documents
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.model import MAX_VOCABULARY_BYTES, NUM_BYTES, Model

MAX_TOKENS = 1 << 21
"""Larger vocabularies are refused before their merges are looked for."""


def model_of_ranks(
    ranks: Mapping[bytes, int], *, pattern: str, special_tokens: Mapping[str, int], name: str
) -> Model:
    r"""Give the model that encodes as tiktoken does with these ranks.

    >>> ranks = {bytes([value]): 255 - value for value in range(256)} | {b"ab": 256}
    >>> model = model_of_ranks(ranks, pattern=r"\w+", special_tokens={"<|end|>": 300}, name="f")
    >>> model.merges, model.token(256), model.num_ids
    (((158, 157),), b'ab', 301)

    Raises:
        TokenizerError: They are not byte-level BPE with ids 0..255 for the bytes and no hole below
            the highest token; the message says why.
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
    """Give the tokens in order of ranks, of which there must be no two and no hole."""
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
    total = sum(map(len, ranks))
    if total > MAX_VOCABULARY_BYTES:
        raise TokenizerError(
            f"{name}: its tokens have {total:,} bytes, more than {MAX_VOCABULARY_BYTES:,}"
        )
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
