"""Measure tokenizers with tokens of several words: fewer tokens, and what learning them costs.

    python benchmarks/superwords.py --corpus NAME:GLOB[,GLOB...] ... [--vocab-size N ...] [--save]

Of each corpus, every tenth document is held out, and tokenizers are learned from the others: an
ordinary one, and one whose last fifth (see --from) can have several words. Printed are bytes per
token of the held-out text, the share of tokens of several words, seconds of CPU of one thread for
each part of learning, the size of the segments (four bytes an id), the cut (`min_merge_count`), and
the peak memory of the learner above its input. The ids of some documents must be tiktoken's. The
last line of stdout is one JSON document, which --save appends to results/superwords.jsonl.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

import resident
from about import about, finish
from corpus import read_texts
from learn_corpus import Corpus, parse_corpus
from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS, SpanCounts
from nanotok_ray.documents import Documents
from nanotok_ray.errors import RarePairsError
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
from nanotok_ray.tokenizer.superwords import MORE_PAIRS, PAIRS_PER_MERGE, frequent_pairs

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
    options = parse()
    row = about("superwords", [corpus.name for corpus in options.corpus])
    start = options.start
    rows = [row for each in options.corpus for row in measured(each, options.vocab_size, start)]
    finish(row | {"from": start, "rows": rows}, save=options.save)


def measured(corpus: Corpus, sizes: Sequence[int], start: float) -> list[Row]:
    """Print and return a row for each size; `start` is the share of ids of words alone."""
    texts = read_texts(corpus.files)
    held_out = Documents.from_strings(texts[HELD_OUT - 1 :: HELD_OUT])
    del texts[HELD_OUT - 1 :: HELD_OUT]
    documents = Documents.from_strings(texts)
    print(
        f"{corpus.name}: learned from {documents.num_bytes:,} bytes, "
        f"{held_out.num_bytes:,} held out"
    )
    counts, clock = SpanCounts(pattern=FIRST, num_threads=1), Clock({})
    clock.time("count", counts.update, texts)
    del texts
    rows = []
    for size in sizes:
        own = Clock(dict(clock.seconds))
        settings = TrainSettings(vocab_size=size, pattern=counts.pattern, special_tokens=())
        ordinary = own.time("ordinary", first_stage, counts, settings)
        words = replace(settings, vocab_size=int(start * size))
        first = own.time("first", first_stage, counts, words)
        learned, facts = second_stage(documents, first, settings, own)
        check(learned.tokenizer, held_out)
        row = {
            "corpus": corpus.name,
            "vocab_size": size,
            "text_bytes": documents.num_bytes,
            "held_out_bytes": held_out.num_bytes,
            "ordinary": encoded(ordinary.tokenizer, held_out),
            "superword": encoded(learned.tokenizer, held_out),
            "seconds": {part: round(value, 2) for part, value in own.seconds.items()},
            **facts,
        }
        show(row)
        rows.append(row)
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
        before, tries = resident.reset_peak(), tries + 1
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
            "learner_bytes": resident.peak() - before,
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


def show(row: Row) -> None:
    """Print a row."""
    ordinary, ours = row["ordinary"], row["superword"]
    more = ours["bytes_per_token"] / ordinary["bytes_per_token"] - 1
    seconds = ", ".join(f"{part} {value:.1f}" for part, value in row["seconds"].items())
    print(
        f"  {row['vocab_size']:,} ids: {ordinary['bytes_per_token']:.3f} bytes per token, "
        f"{ours['bytes_per_token']:.3f} ({more:+.1%}) with tokens of several words, which are "
        f"{ours['vocabulary_share']:.1%} of the ids and {ours['token_share']:.1%} of the tokens\n"
        f"    seconds: {seconds}\n"
        f"    segments {row['segment_bytes'] / row['text_bytes']:.3f} of the text, cut at "
        f"{row['min_merge_count']:,}, last merge {row['last_merge_count']:,}, "
        f"{row['tries']} passes; learner "
        f"{row['learner_bytes'] / row['segment_bytes']:.2f} bytes per byte of segments",
        flush=True,
    )


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--corpus",
        action="append",
        type=parse_corpus,
        required=True,
        metavar="NAME:GLOB[,GLOB...]",
    )
    parser.add_argument("--vocab-size", type=int, nargs="+", default=[32768, 65536])
    parser.add_argument(
        "--from", dest="start", type=float, default=0.8, help="share of the ids of words alone"
    )
    parser.add_argument("--save", action="store_true", help="add to results/superwords.jsonl")
    return parser.parse_args()


if __name__ == "__main__":
    main()
