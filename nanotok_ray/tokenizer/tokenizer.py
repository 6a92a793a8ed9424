"""The tokenizer that people use.

Text never becomes a special token: those come from `prepend`, `append`, `encode_special` and the
rendering of documents alone (see `rendering`). tiktoken and torch are imported when a method needs
them; ray is not imported.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.chat.batches import BatchRenderer
from nanotok_ray.counts.patterns import SPLIT_PATTERN, resolve_pattern
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents.batch import Documents, Nulls, as_documents, to_utf8
from nanotok_ray.documents.texts import ArrowTexts
from nanotok_ray.errors import TokenizerError
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.tokenizer.folder import load_model, save_model
from nanotok_ray.tokenizer.foreign import from_encoding
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.nanochat_files import ENCODING_NAME
from nanotok_ray.tokenizer.output import check_folder
from nanotok_ray.tokenizer.readable import sha256_of
from nanotok_ray.tokenizer.rendering import Ids, Offsets, Rendering, is_plain, required

if TYPE_CHECKING:
    import pyarrow as pa
    import tiktoken
    from typing_extensions import Self

CACHE_BYTES = 32 * 1024 * 1024
"""Default bytes of the cache of spans of each thread that encodes."""

Gaps = Literal["spans", "error"]

_MANY_IDS = 8
"""Fewer are spelled out sooner in Python than the core is called."""


class Tokenizer(Rendering):
    """Encodes and decodes with one model. Pickles as its model.

    >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
    >>> tokenizer.encode("hello!", prepend="<|bos|>")
    [258, 257, 108, 111, 33]
    >>> tokenizer.decode([258, 257, 108, 111, 33])
    '<|bos|>hello!'
    """

    def __init__(
        self,
        model: Model,
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Build the core's tables.

        Each thread that encodes remembers the ids of spans in up to about `cache_bytes`.

        Raises:
            PatternError: The pattern cannot be compiled.
            TokenizerError: The model was made with other Unicode tables than this build has.
        """
        if model.unicode_version != _core.UNICODE_VERSION:
            raise TokenizerError(
                f"the tokenizer was made with Unicode {model.unicode_version} and this build has "
                f"{_core.UNICODE_VERSION}, so it would cut texts differently: install the "
                "nanotok_ray that made it"
            )
        self.model = model
        self._cache_bytes = cache_bytes
        self._encoder = _core.Encoder(
            model.pattern,
            model.merge_array,
            byte_order=model.core_byte_order,
            cache_bytes=cache_bytes,
        )

    @classmethod
    def train_from_iterator(
        cls,
        iterator: Iterable[str],
        vocab_size: int,
        *,
        threads: int | None = None,
        pattern: str = SPLIT_PATTERN,
        special_tokens: Sequence[str] = SPECIAL_TOKENS,
    ) -> "Self":
        """Learn from texts; `vocab_size` includes the special tokens.

        The vocabulary is smaller if no pair is left to merge (logged as a warning). `threads`:
        None takes all cores, and one inside a Ray worker; the result never depends on it. For
        limits, progress and a training report, count with `nanotok_ray.SpanCounts` and learn with
        `nanotok_ray.learn`: the merges are the same.

        Raises:
            VocabularySizeError: There is no room for 256 bytes and the special tokens.
            PatternError: The pattern cannot be compiled.
            TokenizerError: `iterator` is one string.
            TypeError: One of the texts is not a str.
        """
        from nanotok_ray.tokenizer.train import (  # noqa: PLC0415 - it imports this module
            TrainSettings,
            learn_model,
        )

        settings = TrainSettings(
            vocab_size=vocab_size,
            pattern=resolve_pattern(pattern),
            special_tokens=special_tokens,
        )
        return cls(learn_model(iterator, settings, threads=threads))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> "Self":
        """Read a tokenizer that `save` wrote; `folder` is a path or a URL.

        Without tokenizer.txt there, tokenizer.json of Hugging Face or nanochat's tokenizer.pkl is
        read (nothing in a pickle is executed); `nanotok_ray.open_tokenizer` reads more. A pickle
        beside the file that is read must be of the same tokenizer. `cache_bytes`: as for the class.

        Raises:
            TokenizerError: There is none, or it is damaged, or tokenizer.pkl is another
                tokenizer's, or it is not byte-level BPE; the message says what to do.
            PatternError: The pattern of a tokenizer from elsewhere cannot be compiled here.
        """
        return cls(load_model(folder, check_pickle=True), cache_bytes=cache_bytes)

    from_directory = load

    @classmethod
    def from_tiktoken(cls, encoding: object, *, cache_bytes: int = CACHE_BYTES) -> "Self":
        """Convert a `tiktoken.Encoding`: texts get the ids of its `encode_ordinary`.

        Text that its pattern does not match is dropped there, and encoded here.

        >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
        >>> Tokenizer.from_tiktoken(tokenizer.to_tiktoken()) == tokenizer
        True

        Raises:
            TokenizerError: It is no tiktoken encoding, or one whose ids of text do not begin with
                the 256 bytes, have holes, or cannot all be reached by merging.
            PatternError: Its pattern cannot be compiled here.
        """
        return cls(from_encoding(encoding), cache_bytes=cache_bytes)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write tokenizer.txt and the files of others: nanochat, tiktoken, Hugging Face.

        These are tokenizer.pkl, token_bytes.pt, tokenizer.tiktoken, tokenizer.json and
        tokenizer_config.json (with the chat template, where all special tokens of it are there).
        If special tokens leave ids unused, the two of Hugging Face, which cannot say so, are left
        out. The training report of another tokenizer is removed. Saving the same tokenizer again
        is no conflict; another one is replaced only with `overwrite=True`.

        Raises:
            TokenizerError: The folder holds another tokenizer, or is the name of a file; two ids
                stand for the same bytes, special tokens leave too many ids unused, or a file of
                Hugging Face that was not saved here stands where none can be written.
        """
        check_folder(self.model, os.fspath(folder), overwrite=overwrite)
        save_model(self.model, folder)

    def truncated(self, vocab_size: int) -> "Self":
        """Return the tokenizer of the first merges: equal to one learned at that size.

        Special tokens keep their order and follow the last merge.

        >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
        >>> tokenizer.truncated(266).encode("hello", prepend="<|bos|>")
        [257, 104, 256, 108, 111]

        Raises:
            TokenizerError: It is larger than this one, or there is no room for 256 bytes and the
                special tokens.
        """
        return type(self)(self.model.truncated(vocab_size), cache_bytes=self._cache_bytes)

    def extended(self, names: Sequence[str]) -> "Self":
        """Return the tokenizer with more special tokens; no id moves, and texts keep their ids.

        Names that it lacks get the ids after the last, in their order; those that it has stay as
        they are. `nanotok_ray.chat.PRESETS` has names for images.

        >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
        >>> tokenizer.extended(["<image>", "<|bos|>"]).encode_special("<image>")
        267

        Raises:
            TokenizerError: `names` is one string, or holds a name that no special token can have.
        """
        model = self.model.extended(names)
        return self if model is self.model else type(self)(model, cache_bytes=self._cache_bytes)

    @property
    def pattern(self) -> str:
        """The regular expression that cuts texts into spans."""
        return self.model.pattern

    @property
    def engine(self) -> Literal["lexer", "table", "regex"]:
        """What finds the pattern's matches, from the fastest to the slowest; ids are the same."""
        return _core.Splitter(self.pattern).engine

    @property
    def merges(self) -> list[tuple[int, int]]:
        """The pair of each merge, in order; merge k makes id 256 + k."""
        return list(self.model.merges)

    @property
    def special_tokens(self) -> dict[str, int]:
        """Id of each special token by name."""
        return dict(self.model.special_tokens)

    @cached_property
    def sha256(self) -> str:
        """The name of this tokenizer: sha256 of its readable file, in hex."""
        return sha256_of(self.model)

    @property
    def num_text_ids(self) -> int:
        """How many ids texts are made of, 256 bytes and the merges; special tokens follow."""
        return 256 + len(self.model.merges)

    def get_vocab_size(self) -> int:
        """Return the highest id + 1, special tokens included."""
        return self.model.num_ids

    def get_special_tokens(self) -> set[str]:
        """Return the names of the special tokens."""
        return set(self.model.special_tokens)

    def get_bos_token_id(self) -> int:
        """Return the id that every document starts with."""
        return self.encode_special("<|bos|>")

    def token_bytes(self) -> NDArray[np.int32]:
        """Return the number of bytes of each id, 0 for special tokens, as in token_bytes.pt."""
        return self.model.token_lengths()

    def to_tiktoken(self) -> "tiktoken.Encoding":
        """Return the same tokenizer as tiktoken's class.

        Raises:
            TokenizerError: Two ids stand for the same bytes.
        """
        import tiktoken  # noqa: PLC0415 - 0.1 s, and not every user needs it

        return tiktoken.Encoding(
            ENCODING_NAME,
            pat_str=self.pattern,
            mergeable_ranks=self.model.ranks(),
            special_tokens=self.special_tokens,
        )

    @overload
    def encode(
        self,
        text: str,
        prepend: int | str | None = None,
        append: int | str | None = None,
        num_threads: int = 8,
    ) -> list[int]: ...

    @overload
    def encode(
        self,
        text: list[str],
        prepend: int | str | None = None,
        append: int | str | None = None,
        num_threads: int = 8,
    ) -> list[list[int]]: ...

    def encode(
        self,
        text: str | list[str],
        prepend: int | str | None = None,
        append: int | str | None = None,
        num_threads: int = 8,
    ) -> list[int] | list[list[int]]:
        """Return the ids of a text, or one list of ids for each of a list of texts.

        `prepend` and `append` are ids or names of special tokens; names in `text` stay text.

        Raises:
            KeyError: `prepend` or `append` is not a token.
            ValueError: `text` is neither a str nor a list.
            TypeError: One of a list of texts is not a str.
            SplitError: The regex engine gave up on a text.
        """
        if prepend is append is None and isinstance(text, str):
            return self._encode_text(text)
        before = [] if prepend is None else [self._number(prepend)]
        after = [] if append is None else [self._number(append)]
        if isinstance(text, str):
            return before + self._encode_text(text) + after
        if not isinstance(text, list):
            raise ValueError(f"Invalid input type: {type(text)}")  # noqa: TRY004 - nanochat's
        ids, offsets = self.encode_documents(Documents.from_strings(text), threads=num_threads)
        flat, bounds = ids.tolist(), offsets.tolist()
        return [[*before, *flat[start:stop], *after] for start, stop in pairwise(bounds)]

    __call__ = encode

    def encode_batch(
        self,
        texts: "Sequence[str] | Sequence[bytes] | Documents | pa.Array | pa.ChunkedArray",
        *,
        threads: int = 1,
        nulls: Nulls = "error",
    ) -> tuple[Ids, Offsets]:
        """Return all ids back to back, and n + 1 offsets; invalid UTF-8 is encoded as bytes.

        Texts in an Arrow array (string, large_string, binary, large_binary) are not copied, but for
        chunks below 4 MiB, of which 16 MiB are joined at a time; string_view and binary_view are. A
        value of a dictionary is encoded once. A missing text is an error, or, with `nulls="empty"`,
        a row of no ids.

        The ids are uint16 if every id of the tokenizer, special tokens included, fits, else uint32.

        >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
        >>> ids, offsets = tokenizer.encode_batch(["ab", "", "c"])
        >>> ids.tolist(), offsets.tolist()
        ([97, 98, 99], [0, 2, 2, 3])

        Raises:
            TypeError: One of a list of texts is not a str, or not bytes as the first is.
            SourceError: The array holds something else than texts, or a null (and its first row).
            SplitError: The regex engine gave up on a text.
            TokenizerError: `nulls` is neither "error" nor "empty".
        """
        if nulls not in get_args(Nulls):
            raise TokenizerError(f'nulls is {nulls!r}: it must be "error" or "empty"')
        if isinstance(texts, Documents | list | tuple):
            return self.encode_documents(as_documents(texts, nulls=nulls), threads=threads)
        arrow = ArrowTexts.from_arrow(texts, nulls=nulls)
        return arrow.encode(lambda documents: self.encode_documents(documents, threads=threads))

    def encode_documents(
        self,
        documents: Documents,
        *,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
        threads: int = 1,
        gaps: Gaps = "spans",
    ) -> tuple[Ids, Offsets]:
        """Return all ids of a batch as `encode_batch` does; invalid UTF-8 is encoded as bytes.

        `before` and `after` are ids around those of every document. Text that the pattern does not
        match is a span of its own, or refused with `gaps="error"`.

        Raises:
            SplitError: The regex engine gave up on a document, or it has a gap and must not.
        """
        wide = self.model.id_bytes > np.dtype(np.uint16).itemsize
        encoder = self._encoder if gaps == "spans" else self._strict_encoder
        return encoder.encode_batch(
            documents.data,
            documents.offsets,
            before=before,
            after=after,
            threads=threads,
            wide=wide,
        )

    def batch_renderer(self, dialect: Dialect, *, gaps: Gaps = "spans") -> BatchRenderer:
        """Return what renders batches of documents of a dialect.

        Raises:
            TokenizerError: there is no such dialect.
        """
        return BatchRenderer(
            self._encoder if gaps == "spans" else self._strict_encoder,
            self.model.special_tokens,
            dialect,
            wide=self.model.id_bytes > np.dtype(np.uint16).itemsize,
        )

    def encode_special(self, text: str) -> int:
        """Return the id of a special token, or of a text that is exactly one token.

        Raises:
            KeyError: It is neither.
        """
        number = self.model.special_tokens.get(text)
        if number is None:
            number = self._numbers.get(to_utf8(text))
        if number is None:
            raise KeyError(to_utf8(text))
        return number

    def decode(self, ids: Iterable[int] | NDArray[np.integer]) -> str:
        """Return the text of ids; special tokens by name, invalid UTF-8 as U+FFFD.

        Raises:
            KeyError: An id is not a token.
        """
        return self.decode_bytes(ids).decode(errors="replace")

    def decode_bytes(self, ids: Iterable[int] | NDArray[np.integer]) -> bytes:
        """Return the bytes of ids; special tokens by name.

        Raises:
            KeyError: An id is not a token.
        """
        if isinstance(ids, np.ndarray):
            if ids.size >= _MANY_IDS and is_plain(ids):
                return self._decoder.decode(ids)
            ids = ids.tolist()
        try:
            return b"".join([self._spelling[number] for number in ids])
        except KeyError as error:
            raise KeyError(f"Invalid token for decoding: {error.args[0]}") from None

    def decode_batch(
        self, ids: Ids, offsets: Offsets, *, as_bytes: bool = False
    ) -> "pa.LargeStringArray | pa.LargeBinaryArray":
        """Return the text of each row of ids as `decode` does, or its bytes, in one Arrow array.

        `ids` is a uint16 or uint32 array and `offsets` n + 1 positions in it, int64, never falling,
        the first not necessarily 0: what `encode_batch` returns.

        >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
        >>> tokenizer.decode_batch(*tokenizer.encode_batch(["ab", "", "c"])).to_pylist()
        ['ab', '', 'c']

        Raises:
            KeyError: An id is not a token; the message names it and its row.
            TypeError: `ids` or `offsets` are not arrays of these types.
            TokenizerError: `offsets` fall or leave the ids, or are empty.
        """
        ids, offsets = required(ids, offsets)
        data, ends = self._decoder.decode_batch(ids, offsets, replace=not as_bytes)
        return Documents(data=data, offsets=ends).to_arrow(as_bytes=as_bytes)

    def decode_single_token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of an id; the name of a special token.

        Raises:
            KeyError: The id is not a token.
        """
        try:
            return self._spelling[token_id]
        except KeyError:
            raise KeyError(str(token_id)) from None

    def id_to_token(self, token_id: int) -> str:
        """Return the text of one id.

        Raises:
            KeyError: The id is not a token.
        """
        return self.decode([token_id])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.model == other.model

    def __hash__(self) -> int:
        return hash(self.model)

    def __reduce__(self) -> "tuple[type[Self], tuple[Model]]":
        return type(self), (self.model,)

    def __repr__(self) -> str:
        return (
            f"<Tokenizer {self.sha256[:16]}: {len(self.model.merges)} merges, "
            f"{len(self.model.special_tokens)} special tokens, {self.get_vocab_size()} ids>"
        )

    def _encode_text(self, text: str) -> list[int]:
        try:
            return self._encoder.encode_text(text)
        except UnicodeEncodeError:  # a lone surrogate
            ids: list[int] = self._encoder.encode(to_utf8(text)).tolist()
            return ids

    @cached_property
    def _decoder(self) -> _core.Decoder:
        """The table of spellings; made only where many ids are decoded."""
        names = [(number, name) for name, number in self.model.special_tokens.items()]
        return _core.Decoder(self.model.merge_array, names, byte_order=self.model.core_byte_order)

    @cached_property
    def _strict_encoder(self) -> _core.Encoder:
        """The encoder that refuses gaps; tables of its own, so made only where asked for."""
        return _core.Encoder(
            self.model.pattern,
            self.model.merge_array,
            gaps="error",
            byte_order=self.model.core_byte_order,
            cache_bytes=self._cache_bytes,
        )

    @cached_property
    def _numbers(self) -> Mapping[bytes, int]:
        """Id of each token by its bytes, the lowest where two have the same."""
        return {token: number for number, token in reversed([*enumerate(self.model.tokens)])}

    @cached_property
    def _spelling(self) -> Mapping[int, bytes]:
        """Bytes of every id; a special token's are its name."""
        names = {number: name.encode() for name, number in self.model.special_tokens.items()}
        return dict(enumerate(self.model.tokens)) | names

    def _number(self, token: int | str) -> int:
        return token if isinstance(token, int) else self.encode_special(token)
