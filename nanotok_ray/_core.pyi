"""Types of the compiled core (source: `rust/`).

A batch of documents crosses as two arrays: `data` (all bytes back to back) and `offsets`
(n + 1 positions in `data`, never falling, the first not necessarily 0). Every call that loops
over documents releases the GIL. Errors are the classes of `nanotok_ray.errors`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "UNICODE_VERSION",
    "BestFitBuffer",
    "Decoder",
    "Dialect",
    "Encoder",
    "RunSums",
    "SpanCounts",
    "Splitter",
    "__build__",
    "best_fit_rows",
    "count_occurrences",
    "cpu_level",
    "cpu_levels",
    "fill_rows",
    "hash64",
    "hash_documents",
    "is_utf8",
    "learn",
    "merge_runs",
    "merges_of_tokens",
    "window_rows",
]

_SortedRun: TypeAlias = tuple[
    NDArray[np.uint64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64]
]
"""Hashes, bytes of the spans, their offsets, counts: sorted by (hash64, span)."""

_Segments: TypeAlias = tuple[
    NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]
]
"""Of segments in the order of rows, [s] each: document, first token in it, tokens; and [r + 1]:
those of row i are from entry i to entry i + 1."""

__build__: str
"""Version of the core, how and for what it was built, as "0.1.0 release x86_64-linux"."""

UNICODE_VERSION: str
"""Version of the Unicode tables behind every pattern, as "16.0.0"."""

def cpu_level() -> str:
    """Return the CPU level in use: "portable", "avx2" or "avx512"; all give the same results.

    Raises:
        TokenizerError: The environment variable NANOTOK_CPU asks for one that is not there.
    """

def cpu_levels() -> list[str]:
    """Return the levels that this CPU has, from the least."""

def hash64(data: bytes) -> int:
    """Return xxh3_64 of `data` with seed 0."""

def hash_documents(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hash64 of each document."""

def is_utf8(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> bool:
    """Return whether each document is UTF-8."""

def count_occurrences(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], needles: list[str]
) -> int:
    """Return how often any needle occurs in the documents: leftmost, longest, never overlapping.

    Raises:
        TokenizerError: A needle is empty.
    """

@final
class Splitter:
    """Cuts documents into spans."""

    def __new__(cls, pattern: str) -> Self:
        """Compile `pattern`.

        Raises:
            PatternError: It is not a regular expression the core can compile.
        """

    @property
    def pattern(self) -> str:
        """The pattern as it was given."""

    @property
    def engine(self) -> Literal["lexer", "table", "regex"]:
        """What finds the matches, from the fastest to the slowest; the spans are the same."""

    def split(self, document: bytes) -> list[bytes]:
        """Return the spans; joined they are the document.

        Text that the pattern does not match becomes spans of its own (maximal gaps). Maximal
        valid UTF-8 is split by the pattern; each invalid byte is a span.

        Raises:
            SplitError: The regex engine gave up.
        """

    def count_gaps(self, document: bytes) -> int:
        """Return how many maximal gaps the pattern leaves in the valid text.

        Raises:
            SplitError: The regex engine gave up.
        """

    def boundaries(self, document: NDArray[np.uint8], start: int, most: int) -> NDArray[np.int64]:
        """Return where spans begin and end in a part of a document.

        The part begins with the first span that begins at `start` or later, and has as many whole
        spans as fit `most` bytes; the first boundary is its begin, the last its end.

        Raises:
            SplitError: The regex engine gave up.
        """

@final
class SpanCounts:
    """How often each span occurs in the documents seen so far."""

    def __new__(cls, pattern: str, *, gaps: Literal["spans", "error"] = "spans") -> Self:
        """Start empty.

        Raises:
            PatternError: `pattern` is not a regular expression the core can compile.
            TokenizerError: `gaps` is neither "spans" nor "error".
        """

    def update(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64], *, threads: int = 1
    ) -> None:
        """Count the spans of each document; after an error nothing of the call is counted.

        Raises:
            SplitError: A document cannot be split (names its number and the byte offset).
            CountOverflowError: The sum of all counts would pass 2**64 - 1.
        """

    def num_distinct(self) -> int:
        """Return how many different spans there are; takes a look at each of them."""

    def total(self) -> int:
        """Return how many spans were counted."""

    def num_gaps(self) -> int:
        """Return how many of them the pattern did not match (invalid bytes left out)."""

    def sorted_run(self, *, threads: int = 1) -> _SortedRun:
        """Return all spans with their counts, sorted by (hash64, span), whatever the threads."""

@final
class RunSums:
    """Sums of sorted runs that come one hash range after the other."""

    def __new__(cls, *, min_count: int = 1, hashes: bool = False) -> Self:
        """Start empty; spans that occur less often than `min_count`, before weights, are dropped.

        Hashes are kept only if asked for.
        """

    def add(self, runs: list[_SortedRun], names: list[str], weights: list[int]) -> None:
        """Add the runs of one range, of which no span was there before; all others come after.

        Args:
            runs: sorted each.
            names: what messages call each run.
            weights: what the counts of each run are multiplied by.

        Raises:
            TokenizerError: A run is not sorted, or its arrays do not fit together; names it.
            CountOverflowError: A sum would pass 2**64 - 1, plain or weighted; names the span. The
                sums are of no use then.
        """

    def totals(self) -> tuple[list[int], list[int]]:
        """Return (spans, their bytes, distinct spans) of all runs, and of what was dropped of them.

        Weights are left out.
        """

    def take(self) -> _SortedRun:
        """Return the spans and their weighted counts, and hold none from then on.

        The first array is empty if no hashes were asked for.
        """

def merge_runs(runs: list[_SortedRun]) -> _SortedRun:
    """Return the sum of sorted runs as one sorted run.

    Raises:
        TokenizerError: A run is not sorted, or its arrays do not fit together.
        CountOverflowError: A count would pass 2**64 - 1.
    """

def learn(
    batches: Iterable[tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint64]]],
    *,
    num_merges: int,
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
    threads: int = 1,
    on_progress: Callable[[int, int, tuple[tuple[int, int], bytes, int] | None], None]
    | None = None,
) -> tuple[NDArray[np.uint32], NDArray[np.uint64], NDArray[np.uint64], str]:
    """Learn merges from batches of spans and their counts.

    The batches are iterated over twice, so that they need not be in memory together. The pair with
    the highest count is merged first; among equals the smallest (left, right). A span may occur
    more than once: its counts add. `on_progress` is called about every 1%, `last` being the last
    pair, the bytes of its token, and its count (None before the first); what it raises ends the
    call.

    Args:
        batches: tuples of `data`, the bytes of all spans, back to back; `offsets`, [n + 1]
            positions in `data`; and `counts`, [n], how often each occurs.
        num_merges: make so many at most.
        min_pair_count: do not merge a pair that occurs less often.
        max_token_bytes: do not merge a pair of more bytes.
        threads: use so many at most; the result does not depend on it.
        on_progress: called as `on_progress(done, total, last)`.

    Returns:
        `(m, 2)` pairs of ids; [m] each pair's count when it was merged, overlaps included; [m] how
        often it was merged, by which the number of tokens fell; why there are no more: "vocabulary
        size reached", "no pair left" or "below min_pair_count".

    Raises:
        TokenizerError: The arrays do not fit together, there are too many spans, or the batches
            differ when they are iterated over again, as those of a generator do.
        CountOverflowError: A pair's count would pass 2**64 - 1.
    """

def merges_of_tokens(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[bytes, NDArray[np.uint32]]:
    """Return the bytes of ids 0..255, and the merges `(m, 2)` that make the others.

    The pair of a token is what encoding its bytes with the tokens before it ends in.

    Args:
        data: the bytes of each id, back to back.
        offsets: [n + 1] positions in `data`.

    Raises:
        TokenizerError: ids 0..255 are not each byte once, or a token does not end in two parts.
    """

@final
class Encoder:
    """Turns documents into token ids: 0..255 are bytes, 256 + k is merge k."""

    def __new__(
        cls,
        pattern: str,
        merges: NDArray[np.uint32],
        *,
        gaps: Literal["spans", "error"] = "spans",
        byte_order: bytes | None = None,
        cache_bytes: int = ...,
    ) -> Self:
        """Build the tables for merges of shape `(m, 2)`.

        Id i < 256 is `byte_order[i]`, or byte i; `merges` name ids so, too.

        Each thread remembers the ids of spans in up to about `cache_bytes`; as many threads'
        memories as there are cores are kept from call to call.

        Raises:
            PatternError: `pattern` is not a regular expression the core can compile.
            TokenizerError: A merge names an id that does not exist yet, or a pair comes twice;
                `byte_order` is not each byte once.
        """

    def encode(self, document: bytes) -> NDArray[np.uint32]:
        """Return the ids of one document.

        Raises:
            SplitError: The regex engine gave up, or there is a gap and gaps are refused.
        """

    def encode_text(self, text: str) -> list[int]:
        """Return the ids of one text as a list.

        Raises:
            UnicodeEncodeError: The text holds a lone surrogate.
            SplitError: The regex engine gave up, or there is a gap and gaps are refused.
        """

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

        `before` and `after` are ids, of special tokens, around those of every document.

        Raises:
            TokenizerError: `wide` is False and there are more than 65,536 ids.
            SplitError: A document cannot be split (names its number and the byte offset).
        """

    def encode_strings(
        self, texts: Sequence[str], *, threads: int = 1, wide: bool = False
    ) -> tuple[NDArray[np.uint16] | NDArray[np.uint32], NDArray[np.int64]]:
        """Return all ids back to back, uint16 (uint32 if `wide`), and n + 1 offsets.

        ASCII is read where it is. Python keeps the UTF-8 of other texts with the str.

        Raises:
            TypeError: One of them is not a str.
            UnicodeEncodeError: One of them holds a lone surrogate.
            TokenizerError: `wide` is False and there are more than 65,536 ids.
            SplitError: A text cannot be split (names its number and the byte offset).
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
    ]:
        """Return the ids of n documents of a dialect, and what each of them is.

        Args:
            dialect: how the documents are read.
            special_tokens: all of the model, (name, id).
            data: the bytes of all documents, back to back.
            offsets: [n + 1] positions in `data`.
            threads: use so many at most; the result does not depend on it.
            wide: whether ids are uint32 instead of uint16.

        Returns:
            All t ids back to back; [t] their labels, role number << 1 | mask; [n + 1] where each
            document begins among them and the last ends; the numbers of declined documents,
            rising, which have no ids; (m, 3) images: number of the document, first position and
            end of its tokens in the document; (n, 2) sizes: bytes of the document's texts, how
            often special-token text occurs in them.

        Raises:
            TokenizerError: `wide` is False and there are more than 65,536 ids; offsets fall or
                leave the data, or there are none; the name of a special token is empty.
            SplitError: A text cannot be split (names its document and the byte offset in the text).
        """

    def num_tokens(self) -> int:
        """Return 256 + the number of merges."""

    def token_bytes(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the bytes of every id back to back, and their offsets."""

    def duplicate_tokens(self) -> list[tuple[int, int]]:
        """Return (lowest id, other id) wherever two ids stand for the same bytes.

        Such a tokenizer cannot be written as a file keyed by token bytes.
        """

@final
class Dialect:
    """How documents of one kind and dialect become texts and special tokens.

    A document that is not surely well formed is declined, which is no error: the plain Python of
    `nanotok_ray.dialects` says what is wrong with it, or that nothing is.
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
    ) -> Self:
        """Take the settings; they are those of `nanotok_ray.dialects.Dialect`.

        Raises:
            TokenizerError: There is no such kind, or no dialect of that name in it.
        """

    def texts(
        self, data: NDArray[np.uint8], offsets: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the texts of all documents: what of them is encoded, each on its own.

        Returns:
            All n texts back to back; [n + 1] where each begins and the last ends; [d + 1] the
            number of the first text of each of the d documents, and n; the numbers of declined
            documents, rising, which have no texts.

        Raises:
            TokenizerError: Offsets fall or leave the data, or there are none.
        """

@final
class Decoder:
    """Turns token ids into bytes: 0..255 are bytes, 256 + k is merge k; special tokens by name."""

    def __new__(
        cls,
        merges: NDArray[np.uint32],
        special_tokens: Sequence[tuple[int, str]],
        *,
        byte_order: bytes | None = None,
    ) -> Self:
        """Build the table of spellings for merges of shape `(m, 2)` and (id, name) pairs.

        Id i < 256 is `byte_order[i]`, or byte i; `merges` name ids so, too.

        Raises:
            TokenizerError: A merge names an id that does not exist yet, or the bytes are too many;
                `byte_order` is not each byte once.
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

        `offsets` are n + 1 positions in `ids`, the first not necessarily 0. With `replace`, every
        row is valid UTF-8: what was not is U+FFFD.

        Raises:
            KeyError: An id is not a token; the message names it and its row.
            TokenizerError: Offsets fall or leave the ids, or there are none.
        """

def best_fit_rows(lengths: NDArray[np.int64], capacity: int, *, keep_rest: bool) -> _Segments:
    """Pack all documents into rows, the largest that fits first.

    A row takes the largest document that fits what is left of it, until it is full or none fits; of
    equal ones that with the smallest number. When none fits, the row ends; with `keep_rest`, the
    longest gives as much as fits and its rest stays a candidate. Documents of 0 tokens are left
    out.

    Args:
        lengths: [n] tokens of documents 0 to n - 1.
        capacity: tokens of a row, at most.
        keep_rest: whether documents may be cut.

    Raises:
        PackingError: A length is negative or 2**32 or more, `capacity` not from 1 to 2**32 - 1, or
            without `keep_rest` a document is longer than a row; nothing is packed.
    """

def window_rows(lengths: NDArray[np.int64], length: int) -> _Segments:
    """Cut documents, back to back, into rows.

    Row k has the tokens from `k * length` on, `length` and one more, which is the first of the next
    row: each token is an input once. The last row may be shorter.

    Args:
        lengths: [n] tokens of documents 0 to n - 1.
        length: inputs of a row.

    Raises:
        PackingError: A length is negative or 2**32 or more, or `length` not from 1 to 2**32 - 1.
    """

@final
class BestFitBuffer:
    """Packs documents as they come, by the rule of nanochat's loader; a row is never padded.

    Before each choice there must be `buffer_size` documents. The largest that fits the rest of the
    row is taken; if none does, the shortest, of which what does not fit is thrown away. Of equal
    ones that which was pushed first is taken.
    """

    def __new__(cls, capacity: int, buffer_size: int) -> Self:
        """Begin with no documents and an empty row of `capacity` tokens.

        Raises:
            PackingError: A number is not from 1 to 2**32 - 1.
        """

    def push(self, lengths: NDArray[np.int64]) -> None:
        """Add documents of so many tokens; they are numbered 0, 1, 2, ... over all calls.

        Raises:
            PackingError: A length is not from 1 to 2**32 - 1; none of the call is added then.
        """

    def pack(
        self, max_rows: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]:
        """Pack up to `max_rows` complete rows, fewer when documents are needed.

        A row that is begun is kept and goes on with the next call.

        Returns:
            [s] numbers of the segments' documents; [s] tokens of each, from the document's first
            on; [r + 1], the segments of row i are from entry i to entry i + 1.

        Raises:
            PackingError: `max_rows` is negative.
        """

    def skip(self, max_rows: int) -> int:
        """Do what `pack` does and return only the number of rows.

        Raises:
            PackingError: `max_rows` is negative.
        """

    @property
    def needs_documents(self) -> bool:
        """Whether fewer than `buffer_size` documents are there, so that no row can go on."""

    @property
    def num_rows(self) -> int:
        """Complete rows so far."""

    @property
    def num_tokens(self) -> int:
        """Tokens placed so far, those of a row that is begun too."""

    @property
    def cropped_tokens(self) -> int:
        """Tokens thrown away so far."""

    @property
    def cropped_documents(self) -> int:
        """Documents so far of which tokens were thrown away."""

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
    """Write inputs and targets of rows that are made of segments.

    A row's tokens are those of its segments, joined: up to T + 1. The target of an input is the
    token after it; -1 where there is none, or where its mask is 0.

    Args:
        ids: arrays that the segments lie in.
        masks: for each of `ids` the mask of its tokens, or None: all are targets.
        which: [s] number of each segment's array.
        offsets: [s] its first element there.
        lengths: [s] its tokens.
        rows: [r + 1], the segments of row i are from entry i to entry i + 1.
        inputs: (r, T), is written; C-contiguous.
        targets: (r, T), is written; of the same type.
        pad: the input where a row has no token.
        num_ids: how many ids there are: each is below it; without, those of 32 bits.

    Raises:
        PackingError: The arrays do not fit together, a row is too long, a segment lies outside its
            array (names it), an id is none of `num_ids`, or an id or `pad` does not fit int32;
            nothing is written then.
    """
