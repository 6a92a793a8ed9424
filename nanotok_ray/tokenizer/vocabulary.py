"""The tokens of a tokenizer: their ids, bytes and names; decoding of ids."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import _core
from nanotok_ray.documents import Documents, as_documents, to_utf8, type_of
from nanotok_ray.errors import TokenizerError, UnknownTokenError
from nanotok_ray.tokenizer.decoders import PieceDecoder, TextDecoder
from nanotok_ray.tokenizer.engines import engine_of
from nanotok_ray.tokenizer.file_model import SENTENCEPIECE_FILE, FileModel
from nanotok_ray.tokenizer.huggingface import spell
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.nanochat_files import ENCODING_NAME
from nanotok_ray.tokenizer.readable import sha256_of
from nanotok_ray.tokenizer.rendering import Ids, Offsets, is_plain, required

if TYPE_CHECKING:
    import pyarrow as pa
    import tiktoken

_MANY_IDS = 8
"""Below this number of ids, decoding in Python is faster than a call of the core."""

_NAMES = 20
"""The number of special tokens that an error message lists."""


class Vocabulary:
    """The part of a tokenizer that depends only on the model: tokens by id, ids by token."""

    model: Model | FileModel

    @property
    def byte_level_model(self) -> Model:
        """The model of byte-level BPE with ids in the order of the merges.

        Raises:
            TokenizerError: A file of another tool defines the tokenizer.
        """
        if isinstance(self.model, FileModel):
            raise TokenizerError(
                f"{self.model.description.file} defines this tokenizer: only byte-level BPE with "
                "ids in the order of its merges has one pattern, can be truncated, and can be "
                "written in other formats"
            )
        return self.model

    @property
    def merges(self) -> list[tuple[int, int]]:
        """The pair of ids of each merge, in order; merge k makes id 256 + k.

        The merges of a continued tokenizer make the ids that follow its special tokens.

        Empty if a file of another tool defines the tokenizer.
        """
        return list(self.model.merges) if isinstance(self.model, Model) else []

    @property
    def pattern(self) -> str:
        """The regular expression that splits texts into spans.

        Raises:
            TokenizerError: A file of another tool defines the tokenizer.
        """
        return self.byte_level_model.pattern

    @property
    def engine(self) -> Literal["lexer", "table", "regex", "tokenizers", "sentencepiece"]:
        """What splits text: an implementation of the core, from fastest to slowest, or a library.

        The implementations of the core return the same spans.
        """
        if isinstance(self.model, Model):
            return _core.Splitter(self.model.pattern).engine
        if self.model.tables is not None:
            return _core.Splitter(self.model.tables.pattern).engine
        return engine_of(self.model).name

    @property
    def engine_version(self) -> str | None:
        """The library that encodes, with its version; None if the core encodes."""
        if isinstance(self.model, Model) or self.model.tables is not None:
            return None
        library = engine_of(self.model)
        return f"{library.name} {library.version}"

    @cached_property
    def sha256(self) -> str:
        """The sha256 of the readable file, in hex; it identifies the tokenizer."""
        return sha256_of(self.model)

    def to_tiktoken(self) -> "tiktoken.Encoding":
        """Return the same tokenizer as tiktoken's class.

        Raises:
            TokenizerError: Two ids have the same bytes, or the tokenizer is that of a
                tokenizer.json or of a SentencePiece model.
        """
        import tiktoken  # noqa: PLC0415 - 0.1 s, and not every user needs it

        pattern, ranks = self._ranks()
        return tiktoken.Encoding(
            ENCODING_NAME,
            pat_str=pattern,
            mergeable_ranks=ranks,
            special_tokens=self.special_tokens,
        )

    def _ranks(self) -> tuple[str, dict[bytes, int]]:
        """Return the pattern, and the id of each token of text."""
        if isinstance(self.model, FileModel) and not self.model.has_library:
            tables = self.model.tables
            assert tables is not None, "no library encodes with ranks"
            assert isinstance(tables.pattern, str), "files of ranks have one pattern"
            return tables.pattern, {t: number for number, t in self.model.text_tokens.items() if t}
        model = self.byte_level_model
        return model.pattern, model.ranks()

    @property
    def special_tokens(self) -> dict[str, int]:
        """Id of each special token by name."""
        return dict(self.model.special_tokens)

    @property
    def num_text_ids(self) -> int:
        """The number of ids that texts produce; in a learned tokenizer, special tokens follow."""
        return len(self.model.text_tokens)

    def get_vocab_size(self) -> int:
        """Return the highest id + 1, special tokens included."""
        return self.model.num_ids

    def __len__(self) -> int:
        """Return the highest id + 1, the same as `get_vocab_size`."""
        return self.model.num_ids

    @property
    def vocab_size(self) -> int:
        """The highest id + 1, the same as `get_vocab_size`."""
        return self.model.num_ids

    @property
    def n_vocab(self) -> int:
        """The highest id + 1, the same as `get_vocab_size`; tiktoken's name for it."""
        return self.model.num_ids

    def get_vocab(self) -> dict[str, int]:
        """Return the id of every token by its name, as Hugging Face's `get_vocab` does.

        The names are those of tokenizer.json: a token of text is spelled with one character for
        each byte ("Ġthe" is " the"), a special token has its own name. Of two ids with the same
        bytes, the lower one is returned.

        >>> from nanotok_ray import Tokenizer
        >>> vocab = Tokenizer.train_from_iterator([" the the"], vocab_size=268).get_vocab()
        >>> vocab["Ġthe"], vocab["a"], vocab["<|bos|>"]
        (258, 97, 259)
        """
        if isinstance(self.model, FileModel) and self.model.spelling is not None:
            names = {text: number for number, text in self.model.spelling.items()}
            return names | self.special_tokens
        tokens = reversed([*self.model.text_tokens.items()])
        return {spell(token): number for number, token in tokens} | self.special_tokens

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token by its name in `get_vocab`, or None if no token has this name.

        For a text, use `encode_special`, which returns the id of " the" and not of "Ġthe".
        """
        return self._ids_of_names.get(token)

    def get_special_tokens(self) -> set[str]:
        """Return the names of the special tokens."""
        return set(self.model.special_tokens)

    def get_bos_token_id(self) -> int:
        """Return the id of the token that begins every document."""
        return self.encode_special("<|bos|>")

    def token_bytes(self) -> NDArray[np.int32]:
        """Return the bytes of each id, int32, and 0 for special tokens, as in token_bytes.pt."""
        return self.model.token_lengths()

    def encode_special(self, text: str) -> int:
        """Return the id of a special token, or of a text that is exactly one token.

        Raises:
            UnknownTokenError: The text is neither (also a KeyError, which nanochat raises).
        """
        number = self.model.special_tokens.get(text)
        if number is None:
            number = self._numbers.get(to_utf8(text))
        if number is None:
            names = ", ".join([*self.model.special_tokens][:_NAMES]) or "none"
            more = ", ..." if len(self.model.special_tokens) > _NAMES else ""
            raise UnknownTokenError(
                f"{text!r} is neither a special token of the tokenizer ({names}{more}) nor one "
                "token of text; Tokenizer.extended adds special tokens"
            )
        return number

    def decode(self, ids: "Iterable[int] | NDArray[np.integer] | pa.Array") -> str:
        """Return the text of ids; a special token is decoded to its name, invalid UTF-8 to U+FFFD.

        `ids` is a list, or a one-dimensional integer array or tensor: of numpy, of Arrow, or any
        object with the Arrow PyCapsule interface or `tolist`.

        Raises:
            KeyError: An id is not a token.
            TypeError: `ids` is not a one-dimensional sequence of integers.
        """
        return self.decode_bytes(ids).decode(errors="replace")

    def decode_bytes(self, ids: "Iterable[int] | NDArray[np.integer] | pa.Array") -> bytes:
        """Return the bytes of ids; a special token is decoded to its name.

        Raises:
            KeyError, TypeError: As for `decode`.
        """
        row = _row_of(ids)
        if isinstance(self.model, FileModel):
            return self._decoder.decode(np.asarray(row, dtype=np.uint32))
        if isinstance(row, np.ndarray):
            if row.size >= _MANY_IDS and is_plain(row):
                return self._decoder.decode(row)
            row = row.tolist()
        try:
            return b"".join([self._spelling[number] for number in row])
        except KeyError as error:
            raise KeyError(f"Invalid token for decoding: {error.args[0]}") from None

    def decode_batch(
        self, ids: Ids, offsets: Offsets, *, as_bytes: bool = False
    ) -> "pa.LargeStringArray | pa.LargeBinaryArray":
        """Return the text of each row of ids as `decode` does, or its bytes, in one Arrow array.

        `ids` is a uint16 or uint32 array and `offsets` is an int64 array of n + 1 non-decreasing
        positions in it, which need not start at 0: the values that `encode_batch` returns. No
        thread may write to them during the call, as there.

        >>> from nanotok_ray import Tokenizer
        >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
        >>> tokenizer.decode_batch(*tokenizer.encode_batch(["ab", "", "c"])).to_pylist()
        ['ab', '', 'c']

        Raises:
            KeyError: An id is not a token; the message names it and its row.
            TypeError: `ids` or `offsets` are not arrays of these types.
            TokenizerError: `offsets` is empty, decreases, or exceeds the number of ids.
        """
        ids, offsets = required(ids, offsets)
        data, ends = self._decoder.decode_batch(ids, offsets, replace=not as_bytes)
        return Documents(data=data, offsets=ends).to_arrow(as_bytes=as_bytes)

    def decode_single_token_bytes(self, token_id: int) -> bytes:
        """Return the bytes of an id; for a special token, its name.

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

    @cached_property
    def _decoder(self) -> _core.Decoder | TextDecoder:
        """The table of spellings, which is built only when many ids are decoded, or a library."""
        model = self.model
        if isinstance(model, Model) and not model.continuations:
            names = [(number, name) for name, number in model.special_tokens.items()]
            return _core.Decoder(model.merge_array, names, byte_order=model.core_byte_order)
        if isinstance(model, FileModel) and model.description.file == SENTENCEPIECE_FILE:
            return PieceDecoder(model)
        if isinstance(model, FileModel) and model.tables is None:
            return engine_of(model)
        tokens = as_documents([*self._spelling.values()])
        numbers = np.array([*self._spelling], dtype=np.uint32)
        return _core.Decoder.of_tokens(numbers, tokens.data, tokens.offsets)

    @cached_property
    def _ids_of_names(self) -> Mapping[str, int]:
        return self.get_vocab()

    @cached_property
    def _numbers(self) -> Mapping[bytes, int]:
        """The id of each token by its bytes; of several, the one that a text gives."""
        tokens = [*self.model.text_tokens.items()]
        if isinstance(self.model, FileModel):  # bytes of SentencePiece precede its pieces
            return {token: number for number, token in tokens}
        return {token: number for number, token in reversed(tokens)}

    @cached_property
    def _spelling(self) -> Mapping[int, bytes]:
        """The bytes of every id; for a special token, its name."""
        names = {number: name.encode() for name, number in self.model.special_tokens.items()}
        return {**self.model.text_tokens, **names}


def _row_of(ids: Any) -> "NDArray[Any] | list[int]":  # noqa: ANN401 - what was given
    """Return one-dimensional ids as a list or an array, without a copy where possible.

    Raises:
        TypeError: The values are not integers, or have more than one dimension.
    """
    if isinstance(ids, list):
        return ids
    values = getattr(ids, "values", None)
    if hasattr(ids, "as_py") and values is not None:  # a row of an Arrow array of lists
        ids = values
    if not isinstance(ids, np.ndarray):
        if isinstance(ids, str | bytes) or not (isinstance(ids, Iterable) or _is_exported(ids)):
            raise TypeError(
                f"ids is {type_of(ids)}: expected a list, or an array of numpy or Arrow"
            )
        if not _is_exported(ids):
            return [*(ids.tolist() if hasattr(ids, "tolist") else ids)]
        ids = _imported(ids)
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise TypeError(
            f"ids is a {ids.ndim}-d array of {ids.dtype}: expected one row of integers; "
            "decode_batch decodes many rows"
        )
    row: NDArray[Any] = ids
    narrow = row.size and not is_plain(row) and row.min() >= 0 and row.max() < 1 << 32
    return row.astype(np.uint32) if narrow else row


def _is_exported(ids: object) -> bool:
    return hasattr(ids, "__arrow_c_array__") or hasattr(ids, "__arrow_c_stream__")


def _imported(ids: object) -> NDArray[Any]:
    import pyarrow as pa  # noqa: PLC0415 - only who brings Arrow comes here

    array = pa.chunked_array(ids) if hasattr(ids, "__arrow_c_stream__") else pa.array(ids)
    if array.null_count:
        raise TypeError("ids holds nulls: expected one row of integers")
    row: NDArray[Any] = np.asarray(array)
    return row
