"""The tokenizer: encodes, decodes, renders; learned from counts; read and written as files.

Input is counts of spans, or a tokenizer's files in the formats of this project, nanochat, tiktoken
or Hugging Face. Output is a `Tokenizer`, ids, and the same files.
"""

from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.tokenizer.folder import (
    FILE_NAMES,
    READABLE_NAME,
    default_folder,
    differing_files,
    save_for_nanochat,
)
from nanotok_ray.tokenizer.model import Model, make_model
from nanotok_ray.tokenizer.opened import expected_tokenizer, open_tokenizer, written_tokenizer
from nanotok_ray.tokenizer.rustbpe import RustBPETokenizer, get_token_bytes, get_tokenizer
from nanotok_ray.tokenizer.tokenizer import Tokenizer

__all__ = [
    "FILE_NAMES",
    "READABLE_NAME",
    "SPECIAL_TOKENS",
    "Model",
    "RustBPETokenizer",
    "Tokenizer",
    "default_folder",
    "differing_files",
    "expected_tokenizer",
    "get_token_bytes",
    "get_tokenizer",
    "make_model",
    "open_tokenizer",
    "save_for_nanochat",
    "written_tokenizer",
]
