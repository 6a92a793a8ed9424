"""Prepares a recipe for submission, and refuses paths that refer to other files on the cluster.

The input is the file of a recipe, the arguments of the command line, and the variables of the job.
The output is a `Submission`.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nanotok_ray.errors import RecipeError
from nanotok_ray.formats import MANIFEST_NAME, TOKENIZER_FOLDER, sha256_of
from nanotok_ray.recipe import Recipe, build_recipe
from nanotok_ray.recipe.text import (
    absolute_path,
    apply_override,
    decoded,
    expand_variables,
    read_recipe,
    tables_of,
)
from nanotok_ray.sources import transform_of
from nanotok_ray.tokenizer import READABLE_NAME
from nanotok_ray.units import is_secret

MODULES = {
    "prepare": "jobs.prepare",
    "train": "jobs.train_tokenizer",
    "tokenize": "jobs.tokenize_corpus",
}
"""The module of each job, which the driver runs."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_VARIABLE = re.compile(r"\$?\$\{([A-Za-z_][A-Za-z0-9_]*)")


Tables = dict[str, Any]
"""The tables of a recipe in TOML."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """A recipe that is ready for submission."""

    base_id: str
    """Identifies the values below: the id of the first attempt; later attempts append `-2`, `-3`,
    ...
    """
    entrypoint: str
    """The command of the driver, for a shell."""
    files: Mapping[str, bytes]
    """All files of the working directory: the recipe, and the functions of sources beside it."""
    variables: Mapping[str, str]
    """Environment of the job."""
    digest: str
    """Hash of the values above and of the output, in hex."""
    output: str = ""
    """The folder of the output: a path or URL."""
    last_file: str = MANIFEST_NAME
    """The name of the file in the output that the job writes last."""
    sources: tuple[str, ...] = ()
    """The names of the sources in the order of the recipe."""
    notes: tuple[str, ...] = ()
    """Values that can have another meaning on the cluster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCommand:
    """The command of a job, without its recipe."""

    job: str
    """prepare, train or tokenize."""
    overrides: Sequence[str] = ()
    """The values of --set."""
    also: str | None = None
    """The value of --also."""
    flags: Sequence[str] = ()
    """Other flags, which are passed to the job unchanged."""

    def all_overrides(self) -> list[str]:
        """Return the overrides with that of `also`."""
        sizes = [] if self.also is None else [f"tokenizer.also={json.dumps(self.also.split(','))}"]
        return [*self.overrides, *sizes]

    def last_file(self) -> str:
        """Return the name of the file in the output that the job writes last."""
        return f"{TOKENIZER_FOLDER}/{READABLE_NAME}" if self.job == "train" else MANIFEST_NAME

    def entrypoint(self, recipe: str) -> str:
        """Return the command for a shell."""
        command = ["python", "-m", MODULES[self.job], recipe]
        command += [part for override in self.overrides for part in ("--set", override)]
        command += [] if self.also is None else ["--also", self.also]
        return shlex.join([*command, *self.flags])


def ship(
    path: str, command: JobCommand, *, variables: Mapping[str, str], environment: Mapping[str, str]
) -> Submission:
    """Read and check a recipe, and return its submission.

    Args:
        path: a local TOML file.
        command: the command of the job.
        variables: the environment variables of the job.
        environment: those of this process, of which the job gets none.

    Raises:
        RecipeError: The recipe is invalid, or contains a relative path or a variable that the job
            does not get.
    """
    data, tables = _read(path, command.all_overrides())
    recipe = _checked(path, tables, variables)
    _check_paths(path, tables, variables)
    name = f"{_slug(path)}.toml"
    entrypoint = command.entrypoint(name)
    code = _code_files(path, recipe, tables)
    values = [data.decode(), entrypoint, recipe.output.path, sorted(variables.items())]
    if code:
        values.append(sorted((name, sha256_of(text)) for name, text in code.items()))
    digest = hashlib.sha256(json.dumps(values).encode()).hexdigest()
    return Submission(
        base_id=f"nanotok-{_slug(path)}-{digest[:12]}",
        entrypoint=entrypoint,
        files={name: data, **code},
        variables=dict(variables),
        digest=digest,
        output=recipe.output.path,
        last_file=command.last_file(),
        sources=tuple(source.name for source in recipe.sources),
        notes=tuple(_notes(tables, variables, environment)),
    )


def check_id(submission_id: str) -> str:
    """Return an id that is valid in the name of a log file and in a URL.

    Raises:
        RecipeError: The id is not valid.
    """
    if not _ID.fullmatch(submission_id):
        raise RecipeError(
            f"--submission-id {submission_id!r} is not a valid id; use up to 128 letters, digits "
            "and . _ -, a letter or digit first"
        )
    return submission_id


def variables_of(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Parse --env: NAME=VALUE, or NAME for its value in this process.

    Raises:
        RecipeError: An argument is neither.

    >>> variables_of(["A=1=2", "HOME"], {"HOME": "/root"})
    {'A': '1=2', 'HOME': '/root'}
    """
    variables = {}
    for item in arguments:
        name, equals, value = item.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise RecipeError(f"--env {item!r} is not of the form NAME=VALUE")
        if not equals and name not in environment:
            raise RecipeError(f"--env {name}: it is not set here; write --env {name}=VALUE")
        variables[name] = value if equals else environment[name]
    return variables


def _read(path: str, overrides: Sequence[str]) -> tuple[bytes, Tables]:
    data = read_recipe(path)
    tables = tables_of(decoded(data, name=path), name=path)
    for override in overrides:
        apply_override(tables, override)
    return data, tables


def _checked(path: str, tables: Tables, variables: Mapping[str, str]) -> Recipe:
    try:
        return build_recipe(tables, environment=variables, folder=str(Path(path).parent))
    except RecipeError as error:
        text = str(error)
        if "environment variable" in text:
            text += " (the job gets no variable of this shell: --env NAME=VALUE passes one on)"
        raise RecipeError(f"{path}: {text}") from error


def _code_files(path: str, recipe: Recipe, tables: Tables) -> dict[str, bytes]:
    """Return the files of the functions of sources that are beside the recipe.

    Raises:
        RecipeError: A function is in a file of another folder, with a relative path.
        SourceError: A file cannot be read.
    """
    folder, code = Path(path).parent.absolute(), dict[str, bytes]()
    for source, table in zip(recipe.sources, tables["source"], strict=True):
        file = Path((source.transform or "").rpartition(":")[0])
        if file.suffix != ".py" or table["transform"].startswith(("/", "~")):
            continue
        transform = transform_of(source)
        if file.parent != folder or transform is None:
            raise RecipeError(
                f"{path}: source.{source.name}.transform = {table['transform']!r} is in another "
                "folder than the recipe; move the file beside the recipe, or write its full path "
                "on the cluster"
            )
        code |= {one.name: one.text.encode() for one in transform.files}
    return code


def _check_paths(path: str, tables: Tables, variables: Mapping[str, str]) -> None:
    for key, written in _paths(tables):
        meant = str(expand_variables(written, key=key, environment=variables))
        if not (meant.startswith(("/", "~")) or absolute_path(meant) == meant):
            of = f" (from {written!r})" if written != meant else ""
            raise RecipeError(
                f"{path}: {key} = {meant!r}{of} is relative, which is another folder on the "
                f"cluster; write the full path or a URL, or --set {key}=... (--env NAME=VALUE for "
                "a variable)"
            )


_PATHS = (
    ("output", "path", None),
    ("output", "work", None),
    ("tokenizer", "path", "none"),
    ("tokenizer", "base", "none"),
)
"""Tables and keys of paths, with the value that means no path."""


def _paths(tables: Tables) -> Iterator[tuple[str, str]]:
    """Yield all strings of a validated recipe that are paths, with their keys."""
    for source in tables.get("source", []):
        paths = source["paths"]
        for item in [paths] if isinstance(paths, str) else paths:
            yield f"source.{source['name']}.paths", item
        for key in ("template", "training_template"):
            if str(source.get(key, "")).endswith(".jinja"):
                yield f"source.{source['name']}.{key}", source[key]
    for table, key, unset in _PATHS:
        if (path := tables.get(table, {}).get(key, unset)) != unset:
            yield f"{table}.{key}", path


def _notes(
    tables: Tables, variables: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[str]:
    named: dict[str, None] = {}
    for key, written in _paths(tables):
        if str(expand_variables(written, key=key, environment=variables)).startswith("~"):
            yield f"{key} = {written!r}: ~ is the home folder of the cluster's user"
        named |= dict.fromkeys(_VARIABLE.findall(written))
    for name in named:
        if name in environment and name not in variables:
            yield f"{name} is set here, but the job does not get it; --env {name} passes it on"
    for name in filter(is_secret, variables):
        yield f"{name} looks like a secret, and the dashboard shows it; give the nodes a role"


def _slug(path: str) -> str:
    r"""Return the name of a recipe in a form for ids, commands and file names.

    >>> _slug("recipes/My web (1).toml"), _slug("--.toml")
    ('My-web-1', 'recipe')
    """
    words = re.findall(r"[A-Za-z0-9_]+", Path(path).stem)
    return "-".join(words)[:40].strip("-") or "recipe"
