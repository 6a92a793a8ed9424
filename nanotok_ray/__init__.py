"""nanotok_ray: learn a BPE tokenizer from a whole corpus and write token shards, on Ray.

The names below are loaded when they are first used: importing the package imports nothing else,
so that a reader of shards needs numpy alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanotok_ray.counts.patterns import SPLIT_PATTERN
    from nanotok_ray.counts.span_counts import SpanCounts
    from nanotok_ray.loader import open_shards
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
    "RustBPETokenizer",
    "SpanCounts",
    "Tokenizer",
    "__version__",
    "get_token_bytes",
    "get_tokenizer",
    "learn",
    "open_shards",
    "open_tokenizer",
]

_HOMES = {
    "SPECIAL_TOKENS": "nanotok_ray.recipe.special_tokens",
    "SPLIT_PATTERN": "nanotok_ray.counts.patterns",
    "RustBPETokenizer": "nanotok_ray.tokenizer",
    "SpanCounts": "nanotok_ray.counts.span_counts",
    "Tokenizer": "nanotok_ray.tokenizer",
    "get_token_bytes": "nanotok_ray.tokenizer",
    "get_tokenizer": "nanotok_ray.tokenizer",
    "learn": "nanotok_ray.tokenizer.train",
    "open_shards": "nanotok_ray.loader",
    "open_tokenizer": "nanotok_ray.tokenizer",
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
