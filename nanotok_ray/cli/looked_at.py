"""What `nanotok inspect` looks at: the documents of an output, or the lines of a file.

Gives each by number, as a value to show. Does not know how it is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nanotok_ray.formats.manifest import TOKENIZER_FOLDER
from nanotok_ray.loader import open_shards
from nanotok_ray.report import Document, Spelling
from nanotok_ray.tokenizer import Tokenizer, written_tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class LookedAt:
    """Documents to look at."""

    title: str
    """What they are, for a heading."""
    where: str
    """The same, within a sentence."""
    count: int
    document: Callable[[int], Document]
    """Give one by number, from 0 on."""
    tokenizer: Tokenizer

    @property
    def spelling(self) -> Spelling:
        """How their ids are spelled."""
        return Spelling(
            bytes_of=self.tokenizer.decode_single_token_bytes,
            special_tokens=self.tokenizer.special_tokens,
        )

    @property
    def note(self) -> str:
        """What encoded them, for a line below the heading."""
        size = self.tokenizer.get_vocab_size()
        return f"tokenizer {self.tokenizer.sha256[:16]}, {size:,} ids"


def output_at(folder: str, *, split: str, source: str | None) -> LookedAt:
    """Look at the documents of a finished output.

    Raises:
        CorruptOutputError, IncompleteOutputError, SourceError: As `open_shards`.
        TokenizerError: The output's tokenizer cannot be read.
    """
    shards = open_shards(folder, split=split, source=source)

    def document(number: int) -> Document:
        name, place = shards.shard_of(number)
        return Document(
            title=f"document {number} of {len(shards)}",
            place=f"document {place} of {name}",
            ids=shards[number],
            mask=shards.mask(number),
            images=shards.images(number),
            document_id=shards.document_id(number),
        )

    return LookedAt(
        title=f"{folder}, split {split}" + (f", source {source}" if source else ""),
        where=f"split {split}" + (f" of source {source}" if source else ""),
        count=len(shards),
        document=document,
        tokenizer=written_tokenizer(f"{folder}/{TOKENIZER_FOLDER}", span_table=False),
    )
