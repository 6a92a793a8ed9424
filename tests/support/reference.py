"""The whole pipeline in plain Python: the specification that the fast code must equal.

    documents -> spans -> counts -> merges -> ids -> text, and conversations -> ids and mask

The caller passes a function that splits documents, since no regex engine in Python has the core's
Unicode tables. The code is simple rather than fast, and only tests import it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

Split = Callable[[bytes], Iterable[bytes]]
Pair = tuple[int, int]


def count_spans(documents: Iterable[bytes], *, split: Split) -> Counter[bytes]:
    """Count every span of every document; spans never cross documents."""
    return Counter(span for document in documents for span in split(document))


def learn_merges(counts: Mapping[bytes, int], *, num_merges: int) -> list[Pair]:
    """Merge the most frequent pair, the smallest of equal ones, repeatedly; recount each time."""
    words = [(list(span), count) for span, count in counts.items()]
    merges: list[Pair] = []
    while len(merges) < num_merges:
        pairs: Counter[Pair] = Counter()
        for ids, count in words:
            for pair in pairwise(ids):
                pairs[pair] += count
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        new_id = 256 + len(merges)
        words = [(merge(ids, best, new_id), count) for ids, count in words]
        merges.append(best)
    return merges


def merge(ids: Sequence[int], pair: Pair, new_id: int) -> list[int]:
    """Replace the pair by the new id from left to right, without overlap."""
    merged: list[int] = []
    position = 0
    while position < len(ids):
        if tuple(ids[position : position + 2]) == pair:
            merged.append(new_id)
            position += 2
        else:
            merged.append(ids[position])
            position += 1
    return merged


def spell(merges: Sequence[Pair]) -> list[bytes]:
    """Return the bytes of every id."""
    tokens = [bytes([value]) for value in range(256)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens


def encode(document: bytes, *, split: Split, merges: Sequence[Pair]) -> list[int]:
    """Encode span by span."""
    new_ids = {pair: 256 + number for number, pair in enumerate(merges)}
    whole = {token: number for number, token in reversed([*enumerate(spell(merges))])}
    ids: list[int] = []
    for span in split(document):
        ids += [whole[span]] if span in whole else encode_span(span, new_ids)
    return ids


def encode_span(span: bytes, new_ids: Mapping[Pair, int]) -> list[int]:
    """Merge the pair with the lowest new id, the leftmost of equal ones, until none is left."""
    ids = list(span)
    while True:
        found = [
            (new_ids[pair], position)
            for position, pair in enumerate(pairwise(ids))
            if pair in new_ids
        ]
        if not found:
            return ids
        new_id, position = min(found)
        ids[position : position + 2] = [new_id]


def decode(ids: Iterable[int], *, merges: Sequence[Pair]) -> bytes:
    """Join the bytes of ids."""
    tokens = spell(merges)
    return b"".join(tokens[number] for number in ids)


def learn_superwords(
    words: Mapping[bytes, int],
    lines: Iterable[bytes],
    *,
    split: Split,
    first_merges: int,
    num_merges: int,
    max_words: int,
    forbidden: bytes,
) -> list[Pair]:
    """Learn merges of words, replay them on the spans of `split`, and merge on with two rules."""
    merges = learn_merges(words, num_merges=first_merges)
    tokens = spell(merges)
    new_ids = {pair: 256 + number for number, pair in enumerate(merges)}
    spans = [encode_span(span, new_ids) for line in lines for span in split(line)]
    while len(merges) < num_merges:
        pairs = Counter(pair for ids in spans for pair in pairwise(ids))
        allowed = [
            pair
            for pair in pairs
            if _is_superword(tokens[pair[0]] + tokens[pair[1]], max_words, forbidden)
        ]
        if not allowed:
            break
        best = min(allowed, key=lambda pair: (-pairs[pair], pair))
        spans = [merge(ids, best, 256 + len(merges)) for ids in spans]
        tokens.append(tokens[best[0]] + tokens[best[1]])
        merges.append(best)
    return merges


def _is_superword(token: bytes, max_words: int, forbidden: bytes) -> bool:
    words = [word for word in token.split(b" ") if word]
    return len(words) <= max_words and not (forbidden and forbidden in token)
