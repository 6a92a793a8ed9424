"""nanotok_ray: learn a BPE tokenizer from a whole corpus and write token shards, on Ray.

The names below are loaded when they are first used. Importing the package imports nothing else,
so that reading shards requires only numpy.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanotok_ray.api import export, plan, prepare, tokenize, train, verify
    from nanotok_ray.cli.progress import Progress
    from nanotok_ray.counts.patterns import SPLIT_PATTERN
    from nanotok_ray.counts.span_counts import SpanCounts
    from nanotok_ray.job.job_plan import JobPlan
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
"""That of rust/Cargo.toml, stated again: the core and these modules can be of two versions, which
`nanotok doctor` reports. A test compares all places.
"""

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


def lazy_attributes(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package` that imports each name from its module at its first use.

    Args:
        package: The full name of the package.
        modules: For each module below `package`, the names that it defines, separated by spaces.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def attribute(name: str) -> Any:  # noqa: ANN401 - the module decides what an attribute is
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{homes[name]}")
        return sys.modules[package].__dict__.setdefault(name, getattr(module, name))

    return attribute


def _with_core(attribute: Callable[[str], Any]) -> Callable[[str], Any]:
    """Wrap `attribute` so that its error explains what to do if the compiled core is missing."""

    def checked(name: str) -> Any:  # noqa: ANN401 - as above
        if name == "_core" and importlib.util.find_spec(f"{__name__}._core") is None:
            raise ImportError(
                f"{__path__[0]} has no compiled core: it is a checkout that is not built. Run "
                "`make setup` in the checkout, or, if nanotok_ray is installed elsewhere, run "
                "Python in another folder"
            )
        return attribute(name)

    return checked


if not TYPE_CHECKING:
    __getattr__ = _with_core(
        lazy_attributes(
            __name__,
            {
                "api": "export plan prepare tokenize train verify",
                "cli.progress": "Progress",
                "counts.patterns": "SPLIT_PATTERN",
                "counts.span_counts": "SpanCounts",
                "job.job_plan": "JobPlan",
                "job.summary": "Summary",
                "loader": "Loader open_shards",
                "recipe": "Recipe load_recipe",
                "recipe.special_tokens": "SPECIAL_TOKENS",
                "tokenizer": (
                    "RustBPETokenizer Tokenizer get_token_bytes get_tokenizer open_tokenizer"
                ),
                "tokenizer.train": "learn",
            },
        )
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
