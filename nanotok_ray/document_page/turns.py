"""Turns: who speaks, as the special tokens of chats say.

Takes the items of a document in order and gives each of them back once, in turns and blocks. What
no token says, as in vision documents and text, is a turn of nobody.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from nanotok_ray.document_page.items import Item, Token

NOBODY: Final = ""
"""The role of what is outside all turns: <|bos|>, text, vision documents."""

_SPEAKERS: Final = {"<|user_start|>": "user", "<|assistant_start|>": "assistant"}
_TOOLS: Final = {"<|python_start|>": "python", "<|output_start|>": "python output"}
_ENDS_OF_SPEAKERS: Final = ("<|user_end|>", "<|assistant_end|>")
_ENDS_OF_TOOLS: Final = ("<|python_end|>", "<|output_end|>")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a turn: what is said, a tool call, its output."""

    role: str
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one speaker says without a break."""

    role: str
    blocks: list[Block] = field(default_factory=list)


def turns_of(items: Iterable[Item]) -> list[Turn]:
    """Give the turns of a document; tokens in an order that no chat has make turns all the same."""
    cutter = _Cutter()
    for item in items:
        cutter.add(item)
    return cutter.turns


class _Cutter:
    """Where the cutting stands: the open turn and block are the last, unless they are ended."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._turn: Turn | None = None
        self._block: Block | None = None

    def add(self, item: Item) -> None:
        name = item.text if isinstance(item, Token) and item.is_special else None
        if name in _SPEAKERS:
            self._open_turn(_SPEAKERS[name])
        elif name in _TOOLS:
            self._open_tool(_TOOLS[name])
        self._open_block().items.append(item)
        if name in _ENDS_OF_TOOLS:
            self._end_tool()
        elif name in _ENDS_OF_SPEAKERS:
            self._turn = self._block = None

    def _open_turn(self, role: str) -> Turn:
        self._turn, self._block = Turn(role), None
        self.turns.append(self._turn)
        return self._turn

    def _open_block(self, role: str | None = None) -> Block:
        """Give the open block, or open one in the open turn; in a turn of nobody if none is."""
        if self._block is None:
            turn = self._turn or self._open_turn(NOBODY)
            self._block = Block(turn.role if role is None else role)
            turn.blocks.append(self._block)
        return self._block

    def _open_tool(self, role: str) -> None:
        if self._turn is None or self._turn.role != "assistant":
            self._open_turn(role)
        self._block = None
        self._open_block(role)

    def _end_tool(self) -> None:
        self._block = None
        if self._turn is not None and self._turn.role in _TOOLS.values():
            self._turn = None
