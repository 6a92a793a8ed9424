"""The command that shows a document: inspect. Starts no Ray, changes nothing."""

import argparse
import os
import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import RecipeError
from nanotok_ray.manifest import SPLITS, TOKENIZER_FOLDER
from nanotok_ray.reader import Shards, open_shards
from nanotok_ray.tokenizer import Tokenizer

_GREEN, _RED, _RESET = "\x1b[92m", "\x1b[91m", "\x1b[0m"
_TINTS = ("\x1b[48;5;24m\x1b[97m", "\x1b[48;5;58m\x1b[97m")
"""Two backgrounds, in turn, for the tokens of a text."""

_SHOWN_ID_CHARS = 200

_INSPECT = """\
Show one document: its tokens in turn in two colours; with a mask, green is trained on, red is not.

  nanotok inspect /data/out --doc 0
  nanotok inspect /data/out --source chats --doc 12 --ids
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
    inspect.add_argument("--doc", type=int, default=0, metavar="N", help="number of the document")
    inspect.add_argument("--split", choices=SPLITS, default="train")
    inspect.add_argument("--source", metavar="NAME", help="one source (default: all, in order)")
    inspect.add_argument("--ids", action="store_true", help="show the id of each token")
    inspect.add_argument("--text", action="store_true", help="show the decoded text alone")
    inspect.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto: if stdout is a terminal",
    )
    inspect.set_defaults(run=_run_inspect)


def _run_inspect(arguments: argparse.Namespace) -> int:
    shards = open_shards(arguments.folder, split=arguments.split, source=arguments.source)
    if not -len(shards) <= arguments.doc < len(shards):
        raise RecipeError(
            f"--doc {arguments.doc}: there are {len(shards)} documents in split {arguments.split}, "
            "counted from 0, or from the end as -1"
        )
    tokenizer = Tokenizer.load(f"{arguments.folder}/{TOKENIZER_FOLDER}", span_table=False)
    for line in _shown(shards, arguments.doc, tokenizer, arguments):
        print(line)
    return 0


def _shown(
    shards: Shards, document: int, tokenizer: Tokenizer, arguments: argparse.Namespace
) -> Iterator[str]:
    ids, mask = shards[document], shards.mask(document)
    name, place = shards.shard_of(document)
    size = len(tokenizer.decode_bytes(ids))
    own = shards.document_id(document)
    told = "" if own is None else f", id {own[:_SHOWN_ID_CHARS]!r}"
    yield f"document {document} of {len(shards)}, document {place} of {name}{told}"
    told = f"{len(ids)} tokens, {size} bytes, {size / max(len(ids), 1):.2f} bytes per token"
    yield told if mask is None else f"{told}, {int(mask.sum())} tokens under mask 1"
    yield ""
    if arguments.text:
        yield tokenizer.decode(ids)
    elif not _wants_color(arguments.color):
        yield "|".join(_plain(ids, mask, tokenizer, with_ids=arguments.ids))
    elif mask is None:
        yield _tinted(ids, tokenizer, with_ids=arguments.ids)
    else:
        yield tokenizer.visualize_tokenization(
            ids.tolist(), mask.tolist(), with_token_id=arguments.ids
        )
        yield f"{_GREEN}trained on{_RESET} {_RED}not trained on{_RESET}"


def _plain(
    ids: npt.NDArray[np.unsignedinteger],
    mask: npt.NDArray[np.uint8] | None,
    tokenizer: Tokenizer,
    *,
    with_ids: bool,
) -> Iterator[str]:
    """Give the tokens without colour; a run of them under mask 1 stands in [[ ]]."""
    last = len(ids) - 1
    flags = np.zeros(len(ids), dtype=np.uint8) if mask is None else mask
    for number, token in enumerate(ids.tolist()):
        text = tokenizer.id_to_token(token) + (f"({token})" if with_ids else "")
        opens = flags[number] and (number == 0 or not flags[number - 1])
        closes = flags[number] and (number == last or not flags[number + 1])
        yield f"{'[[' if opens else ''}{text}{']]' if closes else ''}"


def _tinted(ids: npt.NDArray[np.unsignedinteger], tokenizer: Tokenizer, *, with_ids: bool) -> str:
    parts = []
    for number, token in enumerate(ids.tolist()):
        text = tokenizer.id_to_token(token) + (f"({token})" if with_ids else "")
        # A background must not run on over the end of a line.
        tint = _TINTS[number % 2]
        parts.append(tint + text.replace("\n", f"↵{_RESET}\n{tint}") + _RESET)
    return "".join(parts)


def _wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stdout.isatty() and "NO_COLOR" not in os.environ
    return choice == "always"
