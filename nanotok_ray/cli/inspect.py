"""The command that shows documents: inspect. It changes nothing but its own page."""

import argparse
import os
import re
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from nanotok_ray.errors import RecipeError
from nanotok_ray.formats.manifest import SPLITS, TOKENIZER_FOLDER
from nanotok_ray.loader import open_shards
from nanotok_ray.report import (
    MAX_TOKENS,
    Document,
    Image,
    Item,
    Spelling,
    items_of,
    page_of,
    totals_of,
    turns_of,
)
from nanotok_ray.tokenizer import Tokenizer, written_tokenizer
from nanotok_ray.units import printable

MAX_DOCUMENTS: Final = 1000
"""Documents shown at once; a page of more is of no use."""

Range = tuple[int, int]
"""The first and the last, counted from the end if negative."""

_RANGE: Final = re.compile(r"(-?\d{1,18})(?:-(-?\d{1,18}))?", re.ASCII)


def document_range(text: str) -> Range:
    """Read a number or a range, as argparse wants it.

    >>> document_range("7"), document_range("-1"), document_range("0-9")
    ((7, 7), (-1, -1), (0, 9))
    """
    found = _RANGE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no document: give a number (7), or 0-9")
    first, last = found.groups()
    return int(first), int(first if last is None else last)


def numbers_of(ranges: Sequence[Range], *, count: int, where: str) -> list[int]:
    """Return the number of each document asked for, from 0 on, in the order asked for.

    >>> numbers_of([(-1, -1), (0, 2)], count=5, where="split train")
    [4, 0, 1, 2]

    Raises:
        RecipeError: There is no such document, or they are too many, or a range runs backwards.
    """
    numbers: list[int] = []
    for first, last in ranges:
        asked = f"--doc {first}" if first == last else f"--doc {first}-{last}"
        if not (-count <= first < count and -count <= last < count):
            raise RecipeError(
                f"{asked}: there are {count} documents in {where}, counted from 0, or from the end "
                "as -1"
            )
        start, stop = first % count, last % count + 1
        if start >= stop:
            raise RecipeError(f"{asked}: the last comes before the first; swap them")
        if len(numbers) + stop - start > MAX_DOCUMENTS:
            raise RecipeError(
                f"{asked}: more than {MAX_DOCUMENTS} documents at once; show them a part at a time"
            )
        numbers.extend(range(start, stop))
    return numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """Documents to show."""

    title: str
    """What they are, for a heading."""
    where: str
    """The same, within a sentence."""
    count: int
    document: Callable[[int], Document]
    """Return one document by number, from 0 on."""
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


def output_at(folder: str, *, split: str, source: str | None) -> Inspected:
    """Return the documents of a finished output.

    Raises:
        CorruptOutputError, IncompleteOutputError, SourceError: As `open_shards`.
        TokenizerError: The output's tokenizer cannot be read.
    """
    shards = open_shards(folder, split=split, source=source)

    def document(number: int) -> Document:
        name, position = shards.shard_of(number)
        return Document(
            title=f"document {number} of {len(shards)}",
            location=f"document {position} of {name}",
            ids=shards[number],
            mask=shards.mask(number),
            images=shards.images(number),
            document_id=shards.document_id(number),
        )

    return Inspected(
        title=f"{folder}, split {split}" + (f", source {source}" if source else ""),
        where=f"split {split}" + (f" of source {source}" if source else ""),
        count=len(shards),
        document=document,
        tokenizer=written_tokenizer(f"{folder}/{TOKENIZER_FOLDER}"),
    )


_GREEN, _RED, _GRAY, _RESET = "\x1b[92m", "\x1b[91m", "\x1b[90m", "\x1b[0m"
_IMAGE: Final = "\x1b[95m"
_TINTS: Final = ("\x1b[48;5;24m\x1b[97m", "\x1b[48;5;58m\x1b[97m")
"""Two backgrounds, in turn, for the tokens of a text."""

_MAX_ID_CHARS = 200


def heading_of(document: Document, spelling: Spelling) -> list[str]:
    """Return what is said of a document: which it is, and its totals.

    Raises:
        CorruptOutputError: An id is no token.
    """
    document_id, totals = document.document_id, totals_of(document, spelling)
    text = "" if document_id is None else f", id {document_id[:_MAX_ID_CHARS]!r}"
    lines = [f"{document.title}, {document.location}{text}"]
    text = (
        f"{totals.tokens} tokens, {totals.num_bytes} bytes, "
        f"{totals.bytes_per_token:.2f} bytes per token"
    )
    if totals.trained is not None:
        text += f", {totals.trained} tokens under mask 1"
    if totals.images:
        text += (
            f", {totals.image_tokens} tokens of {totals.images} image{'s'[: totals.images != 1]}"
        )
    return [*map(printable, [*lines, text])]


def plain_lines(document: Document, spelling: Spelling, *, with_ids: bool) -> Iterator[str]:
    """Yield the tokens without colour; a run of them under mask 1 is in [[ ]]."""
    items = [*items_of(document, spelling)]
    flags = [False, *map(_is_trained, items), False]
    parts = []
    for item, (before, flag), (_, after) in zip(
        items, pairwise(flags[:-1]), pairwise(flags[1:]), strict=True
    ):
        text = _text(item) + (f"({_number(item)})" if with_ids else "")
        opens, closes = flag and not before, flag and not after
        parts.append(f"{'[[' if opens else ''}{text}{']]' if closes else ''}")
    yield "|".join(parts)


def colored_lines(document: Document, spelling: Spelling, *, with_ids: bool) -> Iterator[str]:
    """Yield the tokens in colour, each turn from a line of its own, and what the colours mean."""
    masked = document.mask is not None
    for turn in turns_of(items_of(document, spelling)):
        for block in turn.blocks:
            yield _masked(block.items, with_ids) if masked else _tinted(block.items, with_ids)
    legend = [f"{_GREEN}trained on{_RESET} {_RED}not trained on{_RESET}"] if masked else []
    if document.image_rows():
        legend.append(f"{_IMAGE}image{_RESET}")
    if legend:
        yield " ".join(legend)


def _masked(items: Sequence[Item], with_ids: bool) -> str:
    parts = []
    for item in items:
        parts.append(f"{_colour(item)}{_text(item)}{_RESET}")
        if with_ids:
            parts.append(f"{_GRAY}({_number(item)}){_RESET}")
    return "|".join(parts)


def _tinted(items: Sequence[Item], with_ids: bool) -> str:
    parts = []
    for number, item in enumerate(items):
        text = _text(item) + (f"({_number(item)})" if with_ids else "")
        # A background must not run on over the end of a line.
        tint = _IMAGE if isinstance(item, Image) else _TINTS[number % 2]
        parts.append(tint + text.replace("\n", f"↵{_RESET}\n{tint}") + _RESET)
    return "".join(parts)


def _colour(item: Item) -> str:
    if isinstance(item, Image):
        return _IMAGE
    return _GREEN if item.mask else _RED


def _is_trained(item: Item) -> bool:
    return not isinstance(item, Image) and bool(item.mask)


def _number(item: Item) -> int | None:
    return item.token if isinstance(item, Image) else item.number


def _text(item: Item) -> str:
    if isinstance(item, Image):
        return f"[image {item.number + 1}: {item.count} token{'s'[: item.count != 1]}]"
    if item.is_part:
        return "".join(f"\\x{byte:02x}" for byte in item.data)
    return printable(item.text, lines=True)


_INSPECT = """\
Show documents: their tokens in turn in two colours; with a mask, green is trained on, red is not.

  nanotok inspect /data/out --doc 0
  nanotok inspect /data/out --source chats --doc 12 --ids
  nanotok inspect /data/out --source chats --doc 0-9 --html chats.html
  nanotok inspect /data/out --source scans --doc -1 --open
  nanotok inspect /data/out --doc 0 --text
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    inspect = commands.add_parser(
        "inspect",
        help=_INSPECT.partition("\n")[0],
        description=_INSPECT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument("folder", metavar="DIR", help="the output folder of a job")
    inspect.add_argument(
        "--doc",
        type=document_range,
        action="append",
        metavar="N",
        dest="documents",
        help="number of a document, or 0-9; repeatable (default: 0)",
    )
    inspect.add_argument(
        "--split", choices=SPLITS, default="train", help="the split (default: train)"
    )
    inspect.add_argument("--source", metavar="NAME", help="one source (default: all, in order)")
    inspect.add_argument("--ids", action="store_true", help="show the id of each token")
    text = inspect.add_mutually_exclusive_group()
    text.add_argument("--text", action="store_true", help="show the decoded text alone")
    text.add_argument(
        "--html",
        metavar="FILE",
        help="write a page that needs no network; - is stdout (default: none)",
    )
    inspect.add_argument(
        "--open", action="store_true", help="show the page in a browser (as a temporary file)"
    )
    inspect.add_argument(
        "--all",
        action="store_true",
        help=f"put all tokens of a document on the page, not its first {MAX_TOKENS:,}",
    )
    inspect.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto, if stdout is a terminal (default: auto)",
    )
    inspect.set_defaults(run=_run_inspect)


def _run_inspect(arguments: argparse.Namespace) -> int:
    _check(arguments)
    inspected = output_at(arguments.folder, split=arguments.split, source=arguments.source)
    asked = arguments.documents or [(0, 0)]
    numbers = numbers_of(asked, count=inspected.count, where=inspected.where)
    documents = map(inspected.document, numbers)
    if arguments.html or arguments.open:
        _show_page([*documents], inspected, arguments)
        return 0
    for index, document in enumerate(documents):
        if index:
            print()
        for line in _visible(document, inspected, arguments):
            print(line)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.open and arguments.text:
        raise RecipeError("--open shows a page and --text has none: leave one of them out")
    if arguments.open and arguments.html == "-":
        raise RecipeError("--open with --html -: name a file, or leave --html out")
    if arguments.all and not (arguments.html or arguments.open):
        raise RecipeError("--all is for pages; a terminal shows all tokens: add --html FILE")


def _visible(
    document: Document, inspected: Inspected, arguments: argparse.Namespace
) -> Iterator[str]:
    spelling = inspected.spelling
    yield from heading_of(document, spelling)
    yield ""
    if arguments.text:
        yield inspected.tokenizer.decode(document.ids)
    elif _wants_color(arguments.color):
        yield from colored_lines(document, spelling, with_ids=arguments.ids)
    else:
        yield from plain_lines(document, spelling, with_ids=arguments.ids)


def _wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return choice == "always"


def _show_page(
    documents: list[Document], inspected: Inspected, arguments: argparse.Namespace
) -> None:
    page = page_of(
        documents,
        inspected.spelling,
        title=inspected.title,
        note=inspected.note,
        limit=None if arguments.all else MAX_TOKENS,
        with_ids=arguments.ids,
    ).encode()
    if arguments.html == "-":
        sys.stdout.buffer.write(page)
        return
    path = _written(page, arguments.html)
    text = f"{len(documents)} document{'s'[: len(documents) != 1]}"
    print(f"{text}, {len(page):,} bytes: {path}", file=sys.stderr)
    if arguments.open and not webbrowser.open(path.as_uri()):
        print(f"no browser was found here; open {path} in one", file=sys.stderr)


def _written(page: bytes, name: str | None) -> Path:
    """Write the page, to a temporary file if no name is given, and return its path."""
    if name is None:
        handle, name = tempfile.mkstemp(prefix="nanotok-inspect-", suffix=".html")
        os.close(handle)
    path = Path(name).absolute()
    path.write_bytes(page)
    return path
