"""The tokenizer: pattern, merges and special tokens; encodes, decodes, renders; a folder on disk.

model: the value. rendering: conversations and documents with images. readable: its own file, which
names it. nanochat_files, tiktoken_file, huggingface_file: the files of others. foreign: reads them.
training: from texts. folder: all files together. agreement: whether they say the same. opened: any
of them, by its path. expected: as a worker loads it. span_table: ids of frequent spans, worked out
once for all who load it. frequent_spans: which those are.
"""

from nanotok_ray.patterns import SPLIT_PATTERN
from nanotok_ray.special_tokens import SPECIAL_TOKENS
from nanotok_ray.tokenizer.default import get_token_bytes, get_tokenizer
from nanotok_ray.tokenizer.expected import expected_tokenizer, written_tokenizer
from nanotok_ray.tokenizer.folder import (
    FILE_NAMES,
    READABLE_NAME,
    differing_files,
    save_for_nanochat,
)
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.opened import open_tokenizer
from nanotok_ray.tokenizer.span_table import (
    SPAN_TABLE_NAME,
    copy_span_table,
    open_span_table,
    write_span_table,
)
from nanotok_ray.tokenizer.tokenizer import RustBPETokenizer, Tokenizer
from nanotok_ray.tokenizer.training import make_model

__all__ = [
    "FILE_NAMES",
    "READABLE_NAME",
    "SPAN_TABLE_NAME",
    "SPECIAL_TOKENS",
    "SPLIT_PATTERN",
    "Model",
    "RustBPETokenizer",
    "Tokenizer",
    "copy_span_table",
    "differing_files",
    "expected_tokenizer",
    "get_token_bytes",
    "get_tokenizer",
    "make_model",
    "open_span_table",
    "open_tokenizer",
    "save_for_nanochat",
    "write_span_table",
    "written_tokenizer",
]
