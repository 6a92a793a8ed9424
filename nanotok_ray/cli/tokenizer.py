"""The commands about a tokenizer that is there: tokenizer extend, and those of other files."""

import argparse
import sys
from typing import Any

from nanotok_ray.cli import tokenizer_compare, tokenizer_eval, tokenizer_show, warm
from nanotok_ray.cli.jobs import print_json
from nanotok_ray.errors import TokenizerError
from nanotok_ray.special_tokens import PRESETS
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import FILE_NAMES, Tokenizer, differing_files

COMMANDS = ("tokenizer",)

_TOKENIZER = """\
Do something with a tokenizer that is there.

  nanotok tokenizer extend /data/out/tokenizer --preset seed --output /data/vision-tokenizer
  nanotok tokenizer warm /data/tokenizer corpus/*.parquet
  nanotok tokenizer show /data/out/tokenizer corpus/*.parquet
  nanotok tokenizer compare /data/out/tokenizer /data/old/tokenizer --corpus corpus/*.parquet
  nanotok tokenizer eval /data/out/tokenizer --against /data/old/tokenizer
"""

_PRESETS = "\n".join(
    f"  {name + ':':<19}{' '.join(preset.special_tokens)}" for name, preset in PRESETS.items()
)

_EXTEND = f"""\
Add special tokens to a tokenizer. No id moves, so a model goes on with it once its embedding has
more rows, and text that was tokenized stays right.

  nanotok tokenizer extend /data/out/tokenizer --preset seed --output /data/vision-tokenizer
  nanotok tokenizer extend s3://bucket/tokenizer --tokens '<|pad|>' '<|image|>' \\
      --output s3://bucket/padded

Names that the tokenizer lacks get the ids after its last, in their order; those it has stay as they
are. A preset is a list of names, and may be given with others, which follow it:

{_PRESETS}

The new folder has all files of a tokenizer, with the names in each that holds special tokens. It
has no span table, which only saves time. A folder that holds another tokenizer is refused.

A job does the same by itself: tokenizer.extend = ["preset:seed"] in its recipe.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    all_of_them = _parser(commands, "tokenizer", _TOKENIZER)
    actions = all_of_them.add_subparsers(dest="action", required=True, metavar="ACTION")
    own = _parser(actions, "extend", _EXTEND)
    own.add_argument("folder", metavar="FOLDER", help="folder or URL of the tokenizer")
    own.add_argument(
        "--tokens", nargs="+", metavar="NAME", default=[], help="names of special tokens, in order"
    )
    own.add_argument("--preset", choices=tuple(PRESETS), help="names that belong together")
    own.add_argument(
        "--output", required=True, metavar="DIR", help="folder or URL of the new tokenizer"
    )
    own.set_defaults(run=_run_extend)
    for each in (warm, tokenizer_show, tokenizer_compare, tokenizer_eval):
        each.add_action(actions)


def _parser(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text.partition("\n")[0],
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _run_extend(arguments: argparse.Namespace) -> int:
    preset = () if arguments.preset is None else PRESETS[arguments.preset].special_tokens
    names = [*preset, *arguments.tokens]
    if not names:
        raise TokenizerError(
            "no special token to add: name some with --tokens, or a list of them with --preset "
            f"({', '.join(PRESETS)})"
        )
    before = Tokenizer.load(arguments.folder, span_table=False)
    tokenizer = before.extended(names)
    _check_output(tokenizer, arguments.output)
    tokenizer.save(arguments.output)
    known = before.special_tokens
    added = {name: own for name, own in tokenizer.special_tokens.items() if name not in known}
    there = {name: known[name] for name in names if name in known}
    _tell(tokenizer, arguments.output, added=added, there=there)
    print_json(_values(tokenizer, arguments.output) | {"added": added, "there": there})
    return 0


def _check_output(tokenizer: Tokenizer, output: str) -> None:
    """Refuse a folder with files of another tokenizer."""
    target = Folder(output)
    others = [name for name in differing_files(tokenizer.model, output) if target.exists(name)]
    if others:
        raise TokenizerError(
            f"{output} holds another tokenizer ({', '.join(others)} of {', '.join(FILE_NAMES)}): "
            "it is not overwritten; name a folder of its own with --output"
        )


def _tell(
    tokenizer: Tokenizer, output: str, *, added: dict[str, int], there: dict[str, int]
) -> None:
    for title, tokens in (("added", added), ("there", there)):
        for name, number in tokens.items():
            print(f"{title:<12}{number:>9,}  {name}", file=sys.stderr)
    print(f"tokenizer   {tokenizer.get_vocab_size():>9,} ids", file=sys.stderr)
    print(f"wrote       {output}", file=sys.stderr)


def _values(tokenizer: Tokenizer, output: str) -> dict[str, Any]:
    return {
        "status": "done",
        "output": output,
        "tokenizer_sha256": tokenizer.sha256,
        "vocab_size": tokenizer.get_vocab_size(),
    }
