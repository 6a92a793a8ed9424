"""Synthetic distinct spans and counts from a seed: very many, and with equal counts.

The result is the input of `_core.learn`. `heaps` is similar to the counts of a large corpus: words
of common and rare syllables, a few very frequent, most with a count of 1 to 3. `tail` has only
equal counts, for random letters. The order is random, as after sorting by hash.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from span_file import Spans

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


def heaps(number: int, *, seed: int) -> Spans:
    """Make words with the counts of Zipf's law: the r-th has (number / r) ** 1.1."""
    rng = np.random.default_rng([seed, number, 0])
    keys = distinct(number, lambda size: word_keys(rng, size), rng)
    words = keys >> np.uint64(1), (keys & np.uint64(1)).astype(bool)
    syllables = chosen(words[0], SYLLABLE_BITS, int(SYLLABLES[-1]))
    table = syllable_table(rng)
    letters = np.zeros((number, 1 + SYLLABLE_BYTES * syllables.shape[1]), np.uint8)
    letters[words[1], 0] = ord(" ")
    letters[:, 1:] = table[syllables].reshape(number, -1)
    long = np.count_nonzero(syllables, axis=1) + 2 * rng.random(number, np.float32)
    ranks = np.empty(number)
    ranks[np.argsort(long, kind="stable")] = np.arange(1, number + 1)
    counts = ((number / ranks) ** ZIPF_OF_SPANS).astype(np.uint64)
    return packed(letters, counts)


def tail(number: int, count: int, *, seed: int) -> Spans:
    """Make spans of 6 to 10 random letters that all occur `count` times."""
    rng = np.random.default_rng([seed, number, 1])
    keys = distinct(number, lambda size: letter_keys(rng, size), rng)
    numbers = chosen(keys, LETTER_BITS, LETTERS_OF_A_SPAN[1])
    lengths = (keys >> np.uint64(LETTER_BITS * LETTERS_OF_A_SPAN[1])).astype(np.int16)
    letters = np.frombuffer(LETTERS, np.uint8)[numbers]
    letters[np.arange(letters.shape[1]) >= lengths[:, None]] = 0
    return packed(letters, np.full(number, count, np.uint64))


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
    onsets = parts(CONSONANTS)
    nuclei = parts(VOWELS)
    every = [onset + nucleus for onset in onsets for nucleus in nuclei]
    length = np.array([len(each) for each in every]) + rng.random(len(every))
    table = np.zeros((2**SYLLABLE_BITS, SYLLABLE_BYTES), np.uint8)
    for row, number in enumerate(np.argsort(length)[: len(table) - 1].tolist(), 1):
        table[row, : len(every[number])] = np.frombuffer(every[number], np.uint8)
    return table


def parts(letters: bytes) -> list[bytes]:
    """Return each letter, and each pair of letters."""
    single = [letters[n : n + 1] for n in range(len(letters))]
    return single + [left + right for left in single for right in single]


def packed(letters: Bytes, counts: Numbers) -> Spans:
    """Concatenate rows of letters; a 0 is no letter."""
    there = letters != 0
    offsets = np.zeros(len(letters) + 1, np.int64)
    np.cumsum(np.count_nonzero(there, axis=1), out=offsets[1:])
    return Spans(letters[there], offsets, counts)
