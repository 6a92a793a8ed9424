"""The command that removes what no manifest names: gc."""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

from nanotok_ray.cli.printing import print_json
from nanotok_ray.shards.garbage import Garbage, find_garbage
from nanotok_ray.storage import Folder

_GC = """\
Remove what the manifest of a finished output does not name, and say how many bytes that frees.

  nanotok gc /data/out --dry-run                    (say it, remove nothing)
  nanotok gc /data/out

That is what former runs left: shards, the files beside them, records and quarantine files of
inputs, recipes or tokenizers that have changed since, temporary files and probes of processes that
were killed, old leases, and span_table.bin, which earlier versions wrote beside a tokenizer.
Nothing else is touched: not the tokenizers, not the work folder, no file of yours. An output
without a manifest is refused (exit code 4), as what it holds is work to go on from: finish the job
first.

Holds the output's lease meanwhile, so that no job writes to it. Parts of uploads that an object
store never got the end of are not listed: a lifecycle rule of the bucket removes those.
"""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "gc",
        help=_GC.partition("\n")[0],
        description=_GC,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="OUT", help="the output folder of a finished job")
    parser.add_argument("--dry-run", action="store_true", help="say what, and remove nothing")
    parser.set_defaults(run=_run_gc)


def _run_gc(arguments: argparse.Namespace) -> int:
    from nanotok_ray.job.events import Event, Note  # noqa: PLC0415 - slow to import
    from nanotok_ray.job.lease import leased  # noqa: PLC0415 - as above

    def print_note(event: Event) -> None:
        if isinstance(event, Note):
            print(f"note: {event.text}", file=sys.stderr)

    out = Folder(arguments.folder)
    garbage = find_garbage(out)  # also: an output that is none gets no lease
    if garbage.all and not arguments.dry_run:
        with leased(out, command="gc", on_event=print_note) as lease:
            lease.check()
            garbage = find_garbage(out)
            _remove(out, garbage, lease.glance)
    values = _values(out, garbage, is_dry=arguments.dry_run)
    _print_removal(values)
    print_json(values)
    return 0


def _remove(out: Folder, garbage: Garbage, check: Callable[[], None]) -> None:
    for name in garbage.all:
        check()
        out.remove(name)


def _values(out: Folder, garbage: Garbage, *, is_dry: bool) -> dict[str, Any]:
    return {
        "status": "planned" if is_dry else "removed",
        "output": out.url,
        "removed": {
            "records": len(garbage.records) + len(garbage.last),
            "files": len(garbage.files),
            "bytes": garbage.num_bytes,
        },
        "kept": {"bytes": garbage.named_bytes},
        "files": list(garbage.all),
    }


def _print_removal(values: Mapping[str, Any]) -> None:
    for name in values["files"]:
        print(name, file=sys.stderr)
    removed = values["removed"]
    word = "would free " if values["status"] == "planned" else "removed    "
    print(f"output      {values['output']}", file=sys.stderr)
    print(
        f"{word} {removed['records']:,} records, {removed['files']:,} other files, "
        f"{removed['bytes']:,} bytes",
        file=sys.stderr,
    )
