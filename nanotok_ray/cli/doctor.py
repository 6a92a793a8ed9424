"""The command that checks the environment: doctor. Changes nothing but its own probe files."""

import argparse
import sys
from collections.abc import Iterator

from nanotok_ray.cli.printing import INFRASTRUCTURE, print_json
from nanotok_ray.job.doctor.result import CheckResult, worst
from nanotok_ray.units import printable, without_secrets

_DOCTOR = """\
Check this machine, and the folders, sources and cluster of a job, before it runs.

  nanotok doctor                                    (this machine and its settings)
  nanotok doctor recipe.toml                        (its folders, sources and tokenizer too)
  nanotok doctor /data/out s3://bucket/out
  nanotok doctor recipe.toml --address http://127.0.0.1:8265     (a job server: version, token)
  nanotok doctor --address auto                     (a cluster: nodes, and the core of each)

A line for each check: ok, warn or fail, what was found, what to do. In each folder a small file is
written, read, listed and removed again, whatever happens; folders that are not there yet are made
for it and removed. Sources are opened, and no document is read but the first of each file of
conversations. No secret is printed. Without --address no Ray is started or imported.

Exits 0, also with warnings, or 5 when a check failed. The last line of stdout is JSON.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "doctor",
        help=_DOCTOR.partition("\n")[0],
        description=_DOCTOR,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths",
        metavar="DIR|URL|RECIPE",
        nargs="*",
        help="folders to probe, and recipes whose folders and sources to check (default: none)",
    )
    parser.add_argument(
        "--address",
        metavar="ADDRESS",
        help="http://HOST:PORT of a job server, or HOST:PORT or auto of a cluster (default: none)",
    )
    parser.set_defaults(run=_run_doctor)


def _run_doctor(arguments: argparse.Namespace) -> int:
    results: list[CheckResult] = []
    for result in _check_results(arguments):
        redacted = CheckResult(
            name=without_secrets(result.name),
            status=result.status,
            found=without_secrets(result.found),
            advice=without_secrets(result.advice),
        )
        results.append(redacted)
        print(printable(redacted.line(), lines=True), file=sys.stderr, flush=True)
    status = worst(results)
    print_json(
        {
            "status": status,
            **{kind: sum(result.status == kind for result in results) for kind in _KINDS},
            "checks": [
                {
                    "name": result.name,
                    "status": result.status,
                    "found": result.found,
                    "advice": result.advice,
                }
                for result in results
            ],
        }
    )
    return INFRASTRUCTURE if status == "fail" else 0


_KINDS = ("ok", "warn", "fail")


def _check_results(arguments: argparse.Namespace) -> Iterator[CheckResult]:
    from nanotok_ray.job.doctor.checks import run_checks  # noqa: PLC0415 - knows stores: slow

    yield from run_checks(arguments.paths, address=arguments.address)
    if arguments.address is not None:
        from nanotok_ray.cluster.cluster_check import check_address  # noqa: PLC0415 - Ray

        yield from check_address(arguments.address)
