"""The folder of a tokenizer: its files, and checks that the files agree."""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from nanotok_ray.errors import TokenizerError
from nanotok_ray.formats import MAX_JSON_BYTES
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.file_model import (
    DEFINING_FILES,
    FIRST_LINE_OF_FILE,
    HUGGING_FACE_FILE,
    SENTENCEPIECE_FILE,
    TEKKEN_FILE,
    Description,
    FileModel,
)
from nanotok_ray.tokenizer.foreign import (
    BESIDE,
    MAX_FILE_BYTES,
    EncodingState,
    TokenizerFile,
    of_description,
    pickled_state,
)
from nanotok_ray.tokenizer.huggingface import (
    spelled_bytes,
    to_huggingface_config,
    to_huggingface_file,
)
from nanotok_ray.tokenizer.model import Model, check_unused
from nanotok_ray.tokenizer.nanochat_files import is_pickle_of, to_pickle, to_token_bytes
from nanotok_ray.tokenizer.readable import (
    MAX_READABLE_BYTES,
    from_readable,
    to_readable,
    to_tiktoken_file,
)


def check_agreement(
    model: Model, name: str, *, pickled: bytes, pickle_name: str, has_pattern: bool
) -> None:
    """Check that a pickle holds the same model as the file `name`, which was read.

    With `has_pattern`, the text of the pattern must be the same too.

    Raises:
        TokenizerError: The pickle holds another model, or cannot be read.
    """
    if is_pickle_of(pickled, model):
        return
    try:
        state = pickled_state(pickled, name=pickle_name)
    except TokenizerError as error:
        raise TokenizerError(
            f"{name} holds a tokenizer, and beside it lies a pickle that cannot be read: {error}; "
            "remove the pickle, or save the tokenizer again"
        ) from error
    differing = list(_differing(model, state, has_pattern=has_pattern))
    if differing:
        raise TokenizerError(
            f"{name} and {pickle_name} are two tokenizers: they differ in {', '.join(differing)}; "
            "one was written over the files of the other, as nanochat's tok_train does. To use the "
            "pickle, remove all other files of a tokenizer there, otherwise remove the pickle"
        )


def _differing(model: Model, state: EncodingState, *, has_pattern: bool) -> Iterator[str]:
    ranks = dict(zip(model.tokens, model.token_ids, strict=True))
    if state.mergeable_ranks != ranks:
        yield "their tokens"
    if state.special_tokens != dict(model.special_tokens):
        yield "their special tokens"
    if has_pattern and state.pat_str != model.pattern:
        yield "their pattern"


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
"""All files of the folder, in the order in which they are written."""

OF_NANOCHAT = (_PICKLE, "token_bytes.pt")
"""The files of nanochat's tokenizer folder."""

REPORT_NAME = "report.json"
"""The report of learning, beside the files of the tokenizer."""

NEW_TOKENS_NAME = "new_tokens.json"
"""The tokens that a continued tokenizer has beyond its base, beside its files."""

_OF_HUGGING_FACE = (".json", ".jinja")

_READ: Final = (READABLE_NAME, HUGGING_FACE_FILE, _PICKLE, TEKKEN_FILE, SENTENCEPIECE_FILE)
"""The files that a folder is read from: the first that exists is read."""

_log = logging.getLogger(__name__)


def save_model(model: Model | FileModel, folder: str | os.PathLike[str]) -> None:
    """Write all files, or none if one of them cannot hold the tokenizer.

    Of a tokenizer that a file defines, these are that file, those beside it, and its description.

    The files of Hugging Face are skipped, with a line in the log, if special tokens leave ids
    unused or if one is spelled there like a token of text. The report of another tokenizer's
    training is removed first; the report of the same tokenizer is kept.

    Raises:
        TokenizerError: Two ids have the same bytes, special tokens leave too many ids unused, or a
            skipped file exists and belongs to a tokenizer that was not saved here.
    """
    target = Folder(os.fspath(folder))
    contents = _contents(model)
    left_out = [name for name in FILE_NAMES if name not in contents]
    if isinstance(model, Model):
        _remove_left_out(left_out, target, why=why_left_out(model))
    else:
        for name in left_out:
            target.remove(name)
    _remove_foreign_report(target, model)
    for name, data in contents.items():
        target.write_bytes(name, data)


def save_for_nanochat(model: Model, folder: str | os.PathLike[str]) -> None:
    """Write the two files of nanochat, replacing existing ones, and remove the other files.

    A reader then reads the pickle, also after another tool has replaced it.

    Raises:
        TokenizerError: Two ids have the same bytes, or too many ids are unused.
    """
    check_unused(model)
    target = Folder(os.fspath(folder))
    contents = {name: _WRITERS[name](model) for name in OF_NANOCHAT}
    for name in (READABLE_NAME, *FILE_NAMES):
        if name not in contents:
            target.remove(name)
    for name, data in contents.items():
        target.write_bytes(name, data)


def _contents(model: Model | FileModel) -> dict[str, bytes]:
    """Return the files of a tokenizer by name, in the order in which they are written.

    Raises:
        TokenizerError: A file cannot hold the tokenizer.
    """
    check_unused(model)
    if isinstance(model, FileModel):
        return {**model.files(), READABLE_NAME: to_readable(model)}
    left_out = left_out_files(model)
    return {name: write(model) for name, write in _WRITERS.items() if name not in left_out}


def _remove_foreign_report(target: Folder, model: Model | FileModel) -> None:
    """Remove a training report of other merges, and the new tokens beside it.

    A file that is not such a report is kept.
    """
    try:
        report = json.loads(target.read_bytes(REPORT_NAME, limit=MAX_JSON_BYTES))
        form, columns = report["format"], report["merges"]
        pairs = list(zip(columns["left"], columns["right"], strict=True))
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return
    merges = model.merges if isinstance(model, Model) else ()
    last = merges[max(0, len(merges) - len(pairs)) :]
    if str(form).startswith("nanotok-report ") and pairs != [*last]:
        target.remove(REPORT_NAME)
        target.remove(NEW_TOKENS_NAME)


def differing_files(model: Model | FileModel, folder: str | os.PathLike[str]) -> list[str]:
    """Return the names of files that are missing, unexpected or unlike those of `save_model`.

    At most the expected size of a file is read.

    Raises:
        TokenizerError: `save_model` cannot write this model.
    """
    target, contents = Folder(os.fspath(folder)), _contents(model)
    unexpected = [name for name in FILE_NAMES if name not in contents and target.exists(name)]
    return unexpected + [name for name, data in contents.items() if not _holds(target, name, data)]


def left_out_files(model: Model) -> list[str]:
    """Return the names of the files that `save_model` does not write for this model.

    Hugging Face numbers special tokens without gaps, and reads a special token whose name spells a
    token of text as that token. The ids would differ from those of the model.
    """
    cannot_say = why_left_out(model) is not None
    return [name for name in _WRITERS if name.endswith(_OF_HUGGING_FACE) and cannot_say]


def why_left_out(model: Model) -> str | None:
    r"""Return why the files of Hugging Face cannot hold the ids of this model, or None if they can.

    >>> why_left_out(Model(pattern="a", unicode_version="16.0.0", merges=((32, 97),),
    ...                    special_tokens={"Ġa": 257}))
    "the special token 'Ġa' is spelled there as the token b' a' is"
    """
    if model.num_unused_ids and not model.continuations:
        return "special tokens leave ids unused"
    spelled = {name: spelled_bytes(name) for name in model.special_tokens}
    same = {*spelled.values()}.intersection(model.tokens)
    for name, token in spelled.items():
        if token in same:
            return f"the special token {name!r:.60} is spelled there as the token {token!r:.60} is"
    return None


def _remove_left_out(names: Sequence[str], target: Folder, *, why: str | None) -> None:
    """Remove the skipped files of an earlier tokenizer if it was saved here; refuse other files."""
    there = [name for name in names if target.exists(name)]
    if there and not target.exists(READABLE_NAME):
        raise TokenizerError(
            f"{target.url} holds {', '.join(there)}, which cannot represent the ids of this "
            "tokenizer: save it into another folder"
        )
    for name in there:
        target.remove(name)
    if names:
        _log.warning("left out %s: %s", ", ".join(names), why)


def _holds(folder: Folder, name: str, data: bytes) -> bool:
    """Return whether a file exists and has these bytes."""
    try:
        return folder.read_start(name, len(data) + 1) == data
    except FileNotFoundError:
        return False


def has_files(folder: str) -> bool:
    """Return whether a folder has at least one of the files of a tokenizer."""
    there = Folder(folder, follow_links=True)
    return any(there.exists(name) for name in (*FILE_NAMES, *DEFINING_FILES))


def load_model(folder: str | os.PathLike[str], *, check_pickle: bool = False) -> Model | FileModel:
    """Read the readable file, or else the file of another tool.

    With `check_pickle`, a tokenizer.pkl beside the file that is read is compared with it.

    Raises:
        TokenizerError: No file exists, the file is damaged, the package that it needs is missing,
            or the pickle holds another tokenizer; the message names the next step.
    """
    source = Folder(os.fspath(folder), follow_links=True)  # such as a cache of Hugging Face
    for name in _READ:
        size = source.size(name)
        if size is not None:
            model = _read(source, name, size=size)
            if check_pickle and name != _PICKLE and isinstance(model, Model):
                _check_pickle(source, model, name)
            return model
    step = "check the path, or learn one there"
    if os.fspath(folder) == default_folder():
        step = (
            "write one there with `nanotok train RECIPE --to-nanochat`, open another folder with "
            "Tokenizer.load, or set NANOCHAT_BASE_DIR to the folder above the one that contains "
            "it (with NANOCHAT_EXPERIMENT, to the folder above `experiments`)"
        )
    raise TokenizerError(f"no tokenizer in {folder} ({', '.join(_READ)} are missing); {step}")


def _read(source: Folder, name: str, *, size: int) -> Model | FileModel:
    data, path = checked_bytes(source, name, size=size), source.join(name)
    if name == READABLE_NAME:
        return read_readable(source, data)
    return TokenizerFile(name=path, data=data, beside=files_beside(source)).model()


def read_readable(folder: Folder, data: bytes) -> Model | FileModel:
    """Return the tokenizer of a folder whose readable file has the content `data`.

    Raises:
        CorruptOutputError: The file that it describes is another one.
        TokenizerError: The file is damaged, or the one that it describes is missing or damaged.
    """
    path = folder.join(READABLE_NAME)
    if not data.startswith(FIRST_LINE_OF_FILE.encode()):
        return from_readable(data, name=path)
    description = Description.from_bytes(data, name=path)
    size = folder.size(description.file)
    if size is None:
        raise TokenizerError(f"{path} describes {description.file}, which is missing beside it")
    return of_description(
        description,
        checked_bytes(folder, description.file, size=size),
        name=folder.join(description.file),
        beside=files_beside(folder),
    )


def files_beside(folder: Folder) -> dict[str, bytes]:
    """Return the files of a folder that matter to readers of a tokenizer's file, by name.

    Raises:
        TokenizerError: A file is larger than the limit.
    """
    sizes = {name: folder.size(name) for name in BESIDE}
    return {
        name: checked_bytes(folder, name, size=size)
        for name, size in sizes.items()
        if size is not None
    }


def _check_pickle(source: Folder, model: Model, name: str) -> None:
    size = source.size(_PICKLE)
    if size is not None:
        check_agreement(
            model,
            source.join(name),
            pickled=checked_bytes(source, _PICKLE, size=size),
            pickle_name=source.join(_PICKLE),
            has_pattern=name == READABLE_NAME,  # tokenizer.json spells the pattern differently
        )


def checked_bytes(folder: Folder, name: str, *, size: int) -> bytes:
    """Return the `size` bytes of a file of a tokenizer.

    Raises:
        TokenizerError: The file is larger than the limit.
    """
    limit = MAX_READABLE_BYTES if name == READABLE_NAME else MAX_FILE_BYTES
    if size > limit:
        raise TokenizerError(
            f"{folder.join(name)} has {size:,} bytes, more than {limit:,} are refused"
        )
    return folder.read_bytes(name, limit=limit)


def default_folder() -> str:
    """Return nanochat's folder of its tokenizer, according to the environment variables.

    With NANOCHAT_EXPERIMENT or NANOCHAT_EXPERIMENTS_DIR it is the folder `tokenizer` of the
    experiment, as in nanochat's branch `experiment_refactor`. Otherwise it is
    $NANOCHAT_BASE_DIR/tokenizer, or the folder of the experiment `default` if only that one
    exists.
    """
    base = os.environ.get("NANOCHAT_BASE_DIR") or str(Path.home() / ".cache" / "nanochat")
    root = os.environ.get("NANOCHAT_EXPERIMENTS_DIR")
    name = os.environ.get("NANOCHAT_EXPERIMENT")
    today = f"{base.rstrip('/')}/tokenizer"
    experiments = (root or f"{base.rstrip('/')}/experiments").rstrip("/")
    of_experiment = f"{experiments}/{name or 'default'}/tokenizer"
    if root or name or (Path(of_experiment).is_dir() and not Path(today).is_dir()):
        return of_experiment
    return today
