"""What proving needs of a tokenizer: plain tables of its ids, and tiktoken's opinion of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.shards.second_opinion import SecondOpinion
from nanotok_ray.shards.sink import Ids
from nanotok_ray.tokenizer import Tokenizer

_BLOCK = 1 << 20  # tokens


@dataclass(frozen=True, slots=True)
class ProofTables:
    """What comparing needs of a tokenizer."""

    num_tokens: int
    """Ids below it are those of text."""
    lengths: npt.NDArray[np.int32]
    spelling: dict[int, bytes]
    """Bytes of every id; of special tokens their names."""
    splitter: _core.Splitter
    opinion: SecondOpinion

    def spelled(self, ids: Ids) -> bytes:
        """Give the bytes that ids stand for."""
        spelling = self.spelling.__getitem__
        return b"".join(b"".join(map(spelling, block.tolist())) for block in blocks(ids))


def blocks(ids: Ids) -> Iterator[Ids]:
    """Give ids in parts, so that what is worked out for each takes little memory."""
    for start in range(0, len(ids), _BLOCK):
        yield ids[start : start + _BLOCK]


@lru_cache(maxsize=2)
def proof_tables(tokenizer: Tokenizer) -> ProofTables:
    """Build the tables, or give those of one of the last two tokenizers."""
    model = tokenizer.model
    special = {number: name.encode() for name, number in model.special_tokens.items()}
    return ProofTables(
        num_tokens=len(model.tokens),
        lengths=model.token_lengths(),
        spelling=dict(enumerate(model.tokens)) | special,
        splitter=_core.Splitter(model.pattern),
        opinion=SecondOpinion.of(tokenizer),
    )
