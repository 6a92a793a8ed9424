"""Problems of a recipe: one line for each, in the order of the file."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from nanotok_ray.errors import RecipeError
from nanotok_ray.units import did_you_mean

Location = tuple[int | str, ...]
"""The location of a value in the tables, such as ("source", 0, "split")."""

KEYS: Final[dict[str, tuple[str, ...]]] = {}
"""The keys of each table by its name; for the empty name, the names of the tables."""

OVERRIDDEN: Final = 10**9
"""The line of a value that an override has set, which is after all lines of the file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A wrong value: its location and the whole message."""

    location: Location
    message: str


class SeveralProblemsError(ValueError):
    """Several problems, raised by the validator of a whole recipe."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__()
        self.problems = tuple(problems)


def problems_of(error: ValidationError, tables: Any, prefix: Location = ()) -> list[Problem]:  # noqa: ANN401 - unchecked tables
    """Return the problems that pydantic found, with messages of this project.

    Args:
        error: the exception of pydantic.
        tables: the validated values, inside the tables of a whole recipe.
        prefix: their location.
    """
    problems: list[Problem] = []
    for line in error.errors(include_url=False):
        cause = line.get("ctx", {}).get("error")
        if isinstance(cause, SeveralProblemsError):
            problems += cause.problems
        elif line["type"] != "default_factory_not_called":  # a consequence of another problem
            location = tuple("source" if part == "sources" else part for part in line["loc"])
            location = (*prefix, *location)
            problems.append(Problem(location, _message(line, location, tables, cause)))
    return problems


_TYPES = {
    "string_type": "is not a string; put it in quotes",
    "bool_type": "is neither true nor false; write one of them, without quotes",
    "float_type": "is not a number; write one without quotes, such as 0.001",
}
"""Messages of pydantic's types of errors."""


def _message(line: Any, location: Location, tables: Any, cause: object) -> str:  # noqa: ANN401 - pydantic's and TOML's
    key = key_of(location, tables)
    table, _, name = key.rpartition(".")
    match line["type"]:
        case "extra_forbidden":
            keys = KEYS[str(location[0]) if table else ""]
            hint = did_you_mean(name, keys) or f"the keys are {', '.join(keys)}"
            where = f"in [{table}]" if table else "at the top level"
            message = f"unknown key {name!r} {where}; {hint}"
        case "missing":
            message = f"{key} is missing; add " + (f"a line {name} = ..." if table else f"[{name}]")
        case "value_error":
            message = f"{key}{cause}"
        case "literal_error":
            choices = re.findall(r"'([^']+)'", line["ctx"]["expected"])
            message = f"{key}{no_choice(line['input'], choices)}"
        case kind if kind in _TYPES:
            message = f"{key} = {line['input']!r} {_TYPES[kind]}"
        case _ if location[0] == "source":
            message = "source is not a list of tables; begin each source with [[source]]"
        case _:
            message = f"{key} = {line['input']!r} is not a table; write [{name}] above its keys"
    return message


NAME_OF_SOURCE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def key_of(location: Location, tables: Any) -> str:  # noqa: ANN401 - unchecked tables
    """Return the name of a value in messages; a source with a valid name is called by it.

    >>> key_of(("source", 0, "split"), {"source": [{"name": "web"}]})
    'source.web.split'
    """
    sources = sources_of(tables)
    index = location[1] if location[0] == "source" and len(location) > 1 else None
    if not isinstance(index, int) or index >= len(sources):
        return ".".join(map(str, location))
    source = sources[index]
    name = source.get("name") if isinstance(source, Mapping) else getattr(source, "name", None)
    if isinstance(name, str) and NAME_OF_SOURCE.fullmatch(name):
        table = f"source.{name}"
    else:
        table = f"source[{index}]" if len(sources) > 1 else "source"
    return ".".join([table, *map(str, location[2:3])])


def sources_of(tables: Any) -> Sequence[Any]:  # noqa: ANN401 - unchecked tables
    """Return the list of sources by its name in TOML or in Python; empty if there is none."""
    for name in ("source", "sources"):
        if isinstance(tables, Mapping) and isinstance(tables.get(name), list | tuple):
            return tables[name]  # type: ignore[no-any-return]
    return ()


def no_choice(value: object, choices: Collection[str]) -> str:
    """Return the problem of a value that is not among the choices, or an empty string."""
    if value in choices:
        return ""
    step = did_you_mean(str(value), choices) or "use one of them"
    return f" = {value!r} is none of {', '.join(map(repr, choices))}; {step}"


def refusal(
    problems: Iterable[Problem], *, lines: Mapping[Location, int] | None = None
) -> RecipeError:
    """Return the error with all problems, one for each key, in the order of the file.

    Args:
        problems: at least one.
        lines: the lines of the values in the text of the recipe, from `lines_of`.
    """
    first: dict[Location, Problem] = {}
    for problem in problems:
        first.setdefault(problem.location, problem)
    numbered = sorted(
        ((_line_of(problem.location, lines or {}), problem) for problem in first.values()),
        key=lambda pair: pair[0],
    )
    messages = [f"{problem.message}{_suffix(line)}" for line, problem in numbered]
    if len(messages) == 1:
        return RecipeError(messages[0])
    return RecipeError("\n  ".join([f"{len(messages)} problems", *messages]))


def _line_of(location: Location, lines: Mapping[Location, int]) -> int:
    """Return the line of a value or of the table that lacks it; 0 if neither is in the text."""
    parents = (location[:length] for length in range(len(location), 0, -1))
    return next((lines[parent] for parent in parents if parent in lines), 0)


def _suffix(line: int) -> str:
    return " (--set)" if line == OVERRIDDEN else f" (line {line})" if line else ""


_HEADER = re.compile(r"\s*(\[\[?)\s*(\w+)\s*\]")
_KEY = re.compile(r"\s*([\w-]+)\s*=")


def lines_of(text: str) -> dict[Location, int]:
    r"""Return the number of the line of each table and key, counted from 1.

    >>> lines_of("[output]\npath = 3")
    {('output',): 1, ('output', 'path'): 2}
    """
    lines: dict[Location, int] = {}
    sources: Counter[str] = Counter()
    table: Location = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            name = header[2]
            table = (name, sources[name]) if header[1] == "[[" else (name,)
            sources[name] += 1
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, key[1]), number)
    return lines
