"""Tokenizers of other projects.

They are read as a `Model` if they are byte-level BPE with ids in the order of the merges, and
otherwise as a `FileModel`. The input is bytes or an object, and a name for messages. No file is
opened, and a pickle is never executed.
"""

from nanotok_ray.tokenizer.foreign.around import BESIDE
from nanotok_ray.tokenizer.foreign.content import (
    Given,
    SpecialTokens,
    TokenizerFile,
    from_object,
    of_description,
    of_encoding,
)
from nanotok_ray.tokenizer.foreign.continued import check_continuable, continued_file
from nanotok_ray.tokenizer.foreign.families import FAMILIES
from nanotok_ray.tokenizer.foreign.huggingface import pattern_of
from nanotok_ray.tokenizer.foreign.pickled import from_pickle, pickled_state
from nanotok_ray.tokenizer.foreign.tiktoken import EncodingState, from_encoding, from_rank_file

__all__ = [
    "BESIDE",
    "FAMILIES",
    "EncodingState",
    "Given",
    "SpecialTokens",
    "TokenizerFile",
    "check_continuable",
    "continued_file",
    "from_encoding",
    "from_object",
    "from_pickle",
    "from_rank_file",
    "of_description",
    "of_encoding",
    "pattern_of",
    "pickled_state",
]


MAX_FILE_BYTES = 64 << 20
"""Larger files are refused; the largest known ones have 35 MB."""
