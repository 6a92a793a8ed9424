"""Tokenizers of others: what byte-level BPE they hold becomes our model, anything else is refused.

encoding: tiktoken's object. rank_file: `.tiktoken`. pickled: nanochat's tokenizer.pkl, of which
nothing is executed. huggingface: tokenizer.json. ranks: what they share, the merges found from the
bytes of tokens. All take bytes or an object and the name for messages; none opens a file.
"""

from nanotok_ray.tokenizer.foreign.encoding import from_encoding
from nanotok_ray.tokenizer.foreign.huggingface import from_huggingface_file
from nanotok_ray.tokenizer.foreign.pickled import from_pickle, pickled_state
from nanotok_ray.tokenizer.foreign.rank_file import from_rank_file

MAX_FILE_BYTES = 64 << 20
"""A file of more is refused unread; the largest known have 35 MB."""

__all__ = [
    "MAX_FILE_BYTES",
    "from_encoding",
    "from_huggingface_file",
    "from_pickle",
    "from_rank_file",
    "pickled_state",
]
