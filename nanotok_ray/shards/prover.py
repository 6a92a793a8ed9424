"""Are the ids of a document its own? A text's or a rendered document's, by the slice's kind.

Takes documents and what was written of them; gives what is wrong, and counts how many were looked
at. What is compared is said in `text_prover` and `composed_prover`.
"""

import numpy as np
import numpy.typing as npt

from nanotok_ray.shards.composed_prover import LONGEST_CONVERSATION, ComposedProver
from nanotok_ray.shards.proof_count import ProofCount
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import Ids
from nanotok_ray.shards.text_prover import TextProver
from nanotok_ray.tokenizer import Tokenizer


class Prover:
    """Compares documents of one kind with their ids; `count` says how many."""

    def __init__(
        self,
        *,
        kind: str,
        settings: ShardSettings,
        tokenizer: Tokenizer,
        longest_conversation: int = LONGEST_CONVERSATION,
    ) -> None:
        """Build the tables, or take those of the last tokenizer.

        Conversations of more than `longest_conversation` characters are not encoded again.
        """
        self._kind, self._settings = kind, settings
        self.count = ProofCount()
        self._texts = TextProver(settings=settings, tokenizer=tokenizer, count=self.count)
        self._composed = ComposedProver(
            settings=settings,
            tokenizer=tokenizer,
            count=self.count,
            longest=longest_conversation,
        )

    def problem(
        self,
        document: bytes | npt.NDArray[np.uint8],
        ids: Ids,
        mask: npt.NDArray[np.uint8] | None = None,
        images: npt.NDArray[np.integer] | None = None,
        *,
        dialect: str | None = None,
    ) -> str | None:
        """Say in what ids, mask and images are not those of a document; None: they are.

        Args:
            document: a text as UTF-8, or the JSON of a conversation or vision document.
            ids: all of its ids, special tokens before and after it included.
            mask: as long as the ids; None: of a text.
            images: (n, 2), where the tokens of each image begin and end; None: it can have none.
            dialect: the name of the document's; None: it is a text.
        """
        if dialect is None:
            return self._texts.problem(document, ids)
        return self._composed.problem(
            bytes(document), self._settings.dialect(self._kind, dialect), ids, mask, images
        )
