"""The commands about a tokenizer that is there: tokenizer extend, and those of other files."""

import argparse
import sys
from typing import Any

from nanotok_ray.cli import tokenizer_compare, tokenizer_eval, tokenizer_show
from nanotok_ray.cli.printing import print_json
from nanotok_ray.cli.tokenizers import TOKENIZERS_HELP, add_pattern, opened
from nanotok_ray.errors import TokenizerError
from nanotok_ray.recipe.special_tokens import PRESETS
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.output import WITHOUT_SPECIAL_TOKENS, file_suffix, write_new

_TOKENIZER = """\
Do something with a tokenizer that is there.

  nanotok tokenizer extend /data/out/tokenizer --preset seed --output /data/vision-tokenizer
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
  nanotok tokenizer extend ranks.tiktoken:gpt4 --tokens '<|bos|>' --output /data/with-bos

Names that the tokenizer lacks get the ids after its last, in their order; those it has stay as they
are. A preset is a list of names, and may be given with others, which follow it:

{_PRESETS}

The new folder has all files of a tokenizer, with the names in each that holds special tokens.
OUTPUT may also be one file, *.json or *.txt, as for nanotok train. What holds another tokenizer is
refused.

A job does the same by itself: tokenizer.extend = ["preset:seed"] in its recipe.

{TOKENIZERS_HELP}"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    all_of_them = _parser(commands, "tokenizer", _TOKENIZER)
    actions = all_of_them.add_subparsers(dest="action", required=True, metavar="ACTION")
    parser = _parser(actions, "extend", _EXTEND)
    parser.add_argument(
        "tokenizer", metavar="TOKENIZER", help="folder, file or URL of the tokenizer"
    )
    parser.add_argument(
        "--tokens",
        nargs="+",
        metavar="NAME",
        default=[],
        help="names of special tokens, in order (default: those of --preset)",
    )
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), help="names that belong together (default: none)"
    )
    parser.add_argument(
        "--output", required=True, metavar="OUTPUT", help="folder, *.json or *.txt; path or URL"
    )
    add_pattern(parser)
    parser.set_defaults(run=_run_extend)
    for item in (tokenizer_show, tokenizer_compare, tokenizer_eval):
        item.add_action(actions)


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
    if file_suffix(arguments.output) == WITHOUT_SPECIAL_TOKENS:
        raise TokenizerError(
            f"{arguments.output}: a {WITHOUT_SPECIAL_TOKENS} file has no place for special tokens; "
            "name a folder, *.json or *.txt as --output"
        )
    before = opened(arguments.tokenizer, arguments)
    tokenizer = before.extended(names)
    write_new(tokenizer.model, arguments.output)
    known = before.special_tokens
    added = {name: value for name, value in tokenizer.special_tokens.items() if name not in known}
    there = {name: known[name] for name in names if name in known}
    _print_tokens(tokenizer, arguments.output, added=added, there=there)
    print_json(_values(tokenizer, arguments.output) | {"added": added, "there": there})
    return 0


def _print_tokens(
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
