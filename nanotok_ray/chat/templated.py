"""Renders batches of conversations with a chat template to ids with labels.

The text of a conversation is encoded with the special tokens that it spells, and an id is trained
on if it overlaps a part of the text that is: the rule of transformers. The core renders.
Conversations that it declines are rendered by the plain implementation, which also says what is
wrong with them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nanotok_ray.chat.batches import Ids, RenderedBatch
from nanotok_ray.chat.template import ChatTemplate, CoreTemplate
from nanotok_ray.chat.turns import Span, TurnFinder
from nanotok_ray.dialects import (
    MALFORMED,
    Dialect,
    Row,
    is_metadata,
    metadata_of,
    reason_of,
    row_of,
    unused_members,
    value_of,
)
from nanotok_ray.documents import Documents, offsets_of
from nanotok_ray.errors import SourceError, SplitError
from nanotok_ray.formats import RECOGNIZE, REFUSE, ROLES, TemplateSettings

_ASSISTANT = np.uint8(ROLES.index("assistant") << 1)
_PROMPT = np.uint8(ROLES.index("prompt") << 1)
_BREAK = "\U0010fffd"
"""A private character that is put into the names of special tokens that stay text."""

Rows = npt.NDArray[np.int64]
"""Spans of texts: rows of document, start and end in bytes."""


class PlainEncoder(Protocol):
    """What encodes one text of a template."""

    @property
    def special_tokens(self) -> dict[str, int]:
        """The id of each special token by name."""

    @property
    def is_wide(self) -> bool:
        """Whether ids need more than 16 bits."""

    def recognized_with_offsets(
        self, text: str, *, between: str
    ) -> tuple[list[int], Sequence[Span]]:
        """Return the ids of a text without `between`, and their positions in characters.

        Names of special tokens with `between` inside stay text.
        """


class TemplateTokenizer(PlainEncoder, Protocol):
    """What encodes batches of texts of a template."""

    def encode_recognized(self, documents: Documents) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Return the ids of texts in which names of special tokens become these tokens."""

    def mask_of_spans(
        self, ids: Ids, offsets: npt.NDArray[np.int64], texts: Documents, spans: Rows
    ) -> tuple[npt.NDArray[np.uint8], list[int]]:
        """Return the mask of ids, and the texts whose ids do not decode to them."""


class PlainRenderer:
    """Renders conversations one by one: the plain implementation of `TemplateRenderer`."""

    def __init__(
        self,
        tokenizer: PlainEncoder,
        settings: TemplateSettings,
        dialect: Dialect,
        *,
        special_text: str,
    ) -> None:
        """Store the settings."""
        self._tokenizer, self._special_text = tokenizer, special_text
        self._dialect, self.template = dialect, ChatTemplate(settings)
        names = {*tokenizer.special_tokens} - {*settings.ordinary}
        self._names = sorted(names, key=lambda name: (-len(name), name))
        self._spelled = re.compile("|".join(map(re.escape, self._names)) or r"(?!)")

    def plain(self, document: bytes) -> RenderedBatch:
        """Return a conversation as the plain implementation renders it, or with its problem."""
        try:
            value = value_of(document, exact=True)
            row, spelled = self._row(value)
            rendered = self.template.conversation(row)
            if not self.template.is_original and self.template.original(row) != rendered.text:
                raise SourceError("the template for training renders another text")
            ids, positions = self._tokenizer.recognized_with_offsets(rendered.text, between=_BREAK)
        except SplitError as error:
            return self._problem(error.reason)
        except MALFORMED as error:
            return self._problem(reason_of(error))
        text = rendered.text.replace(_BREAK, "")
        in_turn, mask = (
            overlapping(positions, [*_without_breaks(spans, rendered.text)])
            for spans in (rendered.turns, rendered.trained)
        )
        return self._rendered(
            np.array(ids),
            np.where(in_turn, _ASSISTANT, _PROMPT) | mask,
            offsets=np.array([0, len(ids)], dtype=np.int64),
            sizes=np.array([[len(text.encode()), spelled]], dtype=np.int64),
            unused=[*unused_members(value, self._dialect)],
        )

    def _row(self, value: object) -> tuple[Row, int]:
        """Return the conversation of a row, and the number of special tokens that it spells.

        Raises:
            SourceError: It is no conversation, or spells special tokens that are refused.
        """
        row = row_of(value, self._dialect.name, tools=self._dialect.tools)
        texts = [*_strings([row.messages, row.tools])]
        spelled = [name for text in texts for name in self._spelled.findall(text)]
        if not spelled or self._special_text == RECOGNIZE:
            return row, len(spelled)
        if self._special_text == REFUSE:
            raise SourceError(
                f"special token in a message: {spelled[0]!r}; source.special_text says what to do"
            )
        if any(_BREAK in text for text in texts):
            raise SourceError(f"special token in a message: {spelled[0]!r}, with {_BREAK!r} in one")
        messages, tools = (
            _changed(value, lambda text: self._spelled.sub(_broken, text))
            for value in (row.messages, row.tools)
        )
        return Row(messages, tools), len(spelled)

    def _rendered(
        self,
        ids: npt.NDArray[Any],
        labels: npt.NDArray[np.uint8],
        *,
        offsets: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        unused: Sequence[str] = (),
    ) -> RenderedBatch:
        return RenderedBatch(
            ids=ids.astype(np.uint32) if self._tokenizer.is_wide else ids.astype(np.uint16),
            labels=labels,
            offsets=offsets,
            images=np.zeros((0, 3), dtype=np.int64),
            sizes=sizes,
            unused_keys=unused,
            unused=np.array([(0, key, 1) for key in range(len(unused))], np.int64).reshape(-1, 3),
            problems={},
        )

    def _problem(self, reason: str) -> RenderedBatch:
        empty = self._rendered(
            np.zeros(0),
            np.zeros(0, dtype=np.uint8),
            offsets=np.zeros(2, dtype=np.int64),
            sizes=np.zeros((1, 2), dtype=np.int64),
        )
        return replace(empty, problems={0: reason})


class TemplateRenderer(PlainRenderer):
    """Renders the conversations of one dialect with a chat template."""

    def __init__(
        self,
        tokenizer: TemplateTokenizer,
        settings: TemplateSettings,
        dialect: Dialect,
        *,
        special_text: str,
    ) -> None:
        """Compile the template in the core.

        Raises:
            TemplateError: The core does not support it.
        """
        super().__init__(tokenizer, settings, dialect, special_text=special_text)
        self._tokenizer: TemplateTokenizer = tokenizer
        self._settings, self._metadata = settings, metadata_of(dialect)
        self._core = self.template.core()
        self._anchors = TurnFinder(CoreTemplate(self._core, settings)).anchors

    def render(self, documents: Documents, *, num_threads: int = 1) -> RenderedBatch:
        """Render conversations; one that cannot be rendered gets a problem and no exception."""
        if "tool_calls" in self._settings.untrained:  # rendered once more for each message
            none = self._problem("").part(0, 0)
            return RenderedBatch.joined([none, *map(self.plain, documents)])
        text, lengths, turns, trained, spelled, unused, declined, bounded = self._core.render_rows(
            self._dialect.name,
            documents.data,
            documents.offsets,
            tools=self._dialect.tools,
            arguments=self._settings.arguments.encode(),
            names=self._names,
            declines_names=self._special_text != RECOGNIZE,
            anchors=self._anchors,
            train_on=self._settings.train_on,
            trains_reasoning="reasoning_content" not in self._settings.untrained,
            threads=num_threads,
        )
        texts = Documents(data=text, offsets=offsets_of(lengths))
        keys, rows = _unused_rows(unused, self._metadata)
        try:
            ids, offsets = self._tokenizer.encode_recognized(texts)
            mask, unaligned = self._tokenizer.mask_of_spans(ids, offsets, texts, trained)
            in_turn, _ = self._tokenizer.mask_of_spans(ids, offsets, texts, turns)
        except SplitError:
            return RenderedBatch.joined([*map(self.plain, documents)])
        rendered = RenderedBatch(
            ids=ids,
            labels=np.where(in_turn.view(np.bool_), _ASSISTANT, _PROMPT) | mask,
            offsets=offsets,
            images=np.zeros((0, 3), dtype=np.int64),
            sizes=np.column_stack([lengths, spelled]),
            unused_keys=keys,
            unused=rows,
            problems={number: f"refused by the chat template: {why}" for number, why in bounded},
        )
        return rendered.replaced(
            sorted({*declined.tolist(), *unaligned} - {number for number, _ in bounded}),
            lambda number: self.plain(documents[number]),
        )


def _unused_rows(
    unused: Sequence[tuple[int, str]], metadata: Sequence[str]
) -> tuple[tuple[str, ...], Rows]:
    """Return the keys of unused text, and rows of document, index of the key and 1."""
    keys: dict[str, int] = {}
    rows = [
        (number, keys.setdefault(name, len(keys)), 1)
        for number, name in unused
        if not is_metadata(name, metadata)
    ]
    return tuple(keys), np.array(rows, dtype=np.int64).reshape(-1, 3)


def overlapping(positions: Sequence[Span], spans: Sequence[Span]) -> npt.NDArray[np.uint8]:
    """Return 1 for each position that overlaps a span, else 0, by the rule of transformers.

    >>> overlapping([(0, 2), (2, 5), (5, 6)], [(2, 4)]).tolist()
    [0, 1, 0]
    """
    mask = np.zeros(len(positions), dtype=np.uint8)
    starts = np.array([start for start, _ in positions], dtype=np.int64)
    ends = np.array([end for _, end in positions], dtype=np.int64)
    for start, end in spans:
        mask[(ends > start) & (starts < end)] = 1
    return mask


def _strings(value: object) -> Iterator[str]:
    """Yield all strings of a JSON value, except keys."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict | list):
            left.extend(reversed([*(item.values() if isinstance(item, dict) else item)]))


def _changed(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - a JSON value
    """Return a JSON value with other strings."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_changed(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _changed(item, change) for key, item in value.items()}
    return value


def _broken(name: re.Match[str]) -> str:
    return f"{name[0][:1]}{_BREAK}{name[0][1:]}"


def _without_breaks(spans: Sequence[Span], text: str) -> Iterator[Span]:
    """Yield the spans of a text in the text without breaks."""
    if _BREAK not in text:
        yield from spans
        return
    for start, end in spans:
        first = start - text.count(_BREAK, 0, start)
        yield first, first + end - start - text.count(_BREAK, start, end)
