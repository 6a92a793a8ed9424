"""The command that checks a finished output: verify. Changes nothing."""

import argparse
import sys

from nanotok_ray.cli.arguments import positive
from nanotok_ray.cli.printing import print_json
from nanotok_ray.cli.progress import Progress
from nanotok_ray.errors import ExportError, VerificationError
from nanotok_ray.exports import EXPORT_NAME, EXPORTS
from nanotok_ray.formats.manifest import MANIFEST_NAME
from nanotok_ray.shards.verify import MAX_PRINTED_PROBLEMS, Verification
from nanotok_ray.storage import Folder
from nanotok_ray.units import printable

PROBLEMS, UNCHECKED = 4, 5

_VERIFY = """\
Check a finished output: sizes, sha256, indexes, masks, sums, and a sample against the source.

All files are read. The sources of some slices are read again, what was read and counted is
compared, and a sample of their documents checked: decoded, and compared with the ids of tiktoken;
conversations and vision documents are read in plain Python, and ids, masks and images compared.
With --deep all slices are checked so, and not the sample alone: all texts are decoded, all
conversations and vision documents checked, and what was quarantined and the ids of an id_column
compared. With --masks the slices of conversations and vision documents are checked like that, and
of texts the files alone. Neither the encoder nor the renderer of the job is asked about a document
in a shard.

  nanotok verify /data/out
  nanotok verify /data/out --no-sample     (where the sources are not at hand)
  nanotok verify /data/out --deep          (every document against its source, all read again)
  nanotok verify /data/out --masks         (what conversations train on, against their source)
  nanotok verify s3://bucket/out --deep --workers 16
  nanotok verify /data/out/export/llmc     (an export: every document against the native shards)

With --workers slices are checked on Ray: on a local one of so many CPUs, or on the cluster that
RAY_ADDRESS names. Exits 4 when a problem is found, else 5 when a slice could not be checked.
Changes nothing.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "verify",
        help=_VERIFY.partition("\n")[0],
        description=_VERIFY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", help="the output folder of a job")
    level = parser.add_mutually_exclusive_group()
    level.add_argument(
        "--no-sample", action="store_true", help="do not compare documents with their source"
    )
    level.add_argument(
        "--masks",
        action="store_true",
        help="read conversations and vision documents again, compare every mask",
    )
    level.add_argument(
        "--deep", action="store_true", help="read all sources again, compare every document"
    )
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="check on Ray; CPUs of a local one (default: threads of this process, no Ray)",
    )
    parser.add_argument(
        "--of",
        metavar="DIR",
        help="of an export: the output it was made of (default: the one whose export/ it lies in)",
    )
    parser.set_defaults(run=_run_verify)


def _run_verify(arguments: argparse.Namespace) -> int:
    from nanotok_ray.api import verify  # noqa: PLC0415 - Ray, where it is needed

    if _is_of_export(arguments):
        return _run_verify_export(arguments)
    with Progress(sys.stderr) as progress:
        result = verify(
            Folder(arguments.folder),
            cpus=arguments.workers,
            sample=not arguments.no_sample,
            deep=arguments.deep,
            masks=arguments.masks,
            on_event=progress,
        )
    if result.passed:
        print(_message(arguments.folder, result, masks=arguments.masks), file=sys.stderr)
    else:
        print(printable(result.format_problems(arguments.folder), lines=True), file=sys.stderr)
    print_json(
        {
            "status": "verified" if result.passed else "failed",
            "deep": arguments.deep,
            "masks": arguments.masks,
            "slices": result.slices,
            "shards": result.shards,
            "documents": result.documents,
            "tokens": result.tokens,
            "sampled": result.sampled,
            "source_bytes": result.source_bytes,
            "problems": result.problems,
            "unchecked": result.unchecked,
        }
    )
    if result.problems:
        return PROBLEMS
    return UNCHECKED if result.unchecked else 0


def _is_of_export(arguments: argparse.Namespace) -> bool:
    """Return whether it is an export: by export.json, or by where it lies."""
    folder = Folder(arguments.folder)
    if folder.exists(MANIFEST_NAME):
        return arguments.of is not None
    return arguments.of is not None or folder.exists(EXPORT_NAME) or _lies_in_output(folder)


def _lies_in_output(folder: Folder) -> bool:
    return folder.url.rsplit("/", 2)[1:2] == [EXPORTS]


def _run_verify_export(arguments: argparse.Namespace) -> int:
    from nanotok_ray.api import verify_export  # noqa: PLC0415 - as above

    folder = Folder(arguments.folder)
    if arguments.deep or arguments.masks or arguments.no_sample or arguments.workers:
        raise ExportError(
            f"{folder.url} is an export, of which every document is compared in threads: leave out "
            "--deep, --masks, --no-sample and --workers"
        )
    if arguments.of is None and not _lies_in_output(folder):
        raise VerificationError(
            f"{folder.url} is an export, and not in the folder {EXPORTS}/ of an output: say of "
            "which with --of DIR"
        )
    with Progress(sys.stderr) as progress:
        values, problems = verify_export(
            folder, Folder(arguments.of or folder.url.rsplit("/", 2)[0]), on_event=progress
        )
    for problem in problems[:MAX_PRINTED_PROBLEMS]:
        print(printable(problem, lines=True), file=sys.stderr)
    if problems:
        print("delete what is named and export again, which makes it anew", file=sys.stderr)
    else:
        print(
            f"{folder.url}: {values['units']:,} units, {values['documents']:,} documents are those "
            "of the output",
            file=sys.stderr,
        )
    status = "failed" if problems else "verified"
    print_json({"status": status, "problems": problems, **values})
    return PROBLEMS if problems else 0


def _message(folder: str, result: Verification, *, masks: bool) -> str:
    equal = "conversations and vision documents equal" if masks else "equal"
    text = (
        f"{folder}: {result.slices:,} slices, {result.shards:,} shards, "
        f"{result.documents:,} documents are whole; {result.sampled:,} {equal} their source"
    )
    if result.source_bytes:
        text += f" ({result.source_bytes / 1e6:,.1f} MB read again)"
    return text
