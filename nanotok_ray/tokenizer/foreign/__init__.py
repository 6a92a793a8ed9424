"""Tokenizers of other projects: byte-level BPE is read as a `Model`, anything else is refused.

The input is bytes or an object, and a name for messages. No file is opened, and a pickle is never
executed.
"""

from nanotok_ray.tokenizer.foreign.huggingface import from_huggingface_file, pattern_of
from nanotok_ray.tokenizer.foreign.pickled import from_pickle, pickled_state
from nanotok_ray.tokenizer.foreign.tiktoken import from_encoding, from_rank_file

__all__ = [
    "from_encoding",
    "from_huggingface_file",
    "from_pickle",
    "from_rank_file",
    "pattern_of",
    "pickled_state",
]


MAX_FILE_BYTES = 64 << 20
"""Larger files are refused; the largest known ones have 35 MB."""
