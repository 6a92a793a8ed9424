"""Arguments that several commands take, spelled and explained once."""

import argparse


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add --set."""
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="override a key, e.g. limits.slice_bytes=64MiB or source.NAME.split=train; repeatable "
        "(default: the recipe as it is)",
    )


def add_resplit(parser: argparse.ArgumentParser) -> None:
    """Add --resplit."""
    parser.add_argument(
        "--resplit",
        action="store_true",
        help="assign train and val anew instead of keeping what the first plan froze",
    )


def add_removed(parser: argparse.ArgumentParser) -> None:
    """Add --allow-removed and --replace, which override keys of the recipe."""
    parser.add_argument(
        "--allow-removed",
        action="append_const",
        const="output.allow_removed=true",
        dest="overrides",
        help="drop documents from a published output whose source, or more than a tenth of the "
        "files or bytes of one, is gone (default: refuse)",
    )
    parser.add_argument(
        "--replace",
        action="append_const",
        const="output.replace=true",
        dest="overrides",
        help="replace a published output of which no source remains (default: refuse)",
    )


def add_relearn(parser: argparse.ArgumentParser) -> None:
    """Add --relearn."""
    parser.add_argument(
        "--relearn",
        action="store_true",
        help="learn the tokenizer from the inputs that there are now; without it, one that was "
        "learned by the same rules stays when inputs are added",
    )


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Add --workers and --local."""
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="CPUs of this machine to use, unless a Ray cluster is joined (default: all of them)",
    )
    parser.add_argument(
        "--local",
        action="store_const",
        const="local",
        dest="executor",
        help="run tasks in processes of this machine, without Ray (default: on Ray)",
    )


def positive(text: str) -> int:
    """Read a number from 1 on, as argparse wants it.

    >>> positive("12")
    12
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)
