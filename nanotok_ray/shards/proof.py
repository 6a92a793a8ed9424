"""The proof of a slice, made while it is written: a sample of its documents against their ids.

Takes batches and what was made of them. Does not know how documents are chosen, nor what is
compared.
"""

from nanotok_ray.errors import ProofError
from nanotok_ray.shards.proof_count import ProofCount
from nanotok_ray.shards.prover import Prover
from nanotok_ray.shards.sample import Sample
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.writer import Rendered
from nanotok_ray.sources import Batch, Slice
from nanotok_ray.tokenizer import Tokenizer


class Proof:
    """The proof of one slice, while its batches go by."""

    def __init__(self, each: Slice, settings: ShardSettings, *, tokenizer: Tokenizer) -> None:
        """Begin with nothing; the same slice gives the same sample."""
        self._slice = each
        # Not of its key, which holds times of files: copies of them have the same sample.
        self._sample = Sample(f"{each.source}/{each.split}/{each.stem}-{each.number}")
        self._prover = Prover(kind=each.kind, settings=settings, tokenizer=tokenizer)

    @property
    def count(self) -> ProofCount:
        """What was looked at so far."""
        return self._prover.count

    def look(self, batch: Batch, rendered: Rendered) -> None:
        """Compare the sample's documents of a batch with their ids.

        Raises:
            ProofError: they are not theirs; names the row.
        """
        for number in sorted(self._sample.choose(rendered.sizes)):
            problem = self._problem(batch, rendered, number)
            if problem is not None:
                path = self._slice.pieces[rendered.piece].path
                raise ProofError(
                    f"{path}, row {rendered.rows[number]}: {problem}; nothing of this slice is "
                    "recorded. Is the memory of this node sound? If it comes again, this is a bug"
                )

    def _problem(self, batch: Batch, rendered: Rendered, number: int) -> str | None:
        """Say what is wrong with document `number` of those that were rendered."""
        start = int(rendered.lengths[:number].sum())
        own = slice(start, start + int(rendered.lengths[number]))
        documents, at = batch.documents, int(rendered.kept[number])
        images = rendered.images
        return self._prover.problem(
            documents.data[documents.offsets[at] : documents.offsets[at + 1]],
            rendered.ids[own],
            None if rendered.mask is None else rendered.mask[own],
            None if images is None else images[images[:, 0] == number, 1:],
            dialect=self._slice.pieces[rendered.piece].dialect,
        )
