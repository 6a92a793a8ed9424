"""The commands that look after the counts which runs keep: counts ls, counts rm."""

import argparse
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nanotok_ray.cli.arguments import add_overrides
from nanotok_ray.cli.printing import print_json
from nanotok_ray.counts.cache import (
    COUNTS_FOLDER,
    CountsCache,
    WorkFolder,
    cached_counts,
    remove_counts,
)
from nanotok_ray.errors import SourceError
from nanotok_ray.recipe import Recipe, load_recipe
from nanotok_ray.storage import Folder

_COUNTS = """\
Look after the counts that runs keep in the work folder.

  nanotok counts ls recipe.toml                     (which are in use, which are stale)
  nanotok counts ls /data/out/work --files
  nanotok counts rm recipe.toml --dry-run           (what it would remove)
  nanotok counts rm recipe.toml
"""

_LS = """\
List the counts in a work folder: per source how many slices, texts and spans, and bytes on disk.

  nanotok counts ls recipe.toml                     (which are in use, which are stale)
  nanotok counts ls recipe.toml --files             (each file of counts too)
  nanotok counts ls /data/out/work                  (a folder alone does not say what is in use)

In use are counts that `nanotok prepare` with this recipe would not make again. All others are
stale: of a file that was changed or removed since, made with another pattern, doc_cap, slice_bytes
or version, or left without a record by a process that was killed. Distinct spans are those of each
slice, added up.

A work folder may serve several recipes: what is stale to this one may be in use by another. With
max_chars, counts of the slice that is cut are in use only while those of all slices before it are
there. Merged files hold the counts of many slices once more, where these are very many.
"""

_RM = """\
Remove the counts that are stale to a recipe, and say how many bytes that frees.

  nanotok counts rm recipe.toml --dry-run           (say it, remove nothing)
  nanotok counts rm recipe.toml
  nanotok counts rm recipe.toml --all               (also those in use: all is counted again)

`nanotok counts ls --help` says what stale is. A work folder may serve several recipes: what is
stale to this one may be in use by another, which then counts again. Nothing else is removed: no
other files of the work folder, no temporary files, nothing of the output.

Holds the output's lease meanwhile: while a job of this output runs it is refused (exit code 6). A
job of another output with the same work folder is not seen.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the two commands to a parser."""
    both = _parser(commands, "counts", _COUNTS)
    actions = both.add_subparsers(dest="action", required=True, metavar="ls|rm")
    ls = _parser(actions, "ls", _LS)
    ls.add_argument(
        "path", metavar="RECIPE|FOLDER", help="a recipe (.toml, or any file), or a work folder"
    )
    ls.add_argument("--files", action="store_true", help="list each file of counts")
    ls.set_defaults(run=_run_ls)
    rm = _parser(actions, "rm", _RM)
    rm.add_argument("recipe", metavar="RECIPE", help="the TOML file that names the work folder")
    rm.add_argument("--all", action="store_true", help="remove all counts, also those in use")
    rm.add_argument("--dry-run", action="store_true", help="say what, and remove nothing")
    rm.set_defaults(run=_run_rm)
    for value in (ls, rm):
        add_overrides(value)


def _parser(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text.partition("\n")[0],
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _run_ls(arguments: argparse.Namespace) -> int:
    in_use: Collection[str] | None = None
    if arguments.path.endswith(".toml") or Path(arguments.path).is_file():
        recipe = load_recipe(arguments.path, overrides=arguments.overrides)
        work = cached_counts(recipe.output.work)
        in_use = _in_use(recipe)
    else:
        work = _folder(arguments.path)
    values = _listing(work, in_use)
    print("\n".join(_listing_lines(values)), file=sys.stderr)
    if arguments.files:
        values["files"] = [_file(count, in_use) for count in work.counts]
        for file in values["files"]:
            print(f"{file['state']:<9}   {file['bytes']:>15,}  {file['name']}", file=sys.stderr)
    print_json(values)
    return 0


def _folder(location: str) -> WorkFolder:
    work = cached_counts(location)
    if not work.counts and location.rstrip("/").endswith(f"/{COUNTS_FOLDER}"):
        work = cached_counts(location.rstrip("/").removesuffix(f"/{COUNTS_FOLDER}"))
    if not work.counts:
        raise SourceError(
            f"{work.url} holds no counts: name a recipe (.toml), or its work folder, the one that "
            f"has {COUNTS_FOLDER}/SOURCE/NAME.arrow"
        )
    return work


def _in_use(recipe: Recipe) -> Collection[str]:
    from nanotok_ray.job.reducing import names_in_use  # noqa: PLC0415 - slow to import

    return names_in_use(recipe)


def _run_rm(arguments: argparse.Namespace) -> int:
    recipe = load_recipe(arguments.recipe, overrides=arguments.overrides)
    removal = _Removal.of(recipe, of_all=arguments.all)
    if removal.chosen and not arguments.dry_run:
        removal = _remove(recipe, of_all=arguments.all)
    for entry in removal.chosen:
        print(f"{entry.num_bytes:>15,}  {entry.name}", file=sys.stderr)
    values = removal.values("planned" if arguments.dry_run else "removed")
    print("\n".join(_removal_lines(values)), file=sys.stderr)
    print_json(values)
    return 0


def _remove(recipe: Recipe, *, of_all: bool) -> "_Removal":
    """Remove counts under the lease of the output: a job needs those that are in use."""
    from nanotok_ray.job.events import Event, Note  # noqa: PLC0415 - slow to import
    from nanotok_ray.job.lease import leased  # noqa: PLC0415 - as above

    def print_note(event: Event) -> None:
        if isinstance(event, Note):
            print(f"note: {event.text}", file=sys.stderr)

    with leased(Folder(recipe.output.path), command="counts rm", on_event=print_note) as lease:
        lease.check()
        removal = _Removal.of(recipe, of_all=of_all)
        for entry in removal.chosen:
            lease.glance()
            remove_counts(removal.work.url, entry)
    return removal


@dataclass(frozen=True, slots=True)
class _Removal:
    """Counts in a work folder, and which of them are to be removed."""

    work: WorkFolder
    chosen: Sequence[CountsCache]

    @classmethod
    def of(cls, recipe: Recipe, *, of_all: bool) -> "_Removal":
        work = cached_counts(recipe.output.work)
        in_use = () if of_all else _in_use(recipe)
        return cls(work, [count for count in work.counts if count.name not in in_use])

    def values(self, status: str) -> dict[str, Any]:
        chosen = {entry.name for entry in self.chosen}
        return {
            "status": status,
            "work": self.work.url,
            "removed": _totals(self.chosen),
            "kept": _totals([entry for entry in self.work.counts if entry.name not in chosen]),
            "files": [name for entry in self.chosen for name in entry.files],
        }


def _removal_lines(values: dict[str, Any]) -> Iterator[str]:
    yield f"work        {values['work']}"
    word = "would free " if values["status"] == "planned" else "removed    "
    yield f"{word} {_message(values['removed'])}"
    yield f"kept        {_message(values['kept'])}"


def _message(totals: dict[str, int]) -> str:
    merged = f", {totals['merged']:,} merged files" if totals["merged"] else ""
    return f"counts of {totals['slices']:,} slices{merged}, {totals['bytes']:,} bytes"


def _listing(work: WorkFolder, in_use: Collection[str] | None) -> dict[str, Any]:
    by_source: dict[str, list[CountsCache]] = {}
    for count in work.counts:
        by_source.setdefault(count.source, []).append(count)
    return {
        "status": "listed",
        "work": work.url,
        "sources": [
            {"name": name, **_totals(value), **_use(value, in_use)}
            for name, value in by_source.items()
        ],
        "total": {**_totals(work.counts), **_use(work.counts, in_use)},
        "other": {"files": len(work.other), "bytes": sum(work.other.values())},
        "temporaries": len(work.temporaries),
    }


def _totals(counts: Sequence[CountsCache]) -> dict[str, int]:
    numbers = ("texts", "text_bytes", "distinct_spans")
    return {
        "slices": sum(not count.is_merged for count in counts),
        "merged": sum(count.is_merged for count in counts),
        **{field: sum(count.number(field) for count in counts) for field in numbers},
        "bytes": sum(count.num_bytes for count in counts),
        "without_record": sum(count.record is None for count in counts),
    }


def _use(counts: Iterable[CountsCache], in_use: Collection[str] | None) -> dict[str, int | None]:
    """Return how many are in use; null where no recipe is named."""
    if in_use is None:
        return dict.fromkeys(("in_use", "stale", "stale_bytes"))
    counts = list(counts)
    stale = [count for count in counts if count.name not in in_use]
    return {
        "in_use": len(counts) - len(stale),
        "stale": len(stale),
        "stale_bytes": sum(count.num_bytes for count in stale),
    }


def _file(counts: CountsCache, in_use: Collection[str] | None) -> dict[str, Any]:
    state = "kept" if in_use is None else "in use" if counts.name in in_use else "stale"
    return {
        "name": counts.name,
        "state": "no record" if counts.record is None else state,
        "bytes": counts.num_bytes,
        "texts": counts.number("texts"),
        "text_bytes": counts.number("text_bytes"),
        "distinct_spans": counts.number("distinct_spans"),
    }


def _listing_lines(values: dict[str, Any]) -> Iterator[str]:
    yield f"work        {values['work']}"
    for source in values["sources"]:
        yield f"counts      {source['name']}: {_listed(source)}"
    if not values["sources"]:
        yield "counts      none"
    if len(values["sources"]) > 1:
        yield f"total       {_listed(values['total'])}"
    if values["other"]["files"]:
        yield f"other       {values['other']['files']:,} files, {values['other']['bytes']:,} bytes"
    if values["temporaries"]:
        yield f"temporary   {values['temporaries']:,} files, being written or left over"


def _listed(values: dict[str, Any]) -> str:
    parts = [
        f"{values['slices']:,} slices, {values['texts']:,} texts of {values['text_bytes']:,} bytes",
        f"{values['distinct_spans']:,} distinct spans",
        f"{values['bytes']:,} bytes on disk",
    ]
    if values["merged"]:
        parts.append(f"{values['merged']:,} merged files")
    if values["without_record"]:
        parts.append(f"{values['without_record']:,} without a record")
    if values["in_use"] is not None:
        parts.append(f"{values['in_use']:,} in use, {values['stale']:,} stale")
    return "; ".join(parts)
