"""Opens a tokenizer by its path, URL or name, or by the arguments of a worker."""

import os
import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import CorruptOutputError, TokenizerError, how_to_install
from nanotok_ray.formats import TOKENIZER_FOLDER
from nanotok_ray.recipe import names_hub_model
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.file_model import DEFINING_FILES
from nanotok_ray.tokenizer.folder import (
    READABLE_NAME,
    checked_bytes,
    files_beside,
    has_files,
    read_readable,
)
from nanotok_ray.tokenizer.foreign import (
    BESIDE,
    FAMILIES,
    Given,
    SpecialTokens,
    TokenizerFile,
    from_object,
)
from nanotok_ray.tokenizer.tokenizer import Tokenizer

RANKS = ".tiktoken"
_SUFFIXES = (".txt", ".json", ".pkl", RANKS, ".model")
"""The usual suffixes of files; a file is recognized by its content."""


def open_tokenizer(
    spec: object,
    *,
    pattern: str | None = None,
    special_tokens: SpecialTokens | None = None,
) -> Tokenizer:
    """Open the tokenizer that `spec` names, or convert the object of another library.

    Args:
        spec: one of the following, of which the first that applies is used:

            - an object: a `tokenizers.Tokenizer`, a fast tokenizer of transformers, or a
              `tiktoken.Encoding`;
            - the name of an encoding of tiktoken, such as "cl100k_base" or "gpt2", which tiktoken
              reads from its cache, $TIKTOKEN_CACHE_DIR, or downloads;
            - a file: tokenizer.txt, tokenizer.json, tokenizer.pkl, tekken.json, a SentencePiece
              model, or ranks of tiktoken with their family or pattern, as in
              tokenizer.model:llama3 or ranks.tiktoken:gpt4. The content decides, not the name;
            - a folder with one of these files, or the output of a job, which has such a folder
              named `tokenizer`;
            - the name of a model of the Hugging Face hub with an optional revision, as in
              Qwen/Qwen3-8B or Qwen/Qwen3-8B@main, from the local cache or, online, from the hub.
        pattern: for ranks: a name of `FAMILIES` or of `nanotok_ray.counts.patterns.PATTERNS`, or a
            regular expression.
        special_tokens: for ranks: the id of each special token; names alone receive the ids after
            the last rank. Default: those of the family.

    Raises:
        TokenizerError: The tokenizer does not exist, is damaged, lacks a pattern, has a pattern of
            its own, needs a package that is not installed, or cannot be downloaded; the message
            names the next step.
        PatternError: The pattern is unknown or cannot be compiled here.
    """
    given = Given(pattern=pattern, special_tokens=special_tokens)
    if not isinstance(spec, str | os.PathLike):
        given.check_unused("the object")
        return Tokenizer(from_object(spec))
    if isinstance(spec, str) and is_tiktoken_name(spec):
        given.check_unused(spec)
        return _tiktoken_encoding(spec)
    path, path_pattern = path_and_pattern(os.fspath(spec))
    if path_pattern is not None:
        if pattern is not None:
            given.check_unused(os.fspath(spec))
        given = replace(given, pattern=path_pattern)
    if is_file(path):
        return Tokenizer(_file_at(path).model(given))
    given.check_unused(path)
    if names_hub_model(path):
        folder = _hub_folder(path)
        tokenizer = Tokenizer.load(folder)
        tokenizer.origin = f"{path.partition('@')[0]}@{Path(folder).name}"
        return tokenizer
    written = Folder(path).join(TOKENIZER_FOLDER)
    return Tokenizer.load(written if not has_files(path) and has_files(written) else path)


def is_file(spec: str) -> bool:
    """Return whether `open_tokenizer` reads `spec` as a single file rather than a folder.

    >>> is_file("a/tokenizer.json"), is_file("ranks.tiktoken:gpt4"), is_file("s3://bucket/v1.5")
    (True, True, False)
    """
    path, _ = path_and_pattern(spec)
    return Path(path).is_file() or (path.endswith(_SUFFIXES) and not Path(path).is_dir())


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
    """Return the path and the pattern of FILE.tiktoken:PATTERN or FILE:NAME.

    >>> path_and_pattern("a/ranks.tiktoken:gpt4"), path_and_pattern("a/tokenizer.model:llama3")
    (('a/ranks.tiktoken', 'gpt4'), ('a/tokenizer.model', 'llama3'))
    >>> path_and_pattern("s3://bucket/folder")
    ('s3://bucket/folder', None)
    """
    path, suffix, pattern = spec.partition(f"{RANKS}:")
    if suffix:
        return f"{path}{RANKS}", pattern
    path, _, name = spec.rpartition(":")
    is_named = bool(path) and (name in FAMILIES or name in PATTERNS)
    return (path, name) if is_named else (spec, None)


def _hub_folder(spec: str) -> str:
    """Return the local folder of the tokenizer of a model, OWNER/MODEL or OWNER/MODEL@REVISION.

    The folder is in the cache of huggingface_hub, and its name is the commit of the revision. What
    the cache lacks is downloaded, unless HF_HUB_OFFLINE is set.

    Raises:
        TokenizerError: huggingface_hub is not installed, or cannot get the files.
    """
    model, _, revision = spec.partition("@")
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra
    except ImportError:
        raise TokenizerError(
            f"there is no folder {spec}; a model of the Hugging Face hub needs the package "
            f"huggingface_hub: {how_to_install('hf')}"
        ) from None
    try:
        return str(
            snapshot_download(
                model,
                revision=revision or None,
                allow_patterns=[*DEFINING_FILES, *BESIDE],
            )
        )
    except Exception as error:  # of the network, the hub or the cache
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TokenizerError(
            f"there is no folder {spec}, and the Hugging Face hub does not give the tokenizer of a "
            f"model of this name: {reason:.300}. Download it where there is a network, and copy "
            "the folder, or set HF_HOME to the cache that contains it"
        ) from error


def _file_at(path: str) -> TokenizerFile:
    folder, name = os.path.split(path)
    source = Folder(folder or ".", follow_links=True)
    size = source.size(name)
    if size is None:
        raise TokenizerError(f"there is no file {path}")
    data = checked_bytes(source, name, size=size)
    return TokenizerFile(name=path, data=data, beside=files_beside(source))


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
    return Tokenizer(read_readable(there, checked_bytes(there, READABLE_NAME, size=size)))
