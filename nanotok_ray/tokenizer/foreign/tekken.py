"""Reads Mistral's tekken.json: ranks in base64, a pattern, and special tokens before the text ids.

The rules are those of the class Tekkenizer of mistral-common.
"""

import base64
import binascii
from typing import Final

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.core_tables import CoreTables
from nanotok_ray.tokenizer.file_model import TEKKEN_FILE, FileModel, described
from nanotok_ray.tokenizer.foreign.file_object import FileObject
from nanotok_ray.tokenizer.model import MAX_TOKENS, check_token_bytes

_FIRST_SPECIAL: Final = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
    *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    "[TOOL_CONTENT]",
)
"""The special tokens of files that list none, up to version 7."""


def is_tekken(contents: FileObject) -> bool:
    """Return whether the object of a JSON file is that of a tekken.json."""
    config = contents.get("config")
    return isinstance(config, dict) and "pattern" in config and "vocab" in contents.values


def from_tekken(contents: FileObject, data: bytes) -> FileModel:
    """Return the tokenizer of the object of a tekken.json, whose bytes are `data`.

    Raises:
        TokenizerError: A value is missing or wrong, or the tokens are not byte-level BPE.
    """
    name, config = contents.name, contents.inner("config")
    pattern = config.part("pattern", str)
    size = config.part("default_vocab_size", int)
    num_special = config.part("default_num_special_tokens", int)
    vocab = contents.part("vocab", list)
    if not 0 <= num_special < size <= num_special + len(vocab) or len(vocab) > MAX_TOKENS:
        raise TokenizerError(
            f"{name} has {len(vocab):,} tokens of text and asks for {size:,} ids, "
            f"{num_special:,} of them special: at most {MAX_TOKENS:,} tokens are read"
        )
    special = _special_tokens(contents.get("special_tokens"), num_special, name=name)
    tokens = [
        _token(item, number, name=name) for number, item in enumerate(vocab[: size - num_special])
    ]
    ids = {token: number for number, token in enumerate(tokens, num_special)}
    tables = CoreTables.of_ranks(ids, pattern=pattern, name=name)
    return FileModel(
        description=described(
            TEKKEN_FILE, data, engine="core", special_tokens=special, around=(("<s>",), ())
        ),
        data=data,
        text_tokens=dict(enumerate(tokens, num_special)),
        tables=tables,
    )


def _special_tokens(listed: object, number: int, *, name: str) -> dict[str, int]:
    names = [*_FIRST_SPECIAL]
    if listed is not None:
        if not isinstance(listed, list):
            raise TokenizerError(f"{name}: 'special_tokens' must be of type list")
        where = f"{name}, special_tokens"
        names = [FileObject(item, where).part("token_str", str) for item in listed]
    names = [*names, *(f"<SPECIAL_{index}>" for index in range(len(names), number))]
    special = {text: index for index, text in enumerate(names)}
    if len(names) > number or len(special) != len(names):
        raise TokenizerError(
            f"{name} has {len(names):,} special tokens, {len(special):,} of them different: "
            f"{number:,} ids are reserved for them"
        )
    return special


def _token(item: object, number: int, *, name: str) -> bytes:
    where = f"{name}, vocab[{number}]"
    if not isinstance(item, dict):
        raise TokenizerError(f"{where} is no object")
    rank, text = item.get("rank"), item.get("token_bytes")
    try:
        token = base64.b64decode(text or "", validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise TokenizerError(f"{where}: {text!r:.60} is not base64: {error}") from error
    if rank != number or not token:
        raise TokenizerError(f"{where} has rank {rank!r:.20} and {len(token)} bytes")
    check_token_bytes(len(token), what=where)
    return token
