"""Numbers of tokens of texts, by tokenizer and by the label of a text.

Takes counters and batches of texts; gives sums. Holds one batch at a time. Does not know files.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.documents.batch import Documents
from nanotok_ray.errors import SourceError
from nanotok_ray.evaluation.corpus import Texts
from nanotok_ray.evaluation.counter import TokenizerCounter

MAX_LABELS: Final = 1000
"""A column with more different values tells documents apart, not languages."""


@dataclass(slots=True)
class Tally:
    """Sums over some texts."""

    tokens: list[int]
    """Of each tokenizer, in order."""
    texts: int = 0
    num_bytes: int = 0
    characters: int = 0
    """Code points."""

    def add(self, other: "Tally") -> None:
        """Add the sums over other texts."""
        self.texts += other.texts
        self.num_bytes += other.num_bytes
        self.characters += other.characters
        self.tokens = [own + more for own, more in zip(self.tokens, other.tokens, strict=True)]

    def bytes_per_token(self, place: int) -> float | None:
        """Give it for one of the tokenizers; None: there are no tokens."""
        return self.num_bytes / self.tokens[place] if self.tokens[place] else None

    @property
    def bytes_per_character(self) -> float | None:
        """None: there are no characters."""
        return self.num_bytes / self.characters if self.characters else None


@dataclass(slots=True)
class Measured:
    """Sums over the texts of one source."""

    total: Tally
    by_label: dict[str, Tally] = field(default_factory=dict)
    """In the order of the labels; empty without labels."""


def measure(
    counters: Sequence[TokenizerCounter],
    batches: Iterable[Texts],
    *,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Measured:
    """Count the tokens of all texts with all counters.

    >>> from nanotok_ray.evaluation import TokenizerCounter
    >>> from nanotok_ray.tokenizer import Tokenizer
    >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
    >>> texts = Texts(documents=Documents.from_strings(["aé", "b"]), labels=["fr", "en"])
    >>> measured = measure([TokenizerCounter("bytes", tokenizer)], [texts])
    >>> measured.total
    Tally(tokens=[4], texts=2, num_bytes=4, characters=3)
    >>> measured.by_label["fr"].bytes_per_character
    1.5

    Args:
        counters: the tokenizers.
        batches: the texts.
        on_bytes: is told how many bytes of text were done since the last time.

    Raises:
        SourceError: There are more than `MAX_LABELS` labels.
        SplitError: The regex engine gave up on a text.
        VerificationError: A tokenizer decodes a text to another one.
    """
    measured = Measured(total=Tally(tokens=[0] * len(counters)))
    for batch in batches:
        columns = [
            np.ones(len(batch.documents), dtype=np.int64),
            np.diff(batch.documents.offsets),
            characters_of(batch.documents),
            *(counter.count(batch.documents) for counter in counters),
        ]
        measured.total.add(_tally([int(column.sum()) for column in columns]))
        if batch.labels is not None:
            _add_labels(measured.by_label, batch.labels, columns)
        on_bytes(batch.documents.num_bytes)
    measured.by_label = dict(sorted(measured.by_label.items()))
    return measured


def characters_of(texts: Documents) -> NDArray[np.int64]:
    """Give the number of code points of each text, which must be UTF-8.

    >>> characters_of(Documents.from_strings(["aé", "", "🙂"])).tolist()
    [2, 0, 1]
    """
    counts = np.zeros(len(texts), dtype=np.int64)
    first, last = int(texts.offsets[0]), int(texts.offsets[-1])
    is_first = (texts.data[first:last] & 0xC0) != 0x80  # noqa: PLR2004 - 10xxxxxx goes on
    filled = np.flatnonzero(np.diff(texts.offsets))  # reduceat takes no empty ranges
    if len(filled):
        starts = texts.offsets[:-1][filled] - first
        counts[filled] = np.add.reduceat(is_first, starts, dtype=np.int64)
    return counts


def _tally(sums: Sequence[int]) -> Tally:
    texts, num_bytes, characters, *tokens = sums
    return Tally(texts=texts, num_bytes=num_bytes, characters=characters, tokens=tokens)


def _add_labels(
    by_label: dict[str, Tally], labels: Sequence[str], columns: Sequence[NDArray[np.int64]]
) -> None:
    names = sorted(set(labels))
    numbers = {name: number for number, name in enumerate(names)}
    places = np.array([numbers[label] for label in labels], dtype=np.int64)
    sums = np.zeros((len(columns), len(names)), dtype=np.int64)
    for own, column in zip(sums, columns, strict=True):
        np.add.at(own, places, column)
    for name, total in zip(names, sums.T.tolist(), strict=True):
        tally = _tally(total)
        by_label.setdefault(name, Tally(tokens=[0] * len(tally.tokens))).add(tally)
    if len(by_label) > MAX_LABELS:
        raise SourceError(
            f"the column has more than {MAX_LABELS:,} different values, as {names[0]!r}: name one "
            "that says the language or the like"
        )
