"""The state of a tiktoken encoding: pattern, ranks and special tokens, of types not yet checked."""

from collections.abc import Mapping
from typing import TypeVar

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign.ranks import model_of_ranks
from nanotok_ray.tokenizer.model import Model


def model_of_state(state: Mapping[str, object], *, name: str) -> Model:
    """Give the model of `pat_str`, `mergeable_ranks` and `special_tokens`.

    Raises:
        TokenizerError: One is missing or of another type; or as `model_of_ranks`.
    """
    pattern = state.get("pat_str")
    if not isinstance(pattern, str):
        raise TokenizerError(f"{name}: pat_str is no str but a {type(pattern).__name__}")
    return model_of_ranks(
        _numbers(state, "mergeable_ranks", bytes, name=name),
        pattern=pattern,
        special_tokens=_numbers(state, "special_tokens", str, name=name),
        name=name,
    )


_Key = TypeVar("_Key", str, bytes)


def _numbers(
    state: Mapping[str, object], key: str, kind: type[_Key], *, name: str
) -> dict[_Key, int]:
    value = state.get(key)
    if not isinstance(value, dict):
        raise TokenizerError(f"{name}: {key} is no dict but a {type(value).__name__}")
    for own, number in value.items():
        if type(own) is not kind or type(number) is not int:
            raise TokenizerError(
                f"{name}: {key} must give ids by {kind.__name__}, but holds "
                f"{type(own).__name__}: {type(number).__name__}"
            )
    return value
