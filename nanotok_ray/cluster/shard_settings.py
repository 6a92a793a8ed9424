"""What the shards of a source depend on: from its recipe, the limits, and the tokenizer there is.

Checks that the tokenizer has the special tokens that documents of its kind are rendered with, or
will have them, before it is learned.
"""

import json
from collections.abc import Collection

from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe import Recipe, SourceRecipe
from nanotok_ray.recipe.special_tokens import (
    GROUNDING,
    IMAGE_TOKENS,
    SPECIAL_TOKENS,
    image_token_of,
)
from nanotok_ray.shards import ShardSettings
from nanotok_ray.tokenizer import Tokenizer


def check_special_tokens(recipe: Recipe) -> None:
    """See that a tokenizer that is still to be learned will have what the sources need.

    Raises:
        RecipeError: it will lack a special token.
    """
    if recipe.tokenizer.path is None:
        known = recipe.tokenizer.all_special_tokens
        for source in recipe.sources:
            _check_source(source, known)


def shard_settings(recipe: Recipe, source: SourceRecipe, tokenizer: Tokenizer) -> ShardSettings:
    """Give the settings of a source.

    Raises:
        RecipeError: the tokenizer lacks a special token that its documents need.
    """
    is_composed, is_vision = source.kind != "text", source.kind == "vision"
    limits, known = recipe.limits, tokenizer.special_tokens
    _check_source(source, known)
    return ShardSettings(
        tokenizer_sha256=tokenizer.sha256,
        gaps=recipe.tokenizer.gaps,
        prepend=source.prepend,
        append=source.append,
        max_document_bytes=limits.max_document_bytes,
        max_shard_tokens=limits.shard_tokens(tokenizer.model.id_bytes),
        max_tokens=limits.max_tokens if is_composed else None,
        too_long=limits.too_long if is_composed else "keep",
        untrainable=limits.untrainable if is_composed else "keep",
        image_token=_image_token(source, known) if is_vision else None,
        image_tokens=source.image_tokens,
        grounding=_grounding(source, known),
        train_prompt=source.train_prompt,
    )


def _check_source(source: SourceRecipe, known: Collection[str]) -> None:
    if source.kind == "text":
        _check_around(source, known)
        return
    is_vision = source.kind == "vision"
    has_turns = not is_vision or source.dialect == "messages"
    _check(SPECIAL_TOKENS if has_turns else ("<|bos|>", "<|assistant_end|>"), source, known)
    if is_vision:
        _image_token(source, known)
        _grounding(source, known)


def _check_around(source: SourceRecipe, known: Collection[str]) -> None:
    for key, names in (("prepend", source.prepend), ("append", source.append)):
        for name in names:
            if name not in known:
                raise RecipeError(
                    f"source.{source.name}.{key} has {name!r}, which is not among the special "
                    f"tokens of the tokenizer, {list(known)}; set {key} to one of these or to [], "
                    f"or tokenizer.extend = [{json.dumps(name)}]"
                )


def _check(names: tuple[str, ...], source: SourceRecipe, known: Collection[str]) -> None:
    missing = [name for name in names if name not in known]
    if missing:
        raise RecipeError(
            f"source {source.name!r} is of kind {source.kind}, which is rendered with "
            f"{missing[0]}, and the tokenizer has no such special token; add it to "
            "tokenizer.special_tokens or tokenizer.extend"
        )


def _image_token(source: SourceRecipe, known: Collection[str]) -> str:
    if source.image_token is not None:
        _check((source.image_token,), source, known)
        return source.image_token
    found = image_token_of(known)
    if found is None:
        raise RecipeError(
            f"source {source.name!r} has images, and the tokenizer has none of the special tokens "
            f'{", ".join(IMAGE_TOKENS)}; set tokenizer.extend = ["preset:seed"], or name another '
            f"as source.{source.name}.image_token"
        )
    return found


def _grounding(source: SourceRecipe, known: Collection[str]) -> tuple[str, ...]:
    if source.kind != "vision" or not source.grounding:
        return ()
    _check(GROUNDING, source, known)
    return GROUNDING
