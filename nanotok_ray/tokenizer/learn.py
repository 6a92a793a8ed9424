"""From counts of spans to a tokenizer, with the result of the learner and a report of it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nanotok_ray.counts.totals import Reduced
from nanotok_ray.formats.manifest import to_json
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.merges import REACHED, Learned, MergeProgress, TrainSettings, timed
from nanotok_ray.tokenizer.model import NUM_BYTES, Model
from nanotok_ray.tokenizer.report import REPORT_NAME, Counted, cut_report, training_report
from nanotok_ray.tokenizer.tokenizer import Tokenizer
from nanotok_ray.tokenizer.train import learn_model_of, train_settings

if TYPE_CHECKING:
    from nanotok_ray.counts.span_counts import SpanCounts


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedTokenizer:
    """A tokenizer, and how it was learned."""

    tokenizer: Tokenizer
    learned: Learned
    """The merges, the count of each, and why there are no more."""
    report: Mapping[str, Any]
    """What is saved as report.json; see `nanotok_ray.tokenizer.report`."""

    @property
    def stop_reason(self) -> str:
        """Why learning ended: vocabulary size reached, no pair left or below min_pair_count."""
        return self.learned.stop_reason

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the tokenizer's files, as `Tokenizer.save` does, and report.json.

        Raises:
            TokenizerError: The folder holds another tokenizer and must not be overwritten, or is
                the name of a file.
            OSError: They cannot be written.
        """
        self.tokenizer.save(folder, overwrite=overwrite)
        Folder(os.fspath(folder)).write_whole(REPORT_NAME, to_json(self.report))

    def truncated(self, vocab_size: int) -> "LearnedTokenizer":
        """Return what learning to this smaller size would have given; nothing is learned again.

        Raises:
            TokenizerError: It is larger than the tokenizer, or there is no room for 256 bytes and
                the special tokens.
        """
        tokenizer = self.tokenizer.truncated(vocab_size)
        size = len(tokenizer.model.merges)
        learned = replace(
            self.learned,
            merges=self.learned.merges[:size],
            counts=self.learned.counts[:size],
            applied=self.learned.applied[:size],
            stop_reason=REACHED,
        )
        report = cut_report(self.report, tokenizer.model)
        return LearnedTokenizer(tokenizer=tokenizer, learned=learned, report=report)


def learn(
    counts: "SpanCounts",
    vocab_size: int,
    *,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
    min_pair_count: int = 1,
    max_token_bytes: int | None = None,
    threads: int | None = None,
    on_progress: Callable[[MergeProgress], None] | None = None,
) -> LearnedTokenizer:
    """Learn a tokenizer from counts: what `Tokenizer.train_from_iterator` learns from the texts.

    A vocabulary that is smaller than asked for is logged as a warning.

    Args:
        counts: how often each span occurs; they stay as they are.
        vocab_size: ids of the tokenizer, special tokens included.
        special_tokens: names of ids that text does not produce.
        min_pair_count: do not merge a pair that occurs less often.
        max_token_bytes: make no token of more bytes; None: of any number.
        threads: how many learn; None: all cores, and one inside a Ray worker. The tokenizer does
            not depend on it.
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
    settings = train_settings(
        vocab_size,
        special_tokens=special_tokens,
        min_pair_count=min_pair_count,
        max_token_bytes=max_token_bytes,
        threads=threads,
    )
    model, learned = learn_model_of(
        Reduced.of_run(counts.run()),
        settings,
        pattern=counts.pattern,
        special_tokens=special_tokens,
        on_progress=None if on_progress is None else timed(on_progress),
    )
    report = _report(counts, model, learned, settings)
    return LearnedTokenizer(tokenizer=Tokenizer(model), learned=learned, report=report)


def _report(
    counts: "SpanCounts", model: Model, learned: Learned, settings: TrainSettings
) -> dict[str, Any]:
    counted = Counted(
        documents=None,
        texts=counts.texts,
        text_bytes=counts.text_bytes,
        spans=counts.total,
        distinct_spans=learned.distinct_spans,
        span_bytes=learned.span_bytes,
        gaps=counts.gaps,
    )
    return training_report(
        model,
        vocab_size=NUM_BYTES + settings.num_merges + len(model.special_tokens),
        counts=learned.counts,
        applied=learned.applied,
        stop_reason=learned.stop_reason,
        counted=counted,
        min_pair_count=settings.min_pair_count,
        max_token_bytes=settings.max_token_bytes,
    )
