"""Compare the merges of generated corpora with rustbpe's `train_from_iterator`, nanochat's pattern.

    python benchmarks/learned_corpora.py --corpora 10000 --seed 1

Corpora of 0 to 12 documents are made from a seed with the inputs that affect a learner: 1 to 6
letters of 1 to 4 bytes, white space, digits and signs; runs of up to 300 of one letter; repeated
words, and words that all occur once, so that many counts are equal; repeated documents. The number
of merges is between 0 and more than possible; nanotok_ray learns on one thread or two. Every token
is compared, and the reason to stop. Progress is printed; corpora with other merges are printed,
and the exit code is then 1. Inputs for which rustbpe itself is wrong (counts beyond 31 bits, a
million spaces) are not generated.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import rustbpe

from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.documents import Documents
from tests.support.reference import spell

LETTERS = "aaabbcdeA éßñжא中数\u3000\u0301𝄞😀   \n\n\t\r12345!'-_"
"""The letters of corpora; some are more likely."""

MAX_LETTERS = 6
MAX_DOCUMENTS = 12
RUNS = (1, 1, 1, 1, 2, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 200, 255, 300)
NUMS_MERGES = (0, 1, 2, 7, 30, 100, 300, 10_000)
PROGRESS_EVERY = 1000
SHOWN = 20
REACHED, NO_PAIR_LEFT = "vocabulary size reached", "no pair left"


class LearnedFrom(NamedTuple):
    """A corpus, the number of merges, and the number of threads."""

    documents: list[str]
    num_merges: int
    threads: int


def corpora(count: int, *, seed: int) -> Iterator[LearnedFrom]:
    """Yield corpora; the n-th depends only on the seed."""
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        letters = rng.choices(LETTERS, k=rng.randint(1, MAX_LETTERS))
        kinds = (runs, words, single_words)
        made = rng.choice(kinds)(rng, letters)
        documents = made + rng.choices(made, k=rng.randint(0, 3)) if made else made
        yield LearnedFrom(documents, rng.choice(NUMS_MERGES), rng.randint(1, 2))


def runs(rng: random.Random, letters: Sequence[str]) -> list[str]:
    """Make documents of runs of letters."""
    return [
        "".join(rng.choice(letters) * rng.choice(RUNS) for _ in range(rng.randint(0, 9)))
        for _ in range(rng.randint(0, MAX_DOCUMENTS))
    ]


def words(rng: random.Random, letters: Sequence[str]) -> list[str]:
    """Make documents of a few repeated words."""
    known = [drawn(rng, letters) for _ in range(rng.randint(1, 12))]
    return [
        rng.choice(("", " ", "\n")).join(rng.choices(known, k=rng.randint(0, 40)))
        for _ in range(rng.randint(0, MAX_DOCUMENTS))
    ]


def single_words(rng: random.Random, letters: Sequence[str]) -> list[str]:
    """Make documents of different words with equal frequency."""
    known = list(dict.fromkeys(drawn(rng, letters) for _ in range(rng.choice((3, 20, 100, 500)))))
    cuts = sorted(rng.choices(range(len(known) + 1), k=rng.randint(0, 4)))
    bounds = zip([0, *cuts], [*cuts, len(known)], strict=True)
    times = rng.choice((1, 1, 2))
    return ["\n".join(known[start:end]) for start, end in bounds] * times


def drawn(rng: random.Random, letters: Sequence[str]) -> str:
    """Draw a word."""
    return "".join(rng.choices(letters, k=rng.choice((1, 2, 2, 3, 3, 4, 5, 6, 8, 12, 20))))


def learned(corpus: LearnedFrom) -> tuple[list[bytes], str]:
    """Learn tokens in rank order; return them with the reason why learning ended."""
    counts = _core.SpanCounts(SPLIT_PATTERN)
    documents = Documents.from_strings(corpus.documents)
    counts.update(documents.data, documents.offsets, threads=corpus.threads)
    _, data, offsets, numbers = counts.sorted_run()
    merges, _, _, reason = _core.learn(
        [(data, offsets, numbers)], num_merges=corpus.num_merges, threads=corpus.threads
    )
    return spell([(left, right) for left, right in merges.tolist()]), reason


def rustbpes(corpus: LearnedFrom) -> tuple[list[bytes], str]:
    """Learn the same with rustbpe, which reports no reason, and ends early only without pairs."""
    peer = rustbpe.Tokenizer()
    ranks = 256 + corpus.num_merges
    peer.train_from_iterator(iter(corpus.documents), ranks, pattern=SPLIT_PATTERN)
    tokens = [bytes(token) for token, _ in peer.get_mergeable_ranks()]
    return tokens, REACHED if len(tokens) == ranks else NO_PAIR_LEFT


def differing(
    made: Iterable[LearnedFrom],
) -> Iterator[tuple[LearnedFrom, tuple[list[bytes], str], tuple[list[bytes], str]]]:
    """Yield each corpus with other tokens or another reason, with both results."""
    for corpus in made:
        own, expected = learned(corpus), rustbpes(corpus)
        if own != expected:
            yield corpus, own, expected


def with_progress(made: Iterable[LearnedFrom]) -> Iterator[LearnedFrom]:
    """Yield the same corpora, and print the progress."""
    start = time.perf_counter()
    for number, corpus in enumerate(made, 1):
        yield corpus
        if number % PROGRESS_EVERY == 0:
            print(f"{number:,} corpora, {time.perf_counter() - start:.0f} s", flush=True)


def main() -> None:
    """Compare as many corpora as the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpora", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    mismatches = 0
    for corpus, own, expected in differing(
        with_progress(corpora(options.corpora, seed=options.seed))
    ):
        mismatches += 1
        if mismatches <= SHOWN:
            print(f"{corpus}: {own[0][256:]} ({own[1]}), rustbpe {expected[0][256:]}", flush=True)
    print(f"{options.corpora:,} corpora, seed {options.seed}: {mismatches} with other merges")
    sys.exit(mismatches > 0)


if __name__ == "__main__":
    main()
