"""The command that reports what packing makes of an output: pack."""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from nanotok_ray.cli.arguments import positive
from nanotok_ray.cli.printing import print_json, table_lines
from nanotok_ray.errors import PackingError
from nanotok_ray.formats.manifest import SPLITS
from nanotok_ray.loader import Loader, PackingReport, Shards, open_shards
from nanotok_ray.loader.nanochat import NanochatLoader
from nanotok_ray.loader.settings import Packing
from nanotok_ray.units import printable

_HEAD = (
    *("length", "packing", "rows", "tokens", "kept", "used", "cropped", "cut", "dropped"),
    "seconds",
)
_SOURCES_HEAD = ("source", "weight", "documents", "tokens", "share", "epochs")


def plan_lines(plans: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each plan, then, if there are weights, one for each source."""
    yield from table_lines([_HEAD, *map(_cells, plans)], left=(1,))
    sources = next((plan["sources"] for plan in plans if "sources" in plan), None)
    if sources is not None:
        yield ""
        rows = [_source_cells(name, value) for name, value in sources.items()]
        yield from table_lines([_SOURCES_HEAD, *rows])


def _cells(plan: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = ("cropped_tokens", "cut_documents", "dropped_documents")
    return (
        f"{plan['length']:,}",
        str(plan["packing"]),
        f"{plan['rows']:,}",
        f"{plan['tokens']:,}",
        f"{plan['kept']:.1%}",
        f"{plan['utilisation']:.1%}",
        *(f"{plan[name]:,}" for name in numbers),
        f"{plan['seconds']:.2f}",
    )


def _source_cells(name: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{values['weight']:g}",
        f"{values['documents']:,}",
        f"{values['tokens']:,}",
        f"{values['share']:.1%}",
        f"{values['epochs']:.2f}",
    )


ROWS_AT_ONCE = 4096
"""Rows that are planned at a time."""

BUFFER = 1000
"""Documents that nanochat's loader chooses from."""

AnyPacking = Packing | Literal["nanochat"]
PACKINGS: tuple[AnyPacking, ...] = ("best-fit", "windows", "conversations", "nanochat")

_PACK = """\
Say what packing makes of an output: rows, padding, what is cut and lost. No id is read.

  nanotok pack /data/out                                       (every packing, rows of 2,048)
  nanotok pack /data/out --length 2048,4096,8192 --packing best-fit,windows
  nanotok pack /data/out --source chats --packing conversations --too-long drop
  nanotok pack /data/out --weights web=0.7,code=0.3 --packing best-fit
  nanotok pack /data/out --weights web=0.7,code=0.3 --tokens 1000000000         (a run of a billion)

best-fit:       documents whole where they fit a row, the rest of a longer one in another; hardly
                any padding, nothing is lost
windows:        documents back to back, cut every so many tokens; no padding, nothing is lost
conversations:  whole documents alone; what is left of a row is padding
nanochat:       nanochat's own rows: no padding, what does not fit is thrown away, and what is
                still in its buffer at the end is not in a row either

One epoch is planned, as a loader with these settings does. A mixture (--weights) has no end: of it
as many tokens are planned as the output holds, or --tokens, to the end of a document; a second
table says how much that takes of each source: "epochs" 0.5 is half of its documents once, 3 is all
of them three times. "kept": of all tokens so many stand in rows; "used": of all places in rows so
many hold a token. docs/training.md says how to feed a trainer.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "pack",
        help=_PACK.partition("\n")[0],
        description=_PACK,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="OUT", help="the output folder of a finished job")
    parser.add_argument(
        "--length",
        type=_lengths,
        default=[2048],
        metavar="T,...",
        help="inputs of a row; several are planned one after the other (default: 2048)",
    )
    parser.add_argument(
        "--packing",
        type=_packings,
        default=PACKINGS,
        metavar="NAME,...",
        help=f"{', '.join(PACKINGS)}, or all (default: all)",
    )
    parser.add_argument(
        "--split", choices=SPLITS, default="train", help="the split (default: train)"
    )
    parser.add_argument(
        "--source",
        type=lambda text: text.split(","),
        metavar="NAME,...",
        help="some of the sources (default: all, in order)",
    )
    _add_settings(parser)
    parser.add_argument("--json", action="store_true", help="the line of JSON alone, no table")
    parser.set_defaults(run=_run_pack)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shuffle",
        choices=("document", "block"),
        help="the order of documents (default: as written; nanochat's is its own)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order (default: 0)")
    parser.add_argument(
        "--group-documents",
        type=positive,
        default=4096,
        metavar="N",
        help="documents packed together (default: 4096)",
    )
    parser.add_argument(
        "--weights",
        type=_weights,
        metavar="NAME=W,...",
        help="shares of the tokens by source, as web=0.7,code=0.3 (default: all tokens once)",
    )
    parser.add_argument(
        "--tokens",
        type=positive,
        metavar="N",
        help="with --weights: plan so many tokens (default: as many as the output holds)",
    )
    parser.add_argument(
        "--too-long",
        choices=("crop", "drop"),
        default="crop",
        help="conversations longer than a row (default: crop)",
    )


def _lengths(text: str) -> list[int]:
    """Read lengths, as argparse wants them.

    >>> _lengths("1024,2048,1024")
    [1024, 2048]
    """
    return list(dict.fromkeys(map(positive, text.split(","))))


def _packings(text: str) -> tuple[AnyPacking, ...]:
    """Read names of packings, as argparse wants them; they are planned in our order.

    >>> _packings("windows,best-fit")
    ('best-fit', 'windows')
    """
    names = text.split(",")
    for name in names:
        if name not in (*PACKINGS, "all"):
            known = ", ".join(PACKINGS)
            raise argparse.ArgumentTypeError(f"{name!r} is no packing; there are {known}, and all")
    return PACKINGS if "all" in names else tuple(name for name in PACKINGS if name in names)


def _weights(text: str) -> dict[str, float]:
    """Read weights, as argparse wants them.

    >>> _weights("web=0.7,code=0.3")
    {'web': 0.7, 'code': 0.3}
    """
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.rpartition("=")
        try:
            weights[name] = float(value)
        except ValueError:
            name = ""
        if not name:
            raise argparse.ArgumentTypeError(f"{part!r} is not NAME=NUMBER, as in web=0.7")
    return weights


def _run_pack(arguments: argparse.Namespace) -> int:
    if arguments.tokens is not None and arguments.weights is None:
        raise PackingError("--tokens goes with --weights: without them, one epoch is planned")
    shards = open_shards(arguments.folder, split=arguments.split, source=arguments.source)
    if not shards.num_tokens:
        raise PackingError(
            f"there is nothing to pack: split {arguments.split} of "
            f"{_sources(arguments) or arguments.folder} has {len(shards)} documents and no token"
        )
    plans = list(_plans(shards, arguments))
    problems = dict.fromkeys(plan["problem"] for plan in plans if "problem" in plan)
    if not any("rows" in plan for plan in plans):
        raise PackingError(next(iter(problems)))
    if not arguments.json:
        for line in (*_message(shards, plans, arguments), *problems):
            print(printable(line), file=sys.stderr)
    print_json(
        {
            "status": "done",
            "output": arguments.folder,
            "split": arguments.split,
            "source": arguments.source,
            "documents": len(shards),
            "tokens": shards.num_tokens,
            "plans": plans,
        }
    )
    return 0


def _plans(shards: Shards, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Plan one epoch for each length and packing; what cannot be packed so says why."""
    for length, packing in product(arguments.length, arguments.packing):
        start = time.perf_counter()
        plan: dict[str, Any] = {"length": length, "packing": packing}
        try:
            values = _planned(shards, packing, length, arguments)
        except PackingError as error:
            yield plan | {"problem": str(error)}
        else:
            yield plan | values | {"seconds": round(time.perf_counter() - start, 3)}


def _planned(
    shards: Shards, packing: AnyPacking, length: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    if packing == "nanochat":
        if arguments.weights or arguments.shuffle:
            raise PackingError("nanochat has its own order: leave out --weights and --shuffle")
        report = _nanochat_planned(shards, length, sources=arguments.source or shards.sources)
        return _values(report, of=shards.num_tokens)
    loader = _loader(shards, packing, length, arguments)
    if arguments.weights is None:
        loader.skip_batches(sys.maxsize)
        return _values(loader.report(), of=shards.num_tokens)
    report, uses = loader.plan(arguments.tokens or shards.num_tokens)
    total = sum(value.tokens for value in uses)
    sources = {
        value.name: {
            "weight": arguments.weights[value.name],
            "documents": value.documents,
            "tokens": value.tokens,
            "share": value.tokens / total,
            "epochs": value.epochs,
        }
        for value in uses
    }
    return _values(report, of=total) | {"sources": sources}


def _values(report: PackingReport, *, of: int) -> dict[str, Any]:
    return report.to_dict() | {"kept": report.tokens / of}


def _loader(shards: Shards, packing: Packing, length: int, arguments: argparse.Namespace) -> Loader:
    weights = arguments.weights
    return Loader(
        shards,
        batch_size=min(ROWS_AT_ONCE, -(-shards.num_tokens // length)),
        length=length,
        packing=packing,
        shuffle=arguments.shuffle,
        seed=arguments.seed,
        weights=weights,
        group_documents=arguments.group_documents,
        epochs=None if weights else 1,
        too_long=arguments.too_long,
    )


def _nanochat_planned(shards: Shards, length: int, *, sources: Sequence[str]) -> PackingReport:
    """Plan until documents of the second epoch are read."""
    kinds = shards.manifest["kinds"]
    texts = [name for name in sources if kinds[name] == "text"]
    if 0 < len(texts) < len(sources):
        raise PackingError(f"nanochat's loader reads text alone: --source {','.join(texts)}")
    if len(shards) <= BUFFER:
        raise PackingError(
            f"nanochat's loader chooses among {BUFFER:,} documents, and these are {len(shards):,}: "
            "its first row already has some of several epochs"
        )
    rows = min(ROWS_AT_ONCE, 1 + len(shards) // 10_000)
    loader = NanochatLoader(shards, batch_size=rows, length=length, buffer_size=BUFFER)
    while loader.state_dict()["epoch"] == 1:
        loader.skip_batches(1)
    return loader.report()


def _message(
    shards: Shards, plans: Sequence[Mapping[str, Any]], arguments: argparse.Namespace
) -> Iterator[str]:
    named = _sources(arguments)
    where = f"split {arguments.split}" + (f" of {named}" if named else "")
    yield f"{arguments.folder}, {where}: {len(shards):,} documents, {shards.num_tokens:,} tokens"
    yield ""
    yield from plan_lines([plan for plan in plans if "problem" not in plan])


def _sources(arguments: argparse.Namespace) -> str:
    return ", ".join(arguments.source or [])
