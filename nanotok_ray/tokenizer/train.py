"""From texts in memory, or from counts of their spans, to a model, in this process.

The result equals that of nanochat's training, bit for bit. The job that learns from a corpus on
disk is in `nanotok_ray.job`; this module is for texts of an iterator, and for counts.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nanotok_ray import _core
from nanotok_ray.counts.patterns import default_threads, resolve_pattern
from nanotok_ray.counts.totals import Reduced
from nanotok_ray.documents.texts import batches_of
from nanotok_ray.errors import TokenizerError, VocabularySizeError
from nanotok_ray.tokenizer.merges import (
    BELOW_MIN_PAIR_COUNT,
    REACHED,
    Learned,
    OnMerges,
    TrainSettings,
    learn_merges,
)
from nanotok_ray.tokenizer.model import MAX_ID, NUM_BYTES, Model, number_special_tokens

if TYPE_CHECKING:
    from nanotok_ray.documents.texts import Texts

_log = logging.getLogger(__name__)


def learn_model(
    texts: "Texts",
    *,
    vocab_size: int,
    pattern: str,
    special_tokens: Sequence[str],
    threads: int | None,
) -> Model:
    """Learn a model of `vocab_size` ids, special tokens included, or fewer if pairs run out.

    Raises:
        VocabularySizeError: There is no room for 256 bytes and the special tokens.
        TypeError: `texts` is one text, or one of them is none.
    """
    settings = train_settings(vocab_size, special_tokens=special_tokens, threads=threads)
    pattern = resolve_pattern(pattern)
    counts = count_spans(texts, pattern=pattern, threads=settings.threads)
    sums = Reduced.of_run(counts.sorted_run(threads=settings.threads))
    return learn_model_of(sums, settings, pattern=pattern, special_tokens=special_tokens)[0]


def learn_model_of(
    sums: Reduced,
    settings: TrainSettings,
    *,
    pattern: str,
    special_tokens: Sequence[str],
    on_progress: OnMerges | None = None,
) -> tuple[Model, Learned]:
    """Learn a model from counted spans; return it with the result of the learner.

    Fewer merges than asked for are logged as a warning.

    Raises:
        TokenizerError: A special token comes twice.
        CountOverflowError: A pair's count would pass 2**64 - 1.
    """
    learned = learn_merges(sums, settings, on_progress=on_progress)
    if learned.stop_reason != REACHED:
        why = "no pair of tokens is left to merge"
        if learned.stop_reason == BELOW_MIN_PAIR_COUNT:
            why = f"no pair of tokens occurs {settings.min_pair_count} times"
        elif settings.max_token_bytes is not None:
            why += f" into at most {settings.max_token_bytes} bytes"
        others = NUM_BYTES + len(special_tokens)
        size, asked = others + len(learned.merges), others + settings.num_merges
        _log.warning("%s: the vocabulary has %d ids, %d were asked for", why, size, asked)
    pairs = learned.merges.tolist()
    return make_model(pairs, pattern=pattern, special_tokens=special_tokens), learned


def count_spans(texts: "Texts", *, pattern: str, threads: int | None) -> _core.SpanCounts:
    """Count the spans of texts; `pattern` is a regular expression.

    Raises:
        PatternError: The pattern cannot be compiled.
        SplitError: The regex engine gave up on a text.
        TypeError: `texts` is one text, or one of them is none.
    """
    counts = _core.SpanCounts(pattern)
    num_threads = default_threads() if threads is None else threads
    for batch in batches_of(texts):
        counts.update(batch.data, batch.offsets, threads=num_threads)
    return counts


def train_settings(
    vocab_size: int,
    *,
    special_tokens: Sequence[str],
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
    threads: int | None = None,
) -> TrainSettings:
    """Return the settings that lead to a vocabulary, before anything is counted.

    Without a number of threads, all cores learn, and one inside a Ray worker.

    Raises:
        VocabularySizeError: There is no room for 256 bytes and the special tokens.
        TokenizerError: A number is out of its range, or a special token comes twice.
    """
    if isinstance(special_tokens, str):
        raise TokenizerError(f"special_tokens is one name, {special_tokens!r}: put it into a list")
    settings = TrainSettings(
        num_merges=num_merges_for(vocab_size, num_special_tokens=len(special_tokens)),
        min_pair_count=min_pair_count,
        max_token_bytes=max_token_bytes,
        threads=default_threads() if threads is None else threads,
    )
    number_special_tokens(special_tokens, num_merges=0)
    return settings


def num_merges_for(vocab_size: int, *, num_special_tokens: int) -> int:
    """Return how many merges a vocabulary has room for.

    Raises:
        VocabularySizeError: There is not even room for 256 bytes; nanochat's own message.
    """
    room = vocab_size - num_special_tokens
    if room < NUM_BYTES:
        raise VocabularySizeError(f"vocab_size_no_special must be at least {NUM_BYTES}, got {room}")
    if vocab_size - 1 > MAX_ID:
        raise VocabularySizeError(f"vocab_size must be at most {MAX_ID + 1}, got {vocab_size}")
    return room - NUM_BYTES


def make_model(
    merges: Iterable[Sequence[int]], *, pattern: str, special_tokens: Sequence[str]
) -> Model:
    """Build a model of learned merges and the names of special tokens.

    Raises:
        TokenizerError: A merge or a special token is impossible.
    """
    pairs = tuple((int(left), int(right)) for left, right in merges)
    return Model(
        pattern=resolve_pattern(pattern),
        unicode_version=_core.UNICODE_VERSION,
        merges=pairs,
        special_tokens=number_special_tokens(special_tokens, num_merges=len(pairs)),
    )
