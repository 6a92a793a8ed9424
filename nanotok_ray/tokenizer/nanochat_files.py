"""The two files of nanochat's tokenizer folder, written without tiktoken and without torch.

tokenizer.pkl is a pickled `tiktoken.core.Encoding`, byte for byte what nanochat writes.
token_bytes.pt is what `torch.save` makes of a tensor: the number of bytes of each id, int32, 0 for
special tokens. Both depend on the model alone. Reads neither, as a pickle can run code.
"""

import io
import pickle
import struct
import zipfile
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.pickle_writer import Value, is_pickled_instance, pickle_instance

ENCODING_NAME = "rustbpe"
"""The name that nanochat gives its tiktoken encoding."""

_CLASS: Final = ("tiktoken.core", "Encoding")
_DATE = (1980, 1, 1, 0, 0, 0)
_LOCAL_HEADER_BYTES = 30
_ALIGNMENT = 64
"""torch maps the storage into memory at multiples of this."""


def to_pickle(model: Model) -> bytes:
    """Give tokenizer.pkl.

    Raises:
        TokenizerError: Two ids stand for the same bytes.
    """
    return pickle_instance(*_CLASS, state=_state(model, model.ranks()))


def is_pickle_of(data: bytes, model: Model) -> bool:
    """Tell whether `data` is tokenizer.pkl of this model, as it is written here and by nanochat.

    A pickle that says the same in other words is not recognised. Nothing of it is read.
    """
    ranks = {token: number for number, token in enumerate(model.tokens)}
    return is_pickled_instance(data, *_CLASS, state=_state(model, ranks))


def _state(model: Model, ranks: Mapping[bytes, int]) -> dict[str, Value]:
    return {
        "name": ENCODING_NAME,
        "pat_str": model.pattern,
        "mergeable_ranks": ranks,
        "special_tokens": dict(model.special_tokens),
    }


def to_token_bytes(model: Model) -> bytes:
    """Give token_bytes.pt."""
    return save_tensor(model.token_lengths())


def save_tensor(values: NDArray[np.int32]) -> bytes:
    """Give the file of a 1-D int32 tensor, as `torch.load` reads it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "archive/data.pkl", _tensor_pickle(len(values)))
        _add(archive, "archive/byteorder", b"little")
        _add(archive, "archive/data/0", values.astype("<i4").tobytes(), align=True)
        _add(archive, "archive/version", b"3\n")
    return file.getvalue()


def _add(archive: zipfile.ZipFile, name: str, data: bytes, *, align: bool = False) -> None:
    entry = zipfile.ZipInfo(name, date_time=_DATE)
    entry.create_system = 0
    if align:
        assert archive.fp is not None
        start = archive.fp.tell() + _LOCAL_HEADER_BYTES + len(name) + 4
        padding = -start % _ALIGNMENT
        entry.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    archive.writestr(entry, data)


def _tensor_pickle(size: int) -> bytes:
    """Give the call that rebuilds the tensor: its storage is the entry data/0.

    torch._utils._rebuild_tensor_v2(storage 0, 0, (size,), (1,), False, OrderedDict())
    """
    length = pickle.BININT + struct.pack("<i", size)
    storage = b"".join(
        [
            pickle.MARK,
            _unicode("storage"),
            _global("torch", "IntStorage"),
            _unicode("0"),
            _unicode("cpu"),
            length,
            pickle.TUPLE + pickle.BINPERSID,
        ]
    )
    arguments = b"".join(
        [
            storage,
            pickle.BININT1 + b"\x00",
            length + pickle.TUPLE1,
            pickle.BININT1 + b"\x01" + pickle.TUPLE1,
            pickle.NEWFALSE,
            _global("collections", "OrderedDict") + pickle.EMPTY_TUPLE + pickle.REDUCE,
        ]
    )
    call = _global("torch._utils", "_rebuild_tensor_v2") + pickle.MARK + arguments
    return pickle.PROTO + b"\x02" + call + pickle.TUPLE + pickle.REDUCE + pickle.STOP


def _unicode(text: str) -> bytes:
    return pickle.BINUNICODE + struct.pack("<I", len(text)) + text.encode("ascii")


def _global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode("ascii")
