"""A tokenizer as the file that defines it, with the engine that encodes with it.

Tokenizers that are not byte-level BPE with ids in the order of the merges cannot be written as a
`Model`. They keep their file, and `tokenizer.txt` beside it is a description: the engine, the name
and the sha256 of the file, and what the file does not say.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.added_tokens import AddedTokens
from nanotok_ray.tokenizer.core_tables import CoreTables
from nanotok_ray.tokenizer.model import (
    MAX_ID,
    IdTable,
    check_name,
    check_token_bytes,
    check_unused,
    check_vocabulary_bytes,
)

if TYPE_CHECKING:
    from typing_extensions import Self

EngineName = Literal["core", "tokenizers", "sentencepiece"]
"""What encodes: the core of this project, or the library that defines the file."""

FIRST_LINE_OF_FILE = "nanotok-tokenizer 3"
HUGGING_FACE_FILE = "tokenizer.json"
SENTENCEPIECE_FILE = "tokenizer.model"
TEKKEN_FILE = "tekken.json"
RANK_FILE = "tokenizer.tiktoken"
LIBRARY_FILES = (HUGGING_FACE_FILE, SENTENCEPIECE_FILE)
"""The defining files whose library is an engine."""
DEFINING_FILES = (HUGGING_FACE_FILE, TEKKEN_FILE, SENTENCEPIECE_FILE, RANK_FILE)
"""The names that defining files have in a folder of a tokenizer."""

_MAX_LINES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """What `tokenizer.txt` says of a tokenizer that another file defines."""

    engine: EngineName
    file: str
    """The name of the defining file in the folder, one of `DEFINING_FILES`."""
    sha256: str
    """The sha256 of the defining file, in hex."""
    pattern: str | None = None
    """The split pattern if the file, which contains ranks, has none."""
    special_tokens: Mapping[str, int] = field(hash=False)
    """Id of each special token by name, in the order of ids."""
    prepend: tuple[str, ...] = ()
    """The special tokens that the tokenizer puts before a text by default."""
    append: tuple[str, ...] = ()
    """The special tokens that the tokenizer puts after a text by default."""

    def to_bytes(self) -> bytes:
        """Return the file as ASCII."""
        lines = [
            FIRST_LINE_OF_FILE,
            f"engine {self.engine}",
            f"file {self.file} {self.sha256}",
            f"pattern {json.dumps(self.pattern)}",
            f"prepend {json.dumps(self.prepend)}",
            f"append {json.dumps(self.append)}",
            f"special_tokens {len(self.special_tokens)}",
            *(f"{number} {json.dumps(name)}" for name, number in self.special_tokens.items()),
        ]
        return "".join(f"{line}\n" for line in lines).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str) -> "Self":
        """Read a file; only the exact bytes that `to_bytes` returns are accepted.

        Raises:
            TokenizerError: The bytes differ; the message names the file.
        """
        try:
            description = cls._parsed(data.decode("ascii").split("\n"))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise TokenizerError(f"{name} is damaged: {error}") from error
        if description.to_bytes() != data:
            raise TokenizerError(f"{name} is damaged: it is not as it was written")
        return description

    @classmethod
    def _parsed(cls, lines: Sequence[str]) -> "Self":
        if len(lines) > _MAX_LINES:
            raise ValueError(f"it has more than {_MAX_LINES:,} lines")
        values = dict(line.partition(" ")[::2] for line in lines[1:7])
        file, sha256 = values["file"].split(" ")
        engine: Any = values["engine"]
        if engine not in get_args(EngineName) or file not in DEFINING_FILES:
            raise ValueError(f"its engine is {engine!r:.60} and its file {file!r:.60}")
        tokens = [line.partition(" ")[::2] for line in lines[7:-1]]
        return cls(
            engine=engine,
            file=file,
            sha256=sha256,
            pattern=json.loads(values["pattern"]),
            special_tokens={str(json.loads(text)): int(number) for number, text in tokens},
            prepend=tuple(json.loads(values["prepend"])),
            append=tuple(json.loads(values["append"])),
        )


@dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)
class FileModel(IdTable):
    """A tokenizer that a file defines. Two are equal if their descriptions are.

    Raises:
        TokenizerError: A special token has an id of a text, or an id out of range; or all tokens
            are special.
    """

    description: Description
    data: bytes
    """The content of the defining file."""
    beside: Mapping[str, bytes] = field(default_factory=dict)
    """Other files of the folder that readers of the defining file use, by name."""
    added: AddedTokens | None = None
    """The added tokens of a tokenizer.json with their flags."""
    text_tokens: Mapping[int, bytes]
    """The bytes of every id that is not a special token; those of an id that decodes only together
    with others are its spelling in the file.
    """
    spelling: Mapping[int, str] | None = None
    """The names of these ids in the file; None: their bytes."""
    tables: CoreTables | None = None
    """The tables of the core if its engine is the core."""
    reason: str = ""
    """Why the core does not encode with this tokenizer; empty if it does."""
    special_tokens: Mapping[str, int] = field(init=False)
    num_ids: int = field(init=False)

    def __post_init__(self) -> None:
        special = self.description.special_tokens
        if not self.text_tokens:
            raise TokenizerError(
                f"every token of {self.description.file} is a special token, "
                "so it cannot encode a text"
            )
        for name, number in special.items():
            check_name(name, number)
            if not 0 <= number <= MAX_ID:
                raise TokenizerError(
                    f"the special token {name!r:.60} has id {number}: ids are 0 to {MAX_ID}"
                )
        numbers = sorted([*special.values(), *self.text_tokens])
        if len({*numbers}) != len(numbers):
            twice = next(a for a, b in pairwise(numbers) if a == b)
            raise TokenizerError(f"id {twice} is that of two tokens")
        object.__setattr__(self, "special_tokens", dict(special))
        object.__setattr__(self, "num_ids", numbers[-1] + 1)
        longest = max(self.text_tokens, key=lambda number: len(self.text_tokens[number]))
        check_token_bytes(len(self.text_tokens[longest]), what=f"token {longest}")
        check_vocabulary_bytes(sum(map(len, self.text_tokens.values())), what="all tokens together")
        check_unused(self)

    @property
    def is_lossless(self) -> bool:
        """Whether the ids of a text decode to exactly this text."""
        return self.tables is not None and self.tables.is_lossless

    @property
    def has_library(self) -> bool:
        """Whether a library defines the file, which can encode with it."""
        return self.description.file in LIBRARY_FILES

    @property
    def engine_text(self) -> str:
        """The name of the engine, and the reason why it is not the core."""
        name = self.description.engine
        return f"{name}, which is slower than the core: {self.reason}" if self.reason else name

    def __repr__(self) -> str:
        described = self.description
        return (
            f"<FileModel: {described.file} {described.sha256[:16]}, engine {described.engine}, "
            f"{len(self.text_tokens):,} ids of text, {len(self.special_tokens):,} special tokens>"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileModel) and self.description == other.description

    def __hash__(self) -> int:
        return hash(self.description)

    def extended(self, names: Sequence[str]) -> "FileModel":
        """Return the model with more special tokens; existing ids stay the same.

        Names that the model lacks receive the ids after the last one, in the order of `names`.

        Raises:
            TokenizerError: `names` is a single string.
        """
        if isinstance(names, str):
            raise TokenizerError(f"names is one name, {names!r}: put it into a list")
        known = self.special_tokens
        missing = dict.fromkeys(name for name in names if name not in known)
        if not missing:
            return self
        added = {name: number for number, name in enumerate(missing, self.num_ids)}
        return self._with({**known, **added})

    def without(self, names: Collection[str]) -> "FileModel":
        """Return the model without the special tokens of these names; other ids stay the same."""
        known = self.special_tokens.items()
        return self._with({name: number for name, number in known if name not in names})

    def _with(self, special_tokens: Mapping[str, int]) -> "FileModel":
        return replace(self, description=replace(self.description, special_tokens=special_tokens))

    def files(self) -> dict[str, bytes]:
        """Return the files of the folder of this tokenizer by name, the defining one first."""
        return {self.description.file: self.data, **self.beside}


def described(
    file: str,
    data: bytes,
    *,
    engine: EngineName,
    special_tokens: Mapping[str, int],
    around: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
) -> Description:
    """Return the description of a defining file.

    `around` are the special tokens before and after a text; those that the tokenizer lacks are
    left out.
    """
    prepend, append = (tuple(one for one in names if one in special_tokens) for names in around)
    return Description(
        engine=engine,
        file=file,
        sha256=hashlib.sha256(data).hexdigest(),
        special_tokens=dict(sorted(special_tokens.items(), key=itemgetter(1))),
        prepend=prepend,
        append=append,
    )
