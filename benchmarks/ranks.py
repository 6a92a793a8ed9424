"""Tokens in rank order, and the hash by which the merges of two learners are compared.

The module imports nothing that a peer's interpreter may lack.
"""

import hashlib
from collections.abc import Iterable

NUM_BYTES = 256


def spell(merges: Iterable[tuple[int, int]]) -> list[bytes]:
    """Return the bytes of every token: the 256 bytes, then the merges in order."""
    tokens = [bytes([byte]) for byte in range(NUM_BYTES)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens


def sha256_of(tokens: Iterable[bytes]) -> str:
    """Return the hash of tokens in rank order; their lengths are hashed too."""
    hashed = hashlib.sha256()
    for token in tokens:
        hashed.update(len(token).to_bytes(8, "little") + token)
    return hashed.hexdigest()
