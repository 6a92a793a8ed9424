"""Reads tokenizer objects of other libraries."""

import base64
from typing import Any

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.foreign.content import Given, TokenizerFile
from nanotok_ray.tokenizer.foreign.tiktoken import from_encoding
from nanotok_ray.tokenizer.model import Model


def from_object(value: Any) -> Model | FileModel:  # noqa: ANN401 - an object of another library
    """Return the tokenizer of an object of tokenizers, transformers or tiktoken.

    Raises:
        TokenizerError: The object is none of these, or cannot be converted.
    """
    backend = getattr(value, "backend_tokenizer", value)  # a fast tokenizer of transformers
    if hasattr(backend, "to_str") and hasattr(backend, "encode_batch"):
        name = f"the object of {type(value).__name__}"
        return TokenizerFile(name=name, data=backend.to_str().encode()).model()
    if hasattr(value, "_mergeable_ranks"):
        return of_encoding(value)
    raise TokenizerError(
        f"a {type(value).__name__} is no tokenizer that can be converted: pass a path or a name, a "
        "tokenizers.Tokenizer, a fast tokenizer of transformers, or a tiktoken.Encoding"
    )


def of_encoding(encoding: Any) -> Model | FileModel:  # noqa: ANN401 - an object of tiktoken
    """Return the tokenizer of a `tiktoken.Encoding`.

    Raises:
        TokenizerError: The object is not an encoding of tiktoken, or cannot be converted.
    """
    try:
        return from_encoding(encoding)
    except TokenizerError:
        if not hasattr(encoding, "_mergeable_ranks"):
            raise
        ranks = sorted(encoding._mergeable_ranks.items(), key=lambda item: item[1])  # noqa: SLF001 - as there
        lines = [b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks]
        given = Given(pattern=encoding._pat_str, special_tokens=encoding._special_tokens)  # noqa: SLF001
        return TokenizerFile(name=f"the encoding {encoding.name}", data=b"".join(lines)).model(
            given
        )
