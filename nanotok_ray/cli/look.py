"""The command that shows documents: inspect. Starts no Ray, changes nothing but its own page."""

import argparse
import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from nanotok_ray.cli.document_numbers import document_range, numbers_of
from nanotok_ray.cli.looked_at import LookedAt, output_at
from nanotok_ray.cli.looked_at_lines import add_file_arguments, lines_at
from nanotok_ray.cli.terminal_document import colored_lines, heading_of, plain_lines
from nanotok_ray.errors import RecipeError
from nanotok_ray.formats.manifest import SPLITS
from nanotok_ray.report import MAX_TOKENS, Document, page_of

_INSPECT = """\
Show documents: their tokens in turn in two colours; with a mask, green is trained on, red is not.

  nanotok inspect /data/out --doc 0
  nanotok inspect /data/out --source chats --doc 12 --ids
  nanotok inspect /data/out --source chats --doc 0-9 --html chats.html
  nanotok inspect /data/out --source scans --doc -1 --open
  nanotok inspect /data/out --doc 0 --text
  nanotok inspect --file chats.jsonl --tokenizer /data/out/tokenizer --doc 0-9 --html chats.html
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    inspect = commands.add_parser(
        "inspect",
        help=_INSPECT.partition("\n")[0],
        description=_INSPECT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inspect.add_argument("folder", metavar="DIR", nargs="?", help="the output folder of a job")
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
    shown = inspect.add_mutually_exclusive_group()
    shown.add_argument("--text", action="store_true", help="show the decoded text alone")
    shown.add_argument(
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
    add_file_arguments(inspect)
    inspect.set_defaults(run=_run_inspect)


def _run_inspect(arguments: argparse.Namespace) -> int:
    _check(arguments)
    looked_at = _looked_at(arguments)
    asked = arguments.documents or [(0, 0)]
    numbers = numbers_of(asked, count=looked_at.count, where=looked_at.where)
    documents = map(looked_at.document, numbers)
    if arguments.html or arguments.open:
        _show_page([*documents], looked_at, arguments)
        return 0
    for place, document in enumerate(documents):
        if place:
            print()
        for line in _shown(document, looked_at, arguments):
            print(line)
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.open and arguments.text:
        raise RecipeError("--open shows a page and --text has none: leave one of them out")
    if arguments.open and arguments.html == "-":
        raise RecipeError("--open with --html -: name a file, or leave --html out")
    if arguments.all and not (arguments.html or arguments.open):
        raise RecipeError("--all is for pages; a terminal shows all tokens: add --html FILE")


def _looked_at(arguments: argparse.Namespace) -> LookedAt:
    if (arguments.folder is None) == (arguments.file is None):
        raise RecipeError("name what to look at: DIR, an output, or --file FILE, and not both")
    if arguments.file is None:
        return output_at(arguments.folder, split=arguments.split, source=arguments.source)
    if arguments.source is not None:
        raise RecipeError(f"--source {arguments.source}: a file has no sources; leave it out")
    return lines_at(arguments)


def _shown(document: Document, looked_at: LookedAt, arguments: argparse.Namespace) -> Iterator[str]:
    spelling = looked_at.spelling
    yield from heading_of(document, spelling)
    yield ""
    if arguments.text:
        yield looked_at.tokenizer.decode(document.ids)
    elif _wants_color(arguments.color):
        yield from colored_lines(document, spelling, with_ids=arguments.ids)
    else:
        yield from plain_lines(document, spelling, with_ids=arguments.ids)


def _wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return choice == "always"


def _show_page(
    documents: list[Document], looked_at: LookedAt, arguments: argparse.Namespace
) -> None:
    page = page_of(
        documents,
        looked_at.spelling,
        title=looked_at.title,
        note=looked_at.note,
        most=None if arguments.all else MAX_TOKENS,
        with_ids=arguments.ids,
    ).encode()
    if arguments.html == "-":
        sys.stdout.buffer.write(page)
        return
    path = _written(page, arguments.html)
    told = f"{len(documents)} document{'s'[: len(documents) != 1]}"
    print(f"{told}, {len(page):,} bytes: {path}", file=sys.stderr)
    if arguments.open and not webbrowser.open(path.as_uri()):
        print(f"no browser was found here; open {path} in one", file=sys.stderr)


def _written(page: bytes, name: str | None) -> Path:
    """Write the page, to a temporary file if no name is given, and tell where it is."""
    if name is None:
        handle, name = tempfile.mkstemp(prefix="nanotok-inspect-", suffix=".html")
        os.close(handle)
    path = Path(name).absolute()
    path.write_bytes(page)
    return path
