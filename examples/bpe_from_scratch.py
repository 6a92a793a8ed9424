"""Byte pair encoding on one page of plain Python, to read and to play with.

    python examples/bpe_from_scratch.py "low lower lowest slow slower" --vocab-size 264
    python examples/bpe_from_scratch.py --file README.md --vocab-size 300 --basic

A text is bytes, and a token is a number that stands for bytes: 0 to 255 for the single ones, and
from 256 on one for each merge. Learning merges the pair of neighbors that occurs most often, again
and again; encoding does the same merges in the same order; decoding looks the bytes up. This page
knows nothing of nanotok_ray, whose core does the same to gigabytes: with ties to the smallest pair
the merges and the ids are its own. Of other packages it needs `regex` alone, for letters of every
script; code points younger than Unicode 16 may be letters to one of the two and none to the other.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import regex

Pair = tuple[int, int]
Ties = Callable[[Mapping[Pair, int]], Pair]

NANOCHAT = regex.compile(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
"""What is never merged with each other: words, at most two digits, signs, spaces."""


def count_pairs(spans: Iterable[tuple[Sequence[int], int]]) -> Counter[Pair]:
    """Count adjacent pairs in spans of ids, each with its number of occurrences.

    >>> count_pairs([([1, 2, 1, 2], 10), ([2, 1], 1)])
    Counter({(1, 2): 20, (2, 1): 11})
    """
    counts: Counter[Pair] = Counter()
    for ids, times in spans:
        for pair in pairwise(ids):
            counts[pair] += times
    return counts


def merge(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """Put one new id wherever the pair stands, from left to right.

    >>> merge([1, 1, 1, 2], (1, 1), 256)
    [256, 1, 2]
    """
    merged: list[int] = []
    at = 0
    while at < len(ids):
        found = tuple(ids[at : at + 2]) == pair
        merged.append(new_id if found else ids[at])
        at += 2 if found else 1
    return merged


def first_seen(counts: Mapping[Pair, int]) -> Pair:
    """Return the pair of the highest count; of equals the one that the text has first."""
    return max(counts, key=lambda pair: counts[pair])  # the first of equals, in a dict's order


def smallest_pair(counts: Mapping[Pair, int]) -> Pair:
    """Return the pair of the highest count; of equals the smallest (left, right)."""
    return min(counts, key=lambda pair: (-counts[pair], pair))


def train(spans: Iterable[bytes], num_merges: int, ties: Ties = smallest_pair) -> list[Pair]:
    """Learn merges: merge k makes id 256 + k. There are fewer if no pair is left.

    >>> train([b"hello", b"hello"], 2)
    [(101, 108), (104, 256)]
    """
    words = [(list(span), times) for span, times in Counter(spans).items()]  # each span once
    merges: list[Pair] = []
    while len(merges) < num_merges and (counts := count_pairs(words)):
        best = ties(counts)
        words = [(merge(ids, best, 256 + len(merges)), times) for ids, times in words]
        merges.append(best)
    return merges


class BasicTokenizer:
    """The byte-level tokenizer: the whole text is one span, so a token may reach over words."""

    def __init__(self, merges: Iterable[Pair]) -> None:
        self.new_ids = {pair: 256 + number for number, pair in enumerate(merges)}
        self.tokens = [bytes([value]) for value in range(256)]
        for left, right in self.new_ids:
            self.tokens.append(self.tokens[left] + self.tokens[right])

    @staticmethod
    def split(text: str) -> list[bytes]:
        """Cut a text into spans; joined they are its bytes."""
        return [text.encode()]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text: in each span the oldest merge that fits, until none does."""
        return [number for span in self.split(text) for number in self._encode_span(span)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; bytes that are no UTF-8 by themselves become U+FFFD."""
        return b"".join(self.tokens[number] for number in ids).decode(errors="replace")

    def _encode_span(self, span: bytes) -> list[int]:
        ids = list(span)
        while known := [pair for pair in pairwise(ids) if pair in self.new_ids]:
            oldest = min(known, key=lambda pair: self.new_ids[pair])
            ids = merge(ids, oldest, self.new_ids[oldest])
        return ids


class RegexTokenizer(BasicTokenizer):
    """The tokenizer of GPT-2 and its kin: a text is cut by a pattern first, each span by itself."""

    @staticmethod
    def split(text: str) -> list[bytes]:
        """Cut a text as nanochat does.

        >>> RegexTokenizer.split("it's 12345")
        [b'it', b"'s", b' ', b'12', b'34', b'5']
        """
        return [found.encode() for found in NANOCHAT.findall(text)]


def main() -> None:
    """Learn from a text, then encode and decode it."""
    parser = argparse.ArgumentParser(description="Learn, encode and decode, in plain Python.")
    parser.add_argument("text", nargs="?", default="low lower lowest slow slower", help="a text")
    parser.add_argument("--file", type=Path, help="a file of UTF-8, in place of a text")
    parser.add_argument("--vocab-size", type=int, default=264, help="256 bytes and the merges")
    parser.add_argument("--basic", action="store_true", help="do not cut the text into spans")
    parser.add_argument("--first-seen", action="store_true", help="of ties merge the first seen")
    args = parser.parse_args()

    text = args.file.read_text("utf-8") if args.file else args.text
    kind = BasicTokenizer if args.basic else RegexTokenizer
    ties = first_seen if args.first_seen else smallest_pair
    tokenizer = kind(train(kind.split(text), args.vocab_size - 256, ties))
    for (left, right), number in tokenizer.new_ids.items():
        print(f"{number} {tokenizer.tokens[number]!r} = {left} + {right}")
    ids = tokenizer.encode(text)
    print(f"{len(text)} characters, {len(text.encode())} bytes, {len(ids)} tokens: {ids[:20]}")
    print("decoded again it is", "the same" if tokenizer.decode(ids) == text else "ANOTHER TEXT")


if __name__ == "__main__":
    main()
