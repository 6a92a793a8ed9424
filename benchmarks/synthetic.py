"""Synthetic distinct spans and counts: very many, with equal counts, and in many count files.

`heaps` is similar to the counts of a large corpus: words of common and rare syllables, a few very
frequent, most with a count of 1 to 3. `tail` has only equal counts, for random letters. Both follow
from a seed; the order is random, as after sorting by hash. `write_count_files` needs no seed: a
span is its number, spelled with 8 to 14 letters. Number i is in one file that it selects, and in
each other file with the probability spans ** 0.55 / (i + 1): frequent spans are in all files, as in
text. Its count in a file is 1 + (spans / (i + 1)) ** 1.05 / files: Zipf's law, with a long tail.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from frame import Figures, run
from nanotok_ray import _core
from nanotok_ray.counts import CountProvenance, pack_counts
from peers import Spans

Numbers = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

CONSONANTS = b"tnsrhldcmfpgwybvkxjqz"
VOWELS = b"eaoiu"
SYLLABLE_BITS = 10
SYLLABLE_BYTES = 4
SYLLABLES = np.arange(1, 5)
SHARE_OF_SYLLABLES = (0.01, 0.64, 0.32, 0.03)
"""Shares of words with 1, 2, ... syllables."""
ZIPF_OF_SYLLABLES = 1.0
ZIPF_OF_SPANS = 1.1
WITH_SPACE = 0.85
"""Share of words that begin with a space."""

LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
LETTER_BITS = 6
LETTERS_OF_A_SPAN = (6, 10)

FILE_LETTERS = np.frombuffer(b"etaoinsrhldcumfp", np.uint8)
"""One letter for each four bits."""
MIN_LENGTH, MAX_LENGTH = 8, 14
ZIPF_OF_FILES = 1.05
SPREAD = 0.55
"""Every file contains the spans whose number is below this power of the number of spans."""
BLOCK = 2**20
"""Numbers that are processed at a time."""
FIRST, SECOND, THIRD = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xBF58476D1CE4E5B9)
)
"""Odd factors of hash functions."""


def heaps(number: int, *, seed: int) -> Spans:
    """Make words with the counts of Zipf's law: the r-th has (number / r) ** 1.1."""
    rng = np.random.default_rng([seed, number, 0])
    keys = distinct(number, lambda size: word_keys(rng, size), rng)
    words = keys >> np.uint64(1), (keys & np.uint64(1)).astype(bool)
    syllables = chosen(words[0], SYLLABLE_BITS, int(SYLLABLES[-1]))
    letters = np.zeros((number, 1 + SYLLABLE_BYTES * syllables.shape[1]), np.uint8)
    letters[words[1], 0] = ord(" ")
    letters[:, 1:] = syllable_table(rng)[syllables].reshape(number, -1)
    long = np.count_nonzero(syllables, axis=1) + 2 * rng.random(number, np.float32)
    ranks = np.empty(number)
    ranks[np.argsort(long, kind="stable")] = np.arange(1, number + 1)
    counts = ((number / ranks) ** ZIPF_OF_SPANS).astype(np.uint64)
    return Spans(*packed(letters), counts)


def tail(number: int, count: int, *, seed: int) -> Spans:
    """Make spans of 6 to 10 random letters that all occur `count` times."""
    rng = np.random.default_rng([seed, number, 1])
    keys = distinct(number, lambda size: letter_keys(rng, size), rng)
    numbers = chosen(keys, LETTER_BITS, LETTERS_OF_A_SPAN[1])
    lengths = (keys >> np.uint64(LETTER_BITS * LETTERS_OF_A_SPAN[1])).astype(np.int16)
    letters = np.frombuffer(LETTERS, np.uint8)[numbers]
    letters[np.arange(letters.shape[1]) >= lengths[:, None]] = 0
    return Spans(*packed(letters), np.full(number, count, np.uint64))


def distinct(number: int, draw: Callable[[int], Numbers], rng: np.random.Generator) -> Numbers:
    """Draw until there are `number` different keys; return them in random order."""
    keys = np.empty(0, np.uint64)
    while len(keys) < number:
        keys = np.sort(np.concatenate([keys, draw(number)]))  # np.unique is much slower
        keys = keys[np.diff(keys, prepend=~keys[:1]) != 0]
    return rng.permutation(keys)[:number]


def word_keys(rng: np.random.Generator, size: int) -> Numbers:
    """Draw words: the lowest bit is the space, ten bits each are the syllables, 0 is none."""
    weights = np.arange(1, 2**SYLLABLE_BITS) ** -ZIPF_OF_SYLLABLES
    bounds = np.cumsum(weights / weights.sum())
    lengths = rng.choice(SYLLABLES, size, p=SHARE_OF_SYLLABLES)
    keys = np.zeros(size, np.uint64)
    for place in range(int(SYLLABLES[-1])):
        drawn = 1 + np.searchsorted(bounds[:-1], rng.random(size)).astype(np.uint64)
        drawn[lengths <= place] = 0
        keys |= drawn << np.uint64(SYLLABLE_BITS * place)
    return keys << np.uint64(1) | (rng.random(size) < WITH_SPACE).astype(np.uint64)


def letter_keys(rng: np.random.Generator, size: int) -> Numbers:
    """Draw letters, six bits each, and above them their number; the others are 0."""
    least, most = LETTERS_OF_A_SPAN
    lengths = rng.integers(least, most + 1, size).astype(np.uint64)
    bits = rng.integers(0, 2**63, size, dtype=np.uint64)
    bits &= (np.uint64(1) << lengths * np.uint64(LETTER_BITS)) - np.uint64(1)
    return lengths << np.uint64(LETTER_BITS * most) | bits


def chosen(keys: Numbers, bits: int, places: int) -> npt.NDArray[np.int16]:
    """Return rows of small numbers from the bits of keys."""
    columns = [keys >> np.uint64(bits * place) & np.uint64(2**bits - 1) for place in range(places)]
    return np.stack([column.astype(np.int16) for column in columns], axis=1)


def syllable_table(rng: np.random.Generator) -> Bytes:
    """Return syllables: 1 or 2 consonants, then 1 or 2 vowels, so words have one reading."""
    every = [onset + nucleus for onset in parts(CONSONANTS) for nucleus in parts(VOWELS)]
    length = np.array([len(each) for each in every]) + rng.random(len(every))
    table = np.zeros((2**SYLLABLE_BITS, SYLLABLE_BYTES), np.uint8)
    for row, number in enumerate(np.argsort(length)[: len(table) - 1].tolist(), 1):
        table[row, : len(every[number])] = np.frombuffer(every[number], np.uint8)
    return table


def parts(letters: bytes) -> list[bytes]:
    """Return each letter, and each pair of letters."""
    single = [letters[n : n + 1] for n in range(len(letters))]
    return single + [left + right for left in single for right in single]


def packed(letters: Bytes) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Concatenate rows of letters, of which 0 is none; return the bytes and where rows begin."""
    there = letters != 0
    offsets = np.zeros(len(letters) + 1, np.int64)
    np.cumsum(np.count_nonzero(there, axis=1), out=offsets[1:])
    return letters[there], offsets


def write_count_files(folder: str, spans: int, files: int) -> Figures:
    """Write the count files in two processes; return the totals of all."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(2) as pool:
        facts = list(pool.map(partial(write_file, Path(folder), spans, files), range(files)))
    return {name: sum(each[name] for each in facts) for name in facts[0]}


def write_file(folder: Path, spans: int, files: int, number: int) -> dict[str, int]:
    """Write one file; return its rows, bytes, and sums of counts."""
    blocks = range(0, spans, BLOCK)
    ids = np.concatenate([numbers_of(spans, files, number, start) for start in blocks])
    letters = spelled(ids)
    counts = (1 + (spans / (ids + 1.0)) ** ZIPF_OF_FILES / files).astype(np.uint64)
    order = np.argsort(_core.hash_documents(*packed(letters)), kind="stable")
    counts = counts[order]
    data, offsets = packed(letters[order])
    origin = CountProvenance(
        pattern="benchmark", texts=0, text_bytes=0, spans=int(counts.sum()), num_gaps=0
    )
    path = folder / f"{number:05}.arrow"
    hashes = _core.hash_documents(data, offsets)
    path.write_bytes(pack_counts((hashes, data, offsets, counts), origin))
    return {
        "rows": len(ids),
        "file_bytes": path.stat().st_size,
        "spans": int(counts.sum()),
        "span_bytes": int(counts @ np.diff(offsets).astype(np.uint64)),
    }


def numbers_of(spans: int, files: int, number: int, start: int) -> Numbers:
    """Return the numbers of a file's spans in a block; every number is in at least one file."""
    ids = np.arange(start, min(start + BLOCK, spans), dtype=np.uint64)
    mixed = ids * FIRST ^ np.uint64((number + 1) * int(SECOND) % 2**64)
    mixed = (mixed ^ mixed >> np.uint64(29)) * THIRD
    chance = (mixed >> np.uint64(40)).astype(np.float32) / np.float32(2**24)
    everywhere = chance * (ids + np.uint64(1)).astype(np.float32) < np.float32(spans**SPREAD)
    own = (ids * THIRD >> np.uint64(33)) % np.uint64(files) == number
    here: Numbers = ids[everywhere | own]
    return here


def spelled(ids: Numbers) -> Bytes:
    """Return distinct spellings of numbers below 2**32, as rows of letters and zeros."""
    scrambled = ids * np.uint64(0x9E3779B1) % np.uint64(2**32)
    more = scrambled * np.uint64(0xC2B2AE3D27D4EB4F) >> np.uint64(32)
    bits = scrambled | more << np.uint64(32)
    places = np.arange(MAX_LENGTH, dtype=np.uint64) * np.uint64(4)
    letters: Bytes = FILE_LETTERS[(bits[:, None] >> places & np.uint64(15)).astype(np.uint8)]
    lengths = MIN_LENGTH + (bits >> np.uint64(56)) % np.uint64(MAX_LENGTH - MIN_LENGTH + 1)
    letters[np.arange(MAX_LENGTH, dtype=np.uint64) >= lengths[:, None]] = 0
    return letters


if __name__ == "__main__":
    run()
