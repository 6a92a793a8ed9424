"""The commands that free space: cache ls, cache rm, gc."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from nanotok_ray.cli.app import Arguments, Group, command
from nanotok_ray.cli.options import (
    PATH,
    dry_run_option,
    is_recipe,
    output_argument,
    output_of,
    override_option,
    recipe_argument,
    recipe_of,
)
from nanotok_ray.cli.printing import field_line, numbers_text

if TYPE_CHECKING:
    from nanotok_ray.counts import CountsCache, WorkFolder
    from nanotok_ray.recipe import Recipe


cache = Group(
    "cache",
    sections={"Commands": {"ls": "cache", "rm": "cache"}},
    aliases={"list": "ls"},
    examples="""
nanotok cache ls recipe.toml
nanotok cache ls /data/out/work --files
nanotok cache rm recipe.toml --dry-run
nanotok cache rm recipe.toml
""",
    help="List or remove the cached counts in the work folder.",
)


@command(
    examples="""
nanotok cache ls recipe.toml             # which counts are in use, and which are stale?
nanotok cache ls recipe.toml --files     # also list each count file
nanotok cache ls /data/out/work
"""
)
@click.argument("location", type=PATH, metavar="RECIPE|OUTPUT|WORK")
@override_option
@click.option("--files", is_flag=True, help="List each count file.")
def ls(arguments: Arguments) -> int:
    """List the cached counts: slices, texts, spans and bytes on disk by source.

    Counts are in use if `nanotok prepare` with this recipe would not make them again. All others
    are stale: their file was changed or removed, they were made with another pattern, doc_cap,
    slice_bytes or version, or a process was killed before it wrote their record. The folder alone
    does not determine which counts are in use, so pass a recipe. The number of distinct spans is
    the sum over all slices.

    Several recipes can share a work folder, so counts that are stale for one recipe may be in use
    by another. With max_chars, counts of the slice that is cut are in use only while those of all
    slices before it exist. Merged files contain the counts of many slices a second time.
    """
    from nanotok_ray.counts import cached_counts

    in_use: Collection[str] | None = None
    if is_recipe(arguments.location):
        recipe = recipe_of(Arguments(recipe=arguments.location, overrides=arguments.overrides))
        work = cached_counts(recipe.output.work)
        in_use = _in_use(recipe)
    else:
        work = _work_folder(arguments.location)
    by_source: dict[str, list[CountsCache]] = {}
    for count in work.counts:
        by_source.setdefault(count.source, []).append(count)
    sources = {name: _numbers(counts, in_use) for name, counts in by_source.items()}
    total = _numbers(work.counts, in_use)
    other = {"files": len(work.other), "bytes": sum(work.other.values())}
    files = [_file(count, in_use) for count in work.counts] if arguments.files else []
    values = {
        "status": "listed",
        "work": work.url,
        "sources": [{"name": name, **numbers} for name, numbers in sources.items()],
        "total": total,
        "other": other,
        "temporaries": len(work.temporaries),
    }
    arguments.console.result(
        {**values, "files": files} if arguments.files else values,
        field_line("work", work.url),
        *(field_line("counts", f"{name}: {numbers_text(n)}") for name, n in sources.items()),
        *([] if len(sources) == 1 else [field_line("total", numbers_text(total))]),
        *([field_line("other", numbers_text(other))] if work.other else []),
        *(
            [field_line("temporary", f"{len(work.temporaries):,} files")]
            if work.temporaries
            else []
        ),
        *(f"{file['state']:<9}   {file['bytes']:>15,}  {file['name']}" for file in files),
    )
    return 0


def _work_folder(location: str) -> "WorkFolder":
    from nanotok_ray.counts import COUNTS_FOLDER, cached_counts
    from nanotok_ray.errors import SourceError

    folder = location.rstrip("/")
    for candidate in (folder, f"{folder}/work", folder.removesuffix(f"/{COUNTS_FOLDER}")):
        if (work := cached_counts(candidate)).counts:
            return work
    raise SourceError(
        f"{location} has no counts; pass a recipe (.toml) or its work folder, which contains "
        f"{COUNTS_FOLDER}/SOURCE/NAME.arrow"
    )


def _in_use(recipe: "Recipe") -> Collection[str]:
    from nanotok_ray.job.reducing import names_in_use
    from nanotok_ray.job.superwords import recounts_in_use

    return names_in_use(recipe) | recounts_in_use(recipe)


@command(
    examples="""
nanotok cache rm recipe.toml --dry-run
nanotok cache rm recipe.toml
nanotok cache rm recipe.toml --all       # also those in use; the next job counts again
"""
)
@recipe_argument
@override_option
@click.option("--all", "everything", is_flag=True, help="Remove all counts, also those in use.")
@dry_run_option
def rm(arguments: Arguments) -> int:
    """Remove counts that are stale for a recipe, and report the space freed.

    `nanotok cache ls --help` defines which counts are stale. The command does not change other
    files of the work folder, temporary files or the output. Another recipe with the same work
    folder may have to count again.

    The command locks the output, so it fails with exit code 6 while a job of this output runs. It
    does not detect a job of another output with the same work folder.
    """
    recipe = recipe_of(arguments)
    removal = _Removal.of(recipe, of_all=arguments.everything)
    if removal.chosen and not arguments.dry_run:
        removal = _remove_counts(recipe, arguments)
    removed, rest = _totals(removal.chosen), _totals(removal.others)
    arguments.console.result(
        {
            "status": "planned" if arguments.dry_run else "removed",
            "work": removal.work.url,
            "removed": removed,
            "kept": rest,
            "files": [name for entry in removal.chosen for name in entry.files],
        },
        *(f"{entry.num_bytes:>15,}  {entry.name}" for entry in removal.chosen),
        field_line("work", removal.work.url),
        field_line(_verb(is_dry=arguments.dry_run), numbers_text(removed)),
        field_line("kept", numbers_text(rest)),
    )
    return 0


def _remove_counts(recipe: "Recipe", arguments: Arguments) -> "_Removal":
    """Remove counts while holding the lease of the output, since a job needs counts in use."""
    from nanotok_ray.counts import remove_counts
    from nanotok_ray.job.lease import leased
    from nanotok_ray.storage import Folder

    out = Folder(recipe.output.path)
    with (
        arguments.console.progress() as on_event,
        leased(out, command="cache rm", on_event=on_event) as lease,
    ):
        lease.check()
        removal = _Removal.of(recipe, of_all=arguments.everything)
        for entry in removal.chosen:
            lease.glance()
            remove_counts(removal.work.url, entry)
    return removal


@dataclass(frozen=True, slots=True)
class _Removal:
    """The counts of a work folder that are to be removed, and the others."""

    work: "WorkFolder"
    chosen: "Sequence[CountsCache]"
    others: "Sequence[CountsCache]"

    @classmethod
    def of(cls, recipe: "Recipe", *, of_all: bool) -> "_Removal":
        from nanotok_ray.counts import cached_counts

        work = cached_counts(recipe.output.work)
        in_use = () if of_all else _in_use(recipe)
        chosen = [count for count in work.counts if count.name not in in_use]
        return cls(work, chosen, [count for count in work.counts if count.name in in_use])


def _verb(*, is_dry: bool) -> str:
    return "would free" if is_dry else "removed"


def _totals(counts: "Sequence[CountsCache]") -> dict[str, int]:
    return {
        "slices": sum(not count.is_merged for count in counts),
        **{name: sum(count.number(name) for count in counts) for name in _NUMBERS},
        "bytes": sum(count.num_bytes for count in counts),
        "merged": sum(count.is_merged for count in counts),
        "without_record": sum(count.record is None for count in counts),
    }


_NUMBERS = ("texts", "text_bytes", "distinct_spans")


def _numbers(
    counts: "Sequence[CountsCache]", in_use: Collection[str] | None
) -> dict[str, int | None]:
    """Return the totals, and how many are in use; None: no recipe is given."""
    use = dict.fromkeys(("in_use", "stale", "stale_bytes"))
    if in_use is None:
        return {**_totals(counts), **use}
    stale = [count for count in counts if count.name not in in_use]
    return {
        **_totals(counts),
        "in_use": len(counts) - len(stale),
        "stale": len(stale),
        "stale_bytes": sum(count.num_bytes for count in stale),
    }


def _file(counts: "CountsCache", in_use: Collection[str] | None) -> dict[str, str | int]:
    state = "kept" if in_use is None else "in use" if counts.name in in_use else "stale"
    return {
        "name": counts.name,
        "state": "no record" if counts.record is None else state,
        "bytes": counts.num_bytes,
        **{name: counts.number(name) for name in _NUMBERS},
    }


@command(
    examples="""
nanotok gc /data/out --dry-run
nanotok gc /data/out
"""
)
@output_argument
@dry_run_option
def gc(arguments: Arguments) -> int:
    """Delete files that a finished output no longer uses, and report the space freed.

    These are files of earlier runs: shards with the files beside them, records and quarantine files
    of inputs, recipes or tokenizers that have changed, temporary files and probes of killed
    processes, and old leases. The command does not change
    tokenizers, counts, or files that a job did not write. It refuses an output without a
    manifest with exit code 4, because a job resumes from these files. Finish the job first.

    The command locks the output, so no job can write to it. It does not see unfinished uploads of
    an object store. Remove them with a lifecycle rule of the bucket.
    """
    from nanotok_ray.job.lease import leased
    from nanotok_ray.shards import find_garbage
    from nanotok_ray.storage import Folder

    out = Folder(output_of(arguments.location))
    garbage = find_garbage(out)  # first, since a folder that is not an output gets no lease
    if garbage.all and not arguments.dry_run:
        with (
            arguments.console.progress() as on_event,
            leased(out, command="gc", on_event=on_event) as lease,
        ):
            lease.check()
            garbage = find_garbage(out)
            for name in garbage.all:
                lease.glance()
                out.remove(name)
    removed = {
        "records": len(garbage.records) + len(garbage.last),
        "files": len(garbage.files),
        "bytes": garbage.num_bytes,
    }
    files = list(garbage.all)
    arguments.console.result(
        {
            "status": "planned" if arguments.dry_run else "removed",
            "output": out.url,
            "removed": removed,
            "kept": {"bytes": garbage.named_bytes},
            "files": files,
        },
        *files,
        field_line("output", out.url),
        field_line(_verb(is_dry=arguments.dry_run), numbers_text(removed)),
    )
    return 0
