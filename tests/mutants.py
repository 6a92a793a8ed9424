"""Apply small changes to the product, one at a time, and list those that no test detects.

    python -m tests.mutants --seed 1 --count 200 --packages job counts --seconds 60 --output FILE

A mutant is one changed expression or statement of `nanotok_ray/PACKAGE`, applied in a copy of the
tree, where `tests/PACKAGE` runs without Ray until a test fails, for a limited time in seconds of a
quiet machine. If the test that runs at the limit passes alone, the outcome is a timeout: the
mutant survived. A run continues its output. With `--previous` the mutants of an output are
repeated, first with the tests that killed them.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.machine_speed import scaled

ROOT = Path(__file__).parents[1]
PAIRS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.In, ast.NotIn), (ast.Mult, ast.FloorDiv),
    (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.And, ast.Or), (ast.Add, ast.Sub))  # fmt: skip
OPERATORS: dict[type[Any], Any] = {**dict(PAIRS), **{b: a for a, b in PAIRS}}
STATEMENTS = {"Continue": "break", "Break": "continue", "Return": "return None", "Expr": "pass"}
LEFT_ALONE = re.compile(r"(?s)f['\"].*|return( None)?|if TYPE_CHECKING:.*|__all__ =.*|_?log\..*")
OUTCOMES, TIME_IS_UP = ("killed", "survived", "timeout", "absent"), -9
PACKAGES = ["job", "counts", "shards", "sources", "loader"]
IGNORED = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "target", ".*cache")


class Mutant(NamedTuple):
    """A change of the product: the `nth` occurrence in its file of this change of text."""

    package: str
    file: str
    kind: str
    before: str
    after: str
    nth: int


@cache
def sites(root: Path, package: str) -> dict[Mutant, tuple[int, int]]:
    """Return line and column of all mutants of a package, except those of `__init__.py`."""
    found: dict[Mutant, tuple[int, int]] = {}
    for path in sorted((root / "nanotok_ray" / package).rglob("[!_]*.py")):
        source, file = path.read_text(), path.relative_to(root).as_posix()
        for node, kind, after in _changes(ast.parse(source)):
            before = ast.get_source_segment(source, node) or ""
            mutant = Mutant(package, file, kind, before, after, 1)
            while mutant in found:
                mutant = mutant._replace(nth=mutant.nth + 1)
            found[mutant] = node.lineno, node.col_offset
    return found


def _changes(node: ast.AST, parent: ast.AST | None = None) -> Iterator[tuple[Any, str, str]]:
    """Yield the changes of a node and its children, except messages, annotations and decorators."""
    if isinstance(node, (ast.stmt, ast.JoinedStr)) and LEFT_ALONE.fullmatch(ast.unparse(node)):
        return
    kind = "default" if isinstance(parent, ast.arguments) else type(node).__name__
    yield from ((node, kind, after) for after in _texts(node))
    for field in ("annotation", "returns", "decorator_list"):
        vars(node).pop(field, None)
    for part in ast.iter_child_nodes(node):
        yield from _changes(part, node)


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the replacements of a node itself."""
    operators = getattr(node, "ops", [getattr(node, "op", None)])
    values = [getattr(part, "value", part) for part in ast.iter_child_nodes(node)]
    is_text = any(isinstance(value, (str, ast.JoinedStr)) for value in values)
    for index, operator in enumerate(operators):
        if type(operator) in OPERATORS and not (isinstance(operator, ast.Add) and is_text):
            changed, op = copy(node), OPERATORS[type(operator)]()
            vars(changed).update(op=op, ops=[*operators[:index], op, *operators[index + 1 :]])
            text = ast.unparse(changed)
            yield f"({text})" if isinstance(node, ast.expr) else text
    match node:
        case ast.UnaryOp(ast.Not(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(int(value)):  # also True and False
            yield str(not value if isinstance(value, bool) else value + 1)
        case ast.Expr(ast.Call()) | ast.Return() | ast.Continue() | ast.Break():
            yield STATEMENTS[type(node).__name__]


class Copy:
    """A copy of the tree, in which mutants are applied and tested."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.tree, self.seconds = folder / "tree", seconds
        subprocess.run(["git", "clone", "-nqs", ROOT, self.tree], check=True)
        shutil.copytree(ROOT, self.tree, ignore=IGNORED, dirs_exist_ok=True)
        (self.tree / ".venv").symlink_to((ROOT / ".venv").resolve())

    def run(self, tests: str, seconds: float) -> tuple[int, str]:
        """Run tests until one fails; return exit code and output. A limit of 0 is no limit."""
        command = ["timeout", "--signal=KILL", str(scaled(seconds)), sys.executable, "-m", "pytest"]
        command += ["-xvpno:cacheprovider", "-mnot ray", f"--timeout={self.seconds / 3}", tests]
        environment = os.environ | {"PYTHONPATH": str(self.tree), "TMPDIR": str(self.tree.parent)}
        log = self.tree.with_name("log.txt")
        with log.open("w") as out:
            code = subprocess.call(command, cwd=self.tree, env=environment, stdout=out, stderr=out)
        return code, log.read_text(errors="replace")

    def record(self, mutant: Mutant, number: int, first: str | None) -> dict[str, Any]:
        """Return the line of a mutant, its outcome, and the test that killed it."""
        if mutant.kind == "unchanged":
            code, text = self.run(f"tests/{mutant.package}", 0)
            return {"outcome": "unchanged"} if code == 0 else sys.exit(text)
        line, column = sites(self.tree, mutant.package).get(mutant, (0, 0))
        if not line:
            return {"outcome": "absent"}
        source = (path := self.tree / mutant.file).read_bytes()
        begin = sum(map(len, source.splitlines(keepends=True)[: line - 1])) + column
        end = begin + len(mutant.before.encode())
        path.write_bytes(source[:begin] + mutant.after.encode() + source[end:])
        os.utime(path, (number, number))  # a compiled file identifies its source by this time
        outcome, test = self._tested(f"tests/{mutant.package}", first)
        path.write_bytes(source)
        return {"line": line, "outcome": outcome, "test": test}

    def _tested(self, tests: str, first: str | None) -> tuple[str, str | None]:
        if first is not None and self._fails(first):
            return "killed", first
        code, text = self.run(tests, self.seconds)
        if code == 0:
            return "survived", None
        if code != TIME_IS_UP:
            failed = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", text, re.MULTILINE)
            return "killed", failed[1] if failed else None
        running = re.sub(r" (PASSED|SKIPPED|XFAIL).*", "", text.rsplit("\n", 1)[-1]).strip()
        return ("killed", running) if self._fails(running) else ("timeout", None)

    def _fails(self, test: str) -> bool:
        return "::" in test and self.run(test, self.seconds)[0] not in (0, 4, 5)  # 4: missing


def chosen(seed: int, count: int, names: list[str]) -> list[Mutant]:
    """Return equal numbers of mutants of every package, in turn, in an order of the seed."""
    size = count // len(names)
    samples = [random.Random(f"{seed} {name}").sample([*sites(ROOT, name)], size) for name in names]
    unchanged = [Mutant(name, "", "unchanged", "", "", 1) for name in names]
    return unchanged + [sample[index] for index in range(size) for sample in samples]


def read(path: Path) -> dict[Mutant, dict[str, Any]]:
    """Return the records of an output."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {Mutant(*list(record.values())[:6]): record for record in map(json.loads, lines)}


def table(records: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the numbers of every package, in Markdown."""
    yield f"| package | mutants | {' | '.join(OUTCOMES)} | kill rate |\n{'|---' * 7}|"
    for package in [*dict.fromkeys(record["package"] for record in records), "all"]:
        found = [record["outcome"] for record in records if package in ("all", record["package"])]
        counts = [found.count(name) for name in OUTCOMES]
        rate = counts[0] / max(sum(counts[:3]), 1)
        yield f"| {package} | {sum(counts)} | {' | '.join(map(str, counts))} | {rate:.0%} |"


def main() -> None:
    """Test the packages of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, number in (("--seed", 1), ("--count", 200), ("--seconds", 60)):
        parser.add_argument(name, type=int, default=number)
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--output", type=Path, required=True, help="JSON lines; continued")
    parser.add_argument("--previous", type=Path, default=Path(os.devnull))
    options = parser.parse_args()
    previous, records = read(options.previous), read(options.output)
    todo = list(previous) or chosen(options.seed, options.count, options.packages)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, options.output.open("a") as file:
        copied = Copy(Path(folder), options.seconds)
        for number, mutant in enumerate(todo):
            if mutant not in records:
                began, first = time.monotonic(), previous.get(mutant, {}).get("test")
                found = copied.record(mutant, number, first)
                found["seconds"] = round(time.monotonic() - began, 1)
                records[mutant] = mutant._asdict() | found
                print(json.dumps(records[mutant]), file=file, flush=True)
            print(*records[mutant].values(), flush=True)  # noqa: T201 - what it is run for
    print(*table([records[mutant] for mutant in todo]), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
