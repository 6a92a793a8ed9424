"""The tokenizer that a worker is told to use: loaded once a process, and no other in its place."""

from functools import lru_cache

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.tokenizer.tokenizer import Tokenizer


@lru_cache(maxsize=2)
def expected_tokenizer(url: str, sha256: str, *, span_table: bool) -> Tokenizer:
    """Load the tokenizer of a folder, which has this sha256.

    Raises:
        CorruptOutputError: the folder holds another one.
    """
    tokenizer = Tokenizer.load(url, span_table=span_table)
    if tokenizer.sha256 != sha256:
        raise CorruptOutputError(
            f"{url} holds tokenizer {tokenizer.sha256[:16]}, {sha256[:16]} was expected; does "
            "every node see the same folder?"
        )
    return tokenizer
