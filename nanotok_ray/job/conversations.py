"""The first conversations of each source, rendered before a job starts."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from nanotok_ray.chat import RenderedBatch, TemplateRenderer
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents
from nanotok_ray.errors import RecipeError, TokenizerError
from nanotok_ray.formats import ShardSettings
from nanotok_ray.job.tokenize import TokenizePlan
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.shards import dialect_of, renderer_of
from nanotok_ray.sources import Slice, SliceReading
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.units import quantity

_TOOLS = "tools"
"""The usual key of the tools of a conversation."""

_MAX_PLAIN = 5
"""Conversations that are compared with the plain implementation."""

_MAX_DOCUMENTS = 50
"""Conversations of a source that are rendered together."""

_MAX_READ = 5_000
"""Conversations of which one must be trained on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Passage:
    """A part of the text of a conversation."""

    text: str
    trained: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ConversationSample:
    """The first conversations of a source as they will be written."""

    source: str
    template: str
    """How they are rendered, for people."""
    documents: int
    refused: int
    """Documents that cannot be rendered, of these."""
    tokens: int
    trained: int
    """Tokens that are trained on, of these."""
    passages: tuple[Passage, ...]
    """The first conversation that can be rendered; empty if there is none."""
    notes: tuple[str, ...] = ()


def sample_conversations(
    tokenizing: TokenizePlan, limits: LimitsRecipe, *, templates: bool
) -> Iterator[ConversationSample]:
    """Yield a sample of each source of conversations that has slices to tokenize.

    These are the sources with a chat template, or else those that are rendered as nanochat does.

    Raises:
        RecipeError: The core does not support a template, or all conversations of a sample are
            refused, or none has a token to train on.
        SourceError, TransientIOError: The documents cannot be read.
    """
    seen: set[str] = set()
    for expected in tokenizing.todo:
        slice_, settings = expected.slice, expected.settings
        is_other = templates == (settings.template is None)
        if slice_.kind != "chat" or slice_.source in seen or is_other:
            continue
        seen.add(slice_.source)
        sample = _sample(slice_, settings, tokenizing.tokenizer)
        if sample is None:
            continue
        if settings.template is not None:
            _check(sample, limits)
        yield sample


def _sample(
    slice_: Slice, settings: ShardSettings, tokenizer: Tokenizer
) -> ConversationSample | None:
    """Return the first documents of a slice of which some are trained on, or the first ones.

    None if the slice has no documents.
    """
    first, seen = None, 0
    reading = SliceReading(slice_, max_document_bytes=settings.max_document_bytes)
    for piece, batch in reading:
        name = slice_.pieces[piece].file.dialect
        assert name is not None, "the plan names the dialect of every such file"
        dialect = dialect_of(settings, slice_.kind, name, id_column=slice_.id_column)
        for start in range(0, len(batch.documents), _MAX_DOCUMENTS):
            documents = batch.documents.part(
                start, min(start + _MAX_DOCUMENTS, len(batch.documents))
            )
            sample = _rendered(documents, dialect, slice_.source, settings, tokenizer)
            seen += len(documents)
            if sample.trained or seen >= _MAX_READ:
                return _with_unreadable(sample if sample.trained else first or sample, reading)
            first = first or sample
    return None if first is None else _with_unreadable(first, reading)


def _with_unreadable(sample: ConversationSample, reading: SliceReading) -> ConversationSample:
    """Add a note on rows that were quarantined before they could be rendered."""
    entry = next(iter(reading.quarantined), None)
    if entry is None:
        return sample
    rows = quantity(len(reading.quarantined), "row")
    note = (
        f"source {sample.source!r}: {rows} of the first {reading.documents_in:,} cannot be read; "
        f"the first, row {entry.row} of {entry.file}, because {entry.reason}"
    )
    return replace(sample, notes=(note, *sample.notes))


def _rendered(
    documents: Documents,
    dialect: Dialect,
    source: str,
    settings: ShardSettings,
    tokenizer: Tokenizer,
) -> ConversationSample:
    try:
        renderer = renderer_of(tokenizer, settings, dialect)
    except TokenizerError as error:
        raise RecipeError(f"source.{source}.template: {error}") from error
    rendered = renderer.render(documents)
    if isinstance(renderer, TemplateRenderer):
        _check_plain(source, documents, rendered, renderer)
    usable = [number for number in range(len(documents)) if number not in rendered.problems]
    passages = _passages(rendered.part(usable[0], usable[0] + 1), tokenizer) if usable else ()
    reason = next(iter(rendered.problems.values()), "")
    refused, number = len(rendered.problems), quantity(len(documents), "conversation")
    note = (
        f"source {source!r}: {refused:,} of the first {number} cannot be rendered; the first "
        f"because {reason}"
    )
    return ConversationSample(
        source=source,
        template="nanochat's rendering" if settings.template is None else "a chat template",
        documents=len(documents),
        refused=refused,
        tokens=len(rendered.ids),
        trained=int(np.count_nonzero(rendered.mask)),
        passages=tuple(passages),
        notes=(
            *((note,) if refused else ()),
            *_unused_notes(source, rendered, settings),
            *_stop_notes(source, rendered, tokenizer),
        ),
    )


def _check_plain(
    source: str, documents: Documents, rendered: RenderedBatch, renderer: TemplateRenderer
) -> None:
    """Compare the first conversations with those of the plain implementation.

    It also compares the text of a template for training with that of the template.
    """
    for number in range(min(len(documents), _MAX_PLAIN)):
        mine = rendered.part(number, number + 1)
        if mine.problems:  # of the plain implementation, or of a template without an end
            continue
        plain = renderer.plain(documents[number])
        same = np.array_equal(mine.ids, plain.ids) and np.array_equal(mine.mask, plain.mask)
        if plain.problems or not same:
            why = plain.problems.get(0, "Jinja2 gives other ids or another mask")
            raise RecipeError(
                f"source.{source}.template: conversation {number} of the first file: {why}"
            )


def _passages(rendered: RenderedBatch, tokenizer: Tokenizer) -> Iterator[Passage]:
    """Yield the text of one conversation, divided where the mask changes."""
    pairs = zip(rendered.ids.tolist(), rendered.mask.tolist(), strict=True)
    for flag, run in groupby(pairs, key=lambda pair: bool(pair[1])):
        yield Passage(text=tokenizer.decode([number for number, _ in run]), trained=flag)


def _unused_notes(source: str, rendered: RenderedBatch, settings: ShardSettings) -> Iterator[str]:
    """Yield a note on tools that a template could describe to the model."""
    if settings.template is not None and _TOOLS in rendered.unused_keys:
        yield (
            f"source {source!r}: the conversations have {_TOOLS!r}, which are not rendered; to "
            f'render them, set tools = "{_TOOLS}"'
        )


def _stop_notes(source: str, rendered: RenderedBatch, tokenizer: Tokenizer) -> Iterator[str]:
    """Yield a note if a special token follows a turn that has none at its end."""
    special = tokenizer.model.special_flags()
    is_special = special[np.minimum(rendered.ids, len(special) - 1)]
    mask = rendered.mask.astype(np.bool_)
    ends = np.flatnonzero(mask[:-1] & ~mask[1:]) if len(mask) else np.zeros(0, dtype=np.int64)
    ends = ends[~np.isin(ends + 1, rendered.offsets)]  # nothing follows at the end of a text
    has_stop = is_special[ends] | is_special[np.maximum(ends - 1, 0)]
    if len(ends) and not has_stop.any() and is_special[ends + 1].any():
        yield (
            f"source {source!r}: the special token after a turn of the assistant is not trained "
            "on, so a model does not learn to stop there; a training_template can include it"
        )


def _check(sample: ConversationSample, limits: LimitsRecipe) -> None:
    """Refuse a source of which nothing can be used."""
    if sample.refused == sample.documents and not limits.accepts_all_bad:
        raise RecipeError(sample.notes[0])
    if sample.refused < sample.documents and not sample.trained:
        raise RecipeError(
            f"source {sample.source!r}: no token of its first conversations, up to {_MAX_READ:,}, "
            "is trained on; check the roles of the messages, source.train_on and source.untrained"
        )
