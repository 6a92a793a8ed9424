"""The table of nanochat's tok_eval: tokens of a few kinds of texts beside another tokenizer.

Takes named texts and counters; gives rows. Does not know what is printed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nanotok_ray.documents.batch import Documents
from nanotok_ray.evaluation.corpus import Texts
from nanotok_ray.evaluation.counter import TokenizerCounter
from nanotok_ray.evaluation.measure import Tally, measure


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRow:
    """One kind of text."""

    name: str
    tally: Tally

    def diff_percent(self, place: int) -> float | None:
        """Compare the first tokenizer with the one at a place; see `diff_percent`."""
        return diff_percent(self.tally.tokens[place], self.tally.tokens[0])


def sample_rows(
    counters: Sequence[TokenizerCounter], texts: Mapping[str, Iterable[Documents]]
) -> Iterator[SampleRow]:
    """Count the tokens of each kind of text with all counters.

    Raises:
        SplitError: The regex engine gave up on a text.
        VerificationError: A tokenizer decodes a text to another one.
    """
    for name, batches in texts.items():
        measured = measure(counters, (Texts(documents=batch) for batch in batches))
        yield SampleRow(name=name, tally=measured.total)


def diff_percent(base: int, own: int) -> float | None:
    """Give how many percent fewer tokens `own` are than `base`, as nanochat does.

    >>> diff_percent(404, 375), diff_percent(0, 0)
    (7.17..., None)
    """
    return (base - own) / base * 100 if base else None
