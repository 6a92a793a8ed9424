"""The implementation of `nanotok inspect`: shows documents, or previews packing methods."""

import os
import re
import sys
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nanotok_ray.cli.options import flag_of, output_of
from nanotok_ray.cli.printing import document_text, table_lines
from nanotok_ray.errors import PackingError, RecipeError
from nanotok_ray.formats import TOKENIZER_FOLDER, joined_values
from nanotok_ray.loader import open_shards
from nanotok_ray.loader.preview import Packed, PackingPlan, PreviewSettings, preview_packing
from nanotok_ray.loader.shards import Shards
from nanotok_ray.report.document import Document, first_items, stored_document
from nanotok_ray.report.page import MAX_TOKENS, Heading, page_of
from nanotok_ray.report.terminal import colored_lines, heading_of, plain_lines
from nanotok_ray.tokenizer import Tokenizer, written_tokenizer
from nanotok_ray.units import printable, quantity

if TYPE_CHECKING:
    from nanotok_ray.cli.app import Arguments

MAX_DOCUMENTS: Final = 1000
"""Limit of documents shown at once; a longer page would not be readable."""

Range = tuple[int, int]
"""First and last index, counted from the end if negative."""

_RANGE: Final = re.compile(r"(-?\d{1,18})(?:-(-?\d{1,18}))?", re.ASCII)


def document_range(text: str) -> Range:
    """Return the first and the last document of a number or a range.

    >>> document_range("7"), document_range("-1"), document_range("0-9")
    ((7, 7), (-1, -1), (0, 9))

    Raises:
        RecipeError: The text is neither.
    """
    match = _RANGE.fullmatch(text)
    if match is None:
        raise RecipeError(f"--doc {text} is not a document; pass a number (7), or a range (0-9)")
    first, last = match.groups()
    return int(first), int(first if last is None else last)


def numbers_of(ranges: Sequence[Range], *, count: int, where: str) -> list[int]:
    """Return the indexes of the requested documents, counted from 0, in the given order.

    A range ends at the last document.

    >>> numbers_of([(-1, -1), (0, 2), (3, 9)], count=5, where="split train")
    [4, 0, 1, 2, 3, 4]

    Raises:
        RecipeError: A document does not exist, there are too many, or a range is in decreasing
            order.
    """
    numbers: list[int] = []
    for first, last in ranges:
        asked = f"--doc {first}" if first == last else f"--doc {first}-{last}"
        last = min(last, count - 1) if last > first >= 0 else last  # noqa: PLW2901
        if not (-count <= first < count and -count <= last < count):
            raise RecipeError(
                f"{asked}: {where} has {quantity(count, 'document')}, counted from 0, or from the "
                "end as -1"
            )
        start, stop = first % count, last % count + 1
        if start >= stop:
            raise RecipeError(f"{asked}: the last comes before the first; swap them")
        if len(numbers) + stop - start > MAX_DOCUMENTS:
            raise RecipeError(
                f"{asked}: more than {MAX_DOCUMENTS} documents at once; show fewer at a time"
            )
        numbers.extend(range(start, stop))
    return numbers


TERMINAL_TOKENS: Final = 2_000
"""Limit of shown tokens of a document without --all."""


def run_inspect(arguments: "Arguments") -> int:
    """Show documents, or a preview of packing, and return the exit code.

    Raises:
        RecipeError: Options contradict each other, or a document does not exist.
    """
    arguments.console.has_json = arguments.packing is not None
    _check(arguments)
    folder = output_of(arguments.location)
    if arguments.packing is not None:
        return _preview(folder, arguments)
    shards = open_shards(folder, split=arguments.split, source=arguments.source)
    tokenizer = written_tokenizer(f"{folder}/{TOKENIZER_FOLDER}")
    documents = (stored_document(shards, number) for number in _numbers(shards, arguments))
    if arguments.html or arguments.open:
        _show_page([*documents], folder, tokenizer, arguments)
        return 0
    for index, document in enumerate(documents):
        if index:
            print()
        for line in _visible(document, tokenizer, arguments):
            print(line)
    return 0


def _where(arguments: "Arguments") -> str:
    """Return the split and the sources of the documents."""
    sources = f" of source {', '.join(arguments.source)}" if arguments.source else ""
    return f"split {arguments.split}{sources}"


def _numbers(shards: Shards, arguments: "Arguments") -> list[int]:
    where = _where(arguments)
    by_id: list[int] = []
    for document_id in arguments.doc_id:
        numbers = shards.find(document_id)
        if not numbers:
            raise RecipeError(
                f"--doc-id {printable(document_id)}: no document in {where} has this id; "
                "ids are those of the `id_column` of a source"
            )
        by_id += numbers
    asked = arguments.doc or ([] if by_id else ["0"])
    ranges = [(number, number) for number in by_id] + [document_range(text) for text in asked]
    return numbers_of(ranges, count=len(shards), where=where)


def _check(arguments: "Arguments") -> None:
    of_packing = arguments.packing is not None
    others = _OF_DOCUMENTS if of_packing else _OF_PACKING
    values = vars(arguments)
    given = [flag_of(name) for name in others if values[name] not in (None, ())]
    if given and of_packing:
        raise RecipeError(f"{given[0]} shows documents, and --packing does not; omit one of them")
    if given:
        raise RecipeError(f"{given[0]} is for a preview of packing; add --packing all")
    if arguments.tokens is not None and arguments.weights is None:
        raise RecipeError(
            "--tokens requires --weights; without weights, the preview covers one epoch"
        )
    if arguments.console.as_json and not of_packing:
        raise RecipeError("--json is for a preview of packing; omit it, or add --packing all")
    if arguments.text and (arguments.open or arguments.html):
        raise RecipeError("--open and --html write a page, and --text does not; omit one of them")
    if arguments.open and arguments.html == "-":
        raise RecipeError("--open cannot show stdout; name a file with --html, or omit it")


_OF_DOCUMENTS: Final = ("doc", "doc_id", "ids", "text", "html", "open", "all", "color")
_OF_PACKING: Final = (
    *("length", "shuffle", "seed", "group_documents"),
    *("weights", "tokens", "too_long"),
)


def _visible(document: Document, tokenizer: Tokenizer, arguments: "Arguments") -> Iterator[str]:
    limit = None if arguments.all else TERMINAL_TOKENS
    items, left = first_items(document, tokenizer, limit=limit)
    yield from heading_of(document, tokenizer)
    yield ""
    if arguments.text:
        yield document_text(tokenizer.decode(document.ids[:limit]))
    elif _wants_color(arguments.color):
        yield from colored_lines(document, items, with_ids=bool(arguments.ids))
    else:
        yield from plain_lines(items, with_ids=bool(arguments.ids))
    if left:
        yield f"... {left:,} more tokens; --all shows them"


def _wants_color(choice: str | None) -> bool:
    if choice in {None, "auto"}:
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return choice == "always"


def _show_page(
    documents: list[Document], folder: str, tokenizer: Tokenizer, arguments: "Arguments"
) -> None:
    size = tokenizer.get_vocab_size()
    heading = Heading(
        title=f"{folder}, {_where(arguments)}",
        note=f"tokenizer {tokenizer.sha256[:16]}, {size:,} ids",
    )
    limit, with_ids = None if arguments.all else MAX_TOKENS, bool(arguments.ids)
    page = page_of(documents, tokenizer, heading, limit=limit, with_ids=with_ids).encode()
    if arguments.html == "-":
        sys.stdout.buffer.write(page)
        return
    path = _written(page, arguments.html)
    text = quantity(len(documents), "document")
    arguments.console.text(f"{text}, {len(page):,} bytes: {path}")
    if arguments.open and not webbrowser.open(path.as_uri()):
        arguments.console.note(f"no browser was found here; open {path} in one")


def _written(page: bytes, name: str | None) -> Path:
    """Write the page, to a temporary file if no name is given, and return its path."""
    if name is None:
        handle, name = tempfile.mkstemp(prefix="nanotok-inspect-", suffix=".html")
        os.close(handle)
    path = Path(name).absolute()
    path.write_bytes(page)
    return path


def _preview(folder: str, arguments: "Arguments") -> int:
    shards = open_shards(folder, split=arguments.split, source=arguments.source)
    where = _where(arguments)
    if not shards.num_tokens:
        raise PackingError(
            f"there is nothing to pack: {where} of {folder} has "
            f"{quantity(len(shards), 'document')} and no token; choose another --split or --source"
        )
    names = ("shuffle", "seed", "group_documents", "weights", "tokens", "too_long")
    given = {name: getattr(arguments, name) for name in names}
    settings = PreviewSettings(
        lengths=arguments.length or (2048,),
        packings=arguments.packing,
        **{name: value for name, value in given.items() if value is not None},
    )
    plans = list(preview_packing(shards, settings))
    problems = dict.fromkeys(plan.packed for plan in plans if isinstance(plan.packed, str))
    if all(isinstance(plan.packed, str) for plan in plans):
        raise PackingError(next(iter(problems)))
    documents = quantity(len(shards), "document")
    arguments.console.result(
        {
            "status": "done",
            "output": folder,
            "split": arguments.split,
            "source": arguments.source,
            "documents": len(shards),
            "tokens": shards.num_tokens,
            "plans": [joined_values(*_json_parts(plan)) for plan in plans],
        },
        lines=[
            f"{folder}, {where}: {documents}, {quantity(shards.num_tokens, 'token')}",
            "",
            *_plan_lines(plans),
            *problems,
        ],
    )
    return 0


def _json_parts(plan: PackingPlan) -> Iterator[object]:
    """Yield the parts of a plan as JSON."""
    yield {"length": plan.length, "packing": plan.packing}
    if isinstance(plan.packed, str):
        yield {"problem": plan.packed}
        return
    yield plan.packed.report.to_dict()
    yield {"kept": plan.packed.kept_share, "seconds": plan.seconds}
    if plan.packed.sources is not None:
        yield {"sources": plan.packed.sources}


_HEAD: Final = ("length", "packing", "rows", "tokens", "kept", "used", "cropped", "cut", "dropped")
_SOURCE_HEAD: Final = ("source", "weight", "documents", "tokens", "share", "epochs")


def _plan_lines(plans: Sequence[PackingPlan]) -> Iterator[str]:
    """Yield a line for each plan, and with weights another line for each source."""
    packed = [(plan, plan.packed) for plan in plans if isinstance(plan.packed, Packed)]
    yield from table_lines([_HEAD, *(_cells(plan, result) for plan, result in packed)], left=(1,))
    sources = next((result.sources for _, result in packed if result.sources is not None), None)
    if sources is not None:
        yield ""
        rows = [
            [
                name,
                f"{source.weight:g}",
                f"{source.documents:,}",
                f"{source.tokens:,}",
                f"{source.share:.1%}",
                f"{source.epochs:.2f}",
            ]
            for name, source in sources.items()
        ]
        yield from table_lines([_SOURCE_HEAD, *rows])


def _cells(plan: PackingPlan, packed: Packed) -> list[str]:
    report = packed.report
    return [
        f"{plan.length:,}",
        plan.packing,
        f"{report.rows:,}",
        f"{report.tokens:,}",
        f"{packed.kept_share:.1%}",
        f"{report.utilisation:.1%}",
        f"{report.cropped_tokens:,}",
        f"{report.cut_documents:,}",
        f"{report.dropped_documents:,}",
    ]
