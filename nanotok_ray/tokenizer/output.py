"""Where a tokenizer is written: a folder of all its files, or one of them by itself.

The name of the path or URL decides which of them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from nanotok_ray.errors import TokenizerError
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.folder import (
    FILE_NAMES,
    differing_files,
    has_files,
    load_model,
    save_model,
    why_left_out,
)
from nanotok_ray.tokenizer.huggingface import to_former_huggingface_file, to_huggingface_file
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.readable import to_readable, to_tiktoken_file


def _huggingface_file(model: Model) -> bytes:
    why = why_left_out(model)
    if why is not None:
        raise TokenizerError(
            f"tokenizer.json cannot represent the ids of this tokenizer: {why}; write a folder, or "
            "a .txt"
        )
    return to_huggingface_file(model)


_WRITERS: Final[dict[str, Callable[[Model], bytes]]] = {
    ".tiktoken": to_tiktoken_file,
    ".json": _huggingface_file,
    ".txt": to_readable,
}
_FORMER_WRITERS: Final = {".json": to_former_huggingface_file}
_NAMES_OF_FILES = (*_WRITERS, ".pkl")
"""What the name of a folder hardly ends in."""
_BESIDE_HUGGING_FACE: Final = (
    *("added_tokens.json", "chat_template.jinja", "merges.txt", "special_tokens_map.json"),
    "vocab.json",
)
_ONLY_IN_FOLDERS = (".pkl", ".pt", ".bin", ".model", ".toml", ".parquet", ".jsonl")

OR_FORCE: Final = "name another --output, or overwrite it with --force"

WITHOUT_SPECIAL_TOKENS: Final = ".tiktoken"
"""The suffix of the file that has no place for them."""


def file_suffix(output: str) -> str | None:
    """Return the suffix of an output that is one file; None: it is a folder.

    >>> file_suffix("a/b.tiktoken"), file_suffix("s3://bucket/tokenizer-v1.5")
    ('.tiktoken', None)

    Raises:
        TokenizerError: It is the name of a file that is not written by itself.
    """
    for suffix in _ONLY_IN_FOLDERS:
        if output.endswith(suffix):
            raise TokenizerError(
                f"{output}: no {suffix} file is written alone; pass a folder for all files of a "
                f"tokenizer, or a file that ends in {', '.join(_WRITERS)}"
            )
    return next((suffix for suffix in _WRITERS if output.endswith(suffix)), None)


def sized_output(output: str, size: int) -> str:
    """Return the name of the output for a smaller size.

    >>> sized_output("a/b.tiktoken", 8192), sized_output("a/b/", 8192)
    ('a/b-8192.tiktoken', 'a/b-8192')
    """
    suffix = file_suffix(output) or ""
    return f"{output.rstrip('/').removesuffix(suffix)}-{size}{suffix}"


def files_there(output: str) -> list[str]:
    """Return the names of a tokenizer's files that are there already, whatever they hold."""
    folder, names = _folder_and_names(output)
    return [name for name in names if folder.exists(name)]


def files_of_others(model: Model, output: str) -> list[str]:
    """Return the names of those that are there and are not what is to be written.

    Raises:
        TokenizerError: The file, or one of the folder, cannot hold this model.
    """
    folder, names = _folder_and_names(output)
    suffix = file_suffix(output)
    if suffix is None:
        return _differing_in(model, output)
    writers = [_WRITERS[suffix], *filter(None, [_FORMER_WRITERS.get(suffix)])]
    written = [write(model) for write in writers]
    limit = max(map(len, written)) + 1
    return [
        name
        for name in names
        if folder.exists(name) and folder.read_start(name, limit) not in written
    ]


def check_free(model: Model, output: str, *, advice: str = "name another --output") -> None:
    """Check that nothing but this very tokenizer is there.

    Raises:
        TokenizerError: Something is, or it cannot hold this model.
    """
    others = files_of_others(model, output)
    if others:
        raise TokenizerError(
            f"{output} contains another tokenizer or other data ({', '.join(others)}): it is "
            f"not overwritten; {advice}"
        )


def check_folder(model: Model, folder: str, *, overwrite: bool) -> bool:
    """Check that all files of a tokenizer may be written; return whether another is replaced.

    Raises:
        TokenizerError: It is the name of a file; or, unless `overwrite`, another tokenizer or
            something else is there.
    """
    if folder.endswith(_NAMES_OF_FILES) and not (Path(folder).is_dir() or has_files(folder)):
        suffix = Path(folder).suffix
        raise TokenizerError(
            f"{folder} is the name of a file, and `save` writes all files of a tokenizer: name a "
            f"folder, as {folder.removesuffix(suffix)}, which will have tokenizer{suffix} in it"
        )
    others = _differing_in(model, folder)
    if others and not overwrite:
        raise TokenizerError(
            f"{folder} holds {_describe_folder(folder)} ({', '.join(others)}): it is not "
            "overwritten; save into another folder, or pass overwrite=True"
        )
    return bool(others)


def remove_foreign_files(folder: str) -> None:
    """Remove the files of a tokenizer of Hugging Face that it reads beside tokenizer.json.

    They were those of the tokenizer that was replaced, and say other special tokens than it has.
    """
    there = Folder(folder)
    for name in _BESIDE_HUGGING_FACE:
        there.remove(name)


def _differing_in(model: Model, folder: str) -> list[str]:
    there = Folder(folder)
    return [name for name in differing_files(model, folder) if there.exists(name)]


def _describe_folder(folder: str) -> str:
    """Return what a folder holds, for a message."""
    try:
        there = load_model(folder)
    except TokenizerError:
        return "something else"
    return f"another tokenizer, of {there.num_ids:,} ids"


def write_new(model: Model, output: str) -> None:
    """Write the folder or the one file, unless another tokenizer is there.

    Raises:
        TokenizerError: One is, or it cannot hold this model.
        OSError: It cannot be written.
    """
    check_free(model, output)
    if file_suffix(output) is None:
        save_model(model, output)
    else:
        write_file(model, output)


def write_file(model: Model, output: str) -> None:
    """Write the one file, whole or not at all.

    Raises:
        TokenizerError: It cannot hold this model.
        OSError: It cannot be written.
    """
    suffix = file_suffix(output)
    assert suffix is not None, "a folder is written by save_model"
    folder, (name,) = _folder_and_names(output)
    folder.write_whole(name, _WRITERS[suffix](model))


def _folder_and_names(output: str) -> tuple[Folder, tuple[str, ...]]:
    """Return the folder and the names in it."""
    if file_suffix(output) is None:
        return Folder(output), FILE_NAMES
    parent, slash, name = output.rpartition("/")
    return Folder(parent or slash or "."), (name,)
