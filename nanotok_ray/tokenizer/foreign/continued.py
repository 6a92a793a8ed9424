"""The file of a tokenizer of another tool with further merges."""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.file_model import HUGGING_FACE_FILE, RANK_FILE, FileModel
from nanotok_ray.tokenizer.foreign.content import of_kind
from nanotok_ray.tokenizer.foreign.file_object import parsed_object
from nanotok_ray.tokenizer.foreign.huggingface import flat, type_of
from nanotok_ray.tokenizer.huggingface import spell


def check_continuable(model: FileModel) -> None:
    """Check that a tokenizer can get further merges.

    Raises:
        TokenizerError: It is not byte-level BPE of a tokenizer.json or of ranks that the core
            encodes.
    """
    file, reason = model.description.file, model.reason
    if model.tables is not None and file == HUGGING_FACE_FILE:
        decoder = parsed_object(model.data, name=file).get("decoder")
        if [type_of(part) for part in flat(decoder, "decoders")] == ["ByteLevel"]:
            return
        reason = "it is not byte-level"
    if model.tables is None or file != RANK_FILE:
        raise TokenizerError(
            f"a tokenizer that {file} defines cannot be continued here: "
            f"{reason or 'it has no merges of bytes'}; byte-level BPE of a tokenizer.json, of "
            "tiktoken's ranks, and tokenizers of this project can be continued"
        )


def continued_file(model: FileModel, merges: Iterable[Sequence[int]]) -> FileModel:
    """Return the tokenizer with further merges of pairs of ids, whose ids follow the highest id.

    Raises:
        TokenizerError: As for `check_continuable`; or the core cannot encode with the new merges.
    """
    check_continuable(model)
    pairs = [*_spelled(model, merges)]
    described = model.description
    extend = _with_merges if described.file == HUGGING_FACE_FILE else _with_ranks
    data = extend(model, pairs) if pairs else model.data
    described = replace(described, sha256=hashlib.sha256(data).hexdigest())
    opened = of_kind(described, data, name=described.file, beside=model.beside)
    if opened.tables is None:
        raise TokenizerError(
            f"{described.file} cannot be continued with these merges: {opened.reason}"
        )
    return replace(opened, description=described)


_Pairs = Sequence[tuple[tuple[bytes, bytes], int]]
"""The bytes of both parts of each new token, and its id."""


def _spelled(
    model: FileModel, merges: Iterable[Sequence[int]]
) -> Iterator[tuple[tuple[bytes, bytes], int]]:
    """Yield the bytes of both parts of each new token, and its id."""
    tokens = dict(model.text_tokens)
    for number, (left, right) in enumerate(merges, model.num_ids):
        parts = tokens[int(left)], tokens[int(right)]
        tokens[number] = b"".join(parts)
        yield parts, number


def _with_merges(model: FileModel, pairs: _Pairs) -> bytes:
    """Return the tokenizer.json with more merges.

    Its special tokens become part of the vocabulary, since tokenizers numbers those that it lacks
    after all of its ids.
    """
    contents = parsed_object(model.data, name=model.description.file)
    bpe = contents.inner("model")
    vocab, merges = bpe.part("vocab", dict), bpe.part("merges", list)
    for added in contents.get("added_tokens") or ():
        vocab.setdefault(added["content"], added["id"])
    as_text = bool(merges) and isinstance(merges[0], str)
    for (left, right), number in pairs:
        names = [spell(left), spell(right)]
        merges.append(" ".join(names) if as_text else names)
        vocab["".join(names)] = number
    return json.dumps(contents.values, ensure_ascii=False, indent=1).encode() + b"\n"


def _with_ranks(model: FileModel, pairs: _Pairs) -> bytes:
    """Return the file of ranks with more tokens."""
    lines = [b"%s %d\n" % (base64.b64encode(left + right), n) for (left, right), n in pairs]
    return b"".join([model.data.rstrip(b"\n"), b"\n", *lines])
