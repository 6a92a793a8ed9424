"""What is to be learned, as flags that several commands take: spelled, explained, checked once.

Takes arguments; gives the goal that `learn` takes. Knows neither counts nor where a tokenizer goes.
"""

import argparse
from collections.abc import Sequence
from typing import TypedDict

from nanotok_ray.errors import TokenizerError, VocabularySizeError
from nanotok_ray.tokenizer.model import NUM_BYTES
from nanotok_ray.tokenizer.train import check_goal


class Goal(TypedDict):
    """What is to be learned, as `learn` takes it."""

    vocab_size: int
    special_tokens: list[str]
    min_pair_count: int
    max_token_bytes: int | None
    threads: int | None


def add_limits(own: "argparse._ActionsContainer") -> None:
    """Add what may end learning early, and --threads; all are None where they are not given."""
    own.add_argument(
        "--min-pair-count",
        type=int,
        metavar="N",
        help="end where no pair occurs so often (default: 1)",
    )
    own.add_argument(
        "--max-token-bytes", type=int, metavar="N", help="make no longer token (default: any)"
    )
    own.add_argument(
        "--threads", type=int, metavar="N", help="default: all cores; the result is the same"
    )


def goal_of(arguments: argparse.Namespace, *, special_tokens: Sequence[str]) -> Goal:
    """Give the goal; `arguments` have --vocab-size too."""
    least = arguments.min_pair_count
    return Goal(
        vocab_size=arguments.vocab_size,
        special_tokens=list(special_tokens),
        min_pair_count=1 if least is None else least,
        max_token_bytes=arguments.max_token_bytes,
        threads=arguments.threads,
    )


def sizes(text: str) -> list[int]:
    """Read --also, as argparse wants it.

    >>> sizes("300, 280,300")
    [280, 300]
    """
    numbers = text.replace(" ", "").split(",")
    if not all(map(str.isdecimal, numbers)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of sizes like 8192,16384")
    return sorted(set(map(int, numbers)))


def check(goal: Goal, *, also: Sequence[int]) -> None:
    """See that a goal can be reached, before hours of reading and not after.

    Raises:
        VocabularySizeError: There is no room for 256 bytes and the special tokens.
        TokenizerError: Another number is out of its range, or a special token comes twice.
    """
    _check_room("--vocab-size is", goal["vocab_size"], goal["special_tokens"])
    check_goal(**goal)
    for size in also:
        _check_room("--also has", size, goal["special_tokens"])
        if size > goal["vocab_size"]:
            raise TokenizerError(
                f"--also has {size}, and a tokenizer of --vocab-size {goal['vocab_size']} holds "
                "smaller ones alone: learn the largest, and name the others"
            )


def _check_room(told: str, size: int, special_tokens: Sequence[str]) -> None:
    least = NUM_BYTES + len(special_tokens)
    if size < least:
        raise VocabularySizeError(
            f"{told} {size}: {NUM_BYTES} bytes and {len(special_tokens)} special tokens are "
            f"{least} ids, so name {least} or more"
        )
