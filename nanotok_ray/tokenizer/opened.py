"""A tokenizer from wherever it lies.

Takes a folder; gives the tokenizer.
"""

import os
from collections.abc import Mapping, Sequence

from nanotok_ray.tokenizer.tokenizer import Tokenizer


def open_tokenizer(
    spec: str | os.PathLike[str],
    *,
    pattern: str | None = None,  # noqa: ARG001
    special_tokens: Sequence[str] | Mapping[str, int] | None = None,  # noqa: ARG001
    span_table: bool = True,
) -> Tokenizer:
    """Open a folder.

    Raises:
        TokenizerError: There is none.
    """
    return Tokenizer.load(spec, span_table=span_table)
