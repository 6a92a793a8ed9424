"""Types of the compiled core (source: `rust/`).

A batch of documents is passed as two arrays: `data` (all bytes back to back) and `offsets` (n + 1
non-decreasing positions in `data`, of which the first need not be 0). Every call that loops over
documents releases the GIL, and reads arrays where they are: no thread or process may write to them
until it returns. Errors are the classes of `nanotok_ray.errors`.

`threads` is the maximum number of threads, of which at most 1,024 are used; results do not depend
on it. A value below 1 is a `TokenizerError`, another number that the core cannot represent an
`OverflowError`. If memory cannot be allocated, every call raises `MemoryError`; `SpanCounts`,
`RunSums` and `BestFitBuffer` cannot be used after that.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "UNICODE_VERSION",
    "BestFitBuffer",
    "ChatTemplate",
    "Decoder",
    "Dialect",
    "Encoder",
    "Recognizer",
    "RunSums",
    "SpanCounts",
    "Splitter",
    "__build__",
    "best_fit_rows",
    "count_occurrences",
    "cpu_level",
    "cpu_levels",
    "fill_rows",
    "fold_documents",
    "hash64",
    "hash_documents",
    "is_utf8",
    "json_rows",
    "learn",
    "merge_runs",
    "merges_of_pairs",
    "merges_of_ranks",
    "merges_of_tokens",
    "num_json_values",
    "window_rows",
]

_SortedRun: TypeAlias = tuple[
    NDArray[np.uint64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64]
]
"""Hashes, bytes of the spans, their offsets, counts; sorted by (hash64, span)."""

_Segments: TypeAlias = tuple[
    NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]
]
"""Segments in the order of rows, each array of shape (s,): document, first token in it, number of
tokens; and (r + 1,) boundaries: row i has the segments from entry i to entry i + 1.
"""

_Step: TypeAlias = tuple[
    str, Literal["isolated", "contiguous", "merged_with_previous", "merged_with_next"], bool
]
"""A step of splitting: pattern, behavior, and whether the text between the matches is split off in
place of the matches (`invert`).
"""

_Normalizer: TypeAlias = (
    tuple[Literal["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "PrefixSpace"]]
    | tuple[Literal["Prepend"], str]
    | tuple[Literal["Replace"], str, str]
    | tuple[Literal["Strip"], bool, bool]
)
"""A change of the text before it is split; `Encoder` explains them."""

__build__: str
"""Version, profile and platform of the core, such as "0.1.0 release x86_64-linux"."""

UNICODE_VERSION: str
"""Version of the Unicode tables of every pattern, such as "16.0.0"."""

def cpu_level() -> str:
    """Return the CPU level in use: "portable", "avx2" or "avx512"; results are the same.

    Raises:
        TokenizerError: The environment variable NANOTOK_CPU requires an unavailable level.
    """

def cpu_levels() -> list[str]:
    """Return the levels of this CPU in increasing order."""

def hash64(data: bytes) -> int:
    """Return xxh3_64 of `data` with seed 0."""

def hash_documents(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash64 of each document."""

def fold_documents(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the documents in NFC and lower case, their words with one space between them.

    Words are the parts between characters of the property White_Space, each character is in lower
    case on its own, and a document that is not UTF-8 is unchanged.
    """

def is_utf8(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> bool:
    """Return whether every document is valid UTF-8."""

def count_occurrences(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], needles: list[str]
) -> int:
    """Return the number of occurrences of needles: leftmost, longest, never overlapping.

    Raises:
        TokenizerError: A needle is empty or has more than 1,024 bytes, or the needles have more
            than 1 MiB.
    """

def json_rows(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], *, field: str | None, id_field: str | None
) -> tuple[
    NDArray[np.uint8],
    NDArray[np.int64],
    NDArray[np.uint8],
    NDArray[np.int64],
    list[tuple[int, Literal["utf8", "json", "nested", "kind", "missing", "field kind"], int]],
]:
    """Return the texts and ids of lines of JSON, and the lines without a text.

    The text is the string `field`, and the id the string or the digits of the integer `id_field`,
    both empty if there is none. As in Python, the last of members of one name counts, and NaN is a
    number; a lone surrogate becomes U+FFFD. Without `field`, there are no texts, and a line is an
    object or an array.

    Returns:
        Texts, offsets of texts, ids, offsets of ids, and for each line without a text its index,
        a problem and a detail: "utf8" or "json" with the position where the line is not UTF-8 or
        JSON; "missing"; "kind" or "field kind" with the first byte of the line's value or of the
        field, which has another type; or "nested" for values that are more than 128 deep: the line
        may be valid, and has neither text nor id here.
    """

def num_json_values(data: NDArray[np.uint8]) -> int:
    """Return an upper bound of the number of values in a document of JSON, which may be invalid."""

@final
class Splitter:
    r"""Splits documents into spans, by a pattern or by a sequence of steps.

    The first step splits the text, and every later one splits each piece of the step before on its
    own: look-around sees the piece only. The pieces of the last step are the spans. A step is
    `Split` of the library tokenizers in a `Sequence`, with a regular expression and one of these
    behaviors, where the parts of a piece are the matches and the texts between them:

    - "isolated": every part is a piece;
    - "contiguous": adjacent matches are one piece, and so is the text between two of them;
    - "merged_with_previous": a match belongs to the piece of the text before it, if there is any
      after the match before;
    - "merged_with_next": a match belongs to the piece of the text after it, if there is any before
      the match after.

    `Digits` of tokenizers 0.23.3 has newer tables than its `Split`: it is a step with the pattern
    `[\p{N}\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6}]`.

    With `invert`, matches and the texts between them change roles. A single step that is isolated
    and not inverted is the same as its pattern alone.
    """

    def __new__(cls, pattern: str | Sequence[_Step]) -> Self:
        """Compile `pattern`, or the patterns of the steps.

        Raises:
            PatternError: The core cannot compile a regular expression, it has more than 65,536
                bytes, there are no steps or more than 16, or a behavior is unknown (such as
                "removed", with which the spans would not be the document).
        """

    @property
    def pattern(self) -> str | list[_Step]:
        """The pattern or the steps as they were passed."""

    @property
    def engine(self) -> Literal["lexer", "table", "regex"]:
        """The implementation that splits text, from fastest to slowest; the spans are the same.

        The slowest one of several steps.
        """

    def split(self, document: bytes) -> list[bytes]:
        """Return the spans, whose concatenation is the document.

        Text that the pattern does not match becomes spans of its own (maximal gaps). Maximal valid
        UTF-8 is split by the pattern, or by the steps; each invalid byte is a span.

        Raises:
            SplitError: The regex engine gave up on the document.
        """

    def count_gaps(self, document: bytes) -> int:
        """Return the number of maximal gaps of the pattern in the valid text.

        There are none with several steps, for which every piece is a span.

        Raises:
            SplitError: The regex engine gave up on the document.
        """

    def boundaries(self, document: NDArray[np.uint8], start: int, most: int) -> NDArray[np.int64]:
        """Return the boundaries of spans in a part of a document.

        The part begins with the first span at or after `start`, and has as many whole spans as fit
        `most` bytes; the first boundary is its start, the last its end.

        Raises:
            SplitError: The regex engine gave up on the document.
        """

@final
class SpanCounts:
    """The count of each span in the documents so far."""

    def __new__(
        cls,
        pattern: str | Sequence[_Step],
        *,
        gaps: Literal["spans", "error"] = "spans",
        normalizers: Sequence[_Normalizer] = ...,
        base: Encoder | None = None,
        frequent: NDArray[np.uint64] | None = None,
    ) -> Self:
        """Create empty counts of documents that are changed by `normalizers` and then split.

        With `base`, the ids of each span are counted in place of the span: all pairs of neighbors,
        as eight bytes (both ids as uint32, little-endian); or, with `frequent`, the ids between
        pairs that are not in it, if there are at least two, with four bytes each. A number of
        `frequent` is left + (right << 32).

        Raises:
            PatternError: The core cannot compile the regular expression.
            TokenizerError: `gaps` is neither "spans" nor "error", or a normalizer is unknown.
        """

    def update(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64], *, threads: int = 1
    ) -> None:
        """Count the spans of each document; after an error, no document of the call is counted.

        Raises:
            SplitError: A document cannot be split (the message names its index and the byte
                offset).
            CountOverflowError: The sum of all counts would exceed 2**64 - 1.
        """

    def num_distinct(self) -> int:
        """Return the number of different spans, which takes time linear in it."""

    def total(self) -> int:
        """Return the number of counted spans."""

    def num_gaps(self) -> int:
        """Return the number of spans that the pattern did not match, without invalid bytes."""

    def sorted_run(self, *, threads: int = 1) -> _SortedRun:
        """Return all spans with their counts, sorted by (hash64, span)."""

@final
class RunSums:
    """Sums of sorted runs, which are added one hash range after the other."""

    def __new__(cls, *, min_count: int = 1, hashes: bool = False) -> Self:
        """Create empty sums; spans with a lower sum than `min_count`, before weights, are dropped.

        Hashes are kept only if `hashes` is true.
        """

    def add(self, runs: list[_SortedRun], names: list[str], weights: list[int]) -> None:
        """Add the runs of one range; all of its spans must follow those of earlier ranges.

        Args:
            runs: sorted runs.
            names: the names of the runs in messages.
            weights: the factors of the counts of each run.

        Adjacent runs of one name are parts of one file.

        Raises:
            TokenizerError: A run is not sorted, repeats a span, has a count of 0 or a hash that is
                not that of its span, or its arrays do not match; the message names it.
            CountOverflowError: A plain or weighted sum would exceed 2**64 - 1; the message names
                the span. The sums cannot be used afterwards.
        """

    def totals(self) -> tuple[list[int], list[int]]:
        """Return (spans, their bytes, distinct spans) of all runs, and of dropped spans.

        The numbers are without weights.
        """

    def take(self) -> _SortedRun:
        """Return the spans and their weighted counts, and clear the sums.

        The first array is empty without hashes.
        """

def merge_runs(runs: list[_SortedRun]) -> _SortedRun:
    """Return the sum of sorted runs as one sorted run.

    A run can repeat a span. Hashes are not compared with the spans.

    Raises:
        TokenizerError: A run is not sorted, or its arrays do not match.
        CountOverflowError: A count would exceed 2**64 - 1.
    """

def learn(
    batches: Iterable[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64]]]
    | Iterable[tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint64]]],
    *,
    num_merges: int,
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
    threads: int = 1,
    base: tuple[NDArray[np.uint8], NDArray[np.int64]] | None = None,
    superwords: tuple[int, bytes] | None = None,
    on_progress: Callable[[int, int, tuple[tuple[int, int], bytes, int] | None], None]
    | None = None,
) -> tuple[NDArray[np.uint32], NDArray[np.uint64], NDArray[np.uint64], str]:
    """Learn merges from batches of spans and their counts.

    The batches are iterated over twice, so that they need not be in memory together. The pair with
    the highest count is merged first, of equal counts the smallest (left, right). A span can occur
    several times; its counts are added. `on_progress` is called about every 1% of the merges;
    `last` is the last pair, the bytes of its token, and its count (None before the first merge).
    An exception in it ends the call.

    Args:
        batches: tuples of `data`, the bytes of all spans back to back; `offsets`, n + 1 positions
            in `data`; and `counts`, the count of each span.
        num_merges: the maximum number of merges.
        min_pair_count: a pair with a lower count is not merged.
        max_token_bytes: the longest token in bytes.
        threads: the maximum number of threads.
        base: the bytes of each id of the tokenizer that learning continues, and their offsets; no
            bytes for an id that no text has. The batches then have ids in place of bytes, and new
            ids follow those of the base. No merge makes the bytes of a token of the base.
        superwords: with a base, the maximum number of words of a new token, which are the parts
            between spaces that are not empty, and bytes that no new token contains.
        on_progress: called as `on_progress(done, total, last)`.

    Returns:
        Pairs of ids, of shape (m, 2); the count of each pair when it was merged, overlapping
        occurrences included, of shape (m,); the number of its applications, by which the number of
        tokens decreased, of shape (m,); and the reason of the end: "vocabulary size reached", "no
        pair left" or "below min_pair_count".

    Raises:
        TokenizerError: The arrays do not match, there are too many spans, the second iteration
            yields other batches, as with a generator, or the base lacks an id.
        CountOverflowError: The count of a pair would exceed 2**64 - 1.
    """

def merges_of_tokens(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[bytes, NDArray[np.uint32]]:
    """Return the bytes of ids 0..255, and the merges, of shape (m, 2), that make the others.

    The pair of a token is the result of encoding its bytes with the tokens of lower ids.

    Args:
        data: the bytes of each id, back to back.
        offsets: n + 1 positions in `data`.

    Raises:
        TokenizerError: Ids 0..255 are not a permutation of the bytes, or a token does not consist
            of two parts.
    """

def merges_of_ranks(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], tuple[NDArray[np.uint8], NDArray[np.int64]], NDArray[np.uint32]]:
    """Return what `Encoder` needs to encode as tiktoken with these tokens.

    tiktoken's rule: a span that is a token as a whole is that token. Otherwise it begins as its
    bytes, and of all adjacent pairs whose joined bytes are a token, the one of the lowest rank is
    joined, the leftmost first. The tokens that joining makes become merges, the others whole
    tokens. Every vocabulary of ranks has such a form.

    Args:
        data: the bytes of each token in the order of their ranks, back to back. All 256 bytes must
            be among them, at any rank.
        offsets: n + 1 positions in `data`.

    Returns:
        m merges in internal ids, of shape (m, 2); the whole tokens, in the order of their ranks;
        and `positions`, for each of the n internal ids the position of its token in the input. The
        `priorities` of the merges are `positions[256 : 256 + m]`. If positions are ids, `positions`
        is the `numbering` of the encoder.

    Raises:
        TokenizerError: A byte is missing, or a token is empty, repeated, or longer than 131,072
            bytes. The message names it.
    """

def merges_of_pairs(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the merges that the pairs of a tokenizer.json apply, without those that never apply.

    The rule of the library tokenizers: of all adjacent pairs in the list, the first in the list is
    merged, the leftmost of equal ones first. A merged pair is the token of its joined bytes. Of
    equal pairs the last counts. Files converted from tiktoken list every division of a token, of
    which one applies. Every list has such a form.

    Args:
        data: the bytes of the parts, back to back: left and right of the first pair, then those of
            the second one, and so on.
        offsets: 2n + 1 positions in `data`.

    Returns:
        Merges in internal ids, of shape (m, 2): merge k makes 256 + k of bytes (0..255) and
        earlier merges. For each of them its position among the n pairs, which is its priority; the
        positions increase except for merges that apply as soon as a later one has made their part.

    Raises:
        TokenizerError: The number of parts is odd, or a pair has more than 131,072 bytes.
    """

@final
class Recognizer:
    """Finds the names of special tokens in texts."""

    def __new__(cls, passes: Sequence[Sequence[tuple[str, int]]]) -> Self:
        """Build the searchers of names with their ids, pass by pass.

        Names of a later pass are searched for only between those of the passes before. In a pass,
        matches are leftmost, and the longest at a position.

        Raises:
            TokenizerError: A name is empty or has more than 1,024 bytes, or the names of a pass
                have more than 1 MiB.
        """

@final
class Encoder:
    """Encodes documents to token ids.

    Tokens have internal ids: 0..255 are the bytes, 256 + k is the token of merge k, and whole
    tokens follow. The ids that the methods return and take are those of `numbering`, or internal
    ids without it.

    A span that is a token as a whole is that token. The bytes of another span are merged: of all
    adjacent pairs the one of the first merge, or of the lowest priority, the leftmost first.
    """

    def __new__(
        cls,
        pattern: str | Sequence[_Step],
        merges: NDArray[np.uint32],
        *,
        gaps: Literal["spans", "error"] = "spans",
        byte_order: bytes | None = None,
        priorities: NDArray[np.uint32] | None = None,
        whole: tuple[NDArray[np.uint8], NDArray[np.int64]] | None = None,
        numbering: NDArray[np.uint32] | None = None,
        space_runs: NDArray[np.uint32] | None = None,
        normalizers: Sequence[_Normalizer] = ...,
        cache_bytes: int = ...,
    ) -> Self:
        """Build the tables for merges of shape `(m, 2)`.

        Args:
            pattern: the pattern or the steps of a `Splitter`.
            merges: pairs of internal ids, of which merge k uses only those below 256 + k.
            gaps: "error" refuses documents with text that the pattern does not match. It has no
                effect with several steps, for which every piece is a span.
            byte_order: id i < 256 is `byte_order[i]`, and `merges` use the same ids; not together
                with the next three.
            priorities: the priority of each merge, all different, as `merges_of_ranks` and
                `merges_of_pairs` return them; without it, merges are in the order of priority.
            whole: the bytes of further tokens, back to back, and their n + 1 offsets. No merge
                makes them: a span becomes such a token only as a whole.
            numbering: the id of each internal id: one for each token, all different, in any
                order and with any gaps, below 2**31. A token of several bytes with the number
                2**32 - 1 has no id, and becomes the ids of its bytes.
            space_runs: the id of a run of n spaces at index n, 2**32 - 1 if it is no token. Spaces
                that are left at the start of a span when it is merged become these tokens: of all
                neighbors that make one of them, the leftmost is joined.
            normalizers: changes of every document, or text of a conversation, before it is split,
                in this order. Every part of maximal valid UTF-8 is changed like a document, and
                every change of an empty text is the empty text.

                - ("NFC",), ("NFD",), ("NFKC",), ("NFKD",): the forms of Unicode, with the tables
                  of the library tokenizers.
                - ("Lowercase",): every character in lower case on its own.
                - ("Prepend", text): `text` before the text.
                - ("PrefixSpace",): a space before a text that does not begin with one.
                - ("Replace", text, by): every occurrence of `text`, which must not be empty, from
                  left to right.
                - ("Strip", left, right): the text without white space at its ends.
            cache_bytes: about the most memory for the cached ids of spans, for each thread; at
                most one cache for each core is kept between calls.

        Raises:
            PatternError: As for `Splitter`.
            TokenizerError: A merge uses an id that does not exist yet, or a pair occurs twice; a
                token has more than 131,072 bytes, or all tokens more than 64 MiB; `byte_order` is
                not a permutation of the bytes; priorities are equal, or a merge belongs before an
                earlier one by its priority; a whole token is empty, or repeats another token;
                `numbering` has another length, a repeated id, or one of 2**31 or more; a
                normalizer is unknown or has wrong arguments.
        """

    def encode(self, document: bytes) -> NDArray[np.uint32]:
        """Return the ids of one document.

        Raises:
            SplitError: The regex engine gave up on the document, or it has a gap and `gaps` is
                "error".
        """

    def encode_text(self, text: str) -> list[int]:
        """Return the ids of one text as a list.

        Raises:
            UnicodeEncodeError: The text contains a lone surrogate.
            SplitError: The regex engine gave up on the text, or it has a gap and `gaps` is
                "error".
        """

    def encode_spans(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64], *, threads: int = 1
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return the ids of spans, which are neither changed nor split, and n + 1 offsets."""

    def encode_batch(
        self,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        *,
        before: Sequence[int] = ...,
        after: Sequence[int] = ...,
        threads: int = 1,
        wide: bool = False,
    ) -> tuple[NDArray[np.uint16] | NDArray[np.uint32], NDArray[np.int64]]:
        """Return all ids back to back, uint16 (uint32 if `wide`), and n + 1 offsets.

        `before` and `after` are ids of special tokens that surround those of every document.

        Raises:
            TokenizerError: `wide` is False and an id does not fit uint16.
            SplitError: A document cannot be split (the message names its index and the byte
                offset, which is that in the normalized text).
        """

    def encode_strings(
        self, texts: Sequence[str], *, threads: int = 1, wide: bool = False
    ) -> tuple[NDArray[np.uint16] | NDArray[np.uint32], NDArray[np.int64]]:
        """Return all ids back to back, uint16 (uint32 if `wide`), and n + 1 offsets.

        ASCII texts are not copied. Python caches the UTF-8 of other texts in the str.

        Raises:
            TypeError: A value is not a str.
            UnicodeEncodeError: A text contains a lone surrogate.
            TokenizerError: `wide` is False and an id does not fit uint16.
            SplitError: A text cannot be split (the message names its index and the byte offset).
        """

    def encode_recognized(
        self,
        recognizer: Recognizer,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        *,
        before: Sequence[int] = ...,
        after: Sequence[int] = ...,
        threads: int = 1,
        wide: bool = False,
    ) -> tuple[NDArray[np.uint16] | NDArray[np.uint32], NDArray[np.int64]]:
        """Return the ids of documents like `encode_batch`, with the special tokens they spell.

        The text between special tokens is encoded piece by piece.

        Raises:
            SplitError, TokenizerError: As for `encode_batch`.
        """

    def render(
        self,
        dialect: Dialect,
        special_tokens: Sequence[tuple[str, int]],
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        *,
        threads: int = 1,
        wide: bool = False,
    ) -> tuple[
        NDArray[np.uint16] | NDArray[np.uint32],
        NDArray[np.uint8],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        list[str],
        NDArray[np.int64],
    ]:
        """Return the ids of n documents of a dialect, with labels, images, sizes and unused text.

        Args:
            dialect: the reader of the documents.
            special_tokens: all special tokens of the model as (name, id).
            data: the bytes of all documents, back to back.
            offsets: n + 1 positions in `data`.
            threads: the maximum number of threads.
            wide: whether ids are uint32 instead of uint16.

        Returns:
            All t ids back to back; their labels, role number << 1 | mask, of shape (t,); the start
            of each document in the ids and the end of the last, of shape (n + 1,); the increasing
            indexes of declined documents, which have no ids; images of shape (m, 3): index of the
            document, start and end of its tokens in the document; sizes of shape (n, 2): bytes of
            the document's texts, and number of names of special tokens in them; keys whose text is
            not rendered; rows of shape (k, 3) of the documents with such text: index of the
            document, index of the key, and number of its values.

        Raises:
            TokenizerError: `wide` is False and an id does not fit uint16; `offsets` is empty,
                decreases, or exceeds the data; the name of a special token is empty.
            SplitError: A text cannot be split (the message names its document and the byte offset
                in the text).
        """

    def num_tokens(self) -> int:
        """Return 256 + the number of merges + the number of whole tokens."""

    def num_ids(self) -> int:
        """Return the highest id + 1; ids fit uint16 if it is at most 65,536."""

    def token_bytes(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the bytes of every token in the order of ids, back to back, and their offsets."""

@final
class Dialect:
    """A reader of the documents of one kind and dialect, which yields texts and special tokens.

    A document that is not certainly well formed is declined, which is not an error: the plain
    Python of `nanotok_ray.dialects` reports its problem, or renders it.
    """

    def __new__(
        cls,
        kind: Literal["chat", "vision"],
        name: str,
        *,
        image_token: str | None = None,
        image_tokens: int | None = None,
        grounding: Sequence[str] = ...,
        train_prompt: bool = True,
        metadata: Sequence[str] = ...,
    ) -> Self:
        """Store the settings, which are those of `nanotok_ray.dialects.Dialect`.

        Text under the keys `metadata` of a document is not counted as unused; a key that begins
        with `*` stands for all keys with that end.

        Raises:
            TokenizerError: The kind or the dialect is unknown.
        """

    def texts(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the texts of all documents that are encoded on their own.

        Returns:
            All n texts back to back; their offsets, of shape (n + 1,); the index of the first text
            of each of the d documents, and n, of shape (d + 1,); the increasing indexes of
            declined documents, which have no texts.

        Raises:
            TokenizerError: `offsets` is empty, decreases, or exceeds the data.
        """

@final
class Decoder:
    """Decodes token ids: 0..255 are bytes, 256 + k is the token of merge k; others are names."""

    def __new__(
        cls,
        merges: NDArray[np.uint32],
        special_tokens: Sequence[tuple[int, str]],
        *,
        byte_order: bytes | None = None,
    ) -> Self:
        """Build the table of bytes for merges of shape `(m, 2)` and (id, name) pairs.

        Id i < 256 is `byte_order[i]`, or byte i; `merges` use the same ids.

        Raises:
            TokenizerError: As for `Encoder`, or a name has more than 1,024 bytes.
        """

    @classmethod
    def of_tokens(
        cls, ids: NDArray[np.uint32], data: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> Self:
        """Build the table of bytes of explicit tokens, special tokens among them.

        Args:
            ids: the id of each token, in any order and with any gaps.
            data: the bytes of the tokens, back to back.
            offsets: n + 1 positions in `data`.

        Raises:
            TokenizerError: The arrays do not match, an id is repeated, a token has more than
                131,072 bytes, or all tokens have 4 GiB or more.
        """

    def decode(self, ids: NDArray[np.uint16] | NDArray[np.uint32]) -> bytes:
        """Return the bytes of `ids`.

        Raises:
            KeyError: An id is not a token.
        """

    def decode_batch(
        self,
        ids: NDArray[np.uint16] | NDArray[np.uint32],
        offsets: NDArray[np.int64],
        *,
        replace: bool = False,
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the bytes of each row of ids back to back, and n + 1 offsets.

        `offsets` has n + 1 positions in `ids`, of which the first need not be 0. With `replace`,
        every row is valid UTF-8, with U+FFFD for invalid bytes.

        Raises:
            KeyError: An id is not a token; the message names it and its row.
            TokenizerError: `offsets` is empty, decreases, or exceeds the ids.
        """

    def mask_of_spans(
        self,
        ids: NDArray[np.uint16] | NDArray[np.uint32],
        offsets: NDArray[np.int64],
        texts: tuple[NDArray[np.uint8], NDArray[np.int64]],
        spans: NDArray[np.int64],
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the mask of ids, and the indexes of texts that their ids do not decode to.

        An id has 1 if it ends after the start of a span of its text and begins before the end.

        Args:
            ids: the ids of all texts.
            offsets: n + 1 positions in `ids`.
            texts: the texts as bytes back to back, and n + 1 offsets.
            spans: rows of text, start and end in bytes, of shape (m, 3), sorted.

        Raises:
            KeyError: An id is not a token.
            TokenizerError: A span is in no text, or spans are not sorted by texts.
        """

def best_fit_rows(lengths: NDArray[np.int64], capacity: int, *, keep_rest: bool) -> _Segments:
    """Pack all documents into rows, the largest that fits first.

    Each place of a row gets the largest document that fits, of equal ones that with the smallest
    index. If none fits, the row ends; with `keep_rest`, it is filled from the longest document,
    whose rest stays a candidate. Documents of 0 tokens are skipped.

    Args:
        lengths: the numbers of tokens of the documents.
        capacity: the maximum number of tokens of a row.
        keep_rest: whether documents can be cut.

    Raises:
        PackingError: A length is negative or at least 2**32, `capacity` is not from 1 to 2**32 -
            1, or without `keep_rest` a document is longer than a row; nothing is packed.
    """

def window_rows(lengths: NDArray[np.int64], length: int) -> _Segments:
    """Cut the concatenated documents into rows.

    Row k has `length` + 1 tokens from position `k * length` on, of which the last is the first of
    the next row: each token is an input once. The last row can be shorter.

    Args:
        lengths: the numbers of tokens of the documents.
        length: the number of inputs of a row.

    Raises:
        PackingError: A length is negative or at least 2**32, or `length` is not from 1 to 2**32 -
            1.
    """

@final
class BestFitBuffer:
    """Packs documents as they are added, by the rule of nanochat's loader, without padding.

    Each choice requires `buffer_size` documents. The largest document that fits the rest of the
    row is used; if none fits, the shortest is cropped and its rest is discarded. Of equal ones,
    the document that was added first is used.
    """

    def __new__(cls, capacity: int, buffer_size: int) -> Self:
        """Create an empty buffer and an empty row of `capacity` tokens.

        Raises:
            PackingError: A number is not from 1 to 2**32 - 1.
        """

    def push(self, lengths: NDArray[np.int64]) -> None:
        """Add documents of these lengths; they are numbered 0, 1, 2, ... over all calls.

        Raises:
            PackingError: A length is not from 1 to 2**32 - 1; no document of the call is added.
        """

    def pack(
        self, max_rows: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]:
        """Pack up to `max_rows` complete rows, or fewer if documents are needed.

        An incomplete row is kept and continued by the next call.

        Returns:
            The indexes of the segments' documents, of shape (s,); the number of tokens of each
            segment, from the document's first token on, of shape (s,); the boundaries of rows, of
            shape (r + 1,): row i has the segments from entry i to entry i + 1.

        Raises:
            PackingError: `max_rows` is negative.
        """

    def skip(self, max_rows: int) -> int:
        """Pack like `pack`, and return only the number of rows.

        Raises:
            PackingError: `max_rows` is negative.
        """

    @property
    def needs_documents(self) -> bool:
        """Whether the buffer needs documents, so that no row can continue."""

    @property
    def num_rows(self) -> int:
        """Number of complete rows so far."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens in rows so far, including an incomplete row."""

    @property
    def cropped_tokens(self) -> int:
        """Number of discarded tokens so far."""

    @property
    def cropped_documents(self) -> int:
        """Number of documents with discarded tokens so far."""

def fill_rows(
    ids: Sequence[NDArray[np.uint16] | NDArray[np.uint32]],
    masks: Sequence[NDArray[np.uint8] | None] | None,
    which: NDArray[np.int64],
    offsets: NDArray[np.int64],
    lengths: NDArray[np.int64],
    rows: NDArray[np.int64],
    inputs: NDArray[np.int32] | NDArray[np.int64],
    targets: NDArray[np.int32] | NDArray[np.int64],
    *,
    pad: int,
    num_ids: int = ...,
) -> None:
    """Write inputs and targets of rows that consist of segments.

    The tokens of a row are those of its segments, concatenated, at most T + 1. The target of an
    input is the next token, or -1 if there is none or if its mask is 0.

    Args:
        ids: the arrays of the segments.
        masks: the mask of each array of `ids`, or None if all of its tokens are targets.
        which: the index of each segment's array, of shape (s,).
        offsets: the position of its first token in the array, of shape (s,).
        lengths: its number of tokens, of shape (s,).
        rows: the boundaries of rows, of shape (r + 1,): row i has the segments from entry i to
            entry i + 1.
        inputs: the output of inputs, of shape (r, T), C-contiguous.
        targets: the output of targets, of the same shape and dtype.
        pad: the input for places without a token.
        num_ids: the number of ids, which every id must be below; default: all values of 32 bits.

    Raises:
        PackingError: The arrays do not match, a row is too long, a segment exceeds its array (the
            message names it), an id is not below `num_ids`, or an id or `pad` does not fit int32;
            nothing is written.
    """

@final
class ChatTemplate:
    """A chat template in Jinja, rendered as transformers renders it.

    `special_tokens` are variables of the template, and `now` is the time of `strftime_now`: seconds
    since 1970, printed in UTC.

    Raises:
        TemplateError: The source is not a template, or uses what is not supported.
    """

    def __new__(cls, source: str, special_tokens: dict[str, str], now: int) -> Self: ...
    @property
    def has_generation(self) -> bool:
        """Whether the template has generation blocks."""

    def render_rows(
        self,
        dialect: str,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        *,
        tools: str | None,
        arguments: bytes,
        names: Sequence[str],
        declines_names: bool,
        anchors: tuple[str, str] | None,
        train_on: str,
        trains_reasoning: bool,
        threads: int = 1,
    ) -> tuple[
        NDArray[np.uint8],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
        list[tuple[int, str]],
        NDArray[np.int64],
        list[tuple[int, str]],
    ]:
        """Render rows of JSON, as `chat.TemplateRenderer` describes.

        Args:
            dialect: a dialect of conversations.
            data: the rows back to back.
            offsets: n + 1 positions in `data`.
            tools: the member of a row with its tools.
            arguments: a JSON object of other variables.
            names: names of special tokens, which are counted in the texts of messages.
            declines_names: whether rows with such names are declined.
            anchors: what the template writes before and after an answer; None: turns cannot be
                located without generation blocks.
            train_on: `assistant`, `last` or `all`.
            trains_reasoning: whether the reasoning of messages is trained on.
            threads: maximum number of threads.

        Returns:
            The texts back to back, the n lengths of texts, rows of row, start and end of turns and
            of trained parts in bytes of the text, the number of names in each row, the members
            with text that are not used as (row, name), the declined rows, and the rows that the
            bounds of steps and output refuse, as (row, reason). Both have no text.

        Raises:
            TemplateError: The arguments are not JSON, or the names are too many.
            TokenizerError: The dialect is unknown.
        """

    def render(self, context: bytes) -> tuple[str, list[tuple[int, int]]]:
        """Return the text, and the spans of generation blocks in characters.

        `context` is a JSON object of the variables. In `messages`, members that are null are
        dropped, and the reasoning has the names `reasoning_content` and `thinking`.

        Raises:
            TemplateError: The template refuses the context, or an operation failed.
        """
