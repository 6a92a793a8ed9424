"""The public tokenizer class.

Text never becomes a special token: special tokens come only from `prepend`, `append`,
`encode_special` and the rendering of documents (see `rendering`). tiktoken and torch are imported
only by the methods that need them; ray is never imported.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

from nanotok_ray import _core
from nanotok_ray.chat import BatchRenderer, TemplateRenderer
from nanotok_ray.counts import SPLIT_PATTERN, resolve_pattern
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import (
    Nulls,
    batches_of,
    encode_texts,
    to_utf8,
)
from nanotok_ray.errors import TokenizerError
from nanotok_ray.formats import REFUSE, Gaps, TemplateSettings
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.folder import load_model, save_model
from nanotok_ray.tokenizer.foreign import of_encoding
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.output import check_folder, remove_foreign_files
from nanotok_ray.tokenizer.pieces import EncodedText, Special, offsets_in
from nanotok_ray.tokenizer.positions import Positions
from nanotok_ray.tokenizer.rendering import Ids, Offsets, Rendering

if TYPE_CHECKING:
    from typing_extensions import Self

    from nanotok_ray.documents.texts import Texts

CACHE_BYTES = 128 * 1024 * 1024
"""Default limit of the cache of spans of each encoding thread, in bytes."""


class Tokenizer(Positions, Rendering):
    """Encodes and decodes text with one model. Pickling stores only the model.

    >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
    >>> tokenizer.encode("hello!", prepend="<|bos|>")
    [258, 257, 108, 111, 33]
    >>> tokenizer.decode([258, 257, 108, 111, 33])
    '<|bos|>hello!'
    """

    def __init__(
        self,
        model: Model | FileModel,
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Build the tables of the core, or open the library that encodes with the model.

        Each encoding thread caches the ids of spans, up to about `cache_bytes`.

        Raises:
            PatternError: The pattern cannot be compiled.
            TokenizerError: The model was made with other Unicode tables than those of this build;
                or the library is not installed, or refuses the file.
        """
        if isinstance(model, Model) and model.unicode_version != _core.UNICODE_VERSION:
            raise TokenizerError(
                f"the tokenizer was made with Unicode {model.unicode_version} and this build has "
                f"{_core.UNICODE_VERSION}, so it would cut texts differently: install the "
                "nanotok_ray that made it"
            )
        self.model = model
        self.origin: str | None = None
        """The model of the Hugging Face hub and its commit, if the tokenizer was opened by name."""
        self._cache_bytes = cache_bytes
        self._encoder = self._encoder_of("spans")

    @classmethod
    def train_from_iterator(
        cls,
        iterator: "Texts",
        vocab_size: int,
        *,
        column: str | None = None,
        num_threads: int | None = None,
        pattern: str = SPLIT_PATTERN,
        special_tokens: Sequence[str] = SPECIAL_TOKENS,
        base: "Tokenizer | None" = None,
    ) -> "Self":
        """Learn a tokenizer from texts; `vocab_size` includes the special tokens.

        `iterator` and `column` have the types of `texts` and `column` of `encode_batch`: batches
        of texts, columns and data sets are accepted too. `pattern` is a regular expression, or a
        name of `nanotok_ray.counts.PATTERNS`, such as "gpt4".

        `base` is a tokenizer of byte-level BPE that is continued, with its pattern and special
        tokens: its ids stay the same, and new tokens have the ids after its last one.

        The vocabulary is smaller if no pair is left to merge; a warning is logged. With
        `num_threads=None` all cores are used, but one core inside a Ray worker; the result never
        depends on it. For limits, progress and a training report, count with
        `nanotok_ray.SpanCounts` and learn with `nanotok_ray.learn`: the merges are the same.

        Raises:
            VocabularySizeError: The size is too small for 256 bytes and the special tokens, or not
                larger than that of the base.
            TokenizerError: The base cannot be continued.
            PatternError: The pattern cannot be compiled.
            TypeError: `iterator` is a single text, a value is not a text or not of the type of the
                first one, or the column does not exist.
            SourceError: An array contains values other than texts, or a null.
        """
        from nanotok_ray.tokenizer.base import base_of  # noqa: PLC0415 - it imports this module
        from nanotok_ray.tokenizer.train import (  # noqa: PLC0415 - it imports this module
            TrainSettings,
            learn_model,
        )

        settings = TrainSettings(
            vocab_size=vocab_size,
            pattern=resolve_pattern(pattern),
            special_tokens=special_tokens,
            base=None if base is None else base_of(base),
        )
        texts = batches_of(iterator, name="iterator", column=column)
        return cls(learn_model(texts, settings, threads=num_threads))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> "Self":
        """Read a tokenizer that `save` wrote; `folder` is a path or a URL.

        If tokenizer.txt does not exist, tokenizer.json of Hugging Face, tokenizer.pkl of nanochat
        (a pickle is never executed), tekken.json of Mistral or tokenizer.model of SentencePiece is
        read; `nanotok_ray.open_tokenizer` reads more formats. A pickle beside the file that is read
        must hold the same tokenizer. `cache_bytes` is that of the class.

        Raises:
            TokenizerError: No tokenizer exists, it is damaged, the package that it needs is not
                installed, or tokenizer.pkl holds another one; the message names the next step.
            PatternError: The pattern of a tokenizer of another tool cannot be compiled here.
        """
        return cls(load_model(folder, check_pickle=True), cache_bytes=cache_bytes)

    from_directory = load

    @classmethod
    def from_tiktoken(cls, encoding: object, *, cache_bytes: int = CACHE_BYTES) -> "Self":
        """Convert a `tiktoken.Encoding`; texts are encoded like by its `encode_ordinary`.

        Text that the pattern does not match is encoded; tiktoken drops it.

        >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
        >>> Tokenizer.from_tiktoken(tokenizer.to_tiktoken()) == tokenizer
        True

        Raises:
            TokenizerError: The object is not an encoding of tiktoken, its ids of text have gaps, or
                the core cannot be shown to return the same ids.
            PatternError: The pattern cannot be compiled here.
        """
        return cls(of_encoding(encoding), cache_bytes=cache_bytes)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write tokenizer.txt, and the files that nanochat, tiktoken and Hugging Face read.

        These are tokenizer.pkl, token_bytes.pt, tokenizer.tiktoken, tokenizer.json and
        tokenizer_config.json (with the chat template if the tokenizer has all of its special
        tokens). The two files of Hugging Face are skipped if special tokens leave ids unused,
        which that format cannot express. The training report of another tokenizer is removed.
        Saving the same tokenizer again succeeds; another tokenizer is replaced only with
        `overwrite=True`, which also removes its other files of Hugging Face (vocab.json,
        merges.txt, special_tokens_map.json, added_tokens.json, chat_template.jinja and
        chat_template.json).

        Raises:
            TokenizerError: The folder holds another tokenizer, or is a file; two ids have the same
                bytes, special tokens leave too many ids unused, or a skipped file exists and was
                not saved here.
        """
        replaces = check_folder(self.model, os.fspath(folder), overwrite=overwrite)
        save_model(self.model, folder)
        if replaces:
            remove_foreign_files(self.model, os.fspath(folder))

    def truncated(self, vocab_size: int) -> "Self":
        """Return the tokenizer of the first merges; it equals one learned with this size.

        Special tokens keep their order and follow the last merge.

        >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
        >>> tokenizer.truncated(266).encode("hello", prepend="<|bos|>")
        [257, 104, 256, 108, 111]

        Raises:
            TokenizerError: The size exceeds that of this tokenizer, or is too small for 256 bytes
                and the special tokens.
        """
        smaller = self.byte_level_model.truncated(vocab_size)
        return type(self)(smaller, cache_bytes=self._cache_bytes)

    def extended(self, names: Sequence[str]) -> "Self":
        """Return the tokenizer with more special tokens; all existing ids stay the same.

        Names that the tokenizer lacks receive the ids after the last one, in the order of `names`.
        `nanotok_ray.chat.PRESETS` contains names for images.

        >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
        >>> tokenizer.extended(["<image>", "<|bos|>"]).encode_special("<image>")
        267

        Raises:
            TokenizerError: `names` is a single string, or contains an invalid name.
        """
        model = self.model.extended(names)
        if model is self.model:
            return self
        extended = type(self)(model, cache_bytes=self._cache_bytes)
        extended.origin = self.origin
        return extended

    @overload
    def encode(
        self,
        text: str,
        prepend: int | str | None = None,
        append: int | str | None = None,
        num_threads: int = 8,
        *,
        allowed_special: Special | None = None,
        disallowed_special: Special | None = None,
    ) -> list[int]: ...

    @overload
    def encode(
        self,
        text: list[str],
        prepend: int | str | None = None,
        append: int | str | None = None,
        num_threads: int = 8,
        *,
        allowed_special: Special | None = None,
        disallowed_special: Special | None = None,
    ) -> list[list[int]]: ...

    def encode(
        self,
        text: str | list[str],
        prepend: int | str | None = None,
        append: int | str | None = None,
        num_threads: int = 8,
        *,
        allowed_special: Special | None = None,
        disallowed_special: Special | None = None,
    ) -> list[int] | list[list[int]]:
        """Return the ids of a text, or a list of ids for each text of a list.

        Args:
            text: a text, or a list of texts.
            prepend: an id, or the name of a special token, before the ids of each text.
            append: an id, or the name of a special token, after the ids of each text.
            num_threads: the number of threads for a list; the ids do not depend on it.
            allowed_special: names of special tokens, or "all", that a text can spell to obtain the
                special token, as in tiktoken. None: names in a text stay text.
            disallowed_special: names that a text must not spell; "all" are those that are not
                allowed. As in tiktoken, "all" is the default if `allowed_special` is set.

        >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
        >>> len(tokenizer.encode("<|bos|>hello")), tokenizer.encode("hello", prepend="<|bos|>")
        (10, [258, 257, 108, 111])
        >>> tokenizer.encode("<|bos|>hello", allowed_special={"<|bos|>"})
        [258, 257, 108, 111]

        Raises:
            UnknownTokenError: `prepend` or `append` is not a token.
            TokenizerError: A text spells a special token that is disallowed.
            ValueError: `text` is neither a str nor a list.
            TypeError: A text of a list is not a str.
            SplitError: The regex engine gave up on a text.
        """
        is_plain = prepend is append is allowed_special is disallowed_special is None
        if is_plain and isinstance(text, str):
            return self._encode_text(text)
        before = [] if prepend is None else [self._number(prepend)]
        after = [] if append is None else [self._number(append)]
        rules = None
        if allowed_special is not None or disallowed_special is not None:
            rules = self._rules(allowed_special, disallowed_special)
        if isinstance(text, str):
            ids = self._encode_text(text) if rules is None else self._encode_pieces(text, rules)
            return before + ids + after
        if not isinstance(text, list):
            raise ValueError(f"Invalid input type: {type(text)}")  # noqa: TRY004 - nanochat's
        if rules is None:
            rows = self._encode_texts(text, num_threads)
        else:
            rows = self._encode_lists([[*rules.pieces(one)] for one in text], num_threads)
        return [before + row + after for row in rows]

    __call__ = encode

    def encode_ordinary(self, text: str) -> list[int]:
        """Return the ids of a text like `encode`; names of special tokens are text."""
        return self.encode(text)

    def encode_with_offsets(
        self,
        text: str,
        *,
        allowed_special: Special | None = None,
        disallowed_special: Special | None = None,
    ) -> EncodedText:
        """Return the ids of a text, and start and end of each id in bytes and characters.

        An id of part of a character covers the whole character, like Hugging Face's offsets. A
        surrogate pair counts as one character. The arguments are those of `encode`.

        >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
        >>> tokenizer.encode_with_offsets("hellé")
        EncodedText(ids=[257, 108, 195, 169], byte_offsets=[(0, 3), (3, 4), (4, 5), (5, 6)],
        char_offsets=[(0, 3), (3, 4), (4, 5), (4, 5)])

        Raises:
            TokenizerError: The tokenizer changes texts, for example by Unicode normalization; or as
                for `encode`.
        """
        if isinstance(self.model, FileModel) and not self.model.is_lossless:
            raise TokenizerError(
                f"{self.model.description.file} changes texts before it splits them, so its ids "
                "have no positions in a text"
            )
        ids = self.encode(
            text, allowed_special=allowed_special, disallowed_special=disallowed_special
        )
        lengths = [len(self._spelling[number]) for number in ids]
        in_bytes, in_chars = offsets_in(to_utf8(text), lengths)
        pairs = [[(start, end) for start, end in part.tolist()] for part in (in_bytes, in_chars)]
        return EncodedText(ids, *pairs)

    def encode_batch(
        self,
        texts: "Texts",
        *,
        num_threads: int = 1,
        nulls: Nulls = "error",
        column: str | None = None,
    ) -> tuple[Ids, Offsets]:
        """Return the ids of all texts back to back, and n + 1 offsets, as int64.

        The ids are uint16 if every id of the tokenizer, special tokens included, fits, otherwise
        uint32. Invalid UTF-8 is encoded as bytes. Texts in an Arrow column (string, large_string,
        binary, large_binary) are not copied, except chunks below 4 MiB, which are joined into 16
        MiB; string_view and binary_view are copied. Each value of a dictionary is encoded once.
        Other threads run during the call and must not write to its arrays.

        Args:
            texts: a list, tuple or iterator of str or of bytes, or of batches of these; a column
                of numpy, pandas, polars, Hugging Face or Arrow, or any object with the Arrow
                PyCapsule interface; or, with `column`, a table, a data set, a mapping of columns,
                or rows.
            num_threads: the maximum number of threads, up to 1,024; the ids do not depend on it.
            nulls: "error" raises an error for a missing text; "empty" returns a row without ids.
            column: the name of the column of a table, of a data set or of rows.

        >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
        >>> ids, offsets = tokenizer.encode_batch(["ab", "", "c"])
        >>> ids.tolist(), offsets.tolist()
        ([97, 98, 99], [0, 2, 2, 3])

        Raises:
            TypeError: A text is missing, neither str nor bytes, or not of the type of the first
                one; or `texts` is a single text, an unsupported object, or lacks the column.
            SourceError: The array contains values other than texts, or a null (the message names
                its first row); or `nulls` is neither "error" nor "empty".
            SplitError: The regex engine gave up on a text.
            TokenizerError: `num_threads` is less than 1.
        """
        return encode_texts(
            texts,
            lambda documents: self.encode_documents(documents, num_threads=num_threads),
            lambda strings: self._encode_strings(strings, num_threads),
            nulls=nulls,
            column=column,
        )

    def batch_renderer(self, dialect: Dialect, *, gaps: Gaps = "spans") -> BatchRenderer:
        """Return a renderer of batches of documents of a dialect.

        Raises:
            TokenizerError: The dialect is unknown.
        """
        return BatchRenderer(
            self._encoder if gaps == "spans" else self._strict_encoder,
            self.model.special_tokens,
            dialect,
            wide=self.model.id_bytes > np.dtype(np.uint16).itemsize,
        )

    def template_renderer(
        self, settings: TemplateSettings, dialect: Dialect, *, special_text: str = REFUSE
    ) -> TemplateRenderer:
        """Return a renderer of batches of conversations with a chat template.

        `special_text` says what happens to a conversation whose messages have names of special
        tokens: see the key of the recipe.
        """
        return TemplateRenderer(self, settings, dialect, special_text=special_text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.model == other.model

    def __hash__(self) -> int:
        return hash(self.model)

    def __reduce__(self) -> "tuple[type[Self], tuple[Model | FileModel]]":
        return type(self), (self.model,)

    def __repr__(self) -> str:
        tokens = f"{len(self.model.special_tokens):,} special tokens, {len(self):,} ids"
        if isinstance(self.model, FileModel):
            described = self.model.description
            return (
                f"<Tokenizer {self.sha256[:16]}: {described.file}, engine {described.engine}, "
                f"{tokens}>"
            )
        return f"<Tokenizer {self.sha256[:16]}: {len(self.model.merges):,} merges, {tokens}>"

    def _number(self, token: int | str) -> int:
        return token if isinstance(token, int) else self.encode_special(token)
