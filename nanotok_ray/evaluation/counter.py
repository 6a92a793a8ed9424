"""What makes tokens of texts, as far as tokenizers are compared: how many, and that none is lost.

Takes batches of texts; gives numbers of tokens. Every text is decoded again and must be the same.
Does not know where the texts are from.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.counts.patterns import default_threads
from nanotok_ray.documents.batch import Documents
from nanotok_ray.errors import VerificationError
from nanotok_ray.evaluation.vocabulary import Vocabulary
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.id_array import Ids


class TokenizerCounter:
    """A tokenizer that is compared with others.

    >>> tokenizer = Tokenizer.train_from_iterator(["hello hello"], vocab_size=267)
    >>> counter = TokenizerCounter("mine", tokenizer)
    >>> counter.count(Documents.from_strings(["hello", "", "no"])).tolist()
    [3, 0, 2]
    """

    def __init__(self, name: str, tokenizer: Tokenizer) -> None:
        self.name = name
        """What it is called beside others."""
        self.tokenizer = tokenizer
        self._threads = default_threads()

    @property
    def num_ids(self) -> int:
        """The highest id + 1, special tokens included."""
        return self.tokenizer.get_vocab_size()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What its ids stand for."""
        return Vocabulary.of(self.tokenizer)

    def count(self, texts: Documents) -> NDArray[np.int64]:
        """Give the number of tokens of each text.

        Raises:
            SplitError: The regex engine gave up on a text.
            VerificationError: A text is another one after it was decoded.
        """
        return np.diff(self.encode(texts)[1])

    def encode(self, texts: Documents) -> tuple[Ids, NDArray[np.int64]]:
        """Give all ids back to back, and n + 1 offsets, once they were decoded and compared.

        Raises:
            SplitError: The regex engine gave up on a text.
            VerificationError: A text is another one after it was decoded.
        """
        ids, offsets = self.tokenizer.encode_documents(texts, threads=self._threads)
        decoded = Documents.from_arrow(self.tokenizer.decode_batch(ids, offsets, as_bytes=True))
        if not _are_same(texts, decoded):
            pairs = enumerate(zip(texts, decoded, strict=True))
            number = next(each for each, (own, back) in pairs if own != back)
            raise _lost(self.name, texts[number])
        return ids, offsets


def _lost(name: str, text: bytes) -> VerificationError:
    start = repr(text[:40].decode(errors="replace"))
    return VerificationError(
        f"{name} decodes a text of {len(text):,} bytes, {start} ..., to something else: it loses "
        "text, so its numbers of tokens say nothing; leave it out"
    )


def _are_same(left: Documents, right: Documents) -> bool:
    first, last = left.offsets[0], left.offsets[-1]
    own, other = left.data[first:last], right.data[right.offsets[0] : right.offsets[-1]]
    return np.array_equal(own, other) and np.array_equal(
        left.offsets - first, right.offsets - right.offsets[0]
    )
