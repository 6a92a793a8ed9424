"""Renders the batches of a slice to token ids and applies the length policy."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.chat import BatchRenderer, RenderedBatch, TemplateRenderer
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents, offsets_of
from nanotok_ray.errors import SplitError
from nanotok_ray.formats import (
    ILLUSTRATED,
    MAX_DOCUMENT_TOKENS,
    RECOGNIZE,
    ROLES,
    DocumentBatch,
    Ids,
    ShardSettings,
)
from nanotok_ray.shards.fim import Arrangement, choose
from nanotok_ray.shards.settings import dialect_of
from nanotok_ray.shards.unused import count_unused
from nanotok_ray.shards.writer import RenderedDocuments
from nanotok_ray.sources import DROPPED, Batch, SliceReading
from nanotok_ray.tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LengthPolicy:
    """The documents of a batch that are written."""

    selected: npt.NDArray[np.int64]
    """Their numbers in the batch."""
    ids: Ids
    labels: npt.NDArray[np.uint8]
    lengths: npt.NDArray[np.int64]
    """The number of tokens of each document."""
    images: npt.NDArray[np.int64]
    """(m, 3): index in `selected`, and start and end of the image's tokens in the document."""
    left_out: Mapping[int, str]
    """The other documents of the batch, in order, each with its reason."""
    too_long: int
    """The number of documents of more than `max_tokens`, written or not."""
    cut: int
    untrainable: int
    """The number of documents without trainable tokens, written or not."""

    @classmethod
    def of(cls, rendered: RenderedBatch, settings: ShardSettings) -> "Self":
        """Apply the rules to a batch."""
        reasons = dict(rendered.problems)
        lengths = np.diff(rendered.offsets)
        limit = settings.max_tokens
        is_long = np.zeros(len(lengths), dtype=bool)
        if limit is not None:
            is_long = (lengths > limit) & _is_in(lengths, reasons)
            if settings.too_long == "drop":
                _drop_long(lengths, is_long, limit, reasons)
            elif settings.too_long == "cut":
                _drop_cut_images(rendered, is_long, limit, reasons)
                lengths = np.where(is_long, limit, lengths)
        for number in np.flatnonzero(lengths > MAX_DOCUMENT_TOKENS).tolist():
            reasons.setdefault(number, _too_many(int(lengths[number])))
        is_bare = ~_is_trained(rendered, lengths) & _is_in(lengths, reasons)
        if settings.untrainable == "drop":
            for number in np.flatnonzero(is_bare).tolist():
                reasons[number] = f"{DROPPED}: no token to train on, limits.untrainable = 'drop'"
        selected = np.flatnonzero(_is_in(lengths, reasons))
        ids, labels = _chosen(rendered, lengths, selected)
        return cls(
            selected=selected,
            ids=ids,
            labels=labels,
            lengths=lengths[selected],
            images=_images(rendered, selected),
            left_out=dict(sorted(reasons.items())),
            too_long=int(np.count_nonzero(is_long)),
            cut=int(np.count_nonzero(is_long[selected])) if settings.too_long == "cut" else 0,
            untrainable=int(np.count_nonzero(is_bare)),
        )


def _is_in(lengths: npt.NDArray[np.int64], reasons: Mapping[int, str]) -> npt.NDArray[np.bool_]:
    """Return whether each document is written."""
    is_in = np.ones(len(lengths), dtype=bool)
    is_in[list(reasons)] = False
    return is_in


def _drop_long(
    lengths: npt.NDArray[np.int64],
    is_long: npt.NDArray[np.bool_],
    limit: int,
    reasons: dict[int, str],
) -> None:
    for number in np.flatnonzero(is_long).tolist():
        reasons[number] = f"{DROPPED}: {lengths[number]:,} tokens, limits.max_tokens = {limit:,}"


def _drop_cut_images(
    rendered: RenderedBatch,
    is_long: npt.NDArray[np.bool_],
    limit: int,
    reasons: dict[int, str],
) -> None:
    """Add a reason for documents whose cut would remove an image or a part of one."""
    is_lost = is_long[rendered.images[:, 0]] & (rendered.images[:, 2] > limit)
    for number in np.unique(rendered.images[is_lost, 0]).tolist():
        reasons[number] = f"{DROPPED}: max_tokens={limit} cuts an image span"


def _is_trained(rendered: RenderedBatch, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return whether each document has a token with mask 1 among its first `lengths`."""
    mask = np.append(rendered.mask.view(np.bool_), False)  # so that every end is an index
    starts = rendered.offsets[:-1]
    edges = np.column_stack([starts, starts + lengths]).ravel()
    # Not sums, for which numpy needs 8 bytes per token.
    if not len(edges):
        return np.zeros(0, dtype=bool)
    return np.logical_or.reduceat(mask, edges)[::2] & (lengths > 0)


def _chosen(
    rendered: RenderedBatch, lengths: npt.NDArray[np.int64], selected: npt.NDArray[np.int64]
) -> tuple[Ids, npt.NDArray[np.uint8]]:
    """Return ids and labels of the selected documents, the first `lengths` of each."""
    starts, ends = rendered.offsets[:-1], rendered.offsets[1:]
    wanted = np.zeros(len(lengths), dtype=np.int64)
    wanted[selected] = lengths[selected]
    shorter = np.flatnonzero(starts + wanted < ends)
    if not len(shorter):
        return rendered.ids, rendered.labels
    is_chosen = np.ones(len(rendered.ids), dtype=bool)
    for number in shorter.tolist():
        is_chosen[starts[number] + wanted[number] : ends[number]] = False
    return rendered.ids[is_chosen], rendered.labels[is_chosen]


def _images(rendered: RenderedBatch, selected: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the images of the selected documents, numbered by their index in `selected`."""
    at = np.searchsorted(selected, rendered.images[:, 0])
    is_selected = at < len(selected)
    is_selected[is_selected] = selected[at[is_selected]] == rendered.images[is_selected, 0]
    return np.column_stack([at[is_selected], rendered.images[is_selected, 1:]])


COUNTED_AT_ONCE = 1 << 20
"""The number of values to count at a time, because numpy converts them to 8 bytes each."""


@dataclass(slots=True)
class Account:
    """The counts of a record other than those of documents and files."""

    text_bytes: int = 0
    """UTF-8 bytes of the texts that were encoded."""
    special_text: int = 0
    """The number of times that the name of a special token occurs as text."""
    over_max_tokens: int = 0
    """Conversations and vision documents of more than max_tokens, written or not."""
    truncated: int = 0
    """Those of them that were cut."""
    trainable_tokens: int = 0
    """Tokens with mask 1."""
    without_trainable_token: int = 0
    """Conversations and vision documents without such tokens, written or not."""
    images: int = 0
    roles: dict[str, int] = field(default_factory=dict)
    """Tokens of each role, of conversations and vision documents."""
    fim: dict[str, int] = field(default_factory=dict)
    """Texts that were rearranged for filling in the middle, by form."""
    special_tokens: dict[str, int] = field(default_factory=dict)
    """The number of times that each special token was written."""
    unused_text: dict[str, int] = field(default_factory=dict)
    """Values with text of written documents that no dialect renders, by key."""

    def add_special(self, name: str, count: int) -> None:
        """Add to the number of times that a special token was written."""
        self.special_tokens[name] = self.special_tokens.get(name, 0) + count


def renderer_of(
    tokenizer: Tokenizer, settings: ShardSettings, dialect: Dialect
) -> BatchRenderer | TemplateRenderer:
    """Return the renderer of the documents of a dialect.

    Raises:
        TemplateError: The core does not support the chat template.
    """
    if settings.template is None:
        return tokenizer.batch_renderer(dialect, gaps=settings.gaps)
    return tokenizer.template_renderer(
        settings.template, dialect, special_text=settings.special_text
    )


@dataclass(slots=True)
class Renderer:
    """Turns the batches of one reading into documents, in order."""

    settings: ShardSettings
    tokenizer: Tokenizer
    reading: SliceReading
    account: Account = field(default_factory=Account)
    _renderers: dict[str, BatchRenderer | TemplateRenderer] = field(default_factory=dict)

    def render(self, piece: int, batch: Batch) -> RenderedDocuments | None:
        """Return the usable documents of a batch, or None if it has none."""
        render = self._texts if self.reading.slice.kind == "text" else self._conversations
        return render(piece, batch)

    def _texts(self, piece: int, batch: Batch) -> RenderedDocuments | None:
        selected, documents = self._encode_all(piece, batch)
        if not len(selected):
            return None
        self._account_texts(batch.documents.take(selected), documents)
        return _rendered(piece, batch, selected, documents)

    def _encode_all(self, piece: int, batch: Batch) -> tuple[npt.NDArray[np.int64], DocumentBatch]:
        """Return the numbers of the usable documents of a batch, and their ids."""
        selected = np.arange(len(batch.documents), dtype=np.int64)
        try:
            documents = self._encode(batch.documents)
        except SplitError:
            selected = selected[
                [self._can_encode(piece, batch, index) for index in range(len(selected))]
            ]
            documents = self._encode(batch.documents.take(selected))
        lengths = documents.lengths
        fits = lengths <= MAX_DOCUMENT_TOKENS
        if fits.all():
            return selected, documents
        for index, length in zip(selected[~fits], lengths[~fits], strict=True):
            self.reading.quarantine(piece, batch, int(index), reason=_too_many(int(length)))
        selected = selected[fits]
        return selected, self._encode(batch.documents.take(selected))

    def _can_encode(self, piece: int, batch: Batch, index: int) -> bool:
        try:
            self._encode(batch.documents.take([index]))
        except SplitError as error:
            self.reading.quarantine(piece, batch, index, reason=error.reason)
            return False
        return True

    def _encode(self, documents: Documents) -> DocumentBatch:
        """Return the ids of texts, `prepend` and `append` included."""
        names = (self.settings.prepend, self.settings.append)
        before, after = (
            [self.tokenizer.encode_special(name) for name in tokens] for tokens in names
        )
        encode = partial(self.tokenizer.encode_documents, gaps=self.settings.gaps)
        if self._recognizes:
            encode = partial(self.tokenizer.encode_recognized)
        fim = self.settings.fim
        if fim is None:
            ids, offsets = encode(documents, before=before, after=after)
            return DocumentBatch(ids=ids, positions=offsets)
        tokens = [self.tokenizer.encode_special(name) for name in fim.tokens]
        arrangement = Arrangement(documents, fim)
        parts = encode(arrangement.parts)
        return arrangement.joined(*parts, tokens=tokens, before=before, after=after)

    def _conversations(self, piece: int, batch: Batch) -> RenderedDocuments | None:
        rendered = self._batch_renderer(piece).render(batch.documents)
        policy = LengthPolicy.of(rendered, self.settings)
        for index, reason in policy.left_out.items():
            self.reading.quarantine(piece, batch, index, reason=reason)
        self.account.over_max_tokens += policy.too_long
        self.account.truncated += policy.cut
        self.account.without_trainable_token += policy.untrainable
        if not len(policy.selected):
            return None
        self._account_labels(rendered, policy)
        has_images = self.reading.slice.kind in ILLUSTRATED
        documents = DocumentBatch(
            ids=policy.ids,
            positions=offsets_of(policy.lengths),
            mask=policy.labels & np.uint8(1),
            images=policy.images if has_images else None,
        )
        return _rendered(piece, batch, policy.selected, documents)

    def _batch_renderer(self, piece: int) -> BatchRenderer | TemplateRenderer:
        """Return the renderer of a piece's dialect."""
        slice_ = self.reading.slice
        name = slice_.pieces[piece].file.dialect
        assert name is not None, "the plan names the dialect of every such file"
        if name not in self._renderers:
            dialect = dialect_of(self.settings, slice_.kind, name, id_column=slice_.id_column)
            self._renderers[name] = renderer_of(self.tokenizer, self.settings, dialect)
        return self._renderers[name]

    def _account_labels(self, rendered: RenderedBatch, policy: LengthPolicy) -> None:
        """Add the written tokens of a batch to the account."""
        account = self.account
        account.text_bytes += int(rendered.sizes[policy.selected, 0].sum())
        if not self._recognizes:
            account.special_text += int(rendered.sizes[policy.selected, 1].sum())
        account.trainable_tokens += int(np.count_nonzero(policy.labels & np.uint8(1)))
        account.images += len(policy.images)
        if len(rendered.unused):
            count_unused(account.unused_text, _unused(rendered, policy.selected))
        for number, count in _counts(policy.labels).items():
            name = ROLES[number >> 1]
            account.roles[name] = account.roles.get(name, 0) + count
        self._account_special(policy.ids)

    def _account_special(self, ids: Ids) -> None:
        """Add the special tokens among ids to the account."""
        names = {number: name for name, number in self.tokenizer.special_tokens.items()}
        for number, count in _counts(ids, minimum=min(names, default=0)).items():
            if number in names:
                self.account.add_special(names[number], count)

    @property
    def _recognizes(self) -> bool:
        return self.settings.special_text == RECOGNIZE

    def _account_texts(self, documents: Documents, encoded: DocumentBatch) -> None:
        self.account.text_bytes += documents.num_bytes
        fim = self.settings.fim
        forms = {} if fim is None else choose(documents, fim).forms
        for form, count in forms.items():
            self.account.fim[form] = self.account.fim.get(form, 0) + count
        if self._recognizes:
            self._account_special(encoded.ids)
            return
        self.account.special_text += _core.count_occurrences(
            documents.data, documents.offsets, list(self.tokenizer.special_tokens)
        )
        for name in (*self.settings.prepend, *self.settings.append):
            self.account.add_special(name, len(documents))
        for name in () if fim is None else fim.tokens:
            self.account.add_special(name, sum(forms.values()))


def _rendered(
    piece: int, batch: Batch, selected: npt.NDArray[np.int64], documents: DocumentBatch
) -> RenderedDocuments:
    """Return the selected documents of a batch, as they were rendered, with their ids."""
    if batch.document_ids is not None:
        texts = batch.document_ids.take(selected)
        documents = replace(documents, document_ids=(texts.data, texts.offsets))
    return RenderedDocuments(
        documents=documents,
        sizes=np.diff(batch.documents.offsets)[selected],
        piece=piece,
        group=batch.group,
        selected=selected,
        rows=batch.numbers[selected],
    )


def _unused(rendered: RenderedBatch, selected: npt.NDArray[np.int64]) -> Iterator[tuple[str, int]]:
    """Yield the keys of unused text of the selected documents, each with its number of values.

    The keys are in the order of their first documents, and in that of their names in a document.
    """
    rows = rendered.unused[np.isin(rendered.unused[:, 0], selected)]
    numbers, first, positions = np.unique(rows[:, 1], return_index=True, return_inverse=True)
    counts = np.bincount(positions, weights=rows[:, 2], minlength=len(numbers)).astype(np.int64)
    keys = [rendered.unused_keys[number] for number in numbers.tolist()]
    documents = rows[first, 0].tolist()
    for _, key, count in sorted(zip(documents, keys, counts.tolist(), strict=True)):
        yield key, count


def _counts(values: npt.NDArray[np.unsignedinteger], *, minimum: int = 0) -> dict[int, int]:
    """Return the number of occurrences of each value from `minimum` on; values must be small.

    >>> _counts(np.array([7, 3, 9, 7], np.uint16), minimum=4)
    {7: 2, 9: 1}
    """
    counts: Counter[int] = Counter()
    for start in range(0, len(values), COUNTED_AT_ONCE):
        block = values[start : start + COUNTED_AT_ONCE]
        high = block[block >= minimum] - minimum if minimum else block
        parts = enumerate(np.bincount(high).tolist())
        counts.update({minimum + number: count for number, count in parts if count})
    return dict(sorted(counts.items()))


def _too_many(length: int) -> str:
    return f"too many tokens: {length:,}, an index holds at most {MAX_DOCUMENT_TOKENS:,}"
