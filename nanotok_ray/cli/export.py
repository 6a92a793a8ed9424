"""The command that writes a finished output for other trainers: export."""

import argparse
import sys
from textwrap import fill
from typing import Any

from nanotok_ray.cli.arguments import positive
from nanotok_ray.cli.printing import print_json
from nanotok_ray.cli.progress import Progress
from nanotok_ray.errors import ExportError
from nanotok_ray.exports import LAYOUTS, format_options
from nanotok_ray.exports.layouts import parse_layout
from nanotok_ray.storage import Folder

_LAYOUTS = "\n".join(
    fill(
        layout.reader,
        width=100,
        initial_indent=f"  {name + ':':<11}",
        subsequent_indent=" " * 13,
        break_on_hyphens=False,
    )
    for name, layout in LAYOUTS.items()
)

_EXPORT = f"""\
Write a finished output in the layouts of other trainers.

  nanotok export /data/out --to datatrove                (into /data/out/export/datatrove)
  nanotok export /data/out --to llmc --to megatron:datasets=4
  nanotok export s3://bucket/out --to parquet --output s3://bucket/parquet --workers 32

Layouts, and who reads them:

{_LAYOUTS}

Nothing is tokenized again. Where a file of the layout has the bytes of a native one it is a hard
link to it, so that on one disk it takes no room. Options follow the name: NAME:KEY=VALUE,KEY=VALUE.
Every file is read back as its readers do, and every document compared, before it counts as done.
The same command again resumes where it stopped, does only what is new after the output has grown,
and removes what the output no longer has. `nanotok verify DIR/export/NAME` compares all of it once
more. What is written into DIR itself holds its lease meanwhile: no job and no gc runs beside it.

With --workers units are exported on Ray: on a local one of so many CPUs, or on the cluster that
RAY_ADDRESS names.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "export",
        help=_EXPORT.partition("\n")[0],
        description=_EXPORT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", help="the output folder of a job")
    parser.add_argument(
        "--to",
        action="append",
        required=True,
        metavar="LAYOUT",
        help="the layout, perhaps with options; may be given several times",
    )
    parser.add_argument(
        "--output", metavar="FOLDER", help="where to, for one layout (default: DIR/export/LAYOUT)"
    )
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="export on Ray; CPUs of a local one (default: threads of this process, no Ray)",
    )
    parser.set_defaults(run=_run_export)


def _run_export(arguments: argparse.Namespace) -> int:
    from nanotok_ray.api import export  # noqa: PLC0415 - Ray, where it is needed

    layouts = [parse_layout(text) for text in arguments.to]
    if arguments.output is not None and len(layouts) > 1:
        raise ExportError("--output is for one layout: export one at a time, or leave it out")
    names = [layout.name for layout in layouts]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ExportError(
            f"--to {twice[0]} is given twice, and both would lie in one folder: export one at a "
            "time, each with an --output of its own"
        )
    results = []
    for layout in layouts:
        with Progress(sys.stderr) as progress:
            result = export(
                Folder(arguments.folder),
                layout,
                folder=None if arguments.output is None else Folder(arguments.output),
                cpus=arguments.workers,
                on_event=progress,
            )
        _print_result(
            result.folder, format_options(layout), result.values, unchanged=result.unchanged
        )
        results.append({"output": result.folder, "units_done": result.units_done, **result.values})
    print_json({"status": "done", "exports": results})
    return 0


def _print_result(folder: str, layout: str, values: dict[str, Any], *, unchanged: bool) -> None:
    lines = [f"{layout}: {folder}" + (" (nothing to do)" if unchanged else "")]
    lines.append(
        f"  {values['files']:,} files, {values['bytes'] / 1e6:,.1f} MB, "
        f"{values['documents']:,} documents, {values['tokens']:,} tokens"
    )
    lines += [f"  left out: {number:,} {why}" for why, number in values["left_out"].items()]
    if unread := sum(values["unread_tokens"].values()):
        lines.append(f"  {unread:,} tokens at the ends of sources fill no block: not read")
    lines.append(f"  loss masks: {values['masks'] or 'this layout has no place for them'}")
    lines.append(f"  read by {values['reader']}")
    print("\n".join(lines), file=sys.stderr)
