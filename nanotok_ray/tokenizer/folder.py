"""A tokenizer's folder: the readable file, nanochat's two, `.tiktoken` and tokenizer.json.

Each file is written whole or not at all, the readable one last: it alone is read back, so a folder
that has it is complete. The folder may be a path or a URL.
"""

import os
from pathlib import Path

from nanotok_ray.errors import TokenizerError
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.huggingface_config import to_huggingface_config
from nanotok_ray.tokenizer.huggingface_file import to_huggingface_file
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.nanochat_files import to_pickle, to_token_bytes
from nanotok_ray.tokenizer.readable import (
    MAX_READABLE_BYTES,
    from_readable,
    sha256_of,
    to_readable,
)
from nanotok_ray.tokenizer.span_table import remove_foreign_span_table
from nanotok_ray.tokenizer.tiktoken_file import to_tiktoken_file

READABLE_NAME = "tokenizer.txt"
_PICKLE = "tokenizer.pkl"

_WRITERS = {
    _PICKLE: to_pickle,
    "token_bytes.pt": to_token_bytes,
    "tokenizer.tiktoken": to_tiktoken_file,
    "tokenizer.json": to_huggingface_file,
    "tokenizer_config.json": to_huggingface_config,
    READABLE_NAME: to_readable,
}

FILE_NAMES = tuple(_WRITERS)
"""Every file of the folder, in the order in which they are written."""


def save_model(model: Model, folder: str | os.PathLike[str]) -> None:
    """Write all files; nothing is written if one of them cannot hold the tokenizer.

    A span table of another tokenizer is removed first, one of this very tokenizer stays.

    Raises:
        TokenizerError: Two ids stand for the same bytes, or special tokens leave ids unused.
    """
    _check_dense(model)
    contents = {name: write(model) for name, write in _WRITERS.items()}
    target = Folder(os.fspath(folder))
    remove_foreign_span_table(target, sha256=sha256_of(model))
    for name, data in contents.items():
        target.write_whole(name, data)


def differing_files(model: Model, folder: str | os.PathLike[str]) -> list[str]:
    """Give the names of the files that are missing or are not what `save_model` writes.

    Of no file is more read than it should have.

    Raises:
        TokenizerError: `save_model` cannot write this model.
    """
    _check_dense(model)
    target = Folder(os.fspath(folder))
    return [name for name, write in _WRITERS.items() if not _holds(target, name, write(model))]


def _holds(folder: Folder, name: str, data: bytes) -> bool:
    try:
        return folder.read_start(name, len(data) + 1) == data
    except FileNotFoundError:
        return False


def _check_dense(model: Model) -> None:
    """Refuse ids that nothing stands for: some files have an entry for each, up to the highest.

    Raises:
        TokenizerError: special tokens leave ids unused.
    """
    expected = len(model.tokens) + len(model.special_tokens)
    if model.num_ids != expected:
        raise TokenizerError(
            f"special tokens leave ids between {len(model.tokens)} and {model.num_ids - 1} unused: "
            "tokenizer.json numbers them without gaps"
        )


def load_model(folder: str | os.PathLike[str]) -> Model:
    """Read the readable file.

    Raises:
        TokenizerError: There is none, or it is damaged; the message says what to do.
    """
    source = Folder(os.fspath(folder))
    size = source.size(READABLE_NAME)
    if size is not None:
        name = source.join(READABLE_NAME)
        if size > MAX_READABLE_BYTES:
            raise TokenizerError(
                f"{name} has {size:,} bytes, more than {MAX_READABLE_BYTES:,} are refused"
            )
        return from_readable(source.read_bytes(READABLE_NAME), name=name)
    if source.exists(_PICKLE):
        raise TokenizerError(
            f"{folder} holds {_PICKLE} but no {READABLE_NAME}: nanotok_ray did not save it, and a "
            "pickle can run code, so it is not read; learn the tokenizer again with nanotok_ray"
        )
    raise TokenizerError(
        f"no tokenizer in {folder} ({READABLE_NAME} is missing): learn one and save it there, or "
        "set NANOCHAT_BASE_DIR to the folder above the one that holds it"
    )


def default_folder() -> str:
    """Give the folder that nanochat uses: $NANOCHAT_BASE_DIR/tokenizer."""
    base = os.environ.get("NANOCHAT_BASE_DIR") or str(Path.home() / ".cache" / "nanochat")
    return f"{base.rstrip('/')}/tokenizer"
