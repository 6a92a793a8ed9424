"""The folder that an export is written to, and an account of the files that were.

Takes bytes and files of the native output; publishes each file whole or not at all. Does not know
what they mean.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.export.native import NativeShard
from nanotok_ray.storage import Folder, WholeFile


class Target:
    """Writes files below one folder."""

    def __init__(self, folder: Folder) -> None:
        """Begin with no file."""
        self.folder = folder
        self._files: dict[str, dict[str, Any]] = {}

    @property
    def files(self) -> list[dict[str, Any]]:
        """Name, size and sha256 of every file that was written, by name."""
        return [self._files[name] for name in sorted(self._files)]

    @contextmanager
    def create(self, name: str) -> Iterator[WholeFile]:
        """Open a file for writing that is published when the block ends without an error."""
        with self.folder.create(name) as file:
            yield file
        self._files[name] = {"name": name, "size": file.size, "sha256": file.sha256}

    def write(self, name: str, data: bytes) -> None:
        """Publish a file at once."""
        with self.create(name) as file:
            file.write(data)

    def link(self, shard: NativeShard, suffix: str, name: str) -> None:
        """Publish a file that has the bytes of a native one.

        It is a hard link where both lie on one disk, so that it takes no room and outlives the
        native file; else a copy.

        Raises:
            CorruptOutputError: the native file is missing.
        """
        own = shard.facts.name + suffix
        try:
            size, sha256 = self.folder.take(shard.out, own, name)
        except FileNotFoundError as error:
            raise CorruptOutputError(
                f"{shard.out.join(own)} is missing; run the job again, which makes it anew"
            ) from error
        self._files[name] = {"name": name, "size": size, "sha256": sha256}
