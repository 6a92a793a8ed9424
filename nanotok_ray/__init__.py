"""nanotok_ray: learn a BPE tokenizer from a whole corpus and write token shards, on Ray.

The names below are loaded when they are first used: importing the package imports nothing else,
so that a reader of shards needs numpy alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanotok_ray.api import export, plan, prepare, tokenize, train, verify
    from nanotok_ray.cli.progress import Progress
    from nanotok_ray.counts.patterns import SPLIT_PATTERN
    from nanotok_ray.counts.span_counts import SpanCounts
    from nanotok_ray.job.decide import JobPlan
    from nanotok_ray.job.summary import Summary
    from nanotok_ray.loader import Loader, open_shards
    from nanotok_ray.recipe import Recipe, load_recipe
    from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
    from nanotok_ray.tokenizer import (
        RustBPETokenizer,
        Tokenizer,
        get_token_bytes,
        get_tokenizer,
        open_tokenizer,
    )
    from nanotok_ray.tokenizer.train import learn

__version__ = "0.1.0"

__all__ = [
    "SPECIAL_TOKENS",
    "SPLIT_PATTERN",
    "JobPlan",
    "Loader",
    "Progress",
    "Recipe",
    "RustBPETokenizer",
    "SpanCounts",
    "Summary",
    "Tokenizer",
    "__version__",
    "export",
    "get_token_bytes",
    "get_tokenizer",
    "learn",
    "load_recipe",
    "open_shards",
    "open_tokenizer",
    "plan",
    "prepare",
    "tokenize",
    "train",
    "verify",
]

_HOMES = {
    "JobPlan": "nanotok_ray.job.decide",
    "Loader": "nanotok_ray.loader",
    "Progress": "nanotok_ray.cli.progress",
    "Recipe": "nanotok_ray.recipe",
    "RustBPETokenizer": "nanotok_ray.tokenizer",
    "SPECIAL_TOKENS": "nanotok_ray.recipe.special_tokens",
    "SPLIT_PATTERN": "nanotok_ray.counts.patterns",
    "SpanCounts": "nanotok_ray.counts.span_counts",
    "Summary": "nanotok_ray.job.summary",
    "Tokenizer": "nanotok_ray.tokenizer",
    "export": "nanotok_ray.api",
    "get_token_bytes": "nanotok_ray.tokenizer",
    "get_tokenizer": "nanotok_ray.tokenizer",
    "learn": "nanotok_ray.tokenizer.train",
    "load_recipe": "nanotok_ray.recipe",
    "open_shards": "nanotok_ray.loader",
    "open_tokenizer": "nanotok_ray.tokenizer",
    "plan": "nanotok_ray.api",
    "prepare": "nanotok_ray.api",
    "tokenize": "nanotok_ray.api",
    "train": "nanotok_ray.api",
    "verify": "nanotok_ray.api",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - what a module attribute is, its home says
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'nanotok_ray' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - importing the package stays free

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
