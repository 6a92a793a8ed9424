"""The sample check of a slice, made while it is written."""

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import SampleCheckError
from nanotok_ray.shards.check.document import (
    LONGEST_CONVERSATION,
    RenderedChecker,
    Sample,
    TextChecker,
)
from nanotok_ray.shards.settings import CheckedCount, ShardSettings
from nanotok_ray.shards.sink import Ids
from nanotok_ray.shards.writer import Rendered
from nanotok_ray.sources import Batch, Slice
from nanotok_ray.tokenizer import Tokenizer


class DocumentChecker:
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
        self.count = CheckedCount()
        self._texts = TextChecker(settings=settings, tokenizer=tokenizer, count=self.count)
        self._composed = RenderedChecker(
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
        """Return how ids, mask and images differ from those of a document; None: they do not.

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


class SampleCheck:
    """The sample check of one slice, batch by batch."""

    def __init__(self, slice_: Slice, settings: ShardSettings, *, tokenizer: Tokenizer) -> None:
        """Start without documents; the same slice has the same sample."""
        self._slice = slice_
        # Not of its key, which holds times of files: copies of them have the same sample.
        self._sample = Sample(f"{slice_.source}/{slice_.split}/{slice_.stem}-{slice_.number}")
        self._checker = DocumentChecker(kind=slice_.kind, settings=settings, tokenizer=tokenizer)

    @property
    def count(self) -> CheckedCount:
        """What was checked so far."""
        return self._checker.count

    def check(self, batch: Batch, rendered: Rendered) -> None:
        """Compare the sample's documents of a batch with their ids.

        Raises:
            SampleCheckError: they are not theirs; names the row.
        """
        for number in sorted(self._sample.choose(rendered.sizes)):
            problem = self._problem(batch, rendered, number)
            if problem is not None:
                path = self._slice.pieces[rendered.piece].path
                raise SampleCheckError(
                    f"{path}, row {rendered.rows[number]}: {problem}; nothing of this slice is "
                    "recorded. Is the memory of this node sound? If it comes again, this is a bug"
                )

    def _problem(self, batch: Batch, rendered: Rendered, number: int) -> str | None:
        """Return the problem of document `number` of those that were rendered, if it has one."""
        start = int(rendered.lengths[:number].sum())
        tokens = slice(start, start + int(rendered.lengths[number]))
        documents, at = batch.documents, int(rendered.selected[number])
        images = rendered.images
        return self._checker.problem(
            documents.data[documents.offsets[at] : documents.offsets[at + 1]],
            rendered.ids[tokens],
            None if rendered.mask is None else rendered.mask[tokens],
            None if images is None else images[images[:, 0] == number, 1:],
            dialect=self._slice.pieces[rendered.piece].dialect,
        )
