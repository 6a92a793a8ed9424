"""What every node must see as the driver of the job sees it.

These are folders, files of the sources, and the library that encodes. A probe is a file with a
random token, and an answer is a file that another node writes beside it. Of each source, a node
opens a few files.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING

from nanotok_ray.errors import (
    NodeError,
    SharedFolderError,
    TransientIOError,
    UnsafeStoreError,
)
from nanotok_ray.formats import is_local
from nanotok_ray.job.task import SharedFolder, SharedLibrary
from nanotok_ray.storage import Folder, unreadable

if TYPE_CHECKING:
    from nanotok_ray.formats import PlannedSource, SourceFile
    from nanotok_ray.sources import Plan

WAITS = (0.0, 0.5, 1.0, 2.0)
"""Seconds before each read: a network file system can show a new file with a delay."""

OUTPUT_PROBES = "run/probe"
"""Where probes are written in an output folder."""

WORK_PROBES = "probe"
"""Where probes are written in a work folder."""


def what_to_do(folder: str) -> str:
    """Return the advice for a folder that a node does not see.

    >>> what_to_do("s3://bucket/out")
    'check its address, and the credentials and the network of every node'
    """
    if "://" in folder:
        return "check its address, and the credentials and the network of every node"
    return (
        "use a path that is mounted on every node, or a URL such as s3://bucket/folder, and "
        "credentials for it on every node"
    )


@dataclass(frozen=True, slots=True)
class Probe:
    """A file that was written into a shared folder."""

    folder: str
    """URL of the shared folder."""
    name: str
    token: str
    waits: tuple[float, ...] = WAITS
    """Seconds before each look at the file."""

    def answer_name(self, node: str) -> str:
        """Return the name of the file that a node answers with."""
        return f"{self.name}-{node}"


SOURCE_FILES, MAX_SOURCE_FILES = 3, 60
"""The number of files of each source that a node opens; one if all together would be more."""

OPENERS = 8
"""Threads that open them."""


@dataclass(frozen=True, slots=True)
class SharedSource:
    """Some files of a source, which every node must see as the driver sees them."""

    name: str
    files: "tuple[SourceFile, ...]"

    def problem(self) -> str | None:
        """Return the problem with the first file that this process cannot open, or None.

        Raises:
            TransientIOError: storage failed in a way that may pass.
        """
        with ThreadPoolExecutor(OPENERS) as pool:
            return next(filter(None, pool.map(_problem_of, self.files)), None)


def shared_sources(plan: "Plan") -> tuple[SharedSource, ...]:
    """Return the first, the middle and the last file of each source, or the first of many sources.

    Their number depends on the sources alone, as each costs every node a request.
    """
    number = SOURCE_FILES if SOURCE_FILES * len(plan.sources) <= MAX_SOURCE_FILES else 1
    return tuple(
        SharedSource(source.name, tuple(_some_files(source, number))) for source in plan.sources
    )


def _some_files(source: "PlannedSource", number: int) -> "Iterator[SourceFile]":
    last, parts = len(source.files) - 1, max(1, number - 1)
    indexes = {last * part // parts for part in range(number)} if source.files else set()
    for index in sorted(indexes):
        yield source.files[index]


def _problem_of(file: "SourceFile") -> str | None:
    from nanotok_ray.sources.stored import open_planned  # noqa: PLC0415 - most processes need none

    try:
        open_planned(file).close()
    except TransientIOError:
        raise
    except OSError as error:
        return unreadable(file.url, error)
    except Exception as error:  # packages of stores raise many classes of errors
        return str(error) or type(error).__name__
    return None


def output_folder(url: str) -> tuple[SharedFolder, ...]:
    """Return an output folder as one that every node must see."""
    return (SharedFolder(url=Folder(url).url, probes=OUTPUT_PROBES),)


def work_folder(url: str) -> tuple[SharedFolder, ...]:
    """Return a work folder as one that every node must see."""
    return (SharedFolder(url=Folder(url).url, probes=WORK_PROBES),)


def shared_folders(output: str, work: str) -> tuple[SharedFolder, ...]:
    """Return output and work folder as folders that every node must see."""
    return output_folder(output) + work_folder(work)


Shared = SharedFolder | SharedSource | SharedLibrary
"""What every node must see."""

Required = Probe | SharedLibrary
"""What a worker checks before a task."""


@contextmanager
def probes_in(
    shared: Iterable[SharedFolder], *, waits: tuple[float, ...] = WAITS
) -> Iterator[Sequence[Probe]]:
    """Keep a probe in each folder while the block runs.

    If the block raises an error, local folders that were created for the probes are removed, unless
    they hold something else.

    Args:
        shared: the folders.
        waits: seconds before each look at a probe.
    """
    probes: list[Probe] = []
    created: list[Path] = []
    try:
        for folder in sorted(set(shared), key=lambda folder: (folder.url, folder.probes)):
            token = secrets.token_hex(16)
            name = f"{folder.probes}/{token[:12]}"
            probe = Probe(folder=folder.url, name=name, token=token, waits=waits)
            probes.append(probe)
            created += missing_folders(Folder(probe.folder), name)
            Folder(probe.folder).write_bytes(name, token.encode())
        yield tuple(probes)
        created.clear()
    finally:
        for probe in probes:
            remove(probe, probe.name)
        remove_empty(created)


def missing_folders(folder: Folder, name: str) -> list[Path]:
    """Return the local folders of a file that do not exist yet, the deepest first."""
    path = folder.local_path(name)
    missing: list[Path] = []
    for parent in Path(path).parents if path is not None else ():
        if parent.exists():
            break
        missing.append(parent)
    return missing


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders that are empty, in their order."""
    for path in folders:
        with suppress(OSError):  # not empty, since another process uses it
            path.rmdir()


def store_risk(out: Folder, *, is_accepted: bool) -> str | None:
    """Return the risk of an output in a store that ignores conditions of writes, otherwise None.

    Local file systems are not tried: a hard link never replaces a file.

    Args:
        out: the output folder.
        is_accepted: whether the recipe accepts the risk (`output.unsafe_store`).

    Raises:
        UnsafeStoreError: the store ignores the condition, and the risk is not accepted.
        OSError: the store cannot be used.
    """
    if is_local(out.url) or refuses_taken_names(out, OUTPUT_PROBES):
        return None
    risk = ignores_conditions(out.url)
    if is_accepted:
        return f"{risk}; never start two runs on this output at the same time"
    raise UnsafeStoreError(
        f"{risk}. Use a store that checks If-None-Match (docs/storage.md), or if only one run at a "
        "time will ever use this output, set output.unsafe_store = true"
    )


def ignores_conditions(url: str) -> str:
    """Return the text on a store that does not refuse taken names."""
    return (
        f"the store of {url} ignores conditional writes: it created a probe twice, each time only "
        "if its name was free, so two runs can both hold the lease, and a late attempt can replace "
        "a shard"
    )


def refuses_taken_names(folder: Folder, prefix: str) -> bool:
    """Return whether a store refuses to create an object whose name is taken.

    Two threads create one probe below a prefix with different bytes, since some stores look for the
    name before they write. It is removed.

    Raises:
        OSError: the store cannot be used.
    """
    tokens = secrets.token_bytes(16), secrets.token_bytes(16)
    name = f"{prefix}/{secrets.token_hex(6)}"
    try:
        with ThreadPoolExecutor(len(tokens)) as pool:
            return not all(pool.map(partial(folder.write_new, name), tokens))
    finally:
        with suppress(Exception):  # packages of stores raise many classes of errors
            folder.remove(name)


def problem_with(
    probe: Probe, name: str | None = None, *, sleep: Callable[[float], None] = time.sleep
) -> str | None:
    """Return the problem with the file of a probe or its answer, or None if the file is correct.

    Args:
        probe: the probe.
        name: the name of the answer; None: the probe itself.
        sleep: the function that waits before each read of the file.

    Raises:
        TransientIOError: storage failed in a way that may pass.
    """
    problem: str | TransientIOError | None = None
    for wait in probe.waits:
        sleep(wait)
        problem = _look(probe, name or probe.name)
        if problem is None:
            return None
    if isinstance(problem, TransientIOError):
        raise problem
    return problem


@lru_cache(maxsize=64)
def see(required: Required) -> None:
    """Check, once for each process, that the process sees what the driver wrote, or has a library.

    Raises:
        SharedFolderError: the process does not see the file.
        NodeError: the process does not have the library, or has another version.
        TransientIOError: storage failed in a way that may pass.
    """
    if isinstance(required, SharedLibrary):
        if (lack := required.problem()) is not None:
            raise NodeError(f"{lack}; {required.what_to_do}")
        return
    probe, problem = required, problem_with(required)
    if problem is not None:
        raise SharedFolderError(
            f"{probe.folder} is not one folder for all nodes: a worker on {gethostname()} does not "
            f"see what the job wrote there ({problem}); {what_to_do(probe.folder)}"
        )


def answer(asked: Sequence[Required | SharedSource], node: str) -> list[str | None]:
    """Answer probes, open sources and look for libraries as a node; return each problem, or None.

    Raises:
        TransientIOError: storage failed in a way that may pass.
    """
    return [_answer(item, node) if isinstance(item, Probe) else item.problem() for item in asked]


def remove(probe: Probe, name: str) -> None:
    """Remove a probe or an answer; errors of storage, such as a missing file, are ignored."""
    with suppress(OSError):
        Folder(probe.folder).remove(name)


def _answer(probe: Probe, node: str) -> str | None:
    try:
        problem = problem_with(probe)
        if problem is None:
            folder = Folder(probe.folder)
            folder.write_bytes(probe.answer_name(node), probe.token.encode())
    except TransientIOError:
        raise
    except Exception as error:  # packages of stores raise many classes of errors
        return f"{type(error).__name__}: {error}"
    return problem


def _look(probe: Probe, name: str) -> str | TransientIOError | None:
    where = f"{probe.folder}/{name}"
    try:
        token = Folder(probe.folder).read_bytes(name).decode(errors="replace")
    except TransientIOError as error:
        return error
    except Exception as error:  # as above; a missing package or credential of a store too
        return f"{where}: {type(error).__name__}"
    return None if token == probe.token else f"{where} holds something else"
