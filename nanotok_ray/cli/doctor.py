"""The command that checks the environment: doctor."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from nanotok_ray.cli.app import Arguments, command
from nanotok_ray.cli.options import PATH, is_recipe, override_option
from nanotok_ray.cli.printing import INFRASTRUCTURE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nanotok_ray.job.doctor.result import CheckResult


@command(
    examples="""
nanotok doctor                      # versions, and the settings of Ray
nanotok doctor recipe.toml          # its folders, sources and tokenizer too
nanotok doctor recipe.toml --set output.path=s3://bucket/out
nanotok doctor /data/out s3://bucket/out
nanotok doctor recipe.toml --address http://127.0.0.1:8265   # a job server
nanotok doctor --address auto       # a cluster: its nodes, and the core of each
nanotok doctor recipe.toml --address auto    # and the library that encodes, on each node
"""
)
@click.argument("paths", type=PATH, metavar="[OUTPUT|RECIPE]...", nargs=-1)
@override_option
@click.option(
    "--address",
    metavar="ADDRESS",
    help="Ray cluster (HOST:PORT or auto) or job server (http://HOST:PORT) to check.",
)
def doctor(arguments: Arguments) -> int:
    """Check versions, and the folders, sources and cluster of a job, before it runs.

    Each check prints a line with ok, warn or fail, what was found, and what to do. The command
    writes, reads, lists and removes a small file in each folder. It creates folders that do not
    exist, and removes them again. It opens the sources, and reads the first document of files of
    conversations. Folders and sources are checked from this machine only, whose credentials may
    differ from those of the nodes. The command prints no secrets, and uses Ray only with --address.

    The command exits with 5 if a check failed, and with 0 if there are only warnings.
    """
    if arguments.overrides and not any(map(is_recipe, arguments.paths)):
        raise click.UsageError("--set overrides keys of a recipe; pass the recipe too")
    from nanotok_ray.job.doctor.result import CheckResult, worst
    from nanotok_ray.units import without_secrets

    results: list[CheckResult] = []
    for result in _check_results(arguments):
        name, text, advice = map(without_secrets, (result.name, result.found, result.advice))
        results.append(replace(result, name=name, found=text, advice=advice))
        arguments.console.text(results[-1].line())
    status = worst(results)
    counts = {kind: sum(result.status == kind for result in results) for kind in _KINDS}
    arguments.console.result({"status": status, **counts, "checks": results})
    return INFRASTRUCTURE if status == "fail" else 0


_KINDS = ("ok", "warn", "fail")


def _check_results(arguments: Arguments) -> "Iterator[CheckResult]":
    from nanotok_ray.job.doctor.checks import libraries_of, run_checks

    recipes = [path for path in arguments.paths if is_recipe(path)]
    yield from run_checks(
        recipes,
        [path for path in arguments.paths if not is_recipe(path)],
        overrides=arguments.overrides,
        address=arguments.address,
    )
    if arguments.address is not None:
        from nanotok_ray.cluster.cluster_check import check_address

        libraries = libraries_of(recipes, arguments.overrides)
        yield from check_address(arguments.address, libraries=libraries)
