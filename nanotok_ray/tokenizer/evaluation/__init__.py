"""Statistics of a vocabulary, and the number of tokens of texts with different tokenizers.

The input is tokenizers and texts. The output is plain numbers; the package draws and prints
nothing.
"""

from nanotok_ray.tokenizer.evaluation.corpus import Corpus, CorpusReader, Texts
from nanotok_ray.tokenizer.evaluation.counter import (
    PUBLISHED,
    TokenizerCounter,
    published_tokenizer,
)
from nanotok_ray.tokenizer.evaluation.measure import (
    MAX_LABELS,
    Measurement,
    Overlap,
    Tally,
    Usage,
    characters_of,
    measure,
    overlap_of,
)
from nanotok_ray.tokenizer.evaluation.sample_texts import SAMPLE_TEXTS
from nanotok_ray.tokenizer.evaluation.vocabulary import TokenView, Vocabulary, token_bytes_of

__all__ = [
    "MAX_LABELS",
    "PUBLISHED",
    "SAMPLE_TEXTS",
    "Corpus",
    "CorpusReader",
    "Measurement",
    "Overlap",
    "Tally",
    "Texts",
    "TokenView",
    "TokenizerCounter",
    "Usage",
    "Vocabulary",
    "characters_of",
    "measure",
    "overlap_of",
    "published_tokenizer",
    "token_bytes_of",
]
