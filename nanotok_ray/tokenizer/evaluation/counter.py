"""Counts the tokens of texts, with a tokenizer of this package or one published on PyPI."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.counts import PATTERNS, default_threads
from nanotok_ray.documents import Documents
from nanotok_ray.errors import TokenizerError, VerificationError
from nanotok_ray.tokenizer.evaluation.vocabulary import Vocabulary
from nanotok_ray.tokenizer.foreign import MAX_FILE_BYTES, from_rank_file
from nanotok_ray.tokenizer.rendering import Ids
from nanotok_ray.tokenizer.tokenizer import Tokenizer


class TokenizerCounter:
    """A tokenizer of a comparison.

    >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
    >>> counter = TokenizerCounter("mine", tokenizer)
    >>> tokens, _ = counter.count(Documents.from_strings(["hello", "", "no"]))
    >>> tokens.tolist()
    [3, 0, 2]
    """

    def __init__(self, name: str, tokenizer: Tokenizer) -> None:
        self.name = name
        """The name of the tokenizer in the comparison."""
        self.tokenizer = tokenizer
        self._threads = default_threads()

    @property
    def num_ids(self) -> int:
        """The highest id + 1, special tokens included."""
        return self.tokenizer.get_vocab_size()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the tokenizer."""
        return Vocabulary.of(self.tokenizer)

    def count(self, texts: Documents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each text the number of tokens, and of those of several words.

        Raises:
            SplitError: The regex engine gave up on a text.
            VerificationError: A text differs from its decoded ids.
        """
        ids, offsets = self.encode(texts)
        if not self.vocabulary.num_superwords:
            return np.diff(offsets), np.zeros(len(texts), dtype=np.int64)
        sums = np.cumsum(self.vocabulary.superwords[ids], dtype=np.int64)
        return np.diff(offsets), np.diff(np.concatenate([[0], sums])[offsets])

    def encode(self, texts: Documents) -> tuple[Ids, NDArray[np.int64]]:
        """Return all ids back to back, and n + 1 offsets, after comparing the decoded ids.

        Raises:
            SplitError: The regex engine gave up on a text.
            VerificationError: A text differs from its decoded ids.
        """
        ids, offsets = self.tokenizer.encode_documents(texts, num_threads=self._threads)
        decoded = Documents.from_arrow(self.tokenizer.decode_batch(ids, offsets, as_bytes=True))
        if not _are_same(texts, decoded):
            pairs = enumerate(zip(texts, decoded, strict=True))
            number = next(index for index, (text, back) in pairs if text != back)
            raise _lost(self.name, texts[number])
        return ids, offsets


def _lost(name: str, text: bytes) -> VerificationError:
    start = repr(text[:40].decode(errors="replace"))
    return VerificationError(
        f"{name} decodes a text of {len(text):,} bytes, {start} ..., to something else: it loses "
        "text, so its numbers of tokens are meaningless; omit it"
    )


def _are_same(left: Documents, right: Documents) -> bool:
    first, last = left.offsets[0], left.offsets[-1]
    data, other = left.data[first:last], right.data[right.offsets[0] : right.offsets[-1]]
    return np.array_equal(data, other) and np.array_equal(
        left.offsets - first, right.offsets - right.offsets[0]
    )


PACKAGE: Final = "bpe-openai"

_MODULE = "bpe_openai"


@dataclass(frozen=True, slots=True)
class _Published:
    file_name: str
    pattern: str
    special_tokens: Mapping[str, int]


PUBLISHED: Final[Mapping[str, _Published]] = {
    "cl100k": _Published(
        "cl100k_base.tiktoken.gz",
        PATTERNS["cl100k"],
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "o200k": _Published(
        "o200k_base.tiktoken.gz",
        PATTERNS["o200k"],
        {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    ),
}
"""By the name that selects them in place of a path."""


def published_tokenizer(kind: str) -> Tokenizer:
    """Return a tokenizer of `PUBLISHED`; its ids are tiktoken's.

    Raises:
        TokenizerError: The package with its ranks is not installed, or lacks the file.
    """
    published = PUBLISHED[kind]
    path = _data_folder(kind) / published.file_name
    try:
        with gzip.open(path) as file:
            data = file.read(MAX_FILE_BYTES)
        model = from_rank_file(
            data, pattern=published.pattern, special_tokens=published.special_tokens, name=kind
        )
    except (OSError, EOFError, TokenizerError) as error:
        raise TokenizerError(
            f"{path} does not hold the ranks of {kind}: {error}; reinstall it: pip install "
            f"--force-reinstall {PACKAGE}"
        ) from error
    return Tokenizer(model)


def _data_folder(kind: str) -> Path:
    spec = find_spec(_MODULE)
    if spec is None or spec.submodule_search_locations is None:
        raise TokenizerError(
            f"{kind} is not here: pip install {PACKAGE}, the package that has its ranks, or name "
            "the folder or file of another tokenizer"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "data"
