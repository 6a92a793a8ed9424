"""The code of the function of a source: read beside the recipe, and loaded where it runs.

A plan has the text of the files, and a worker executes this text: it needs no folder that the
nodes share, and a file that is changed while a job runs has no effect on it.
"""

import functools
import importlib
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from nanotok_ray.errors import SourceError
from nanotok_ray.filters import BatchFunction
from nanotok_ray.formats import CodeFile, Transform, sha256_of
from nanotok_ray.recipe import SourceRecipe

MAX_CODE_BYTES: Final = 1 << 18
"""Limit of the files of a function together, which travel with every task."""


def transform_of(source: SourceRecipe) -> Transform | None:
    """Return the function of a source with its code, or None if it has none.

    Raises:
        SourceError: A file cannot be read, or the files are too large.
    """
    if source.transform is None:
        return None
    module, _, function = source.transform.rpartition(":")
    if not module.endswith(".py"):
        return Transform(
            module=module, function=function, columns=source.columns, version=source.version
        )
    path = Path(module)
    if path.stem in sys.stdlib_module_names:
        raise SourceError(
            f"source.{source.name}.transform: {path.name} has the name of a module of Python; "
            "rename the file"
        )
    files = tuple(_code_files(path, source))
    return Transform(module=path.stem, function=function, columns=source.columns, files=files)


def _code_files(module: Path, source: SourceRecipe) -> Iterator[CodeFile]:
    num_bytes = 0
    for name in dict.fromkeys((module.name, *source.depends)):
        path = module.parent / name
        key = f"source.{source.name}.{'transform' if name == module.name else 'depends'}"
        try:
            text = path.read_bytes().decode()
        except OSError as error:
            raise SourceError(f"{key}: cannot read {path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SourceError(
                f"{key}: {path} is not UTF-8 text at byte {error.start}; install binary files with "
                "a package, and set version"
            ) from error
        num_bytes += len(text.encode())
        if num_bytes > MAX_CODE_BYTES:
            raise SourceError(
                f"{key}: the files have more than {MAX_CODE_BYTES:,} bytes with {path}; install "
                "them as a package on every node, and set transform to its module, and version"
            )
        yield CodeFile(name=name, sha256=sha256_of(text.encode()), text=text)


_LOCK = threading.Lock()


def load_function(transform: Transform) -> BatchFunction:
    """Import the module of a function, unless this process has done so, and return the function.

    Raises:
        SourceError: The module cannot be imported, or lacks the function.
    """
    with _LOCK:  # several files are read in threads
        return _loaded(transform)


@functools.lru_cache(maxsize=8)
def _loaded(transform: Transform) -> BatchFunction:
    try:
        has_files = bool(transform.files)
        function = (_from_files if has_files else _from_package)(transform)
        for name in transform.function.split("."):
            function = getattr(function, name)
    except Exception as error:  # the code can raise any
        advice = "" if transform.files else "; install its package on every node"
        raise SourceError(
            f"transform = {transform.name!r} cannot be imported: {last_line(error)}{advice}"
        ) from error
    if not callable(function):
        raise SourceError(f"transform = {transform.name!r} is {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def _from_package(transform: Transform) -> Any:  # noqa: ANN401 - a module
    return importlib.import_module(transform.module)


def _from_files(transform: Transform) -> Any:  # noqa: ANN401 - a module
    """Import the module and those in `depends` from a folder that exists while they are imported.

    A worker can end without a chance to remove a folder.
    """
    _forget(_module_names(transform.files))
    with tempfile.TemporaryDirectory(prefix="nanotok-transform-") as folder:
        for file in transform.files:
            path = Path(folder, file.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.text.encode())
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            modules = [importlib.import_module(name) for name in _imported(transform.files)]
        finally:
            sys.path.remove(folder)
    return modules[0]


def _imported(files: Sequence[CodeFile]) -> Iterator[str]:
    for file in files:
        if file.name.endswith(".py"):
            yield file.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _module_names(files: Sequence[CodeFile]) -> Iterator[str]:
    for file in files:
        first, slash, _ = file.name.partition("/")
        yield first if slash else first.removesuffix(".py")


def _forget(names: Iterator[str]) -> None:
    """Remove modules from those that are imported: another version can have the same names."""
    chosen = set(names)
    for name in [name for name in sys.modules if name.partition(".")[0] in chosen]:
        del sys.modules[name]


def last_line(error: BaseException) -> str:
    """Return the last line of the traceback of an error.

    >>> last_line(ValueError("no such language"))
    'ValueError: no such language'
    """
    return "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
