"""How named files are read, as flags that several commands take: spelled and explained once.

Takes arguments; gives the rules, and messages with flags in place of a recipe's keys. Does not know
what becomes of the files.
"""

import argparse
import re

from nanotok_ray.errors import NanotokError
from nanotok_ray.recipe.source import FORMATS
from nanotok_ray.sources.named_files import ReadingRules

_AS_FLAGS = {
    "set id_column in the recipe to": "set --by to",
    "set column in the recipe to": "set --column to",
}
"""What messages about a recipe say, and what is meant here."""

_KEYS = re.compile(r"source\.[A-Za-z0-9_.-]+\.(id_column|column|format)\b")
_FLAGS = {"id_column": "--by", "column": "--column", "format": "--input-format"}


def add_file_flags(own: "argparse._ActionsContainer") -> None:
    """Add them; all are None where they are not given."""
    own.add_argument(
        "--input-format",
        choices=FORMATS,
        help="of all files: a document a row, a JSON object a line, a line, or a file "
        "(default: by suffix)",
    )
    own.add_argument(
        "--document-per-file",
        action="store_true",
        default=None,
        help="a .txt, or a file of no known suffix, is one document and not one a line",
    )
    own.add_argument(
        "--column", metavar="NAME", help="parquet column or JSON field of the text (default: text)"
    )


def rules_of(arguments: argparse.Namespace) -> ReadingRules:
    """Give the rules; `arguments` may have --kind and --by too.

    Raises:
        SourceError: They contradict each other.
    """
    return ReadingRules(
        kind=getattr(arguments, "kind", "text"),
        format=arguments.input_format,
        document_per_file=bool(arguments.document_per_file),
        column=arguments.column,
        id_column=getattr(arguments, "by", None),
    )


def with_flags(error: NanotokError) -> NanotokError:
    """Give the error with what to do on a command line, and not in a recipe."""
    told = str(error)
    for recipe, flag in _AS_FLAGS.items():
        told = told.replace(recipe, flag)
    return type(error)(_KEYS.sub(lambda found: _FLAGS[found[1]], told))
