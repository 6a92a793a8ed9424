"""A file that is written whole, as Arrow's writers want it. Does not know what they write."""

from typing import TYPE_CHECKING

from nanotok_ray.storage.local import WholeFile

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_sink(file: WholeFile) -> "pa.NativeFile":
    """Give what Arrow writes to; closing it leaves the file open, to be published by its opener."""
    import pyarrow as pa  # noqa: PLC0415 - storage is used without it

    return pa.PythonFile(_Sink(file), mode="w")


class _Sink:
    closed = False

    def __init__(self, file: WholeFile) -> None:
        self._file = file
        self.write = file.write

    def tell(self) -> int:
        return self._file.size

    def flush(self) -> None:
        """What is written is there when the file is."""

    def close(self) -> None:
        """The file ends where it was opened."""
