"""One file of a record: has it the size and the bytes that the record says?

Takes what the record says of the file. Generators give the problems found, and what they return
says whether there were none.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.storage import Folder
from nanotok_ray.verify.file_check import Kept, Use, read_once
from nanotok_ray.verify.record import size_problem


def _check_bytes(folder: Folder, file: Mapping[str, Any], use: Use) -> Iterator[str]:
    """Read a file and compare size and sha256; `use` sees its bytes too."""
    name = file["name"]
    try:
        size, sha256 = read_once(folder, name, most=file["size"], use=use)
    except FileNotFoundError:
        yield from size_problem(file, None)
        return
    except CorruptOutputError as error:
        yield str(error)
        return
    if size != file["size"]:
        yield from size_problem(file, folder.size(name))
    elif sha256 != file["sha256"]:
        yield f"{name} has another sha256 than its record says: its bytes were changed"


def is_whole(folder: Folder, file: Mapping[str, Any], use: Use) -> Generator[str, None, bool]:
    """Tell whether a file has the bytes that its record says; `use` sees them."""
    problems = list(_check_bytes(folder, file, use))
    yield from problems
    return not problems


def kept_bytes(
    folder: Folder, file: Mapping[str, Any]
) -> Generator[str, None, npt.NDArray[np.uint8] | None]:
    """Give the bytes of a file, None after problems."""
    seen = Kept()
    if not (yield from is_whole(folder, file, seen)):
        return None
    return np.frombuffer(seen.data, dtype=np.uint8)
