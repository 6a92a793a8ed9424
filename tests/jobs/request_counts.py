"""Requests to an S3 server that the commands of a job make: by slice, and those of any job.

    python -m tests.jobs.request_counts [--slices 40 200] [--executor local|ray] [--checkout FOLDER]

Runs the commands in processes of their own, for a corpus of so many slices, and counts the requests
that arrive at a server in this process. The difference of two sizes gives the requests of a slice.
Another checkout of this project can run the commands, with its compiled core.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from nanotok_ray.storage import Folder
from tests.support.counted_requests import KINDS, corpus_of, kind_of
from tests.support.faulty_proxy import FaultyProxy
from tests.support.s3_server import BUCKET, s3_behind_a_proxy

RUN = "import sys; from nanotok_ray.cli import main; sys.exit(main(sys.argv[1:]))"
COMMANDS = {
    "count and learn": ("train",),
    "tokenize": ("tokenize",),
    "verify": ("verify",),
    "nothing to do": ("prepare",),
    "resume, half of the records gone": ("prepare",),
}
Rows = dict[str, dict[int, Counter[str]]]


def main() -> None:
    """Count what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--slices", type=int, nargs="+", default=[40, 200])
    parser.add_argument("--executor", choices=["local", "ray"], default="local")
    parser.add_argument("--checkout", type=Path, default=Path.cwd())
    parser.add_argument("--paths", action="store_true", help="name what is requested, too")
    options = parser.parse_args()
    rows: Rows = {name: {} for name in COMMANDS}
    with s3_behind_a_proxy() as proxy:
        for slices in options.slices:
            for name, counted in _run(proxy, slices, options).items():
                rows[name][slices] = counted
    print(_table(rows, options.slices))  # noqa: T201 - what it is run for


def _run(
    proxy: FaultyProxy, slices: int, options: argparse.Namespace
) -> Mapping[str, Counter[str]]:
    bucket = Folder(f"s3://{BUCKET}/{slices}")
    recipe = corpus_of(bucket, slices)
    counted = {}
    for name, (command,) in COMMANDS.items():
        if name.startswith("resume"):
            _remove_half(bucket)
        proxy.clear()
        _command(command, recipe, bucket, options)
        counted[name] = Counter(kind_of(method, path) for method, path, _ in proxy.requests)
        if options.paths:
            print(slices, name, json.dumps(_paths(proxy), indent=1))  # noqa: T201
    return counted


def _command(name: str, recipe: str, bucket: Folder, options: argparse.Namespace) -> None:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"requests-{os.getpid()}.toml"
    path.write_text(recipe)
    argument = bucket.join("out") if name == "verify" else str(path)
    how = ["--local", "--cpus", "2"] if options.executor == "local" and name != "verify" else []
    environment = os.environ | {"PYTHONPATH": str(options.checkout), "RAY_USAGE_STATS_ENABLED": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", RUN, name, argument, *how],
        cwd=options.checkout,
        env=environment,
        capture_output=True,
        check=False,
        text=True,
    )
    path.unlink()
    if ended.returncode:
        raise SystemExit(ended.stderr[-3000:])


def _remove_half(bucket: Folder) -> None:
    """Remove the manifest and every other record."""
    for name in bucket.list("out/records/tokenize/")[::2]:
        bucket.remove(name)
    bucket.remove("out/manifest.json")


def _paths(proxy: FaultyProxy) -> Mapping[str, int]:
    named = (
        f"{kind_of(method, path)} {re.sub(r'[0-9a-f]{8,}|[0-9]+', '#', path)[:150]}"
        for method, path, _ in proxy.requests
    )
    return dict(sorted(Counter(named).items()))


def _table(rows: Rows, sizes: Sequence[int]) -> str:
    lines = [
        "| command | " + " | ".join(f"{kind} a slice" for kind in KINDS) + " | other |",
        "|---" * (len(KINDS) + 2) + "|",
    ]
    small, large = sizes[0], sizes[-1]
    for name, found in rows.items():
        slope = {k: (found[large][k] - found[small][k]) / (large - small) for k in KINDS}
        rest = {k: found[small][k] - slope[k] * small for k in KINDS}
        other = ", ".join(f"{rest[k]:.0f} {k}" for k in KINDS)
        lines.append(
            f"| {name} | " + " | ".join(f"{slope[k]:.2f}" for k in KINDS) + f" | {other} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
