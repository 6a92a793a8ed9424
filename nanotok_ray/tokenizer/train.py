"""Training: learns merges from counts of spans, and makes the tokenizer and its report.

The merges equal those of nanochat's training, bit for bit. Learning can continue a tokenizer.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN, default_threads, new_counter
from nanotok_ray.documents import batches_of
from nanotok_ray.errors import RarePairsError, TokenizerError, VocabularySizeError
from nanotok_ray.formats import (
    BaseTotals,
    Counted,
    NewTokens,
    SuperwordTotals,
    TrainingReport,
    converted,
    dump,
)
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.base import (
    Base,
    EncodedSpans,
    IdSpans,
    Spans,
    base_of,
    check_same_pattern,
    new_tokens,
)
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.folder import NEW_TOKENS_NAME
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
    Learned,
    counted_of,
    cut_report,
    learned_of,
    training_report,
)
from nanotok_ray.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nanotok_ray.counts import SpanCounts
    from nanotok_ray.documents.texts import Texts

_log = logging.getLogger(__name__)

Made = tuple[tuple[int, int], bytes, int]
"""The last merge: its pair, the bytes of its token, and the count of the pair."""

OnMerges = Callable[[int, int, Made | None], None]
"""Called as (merges made, merges requested, last merge), about every 1% of the merges."""

SHORTEST = 2
"""Bytes of the shortest token that a merge makes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainSettings:
    """Settings of learning: all that a tokenizer depends on besides the counts.

    >>> TrainSettings(vocab_size=300, special_tokens=("<|bos|>",)).num_merges
    43
    """

    vocab_size: int
    """Number of ids of the tokenizer, special tokens included."""
    pattern: str = SPLIT_PATTERN
    """The regular expression that split the texts into spans."""
    special_tokens: Sequence[str] = SPECIAL_TOKENS
    """Names of special tokens; text never produces their ids."""
    min_pair_count: int = 1
    """A pair with a lower count is not merged."""
    max_token_bytes: int | None = None
    """The longest token in bytes; None: no limit."""
    base: Base | None = None
    """The tokenizer that learning continues, with its pattern and special tokens; None: bytes."""
    superwords: "SuperwordRules | None" = None
    """The rules of tokens of several words, if they are learned now."""

    def __post_init__(self) -> None:
        """Check all values before anything is counted.

        Raises:
            VocabularySizeError: The size is too small for 256 bytes and the special tokens; the
                message is nanochat's. Or it is not larger than that of the base.
            TokenizerError: A number is out of its range, or a special token occurs twice.
        """
        if isinstance(self.special_tokens, str):
            raise TokenizerError(
                f"special_tokens is one name, {self.special_tokens!r}: put it into a list"
            )
        room = self.vocab_size - len(self.special_tokens)
        if self.base is not None:
            if self.num_merges < 1:
                raise VocabularySizeError(
                    f"vocab_size is {self.vocab_size}, and the base has {self.base.num_ids} ids: "
                    "pass a larger size"
                )
        elif room < NUM_BYTES:
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
        max_bytes = self.max_token_bytes
        if max_bytes is not None and not SHORTEST <= max_bytes < 2**64:
            raise TokenizerError(
                f"max_token_bytes is {max_bytes}: a merge makes a token of at least {SHORTEST} "
                "bytes; pass a higher number, or none for no limit"
            )
        number_special_tokens(self.special_tokens, num_merges=0)

    @property
    def num_merges(self) -> int:
        """The number of merges that the vocabulary size allows."""
        if self.base is not None:
            return self.vocab_size - self.base.num_ids
        if self.superwords is not None:
            first = self.superwords.first.tokenizer.get_vocab_size()
            return self.vocab_size - first - len(self.special_tokens)
        return self.vocab_size - NUM_BYTES - len(self.special_tokens)

    def model(self, learned: Learned) -> Model | FileModel:
        """Return the model of learned merges and these settings.

        Raises:
            TokenizerError: The core cannot encode with the merges after those of the base.
        """
        if self.base is not None:
            return self.base.continued(learned.merges.tolist()).model
        return make_model(
            learned.merges.tolist(), pattern=self.pattern, special_tokens=self.special_tokens
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SuperwordRules:
    """The second stage of learning, in which tokens can have several words."""

    first: "LearnedTokenizer"
    """The tokenizer of the first stage, without special tokens."""
    pattern: str
    """The pattern of the second stage and of the tokenizer, a regular expression."""
    max_words: int
    """The maximum number of words of a new token."""
    forbidden: bytes
    """Bytes that no new token contains; none if empty."""
    min_merge_count: int
    """The count of pairs of adjacent ids from which on the segments are complete."""


def checked_threads(threads: int | None) -> int:
    """Return the number of threads to learn with; None: all cores, but one inside a Ray worker.

    Raises:
        TokenizerError: The number is less than 1.
    """
    if threads is not None and threads < 1:
        raise TokenizerError(f"threads is {threads}: it must be at least 1")
    return default_threads() if threads is None else threads


def learn_merges(
    spans: Spans, settings: TrainSettings, *, threads: int = 1, on_progress: OnMerges | None = None
) -> Learned:
    """Learn merges: the highest count first; of equal counts the smallest (left, right).

    The result depends only on the spans and their counts, not on their order or on `threads`. An
    exception in `on_progress` ends the call.

    Raises:
        CountOverflowError: The count of a pair would exceed 2**64 - 1.
        TokenizerError: `threads` is less than 1.
    """
    num_threads, base = checked_threads(threads), settings.base
    encoded = spans if base is None else EncodedSpans(spans, base.tokenizer, num_threads)
    return _learn(encoded, settings, threads=num_threads, on_progress=on_progress)


def _learn(
    spans: Spans | EncodedSpans | IdSpans,
    settings: TrainSettings,
    *,
    threads: int,
    on_progress: OnMerges | None,
) -> Learned:
    base, rules = settings.base, settings.superwords
    if rules is not None:
        base = Base(rules.first.tokenizer)
    merges, counts, applied, stop_reason = _core.learn(
        spans,
        num_merges=settings.num_merges,
        min_pair_count=settings.min_pair_count,
        max_token_bytes=settings.max_token_bytes,
        threads=threads,
        base=None if base is None else base.tokens,
        superwords=None if rules is None else (rules.max_words, rules.forbidden),
        on_progress=on_progress,
    )
    return Learned(merges=merges, counts=counts, applied=applied, stop_reason=stop_reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedTokenizer:
    """A tokenizer with the report of its learning."""

    tokenizer: Tokenizer
    report: TrainingReport
    extended: tuple[str, ...] = ()
    """Special tokens that were added after learning; the report does not contain them."""
    base: Base | None = None
    """The tokenizer that learning continued."""
    new_tokens: NewTokens | None = None
    """The tokens that the base lacks, if learning continued one."""

    @property
    def learned(self) -> Learned:
        """The merges, the count of each, and the reason why learning ended."""
        return learned_of(self.report)

    def __repr__(self) -> str:
        return f"<LearnedTokenizer {self.tokenizer!r}: {self.stop_reason}>"

    @property
    def stop_reason(self) -> str:
        """The reason why learning ended: size reached, no pair, or below min_pair_count."""
        return self.report.stop_reason

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the tokenizer's files, as `Tokenizer.save` does, and report.json.

        For a continued tokenizer, new_tokens.json lists the new tokens with their ids in the base.

        Raises:
            TokenizerError: The folder holds another tokenizer and `overwrite` is false, or the
                path is a file.
            OSError: A file cannot be written.
        """
        self.tokenizer.save(folder, overwrite=overwrite)
        there = Folder(os.fspath(folder))
        if self.new_tokens is not None:
            there.write_bytes(NEW_TOKENS_NAME, dump(self.new_tokens))
        there.write_bytes(REPORT_NAME, dump(self.report))

    def extended_with(self, names: Sequence[str]) -> "LearnedTokenizer":
        """Return the tokenizer with more special tokens, with the ids after its last id.

        Raises:
            TokenizerError: The tokenizer has one of the names already.
        """
        tokenizer = Tokenizer(self.tokenizer.model.extended(names))
        return replace(self, tokenizer=tokenizer, extended=(*self.extended, *names))

    def truncated(self, vocab_size: int) -> "LearnedTokenizer":
        """Return the tokenizer of a smaller vocabulary size, without learning again.

        It equals the tokenizer that learning with this size returns.

        Special tokens that were added after learning are not part of `vocab_size`.

        Raises:
            TokenizerError: The size exceeds that of the tokenizer, or is too small for 256 bytes
                and the special tokens.
        """
        if self.base is None:
            learned = self.tokenizer.byte_level_model.without(self.extended)
            model: Model | FileModel = learned.truncated(vocab_size)
        else:
            model = self.base.truncated(self.learned.merges, vocab_size).model
        return replace(
            self,
            tokenizer=Tokenizer(model.extended(self.extended)),
            report=cut_report(self.report, model),
            new_tokens=None if self.new_tokens is None else self.new_tokens.below(vocab_size),
        )


def train_tokenizer(
    spans: Spans,
    settings: TrainSettings,
    counted: Counted,
    *,
    threads: int,
    on_progress: OnMerges | None = None,
) -> LearnedTokenizer:
    """Learn a tokenizer from summed counts; `counted` describes the corpus of the counts.

    Raises:
        CountOverflowError, TokenizerError: As for `learn_merges`.
    """
    weighted = replace(settings, min_pair_count=settings.min_pair_count * counted.weight_unit)
    if settings.superwords is not None:
        return _train_superwords(spans, weighted, counted, threads=threads, on_progress=on_progress)
    base = settings.base
    encoded = spans if base is None else EncodedSpans(spans, base.tokenizer, threads)
    learned = _learn(encoded, weighted, threads=threads, on_progress=on_progress)
    tokenizer = Tokenizer(settings.model(learned))
    if not isinstance(encoded, EncodedSpans) or base is None:
        report = training_report(tokenizer.model, settings, learned, counted)
        return LearnedTokenizer(tokenizer=tokenizer, report=report)
    new = new_tokens(base, tokenizer, spans, threads=threads)
    totals = BaseTotals(
        sha256=new.base_sha256,
        vocab_size=base.num_ids,
        tokens=encoded.num_tokens,
        unreachable=new.unreachable,
        unused=len(new.unused),
    )
    report = training_report(tokenizer.model, settings, learned, counted, base=totals)
    return LearnedTokenizer(tokenizer=tokenizer, report=report, base=base, new_tokens=new)


def _train_superwords(
    spans: Spans,
    settings: TrainSettings,
    counted: Counted,
    *,
    threads: int,
    on_progress: OnMerges | None,
) -> LearnedTokenizer:
    """Continue the first stage from segments; `counted` describes the segments.

    Raises:
        RarePairsError: The last merge is rarer than pairs at which the segments were cut.
    """
    rules = settings.superwords
    assert rules is not None, "the caller has seen it"
    first, least = rules.first, rules.min_merge_count
    second = _learn(IdSpans(spans), settings, threads=threads, on_progress=on_progress)
    last = int(second.counts[-1]) if len(second.counts) else 0
    is_complete = second.stop_reason == REACHED or (
        second.stop_reason == BELOW_MIN_PAIR_COUNT and settings.min_pair_count >= least
    )
    if least > 1 and (last < least or not is_complete):
        raise RarePairsError(
            f"the last merge of several words occurs {last:,} times, and segments were cut at "
            f"pairs of fewer than {least:,} occurrences"
        )
    learned = first.learned.followed_by(second)
    model = make_model(
        learned.merges.tolist(), pattern=rules.pattern, special_tokens=settings.special_tokens
    )
    totals = SuperwordTotals(
        first_merges=len(first.learned.merges),
        max_words=rules.max_words,
        forbidden=rules.forbidden.decode(),
        min_merge_count=least,
        distinct_segments=counted.distinct_spans,
    )
    report = training_report(
        model, settings, learned, converted(first.report, Counted), superwords=totals
    )
    return LearnedTokenizer(tokenizer=Tokenizer(model), report=report)


def learn(
    counts: "SpanCounts",
    vocab_size: int,
    *,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
    base: Tokenizer | None = None,
    num_threads: int | None = None,
    on_progress: "Callable[[MergeProgress], None] | None" = None,
) -> LearnedTokenizer:
    """Learn from counts the tokenizer that `Tokenizer.train_from_iterator` learns from texts.

    A vocabulary smaller than `vocab_size` is logged as a warning.

    Args:
        counts: the count of each span; they are not changed.
        vocab_size: the number of ids, special tokens included.
        special_tokens: names of special tokens; text never produces their ids.
        min_pair_count: a pair with a lower count is not merged.
        max_token_bytes: the longest token in bytes; None: no limit.
        base: a tokenizer of byte-level BPE that is continued: its ids, its special tokens and the
            priority of its merges stay the same, and new tokens have the ids after its last one.
            The texts must have been counted with its pattern, `special_tokens` is not used.
        num_threads: the number of threads; None: all cores, but one inside a Ray worker. The
            result does not depend on it.
        on_progress: called about every 1% of the merges; an exception in it ends the call.

    >>> from nanotok_ray.counts.span_counts import SpanCounts
    >>> counts = SpanCounts()
    >>> counts.update(["hello hello"])
    >>> found = learn(counts, 267)
    >>> found.tokenizer.merges, found.stop_reason
    ([(101, 108), (104, 256)], 'vocabulary size reached')

    Raises:
        VocabularySizeError: The size is too small for 256 bytes and the special tokens.
        TokenizerError: Another number is out of its range, a special token occurs twice, or the
            base cannot be continued or has another pattern.
        CountOverflowError: The count of a pair would exceed 2**64 - 1.
    """
    settings = TrainSettings(
        vocab_size=vocab_size,
        special_tokens=special_tokens,
        min_pair_count=min_pair_count,
        max_token_bytes=max_token_bytes,
        base=None if base is None else base_of(base),
    )
    on_merges = None if on_progress is None else _timed(on_progress)
    return learn_counts(counts, settings, threads=num_threads, on_progress=on_merges)


def learn_counts(
    counts: "SpanCounts",
    settings: TrainSettings,
    *,
    threads: int | None = None,
    on_progress: OnMerges | None = None,
) -> LearnedTokenizer:
    """Learn as `learn` does, with the pattern of the counts."""
    num_threads = checked_threads(threads)
    if settings.base is not None:
        check_same_pattern(settings.base, counts.pattern)
    _, data, offsets, numbers = counts.run()
    learned = train_tokenizer(
        [(data, offsets, numbers)],
        replace(settings, pattern=counts.pattern),
        counted_of(counts),
        threads=num_threads,
        on_progress=on_progress,
    )
    _warn_if_smaller(settings, learned.stop_reason, learned.tokenizer.get_vocab_size())
    return learned


def learn_model(
    texts: "Texts", settings: TrainSettings, *, threads: int | None
) -> Model | FileModel:
    """Learn a model of `vocab_size` ids from texts, or of fewer ids if no pair is left.

    Raises:
        PatternError: The pattern cannot be compiled.
        TokenizerError: `threads` is less than 1.
        TypeError: `texts` is a single text, or contains something that is not a text.
    """
    num_threads = checked_threads(threads)
    base = settings.base
    pattern = settings.pattern if base is None else base.count_pattern
    counts = count_spans(texts, pattern=pattern, threads=num_threads)
    _, data, offsets, numbers = counts.sorted_run(threads=num_threads)
    learned = learn_merges([(data, offsets, numbers)], settings, threads=num_threads)
    model = settings.model(learned)
    _warn_if_smaller(settings, learned.stop_reason, model.num_ids)
    return model


def count_spans(texts: "Texts", *, pattern: str, threads: int) -> _core.SpanCounts:
    """Count the spans of texts; `pattern` is as in a count file.

    Raises:
        PatternError: The pattern cannot be compiled.
        SplitError: The regex engine gave up on a text.
        TypeError: `texts` is a single text, or contains something that is not a text.
    """
    counts = new_counter(pattern, gaps="spans")
    for batch in batches_of(texts):
        counts.update(batch.data, batch.offsets, threads=threads)
    return counts


def _warn_if_smaller(settings: TrainSettings, stop_reason: str, num_ids: int) -> None:
    """Log a warning if the tokenizer has fewer ids than requested."""
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
    """The progress of learning."""

    done: int
    """Merges made."""
    total: int
    """Merges requested; learning can end with fewer if no pair is left."""
    pair: tuple[int, int] | None
    """The pair of ids that was merged last; None before the first merge."""
    token: bytes | None
    """The bytes of the token that the merge made."""
    count: int | None
    """The count of the pair when it was merged, overlapping occurrences included."""
    merges_per_second: float
    """Merges per second since learning began."""
    seconds: float
    """Seconds since learning began."""


def _timed(on_progress: Callable[[MergeProgress], None]) -> OnMerges:
    """Return a callback for the core that calls `on_progress`, and start to measure the time."""
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
