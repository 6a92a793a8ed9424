"""Output of a tokenizer: a folder with all of its files, or a single file.

The name of the path or URL selects the kind of file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from nanotok_ray.errors import TokenizerError
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.file_model import DEFINING_FILES, FileModel
from nanotok_ray.tokenizer.folder import (
    FILE_NAMES,
    differing_files,
    has_files,
    load_model,
    save_model,
    why_left_out,
)
from nanotok_ray.tokenizer.huggingface import to_huggingface_file
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
_NAMES_OF_FILES = (*_WRITERS, ".pkl")
"""Suffixes of files; a folder is not expected to end in one."""
_BESIDE_HUGGING_FACE: Final = (
    *("added_tokens.json", "chat_template.jinja", "chat_template.json", "merges.txt"),
    *("special_tokens_map.json", "vocab.json"),
)
_ONLY_IN_FOLDERS = (".pkl", ".pt", ".bin", ".model", ".toml", ".parquet", ".jsonl")

OR_FORCE: Final = "name another --output, or overwrite it with --force"

WITHOUT_SPECIAL_TOKENS: Final = ".tiktoken"
"""The suffix of the file that cannot hold special tokens."""


def file_suffix(output: str) -> str | None:
    """Return the suffix of an output that is a single file, or None if it is a folder.

    >>> file_suffix("a/b.tiktoken"), file_suffix("s3://bucket/tokenizer-v1.5")
    ('.tiktoken', None)

    Raises:
        TokenizerError: The name is that of a file that cannot be written alone.
    """
    for suffix in _ONLY_IN_FOLDERS:
        if output.endswith(suffix):
            raise TokenizerError(
                f"{output}: no {suffix} file is written alone; pass a folder for all files of a "
                f"tokenizer, or a file that ends in {', '.join(_WRITERS)}"
            )
    return next((suffix for suffix in _WRITERS if output.endswith(suffix)), None)


def sized_output(output: str, size: int) -> str:
    """Return the name of the output of a smaller vocabulary size.

    >>> sized_output("a/b.tiktoken", 8192), sized_output("a/b/", 8192)
    ('a/b-8192.tiktoken', 'a/b-8192')
    """
    suffix = file_suffix(output) or ""
    return f"{output.rstrip('/').removesuffix(suffix)}-{size}{suffix}"


def files_there(output: str) -> list[str]:
    """Return the names of a tokenizer's files that exist already, whatever their content."""
    folder, names = _folder_and_names(output)
    return [name for name in names if folder.exists(name)]


def files_of_others(model: Model | FileModel, output: str) -> list[str]:
    """Return the names of existing files that differ from those that would be written.

    Raises:
        TokenizerError: The file, or a file of the folder, cannot hold this model.
    """
    folder, names = _folder_and_names(output)
    suffix = file_suffix(output)
    if suffix is None:
        return _differing_in(model, output)
    data = _content(model, suffix)
    return [
        name
        for name in names
        if folder.exists(name) and folder.read_start(name, len(data) + 1) != data
    ]


def check_free(
    model: Model | FileModel, output: str, *, advice: str = "name another --output"
) -> None:
    """Check that the output is empty or holds the same tokenizer.

    Raises:
        TokenizerError: The output holds something else, or cannot hold this model.
    """
    others = files_of_others(model, output)
    if others:
        raise TokenizerError(
            f"{output} contains another tokenizer or other data ({', '.join(others)}): it is "
            f"not overwritten; {advice}"
        )


def check_folder(model: Model | FileModel, folder: str, *, overwrite: bool) -> bool:
    """Check that a tokenizer can be written to a folder; return whether it replaces another one.

    Raises:
        TokenizerError: The path is a file; or, without `overwrite`, the folder holds another
            tokenizer or unknown files.
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


def remove_foreign_files(model: Model | FileModel, folder: str) -> None:
    """Remove the files that Hugging Face reads beside tokenizer.json, except those of the model.

    They belong to the tokenizer that was replaced, and name its special tokens.
    """
    there, own = Folder(folder), model.files() if isinstance(model, FileModel) else ()
    for name in _BESIDE_HUGGING_FACE:
        if name not in own:
            there.remove(name)


def _differing_in(model: Model | FileModel, folder: str) -> list[str]:
    there = Folder(folder)
    return [name for name in differing_files(model, folder) if there.exists(name)]


def _describe_folder(folder: str) -> str:
    """Return a description of the content of a folder for a message."""
    try:
        there = load_model(folder)
    except TokenizerError:
        return "something else"
    return f"another tokenizer, of {there.num_ids:,} ids"


def write_new(model: Model | FileModel, output: str) -> None:
    """Write the folder or the single file, unless it holds another tokenizer.

    Raises:
        TokenizerError: The output holds another tokenizer, or cannot hold this model.
        OSError: A file cannot be written.
    """
    check_free(model, output)
    if file_suffix(output) is None:
        save_model(model, output)
    else:
        write_file(model, output)


def write_file(model: Model | FileModel, output: str) -> None:
    """Write a single file atomically.

    Raises:
        TokenizerError: The file cannot hold this model.
        OSError: The file cannot be written.
    """
    suffix = file_suffix(output)
    assert suffix is not None, "a folder is written by save_model"
    folder, (name,) = _folder_and_names(output)
    folder.write_bytes(name, _content(model, suffix))


def _content(model: Model | FileModel, suffix: str) -> bytes:
    """Return the single file of a tokenizer.

    Raises:
        TokenizerError: The file cannot hold this model.
    """
    if isinstance(model, FileModel):
        raise TokenizerError(
            f"a {suffix} file cannot represent a tokenizer that {model.description.file} defines: "
            "pass a folder"
        )
    return _WRITERS[suffix](model)


def _folder_and_names(output: str) -> tuple[Folder, tuple[str, ...]]:
    """Return the folder of an output and the names of its files."""
    if file_suffix(output) is None:
        return Folder(output), tuple(dict.fromkeys((*FILE_NAMES, *DEFINING_FILES)))
    parent, slash, name = output.rpartition("/")
    return Folder(parent or slash or "."), (name,)
