"""Measure tokenizers with tokens of several words: fewer tokens, and what learning them costs.

    python benchmarks/superwords.py --corpus NAME:GLOB[,GLOB...] ... [--vocab-size N ...] [--save]

Of each corpus, every tenth document is held out, and tokenizers are learned from the others: an
ordinary one, and one whose last fifth (see --from) can have several words. Printed are bytes per
token of the held-out text, the share of tokens of several words, seconds of CPU of one thread for
each part of learning, the size of the segments (four bytes an id), the cut (`min_merge_count`), and
the peak memory of the learner above its input. The ids of some documents must be tiktoken's.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from corpora import FORM, Corpus, corpus, read_texts
from frame import Rows, finish, parser, peak, reset_peak, run, show
from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS, SpanCounts
from nanotok_ray.documents import Documents
from nanotok_ray.errors import RarePairsError
from nanotok_ray.job.superwords import MORE_PAIRS, PAIRS_PER_MERGE, frequent_pairs
from nanotok_ray.tokenizer import (
    LearnedTokenizer,
    SuperwordRules,
    Tokenizer,
    TrainSettings,
    span_encoder,
    train_tokenizer,
)
from nanotok_ray.tokenizer.evaluation import Vocabulary
from nanotok_ray.tokenizer.report import counted_of

HELD_OUT = 10
"""Of this number of documents, one is held out."""
CHECKED = 100
"""The number of held-out documents that are compared with tiktoken."""
FIRST, SECOND = "nanochat", PATTERNS["nanochat-superwords"]

T = TypeVar("T")
Batch = tuple[Any, Any, Any]
Row = dict[str, Any]


@dataclass(slots=True)
class Clock:
    """Seconds of CPU of this process by part."""

    seconds: dict[str, float]

    def time(self, part: str, work: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a call, and add its seconds to those of a part."""
        start = time.process_time()
        result = work(*arguments)
        self.seconds[part] = self.seconds.get(part, 0) + time.process_time() - start
        return result


def main() -> None:
    """Measure each corpus with each size."""
    command = parser(__doc__)
    command.add_argument("--corpus", action="append", type=corpus, required=True, metavar=FORM)
    command.add_argument("--vocab-size", type=int, nargs="+", default=[32768, 65536])
    command.add_argument(
        "--from", dest="start", type=float, default=0.8, help="share of the ids of words alone"
    )
    options = command.parse_args()
    sizes, start = options.vocab_size, options.start
    rows = [row for each in options.corpus for row in measured(each, sizes, start)]
    names = [each.name for each in options.corpus]
    finish("superwords", names, {"from": start, "rows": rows}, save=options.save)


def measured(own: Corpus, sizes: Sequence[int], start: float) -> Rows:
    """Print and return a row for each size; `start` is the share of ids of words alone."""
    texts = read_texts(own.learn)
    held_out = Documents.from_strings(texts[HELD_OUT - 1 :: HELD_OUT])
    del texts[HELD_OUT - 1 :: HELD_OUT]
    documents = Documents.from_strings(texts)
    counts, clock = SpanCounts(pattern=FIRST, num_threads=1), Clock({})
    clock.time("count", counts.update, texts)
    del texts
    rows = []
    for size in sizes:
        parts = Clock(dict(clock.seconds))
        settings = TrainSettings(vocab_size=size, pattern=counts.pattern, special_tokens=())
        ordinary = parts.time("ordinary", first_stage, counts, settings)
        words = replace(settings, vocab_size=int(start * size))
        first = parts.time("first", first_stage, counts, words)
        learned, facts = second_stage(documents, first, settings, parts)
        check(learned.tokenizer, held_out)
        row = {
            "corpus": own.name,
            "vocab_size": size,
            "text_bytes": documents.num_bytes,
            "held_out_bytes": held_out.num_bytes,
            "ordinary": encoded(ordinary.tokenizer, held_out),
            "superword": encoded(learned.tokenizer, held_out),
            "seconds": {part: round(value, 2) for part, value in parts.seconds.items()},
            **facts,
        }
        rows.append(show("superwords", row))
        for kind in ("ordinary", "superword", "seconds"):
            show(f"  {kind}", row[kind])
    return rows


learn = partial(train_tokenizer, threads=1)


def first_stage(counts: SpanCounts, settings: TrainSettings) -> LearnedTokenizer:
    """Learn an ordinary tokenizer."""
    return learn([counts.run()[1:]], settings, counted_of(counts))


def second_stage(
    documents: Documents, first: LearnedTokenizer, settings: TrainSettings, clock: Clock
) -> tuple[LearnedTokenizer, Row]:
    """Learn tokens of several words as a job does; return the tokenizer and facts on learning."""
    encoder = span_encoder(first.tokenizer)

    def recounted(frequent: Any = None) -> Batch:
        counter = _core.SpanCounts(SECOND, base=encoder, frequent=frequent)
        counter.update(documents.data, documents.offsets)
        return counter.sorted_run()[1:]

    pairs: Any = [clock.time("pairs", recounted)]  # batches, as the sums of a job
    number, tries = PAIRS_PER_MERGE * (settings.vocab_size - len(first.learned.merges) - 256), 0
    while True:
        least, keys = frequent_pairs(pairs, number)
        segments = clock.time("segments", recounted, keys)
        before, tries = reset_peak(), tries + 1
        rules = SuperwordRules(
            first=first, pattern=SECOND, max_words=4, forbidden=b": ", min_merge_count=least
        )
        second = replace(settings, superwords=rules)
        try:
            learned = clock.time("second", learn, [segments], second, first.report)
        except RarePairsError:
            number *= MORE_PAIRS
            continue
        return learned, {
            "distinct_pairs": len(pairs[0][2]),
            "frequent_pairs": len(keys),
            "distinct_segments": len(segments[2]),
            "segment_bytes": len(segments[0]),
            "min_merge_count": least,
            "last_merge_count": learned.report.merges.count[-1],
            "tries": tries,
            "learner_bytes": peak() - before,
        }


def check(tokenizer: Tokenizer, held_out: Documents) -> None:
    """Stop if the ids of the first documents are not tiktoken's."""
    texts = [text.decode() for text in held_out.part(0, min(CHECKED, len(held_out)))]
    if tokenizer.encode(texts) != tokenizer.to_tiktoken().encode_ordinary_batch(texts):
        raise SystemExit("the ids of held-out documents are not tiktoken's")


def encoded(tokenizer: Tokenizer, held_out: Documents) -> Row:
    """Return the size of a text in tokens, and shares of tokens of several words."""
    start = time.process_time()
    ids, _ = tokenizer.encode_documents(held_out, num_threads=1)
    seconds = time.process_time() - start
    superwords = Vocabulary.of(tokenizer).superwords
    return {
        "sha256": tokenizer.sha256,
        "bytes_per_token": round(held_out.num_bytes / len(ids), 4),
        "vocabulary_share": round(float(np.mean(superwords)), 4),
        "token_share": round(float(np.mean(superwords[ids])), 4),
        "encode_seconds": round(seconds, 2),
    }


if __name__ == "__main__":
    run(main)
