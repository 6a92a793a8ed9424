"""Tokenizers of other projects: byte-level BPE is read as a `Model`, anything else is refused.

Input is bytes or an object, and the name for messages. No file is opened, and nothing of a pickle
is executed.
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
"""A file of more is refused unread; the largest known have 35 MB."""
