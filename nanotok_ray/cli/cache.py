"""The commands that free space: cache rm, gc."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from nanotok_ray.cli.app import Arguments, Group, command
from nanotok_ray.cli.options import (
    dry_run_option,
    output_argument,
    output_of,
    override_option,
    recipe_argument,
    recipe_of,
)
from nanotok_ray.cli.printing import field_line, numbers_text

if TYPE_CHECKING:
    from nanotok_ray.counts import CountsCache
    from nanotok_ray.recipe import Recipe
    from nanotok_ray.storage import Folder


cache = Group(
    "cache",
    sections={"Commands": {"rm": "cache"}},
    examples="""
nanotok cache rm recipe.toml --dry-run
nanotok cache rm recipe.toml
""",
    help="Remove cached counts from the work folder.",
)


@command(
    examples="""
nanotok cache rm recipe.toml --dry-run   # which counts are stale?
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

    Counts are stale if `nanotok prepare` with this recipe would make them again: their file was
    changed or removed, they were made with another pattern, doc_cap, slice_bytes or version, or a
    process was killed before it wrote their record. With max_chars, counts of the slice that is cut
    are in use only while those of all slices before it exist. Another recipe with the same work
    folder may have to count again.

    The command does not change other files of the work folder, temporary files or the output. It
    reports the number of distinct spans as the sum over all slices.

    The command locks the output, so it fails with exit code 6 while a job of this output runs. It
    does not detect a job of another output with the same work folder.
    """
    recipe = recipe_of(arguments)
    removal = _Removal.of(recipe, of_all=arguments.everything)
    if removal.chosen and not arguments.dry_run:
        removal = _remove_counts(recipe, arguments)
    removed, rest, work = _totals(removal.chosen), _totals(removal.others), removal.work.url
    arguments.console.result(
        {
            "status": "planned" if arguments.dry_run else "removed",
            "work": work,
            "removed": removed,
            "kept": rest,
            "files": [name for entry in removal.chosen for name in entry.files],
        },
        lines=[
            *(f"{entry.num_bytes:>15,}  {entry.name}" for entry in removal.chosen),
            field_line("work", work),
            field_line(_verb(is_dry=arguments.dry_run), numbers_text(removed)),
            field_line("kept", numbers_text(rest)),
        ],
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
            remove_counts(removal.work, entry)
    return removal


@dataclass(frozen=True, slots=True)
class _Removal:
    """The counts of a work folder that are to be removed, and the others."""

    work: "Folder"
    chosen: "Sequence[CountsCache]"
    others: "Sequence[CountsCache]"

    @classmethod
    def of(cls, recipe: "Recipe", *, of_all: bool) -> "_Removal":
        from nanotok_ray.counts import cached_counts
        from nanotok_ray.storage import Folder

        work = Folder(recipe.output.work)
        counts, in_use = cached_counts(work), () if of_all else _in_use(recipe)
        chosen = [count for count in counts if count.name not in in_use]
        return cls(work, chosen, [count for count in counts if count.name in in_use])


def _in_use(recipe: "Recipe") -> Collection[str]:
    from nanotok_ray.job.reducing import names_in_use
    from nanotok_ray.job.superwords import recounts_in_use

    return names_in_use(recipe) | recounts_in_use(recipe)


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
        lines=[
            *files,
            field_line("output", out.url),
            field_line(_verb(is_dry=arguments.dry_run), numbers_text(removed)),
        ],
    )
    return 0
