"""Slices to shards: ids, document index, masks and images, each shard checked and recorded.

Input is a slice of the plan and a tokenizer. Output is files and one record; the records together
make shards.idx and the manifest. The package schedules nothing.
"""

from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.tokenize import quarantine_name, skip_slice, tokenize_slice, tokenize_slices

__all__ = ["ShardSettings", "quarantine_name", "skip_slice", "tokenize_slice", "tokenize_slices"]
