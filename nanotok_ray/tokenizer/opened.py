"""Opening a tokenizer by its path or URL, or by a worker's arguments."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from nanotok_ray.counts.patterns import PATTERNS, resolve_pattern
from nanotok_ray.errors import CorruptOutputError, TokenizerError
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.folder import READABLE_NAME, checked_bytes, load_model
from nanotok_ray.tokenizer.foreign import from_huggingface_file, from_pickle, from_rank_file
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.readable import from_readable
from nanotok_ray.tokenizer.tokenizer import Tokenizer

SpecialTokens = Sequence[str] | Mapping[str, int]

RANKS = ".tiktoken"
_WHOLE = {".txt": from_readable, ".json": from_huggingface_file, ".pkl": from_pickle}


def open_tokenizer(
    spec: str | os.PathLike[str],
    *,
    pattern: str | None = None,
    special_tokens: SpecialTokens | None = None,
) -> Tokenizer:
    """Open the tokenizer that `spec` names.

    Args:
        spec: a folder with tokenizer.txt, tokenizer.json or tokenizer.pkl, of which the first that
            is there is read; or a file that ends in .txt, .json, .pkl or .tiktoken, the latter also
            with its pattern, as ranks.tiktoken:gpt4.
        pattern: of a .tiktoken file: a name of `nanotok_ray.counts.patterns.PATTERNS`, or an
            expression.
        special_tokens: of a .tiktoken file: their ids; names alone get the ids after the last rank.

    Raises:
        TokenizerError: There is none, or it is damaged, or not byte-level BPE, or lacks a pattern,
            or has its own; the message says what to do.
        PatternError: The pattern is unknown or cannot be compiled here.
    """
    path, path_pattern = path_and_pattern(os.fspath(spec))
    if path_pattern is not None:
        _check_given(os.fspath(spec), pattern=pattern)
        pattern = path_pattern
    if path.endswith(RANKS):
        return Tokenizer(_ranks_model(path, pattern, special_tokens))
    _check_given(path, pattern=pattern, special_tokens=special_tokens)
    if is_file(path):
        return Tokenizer(_WHOLE[Path(path).suffix](_bytes_of(path), name=path))
    if Path(path).is_file():
        raise TokenizerError(
            f"{path} is no file that a tokenizer is read from: they end in "
            f"{', '.join((*_WHOLE, RANKS))}; name one of these, or a folder that has one"
        )
    return Tokenizer.load(path)


def is_file(spec: str) -> bool:
    """Return whether `open_tokenizer` reads a file by itself, and not a folder.

    >>> is_file("a/tokenizer.json"), is_file("ranks.tiktoken:gpt4"), is_file("s3://bucket/v1.5")
    (True, True, False)
    """
    path, _ = path_and_pattern(spec)
    if path.endswith(RANKS):
        return True
    return Path(path).suffix in _WHOLE and not Path(path).is_dir()


def path_and_pattern(spec: str) -> tuple[str, str | None]:
    """Take FILE.tiktoken:PATTERN apart.

    >>> path_and_pattern("a/ranks.tiktoken:gpt4"), path_and_pattern("s3://bucket/folder")
    (('a/ranks.tiktoken', 'gpt4'), ('s3://bucket/folder', None))
    """
    path, found, pattern = spec.partition(f"{RANKS}:")
    return (f"{path}{RANKS}", pattern) if found else (spec, None)


def _ranks_model(path: str, pattern: str | None, special_tokens: SpecialTokens | None) -> Model:
    if pattern is None:
        raise TokenizerError(
            f"{path} holds ranks and no pattern, without which texts cannot be cut: name it with "
            f"its pattern, as {path}:gpt4 ({', '.join(PATTERNS)}, or a regular expression); it has "
            "no special tokens either"
        )
    pattern = resolve_pattern(pattern)
    return from_rank_file(
        _bytes_of(path), pattern=pattern, special_tokens=special_tokens or (), name=path
    )


def _check_given(path: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise TokenizerError(
                f"{name} is given, but {path} says its own: only a {RANKS} file lacks it; more "
                "special tokens come with Tokenizer.extended"
            )


def _bytes_of(path: str) -> bytes:
    folder, name = os.path.split(path)
    source = Folder(folder or ".")
    size = source.size(name)
    if size is None:
        raise TokenizerError(f"there is no file {path}")
    return checked_bytes(source, name, size=size)


@lru_cache(maxsize=2)
def expected_tokenizer(url: str, sha256: str) -> Tokenizer:
    """Load the tokenizer of a folder, which has this sha256.

    Raises:
        CorruptOutputError: the folder holds another one.
    """
    tokenizer = written_tokenizer(url)
    if tokenizer.sha256 != sha256:
        raise CorruptOutputError(
            f"{url} holds tokenizer {tokenizer.sha256[:16]}, {sha256[:16]} was expected; does "
            "every node see the same folder?"
        )
    return tokenizer


def written_tokenizer(folder: str) -> Tokenizer:
    """Load what a job wrote; its other files are not compared with the one that is read.

    Raises:
        CorruptOutputError: its readable file is missing.
        TokenizerError: as `Tokenizer.load`.
    """
    there = Folder(folder)
    if not there.exists(READABLE_NAME):
        raise CorruptOutputError(
            f"{there.join(READABLE_NAME)} is missing: the output is not whole; run its job again, "
            "which writes what is missing"
        )
    return Tokenizer(load_model(folder))
