"""The special tokens of nanochat, in the order of their ids."""

from typing import Final

SPECIAL_TOKENS: Final = (
    "<|bos|>",
    "<|user_start|>",
    "<|user_end|>",
    "<|assistant_start|>",
    "<|assistant_end|>",
    "<|python_start|>",
    "<|python_end|>",
    "<|output_start|>",
    "<|output_end|>",
)
"""A document starts with the first; the others are for chats."""
