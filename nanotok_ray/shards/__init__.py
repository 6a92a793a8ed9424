"""Shards: a slice and a tokenizer to files of token ids with their document index and masks.

`tokenize_slices` is the second fan-out's pure function. Knows neither Ray nor the manifest.
"""

from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.tokenize import (
    quarantine_name,
    skip_slice,
    tokenize_slice,
    tokenize_slices,
)

__all__ = ["ShardSettings", "quarantine_name", "skip_slice", "tokenize_slice", "tokenize_slices"]
