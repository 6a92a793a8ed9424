"""Opens a tokenizer by its path or URL, or by the arguments of a worker."""

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from nanotok_ray.counts import PATTERNS, resolve_pattern
from nanotok_ray.errors import CorruptOutputError, TokenizerError
from nanotok_ray.formats import TOKENIZER_FOLDER
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.folder import READABLE_NAME, checked_bytes, has_files
from nanotok_ray.tokenizer.foreign import from_huggingface_file, from_pickle, from_rank_file
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.readable import from_readable
from nanotok_ray.tokenizer.tokenizer import Tokenizer

SpecialTokens = Sequence[str] | Mapping[str, int]

RANKS = ".tiktoken"
_READERS = {".txt": from_readable, ".json": from_huggingface_file, ".pkl": from_pickle}


def open_tokenizer(
    spec: str | os.PathLike[str],
    *,
    pattern: str | None = None,
    special_tokens: SpecialTokens | None = None,
) -> Tokenizer:
    """Open the tokenizer that `spec` names.

    Args:
        spec: a folder with tokenizer.txt, tokenizer.json or tokenizer.pkl, of which the first that
            exists is read; or the output of a job, which has such a folder named `tokenizer`; or a
            file that ends in .txt, .json, .pkl or .tiktoken, the latter optionally with its
            pattern, as in ranks.tiktoken:gpt4; or, if no such file or folder exists, the name of
            an encoding of tiktoken, such as "cl100k_base" or "gpt2", which tiktoken reads from its
            cache, $TIKTOKEN_CACHE_DIR, or downloads.
        pattern: for a .tiktoken file: a name of `nanotok_ray.counts.patterns.PATTERNS`, or a
            regular expression.
        special_tokens: for a .tiktoken file: the id of each special token; names alone receive the
            ids after the last rank.

    Raises:
        TokenizerError: The tokenizer does not exist, is damaged, is not byte-level BPE, lacks a
            pattern, has a pattern of its own, or cannot be downloaded; the message names the next
            step.
        PatternError: The pattern is unknown or cannot be compiled here.
    """
    if isinstance(spec, str) and is_tiktoken_name(spec):
        _check_given(spec, pattern=pattern, special_tokens=special_tokens)
        return _tiktoken_encoding(spec)
    path, path_pattern = path_and_pattern(os.fspath(spec))
    if path_pattern is not None:
        _check_given(os.fspath(spec), pattern=pattern)
        pattern = path_pattern
    if path.endswith(RANKS):
        return Tokenizer(_ranks_model(path, pattern, special_tokens))
    _check_given(path, pattern=pattern, special_tokens=special_tokens)
    if is_file(path):
        return Tokenizer(_READERS[Path(path).suffix](_bytes_of(path), name=path))
    if Path(path).is_file():
        raise TokenizerError(
            f"{path} is not a tokenizer file: these end in {', '.join((*_READERS, RANKS))}; pass "
            "one of these, or a folder that contains one"
        )
    written = Folder(path).join(TOKENIZER_FOLDER)
    return Tokenizer.load(written if not has_files(path) and has_files(written) else path)


def is_file(spec: str) -> bool:
    """Return whether `open_tokenizer` reads `spec` as a single file rather than a folder.

    >>> is_file("a/tokenizer.json"), is_file("ranks.tiktoken:gpt4"), is_file("s3://bucket/v1.5")
    (True, True, False)
    """
    path, _ = path_and_pattern(spec)
    if path.endswith(RANKS):
        return True
    return Path(path).suffix in _READERS and not Path(path).is_dir()


def is_tiktoken_name(spec: str) -> bool:
    """Return whether `spec` names an encoding of tiktoken, and no file or folder.

    >>> is_tiktoken_name("cl100k_base"), is_tiktoken_name("a/cl100k_base")
    (True, False)
    """
    if not re.fullmatch(r"\w+", spec) or Path(spec).exists():
        return False
    import tiktoken  # noqa: PLC0415 - 0.1 s, and not every user needs it

    return spec in tiktoken.list_encoding_names()


def _tiktoken_encoding(name: str) -> Tokenizer:
    """Return an encoding of tiktoken.

    Raises:
        TokenizerError: tiktoken neither has the files of the encoding nor can download them, or
            the encoding cannot be converted to a `Tokenizer`.
    """
    import tiktoken  # noqa: PLC0415 - 0.1 s, and not every user needs it

    try:
        encoding = tiktoken.get_encoding(name)
    except Exception as error:  # raised by requests, by the file system or by a plugin
        folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
        raise TokenizerError(
            f"tiktoken does not have the files of {name!r} in its cache "
            f"({folder or 'TIKTOKEN_CACHE_DIR is not set'}) and cannot download them "
            f'({type(error).__name__}). Without a network: run `python -c "import tiktoken; '
            f"tiktoken.get_encoding('{name}')\"` with TIKTOKEN_CACHE_DIR=FOLDER where there is "
            "one, copy FOLDER here, and set TIKTOKEN_CACHE_DIR to it"
        ) from error
    return Tokenizer.from_tiktoken(encoding)


def path_and_pattern(spec: str) -> tuple[str, str | None]:
    """Return the path and the pattern of FILE.tiktoken:PATTERN.

    >>> path_and_pattern("a/ranks.tiktoken:gpt4"), path_and_pattern("s3://bucket/folder")
    (('a/ranks.tiktoken', 'gpt4'), ('s3://bucket/folder', None))
    """
    path, suffix, pattern = spec.partition(f"{RANKS}:")
    return (f"{path}{RANKS}", pattern) if suffix else (spec, None)


def _ranks_model(path: str, pattern: str | None, special_tokens: SpecialTokens | None) -> Model:
    if pattern is None:
        raise TokenizerError(
            f"{path} contains ranks and no pattern, which is needed to split texts: add its "
            f"pattern, such as {path}:gpt4 ({', '.join(PATTERNS)}, or a regular expression); it "
            "has no special tokens either"
        )
    pattern = resolve_pattern(pattern)
    return from_rank_file(
        _bytes_of(path), pattern=pattern, special_tokens=special_tokens or (), name=path
    )


def _check_given(path: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise TokenizerError(
                f"{name} is given, but {path} says its own: only a {RANKS} file lacks it; add "
                "special tokens with Tokenizer.extended"
            )


def _bytes_of(path: str) -> bytes:
    folder, name = os.path.split(path)
    source = Folder(folder or ".", follow_links=True)
    size = source.size(name)
    if size is None:
        raise TokenizerError(f"there is no file {path}")
    return checked_bytes(source, name, size=size)


@lru_cache(maxsize=2)
def expected_tokenizer(url: str, sha256: str) -> Tokenizer:
    """Load the tokenizer of a folder and check that it has this sha256.

    Raises:
        CorruptOutputError: The folder holds another tokenizer.
    """
    tokenizer = written_tokenizer(url)
    if tokenizer.sha256 != sha256:
        raise CorruptOutputError(
            f"{url} holds tokenizer {tokenizer.sha256[:16]}, {sha256[:16]} was expected; does "
            "every node see the same folder?"
        )
    return tokenizer


def written_tokenizer(folder: str) -> Tokenizer:
    """Load a tokenizer that a job wrote, without comparing its other files.

    Raises:
        CorruptOutputError: The readable file is missing.
        TokenizerError: As for `Tokenizer.load`.
    """
    there = Folder(folder)
    size = there.size(READABLE_NAME)
    if size is None:
        raise CorruptOutputError(
            f"{there.join(READABLE_NAME)} is missing: the output is incomplete; run its job again, "
            "which writes the missing files"
        )
    data = checked_bytes(there, READABLE_NAME, size=size)
    return Tokenizer(from_readable(data, name=there.join(READABLE_NAME)))
