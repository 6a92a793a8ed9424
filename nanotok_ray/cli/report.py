"""The command that writes the report page of an output: report. Starts no Ray."""

import argparse
import sys
from pathlib import Path

from nanotok_ray.errors import RecipeError
from nanotok_ray.formats.manifest import REPORT_PAGE_NAME
from nanotok_ray.storage import Folder

_REPORT = """\
Write the report of an output as one HTML file that needs no network: open it in any browser.

  nanotok report /data/out                          (writes /data/out/run/report.html)
  nanotok report s3://bucket/out --output out.html
  nanotok report /data/out --output -               (to stdout)

It says what ran, how fast each stage and slice was, bytes per token by source, how the vocabulary
grew, how long documents and tokens are, what was set aside, what is trained on, and shows tokens
and documents. A job writes it at its end. This command makes it again, also of a run that failed or
has not ended; it reads the files of the output alone. With --output nothing is written there.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "report",
        help=_REPORT.partition("\n")[0],
        description=_REPORT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", help="the output folder of a job, or its URL")
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write it there, - stdout (default: DIR/run/report.html)",
    )
    parser.set_defaults(run=_run_report)


def _run_report(arguments: argparse.Namespace) -> int:
    from nanotok_ray.report import report_page, write_report  # noqa: PLC0415 - slow to import

    out = Folder(arguments.folder)
    _check_there(out)
    if arguments.output is None:
        size = write_report(out)
        print(f"report      {size:,} bytes: {out.join(REPORT_PAGE_NAME)}", file=sys.stderr)
        return 0
    page = report_page(out).encode("utf-8", "replace")
    if arguments.output == "-":
        sys.stdout.buffer.write(page)
        return 0
    path = Path(arguments.output).absolute()
    path.write_bytes(page)
    print(f"report      {len(page):,} bytes: {path}", file=sys.stderr)
    return 0


def _check_there(out: Folder) -> None:
    """Refuse a folder in which nothing is, so that a typing error makes no folder.

    Raises:
        RecipeError: there is no such folder, or nothing of an output is in it.
    """
    from nanotok_ray.report import is_output  # noqa: PLC0415 - as above

    if not is_output(out):
        raise RecipeError(
            f"{out.url} holds no output of a job, nor the beginning of one: no manifest, plan, "
            "tokenizer or journal; see `path` under [output] in the recipe"
        )
