"""Recognizes the file of a tokenizer by its content, or an object by its class, and reads it."""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from nanotok_ray.counts import PATTERNS, resolve_pattern
from nanotok_ray.errors import CorruptOutputError, TokenizerError
from nanotok_ray.tokenizer.added_tokens import AddedTokens
from nanotok_ray.tokenizer.core_tables import CoreTables
from nanotok_ray.tokenizer.file_model import (
    FIRST_LINE_OF_FILE,
    HUGGING_FACE_FILE,
    RANK_FILE,
    SENTENCEPIECE_FILE,
    Description,
    FileModel,
    described,
)
from nanotok_ray.tokenizer.foreign.around import MAP_FILE, TEMPLATE_FILE
from nanotok_ray.tokenizer.foreign.families import FAMILIES
from nanotok_ray.tokenizer.foreign.file_object import FileObject, parsed_object
from nanotok_ray.tokenizer.foreign.huggingface import added_tokens, model_of_contents
from nanotok_ray.tokenizer.foreign.pickled import from_pickle
from nanotok_ray.tokenizer.foreign.sentencepiece import from_sentencepiece, looks_like_sentencepiece
from nanotok_ray.tokenizer.foreign.tekken import from_tekken, is_tekken
from nanotok_ray.tokenizer.foreign.tiktoken import (
    from_encoding,
    from_rank_file,
    ranks_of_file,
    special_ids,
)
from nanotok_ray.tokenizer.foreign.tokenizer_json import from_tokenizer_json
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.readable import FIRST_LINE, from_readable

SpecialTokens = Sequence[str] | Mapping[str, int]

_RANK = re.compile(rb"[A-Za-z0-9+/]*={0,2} \d+\r?(?:\n|$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Given:
    """What the caller says of a file of ranks, which does not contain it."""

    pattern: str | None = None
    """A name of `FAMILIES` or `PATTERNS`, or a regular expression."""
    special_tokens: SpecialTokens | None = None

    def check_unused(self, name: str) -> None:
        """Check that nothing was given.

        Raises:
            TokenizerError: Something was given that the file says itself.
        """
        for key in ("pattern", "special_tokens"):
            if getattr(self, key) is not None:
                raise TokenizerError(
                    f"{key} is given, but {name} says its own: only a file of ranks lacks it; add "
                    "special tokens with Tokenizer.extended"
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerFile:
    """A file of a tokenizer in memory."""

    name: str
    """The path or URL, for messages."""
    data: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)
    """Other files of its folder that matter, by name."""

    def model(self, given: Given | None = None) -> Model | FileModel:
        """Return the tokenizer.

        Raises:
            TokenizerError: The content is not that of a tokenizer, or is damaged; the package that
                it needs is missing; or as for `Given`.
            PatternError: A pattern is unknown or cannot be compiled.
        """
        data, name, given = self.data, self.name, given or Given()
        if _RANK.match(data):
            return _of_ranks(data, name=name, given=given)
        given.check_unused(name)
        if data.startswith(FIRST_LINE_OF_FILE.encode()):
            raise TokenizerError(f"{name} describes another file beside it: open their folder")
        if data.startswith(FIRST_LINE[:-1].encode()):
            return from_readable(data, name=name)
        if data[:1] == b"\x80":
            return from_pickle(data, name=name)
        if data.lstrip()[:1] == b"{" or name.endswith(".json"):
            return self._of_json(parsed_object(data, name=name))
        if looks_like_sentencepiece(data):
            return from_sentencepiece(data, name=name, beside=self.beside)
        raise TokenizerError(
            f"{name} is not a tokenizer file: it begins with {data[:40]!r}; pass a tokenizer.txt, "
            "tokenizer.json, tekken.json, tokenizer.pkl, a SentencePiece model or ranks of tiktoken"
        )

    def _of_json(self, contents: FileObject) -> Model | FileModel:
        if is_tekken(contents):
            return from_tekken(contents, self.data)
        if "model" not in contents.values:
            keys = ", ".join(sorted(contents.values)[:10])
            raise TokenizerError(
                f"{contents.name} is neither a tokenizer.json nor a tekken.json: its keys are "
                f"{keys:.200}"
            )
        try:
            model, tokens = model_of_contents(contents), added_tokens(contents)
            added = AddedTokens.of(tokens, has_normalizer=bool(contents.get("normalizer")))
            return replace(model, beside=self.beside, added=added)
        except TokenizerError:
            return from_tokenizer_json(contents, self.data, beside=self.beside)


def of_description(
    description: Description, data: bytes, *, name: str, beside: Mapping[str, bytes]
) -> FileModel:
    """Return the tokenizer of a description and the content of the file that it names.

    Raises:
        CorruptOutputError: The file is another one, or is not what the description says.
        TokenizerError: The file is damaged, or the package that it needs is missing.
    """
    opened = of_kind(description, data, name=name, beside=beside)
    tables = opened.tables if description.engine == "core" else None
    same = opened.description.sha256 == description.sha256
    if not same or (tables is None) == (description.engine == "core"):
        raise CorruptOutputError(
            f"{name} is not the file that tokenizer.txt describes: it has the sha256 "
            f"{opened.description.sha256[:16]}, {description.sha256[:16]} was expected"
        )
    return replace(opened, description=description, tables=tables)


def from_object(value: Any) -> Model | FileModel:  # noqa: ANN401 - an object of another library
    """Return the tokenizer of an object of tokenizers, transformers or tiktoken.

    Raises:
        TokenizerError: The object is none of these, or cannot be converted.
    """
    backend = getattr(value, "backend_tokenizer", value)  # a fast tokenizer of transformers
    if hasattr(backend, "to_str") and hasattr(backend, "encode_batch"):
        name = f"the object of {type(value).__name__}"
        data = backend.to_str().encode()
        return TokenizerFile(name=name, data=data, beside=_templates_of_object(value)).model()
    if hasattr(value, "_mergeable_ranks"):
        return of_encoding(value)
    raise TokenizerError(
        f"a {type(value).__name__} is no tokenizer that can be converted: pass a path or a name, a "
        "tokenizers.Tokenizer, a fast tokenizer of transformers, or a tiktoken.Encoding"
    )


def _templates_of_object(value: Any) -> dict[str, bytes]:  # noqa: ANN401 - as `from_object`
    """Return the chat template of a tokenizer of transformers, and its tokens, as their files."""
    template = getattr(value, "chat_template", None)
    if not isinstance(template, str | dict) or not template:
        return {}
    roles = getattr(value, "special_tokens_map", None) or {}
    return {
        TEMPLATE_FILE: json.dumps({"chat_template": template}).encode(),
        MAP_FILE: json.dumps(roles, default=str).encode(),
    }


def of_encoding(encoding: Any) -> Model | FileModel:  # noqa: ANN401 - an object of tiktoken
    """Return the tokenizer of a `tiktoken.Encoding`.

    Raises:
        TokenizerError: The object is not an encoding of tiktoken, or cannot be converted.
    """
    try:
        return from_encoding(encoding)
    except TokenizerError:
        if not hasattr(encoding, "_mergeable_ranks"):
            raise
        ranks = sorted(encoding._mergeable_ranks.items(), key=lambda item: item[1])  # noqa: SLF001 - as there
        lines = [b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks]
        given = Given(pattern=encoding._pat_str, special_tokens=encoding._special_tokens)  # noqa: SLF001
        return TokenizerFile(name=f"the encoding {encoding.name}", data=b"".join(lines)).model(
            given
        )


def of_kind(
    description: Description, data: bytes, *, name: str, beside: Mapping[str, bytes]
) -> FileModel:
    """Return the tokenizer of a file of the kind of a description, even if a `Model` could hold it.

    Raises:
        TokenizerError: The file is damaged, or the package that it needs is missing.
    """
    if description.file == RANK_FILE:
        given = Given(pattern=description.pattern, special_tokens=description.special_tokens)
        return _file_of_ranks(ranks_of_file(data, name=name), data, name=name, given=given)
    if description.file == SENTENCEPIECE_FILE:
        return from_sentencepiece(data, name=name, beside=beside)
    contents = parsed_object(data, name=name)
    if description.file == HUGGING_FACE_FILE:
        return from_tokenizer_json(contents, data, beside=beside)
    return from_tekken(contents, data)


def _of_ranks(data: bytes, *, name: str, given: Given) -> Model | FileModel:
    if given.pattern is None:
        names = ", ".join([*FAMILIES, *PATTERNS])
        raise TokenizerError(
            f"{name} contains ranks and no pattern, which is needed to split texts: add its family "
            f"or pattern, such as {name}:gpt4 ({names}, or a regular expression); a pattern brings "
            "no special tokens"
        )
    if given.pattern in FAMILIES:
        return _file_of_ranks(ranks_of_file(data, name=name), data, name=name, given=given)
    pattern = resolve_pattern(given.pattern)
    try:
        return from_rank_file(
            data, pattern=pattern, special_tokens=given.special_tokens or (), name=name
        )
    except TokenizerError:
        given = replace(given, pattern=pattern)
        return _file_of_ranks(ranks_of_file(data, name=name), data, name=name, given=given)


def _file_of_ranks(
    ranks: Mapping[bytes, int], data: bytes, *, name: str, given: Given
) -> FileModel:
    """Return the tokenizer of ranks whose whole tokens merging may not make."""
    assert given.pattern is not None
    family = FAMILIES[given.pattern]() if given.pattern in FAMILIES else None
    first = max(ranks.values()) + 1
    names = given.special_tokens
    if names is None:
        names = () if family is None else family.special_tokens
    pattern = given.pattern if family is None else family.pattern
    description = described(
        RANK_FILE,
        data,
        engine="core",
        special_tokens=special_ids(names, first=first),
        around=((), ()) if family is None else (family.prepend, family.append),
    )
    return FileModel(
        description=replace(description, pattern=pattern),
        data=data,
        text_tokens={rank: token for token, rank in sorted(ranks.items(), key=itemgetter(1))},
        tables=CoreTables.of_ranks(ranks, pattern=pattern, name=name),
    )
