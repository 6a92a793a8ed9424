"""Training: counts of spans to merges, to a tokenizer, and to its report.

The merges equal those of nanochat's training, bit for bit.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN, default_threads
from nanotok_ray.documents import batches_of
from nanotok_ray.errors import TokenizerError, VocabularySizeError
from nanotok_ray.formats import to_json
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.model import (
    MAX_ID,
    NUM_BYTES,
    Model,
    make_model,
    number_special_tokens,
)
from nanotok_ray.tokenizer.report import (
    BELOW_MIN_PAIR_COUNT,
    REACHED,
    REPORT_NAME,
    Counted,
    Learned,
    cut_report,
    training_report,
)
from nanotok_ray.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nanotok_ray.counts import SpanCounts
    from nanotok_ray.documents.texts import Texts

_log = logging.getLogger(__name__)

Spans = Iterable[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint64]]]
"""Batches of distinct spans, which are iterated over twice: the bytes of the spans back to back,
their offsets [n + 1], their counts [n]."""

Made = tuple[tuple[int, int], bytes, int]
"""The last merge: its pair, the bytes of its token, how often the pair occurred."""

OnMerges = Callable[[int, int, Made | None], None]
"""Called as (merges made, merges asked for, the last one), about every 1%."""

SHORTEST = 2
"""Bytes of the shortest token that a merge makes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainSettings:
    """What a tokenizer depends on besides the counts that it is learned from.

    >>> TrainSettings(vocab_size=300, special_tokens=("<|bos|>",)).num_merges
    43
    """

    vocab_size: int
    """Ids of the tokenizer, special tokens included."""
    pattern: str = SPLIT_PATTERN
    """The regular expression that cut the texts into spans."""
    special_tokens: Sequence[str] = SPECIAL_TOKENS
    """Names of ids that text does not produce."""
    min_pair_count: int = 1
    """A pair that occurs less often is not merged."""
    max_token_bytes: int | None = None
    """No token of more bytes is made; None: of any number."""

    def __post_init__(self) -> None:
        """Check all values before anything is counted.

        Raises:
            VocabularySizeError: There is no room for 256 bytes and the special tokens; nanochat's
                own message.
            TokenizerError: A number is out of its range, or a special token comes twice.
        """
        if isinstance(self.special_tokens, str):
            raise TokenizerError(
                f"special_tokens is one name, {self.special_tokens!r}: put it into a list"
            )
        room = self.vocab_size - len(self.special_tokens)
        if room < NUM_BYTES:
            raise VocabularySizeError(
                f"vocab_size_no_special must be at least {NUM_BYTES}, got {room}: vocab_size is "
                f"{self.vocab_size}, and {len(self.special_tokens)} ids of it are special tokens"
            )
        if self.vocab_size - 1 > MAX_ID:
            raise VocabularySizeError(
                f"vocab_size must be at most {MAX_ID + 1}, got {self.vocab_size}"
            )
        if not 1 <= self.min_pair_count < 2**64:
            raise TokenizerError(
                f"min_pair_count is {self.min_pair_count}: it must be 1 (merge every pair) to "
                "2**64 - 1"
            )
        longest = self.max_token_bytes
        if longest is not None and not SHORTEST <= longest < 2**64:
            raise TokenizerError(
                f"max_token_bytes is {longest}: a merge makes a token of at least {SHORTEST} "
                "bytes; pass a higher number, or none for no limit"
            )
        number_special_tokens(self.special_tokens, num_merges=0)

    @property
    def num_merges(self) -> int:
        """How many merges the vocabulary has room for."""
        return self.vocab_size - NUM_BYTES - len(self.special_tokens)

    def model(self, learned: Learned) -> Model:
        """Return the tokenizer as a value."""
        return make_model(
            learned.merges.tolist(), pattern=self.pattern, special_tokens=self.special_tokens
        )


def checked_threads(threads: int | None) -> int:
    """Return how many threads learn; None: all cores, and one inside a Ray worker.

    Raises:
        TokenizerError: There are fewer than 1.
    """
    if threads is not None and threads < 1:
        raise TokenizerError(f"threads is {threads}: it must be at least 1")
    return default_threads() if threads is None else threads


def learn_merges(
    spans: Spans, settings: TrainSettings, *, threads: int = 1, on_progress: OnMerges | None = None
) -> Learned:
    """Learn merges: the highest count first; among equals the smallest (left, right).

    The result depends on the spans and their counts alone, not on their order or on `threads`. What
    `on_progress` raises ends the call.

    Raises:
        CountOverflowError: A pair's count would pass 2**64 - 1.
        TokenizerError: `threads` is less than 1.
    """
    merges, counts, applied, stop_reason = _core.learn(
        spans,
        num_merges=settings.num_merges,
        min_pair_count=settings.min_pair_count,
        max_token_bytes=settings.max_token_bytes,
        threads=checked_threads(threads),
        on_progress=on_progress,
    )
    return Learned(merges=merges, counts=counts, applied=applied, stop_reason=stop_reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedTokenizer:
    """A tokenizer, and how it was learned."""

    tokenizer: Tokenizer
    report: Mapping[str, Any]
    """What is saved as report.json; see `nanotok_ray.tokenizer.report`."""
    extended: tuple[str, ...] = ()
    """Special tokens of the tokenizer that were added after learning: not in the report."""

    @property
    def learned(self) -> Learned:
        """The merges, the count of each, and why there are no more."""
        merges = self.report["merges"]
        return Learned(
            merges=self.tokenizer.model.merge_array,
            counts=np.array(merges["count"], dtype=np.uint64),
            applied=np.array(merges["applied"], dtype=np.uint64),
            stop_reason=self.stop_reason,
        )

    def __repr__(self) -> str:
        return f"<LearnedTokenizer {self.tokenizer!r}: {self.stop_reason}>"

    @property
    def stop_reason(self) -> str:
        """Why learning ended: vocabulary size reached, no pair left or below min_pair_count."""
        return str(self.report["stop_reason"])

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the tokenizer's files, as `Tokenizer.save` does, and report.json.

        Raises:
            TokenizerError: The folder holds another tokenizer and must not be overwritten, or is
                the name of a file.
            OSError: They cannot be written.
        """
        self.tokenizer.save(folder, overwrite=overwrite)
        Folder(os.fspath(folder)).write_whole(REPORT_NAME, to_json(self.report))

    def extended_with(self, names: Sequence[str]) -> "LearnedTokenizer":
        """Return the tokenizer with more special tokens, which have the ids after its last.

        Raises:
            TokenizerError: It has one of the names already.
        """
        tokenizer = Tokenizer(self.tokenizer.model.extended(names))
        return replace(self, tokenizer=tokenizer, extended=(*self.extended, *names))

    def truncated(self, vocab_size: int) -> "LearnedTokenizer":
        """Return what learning to this smaller size would have given; nothing is learned again.

        Special tokens that were added after learning are no part of `vocab_size`.

        Raises:
            TokenizerError: It is larger than the tokenizer, or there is no room for 256 bytes and
                the special tokens.
        """
        model = self.tokenizer.model.without(self.extended).truncated(vocab_size)
        return replace(
            self,
            tokenizer=Tokenizer(model.extended(self.extended)),
            report=cut_report(self.report, model),
        )


def train_tokenizer(
    spans: Spans,
    settings: TrainSettings,
    counted: Counted,
    *,
    threads: int,
    on_progress: OnMerges | None = None,
) -> LearnedTokenizer:
    """Learn a tokenizer from counts that are summed up; `counted` says what they were made from.

    Raises:
        CountOverflowError, TokenizerError: As for `learn_merges`.
    """
    weighted = replace(settings, min_pair_count=settings.min_pair_count * counted.weight_unit)
    learned = learn_merges(spans, weighted, threads=threads, on_progress=on_progress)
    model = settings.model(learned)
    report = training_report(model, settings, learned, counted)
    return LearnedTokenizer(tokenizer=Tokenizer(model), report=report)


def learn(
    counts: "SpanCounts",
    vocab_size: int,
    *,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
    num_threads: int | None = None,
    on_progress: "Callable[[MergeProgress], None] | None" = None,
) -> LearnedTokenizer:
    """Learn a tokenizer from counts: what `Tokenizer.train_from_iterator` learns from the texts.

    A vocabulary that is smaller than asked for is logged as a warning.

    Args:
        counts: how often each span occurs; they stay as they are.
        vocab_size: ids of the tokenizer, special tokens included.
        special_tokens: names of ids that text does not produce.
        min_pair_count: do not merge a pair that occurs less often.
        max_token_bytes: make no token of more bytes; None: of any number.
        num_threads: how many learn; None: all cores, and one inside a Ray worker. The tokenizer
            does not depend on it.
        on_progress: called about every 1%; what it raises ends the call.

    >>> from nanotok_ray.counts.span_counts import SpanCounts
    >>> counts = SpanCounts()
    >>> counts.update(["hello hello"])
    >>> found = learn(counts, 267)
    >>> found.tokenizer.merges, found.stop_reason
    ([(101, 108), (104, 256)], 'vocabulary size reached')

    Raises:
        VocabularySizeError: There is no room for 256 bytes and the special tokens.
        TokenizerError: Another number is out of its range, or a special token comes twice.
        CountOverflowError: A pair's count would pass 2**64 - 1.
    """
    settings = TrainSettings(
        vocab_size=vocab_size,
        special_tokens=special_tokens,
        min_pair_count=min_pair_count,
        max_token_bytes=max_token_bytes,
    )
    return learn_counts(counts, settings, threads=num_threads, on_progress=on_progress)


def learn_counts(
    counts: "SpanCounts",
    settings: TrainSettings,
    *,
    threads: int | None = None,
    on_progress: "Callable[[MergeProgress], None] | None" = None,
) -> LearnedTokenizer:
    """Learn as `learn` does; the pattern is that of the counts."""
    num_threads = checked_threads(threads)
    _, data, offsets, numbers = counts.run()
    learned = train_tokenizer(
        [(data, offsets, numbers)],
        replace(settings, pattern=counts.pattern),
        Counted.of(counts),
        threads=num_threads,
        on_progress=None if on_progress is None else _timed(on_progress),
    )
    _warn_if_smaller(settings, learned.stop_reason, learned.tokenizer.get_vocab_size())
    return learned


def learn_model(texts: "Texts", settings: TrainSettings, *, threads: int | None) -> Model:
    """Learn a model of `vocab_size` ids from texts, or of fewer ids if pairs run out.

    Raises:
        PatternError: The pattern cannot be compiled.
        TokenizerError: `threads` is less than 1.
        TypeError: `texts` is one text, or one of them is none.
    """
    num_threads = checked_threads(threads)
    counts = count_spans(texts, pattern=settings.pattern, threads=num_threads)
    _, data, offsets, numbers = counts.sorted_run(threads=num_threads)
    learned = learn_merges([(data, offsets, numbers)], settings, threads=num_threads)
    model = settings.model(learned)
    _warn_if_smaller(settings, learned.stop_reason, model.num_ids)
    return model


def count_spans(texts: "Texts", *, pattern: str, threads: int) -> _core.SpanCounts:
    """Count the spans of texts; `pattern` is a regular expression.

    Raises:
        PatternError: The pattern cannot be compiled.
        SplitError: The regex engine gave up on a text.
        TypeError: `texts` is one text, or one of them is none.
    """
    counts = _core.SpanCounts(pattern)
    for batch in batches_of(texts):
        counts.update(batch.data, batch.offsets, threads=threads)
    return counts


def _warn_if_smaller(settings: TrainSettings, stop_reason: str, num_ids: int) -> None:
    """Log a warning if there are fewer ids than asked for."""
    if stop_reason == REACHED:
        return
    why = "no pair of tokens is left to merge"
    if stop_reason == BELOW_MIN_PAIR_COUNT:
        why = f"no pair of tokens occurs {settings.min_pair_count} times"
    elif settings.max_token_bytes is not None:
        why += f" into at most {settings.max_token_bytes} bytes"
    asked = settings.vocab_size
    _log.warning("%s: the vocabulary has %d ids, %d were asked for", why, num_ids, asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class MergeProgress:
    """How far learning is."""

    done: int
    """Merges made."""
    total: int
    """Merges asked for; there may be no pair for all of them."""
    pair: tuple[int, int] | None
    """The pair of ids that was merged last; None before the first merge."""
    token: bytes | None
    """What it spells."""
    count: int | None
    """How often it occurred when it was merged, overlaps included."""
    merges_per_second: float
    """Merges by seconds, from the start on."""
    seconds: float
    """Since learning began."""


def _timed(on_progress: Callable[[MergeProgress], None]) -> OnMerges:
    """Return what the core calls; it calls `on_progress` with a value. The time begins now."""
    start = time.perf_counter()

    def report(done: int, total: int, last: Made | None) -> None:
        seconds = time.perf_counter() - start
        pair, token, count = (None, None, None) if last is None else last
        on_progress(
            MergeProgress(
                done=done,
                total=total,
                pair=pair,
                token=token,
                count=count,
                merges_per_second=done / seconds if seconds else 0.0,
                seconds=seconds,
            )
        )

    return report
