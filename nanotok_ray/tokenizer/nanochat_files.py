"""The two files of nanochat's tokenizer folder, written without tiktoken and torch."""

import io
import pickle
import struct
import zipfile
from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nanotok_ray.tokenizer.model import Model

FRAME_BYTES = 64 * 1024
"""A frame ends before the first value after this many bytes."""
SHORT_BYTES = 256
"""Longer strings have a length of four bytes."""
BATCH_ITEMS = 1000
"""Items of a dict between a mark and its SETITEMS."""

Value = str | bytes | int | Mapping[str, "Value"] | Mapping[bytes, "Value"]


def pickle_instance(module: str, name: str, *, state: Mapping[str, Value]) -> bytes:
    """Return the pickle of an instance of the class `module.name` with the attributes `state`."""
    writer = _Writer()
    writer.save(module)
    writer.save(name)
    writer.write(pickle.STACK_GLOBAL + pickle.MEMOIZE)
    writer.commit()
    writer.write(pickle.EMPTY_TUPLE + pickle.NEWOBJ + pickle.MEMOIZE)
    writer.save(state)
    writer.write(pickle.BUILD + pickle.STOP)
    return writer.finish()


def is_pickled_instance(data: bytes, module: str, name: str, *, state: Mapping[str, Value]) -> bool:
    """Return whether `data` has the opcodes of `pickle_instance`, with any division into frames.

    The comparison uses the C pickler for the state, which takes a tenth of the time. Other opcodes
    that make the same instance are not recognized.
    """
    names = b"".join(
        pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() + pickle.MEMOIZE
        for text in (module, name)
    )
    new = pickle.STACK_GLOBAL + pickle.MEMOIZE + pickle.EMPTY_TUPLE + pickle.NEWOBJ + pickle.MEMOIZE
    state_data = _without_frames(pickle.dumps(dict(state), protocol=4)).removesuffix(pickle.STOP)
    return _without_frames(data) == names + new + state_data + pickle.BUILD + pickle.STOP


def _without_frames(data: bytes) -> bytes:
    """Return the opcodes after PROTO, without the frame headers before the first gap."""
    head = len(pickle.FRAME) + struct.calcsize("<Q")
    parts, start = [], len(pickle.PROTO) + 1
    while data.startswith(pickle.FRAME, start) and len(data) >= start + head:
        (size,) = struct.unpack_from("<Q", data, start + len(pickle.FRAME))
        parts.append(data[start + head : start + head + size])
        start += head + size
    return b"".join([*parts, data[start:]])


class _Writer:
    """The opcodes written so far, divided into frames as CPython divides them."""

    def __init__(self) -> None:
        self._done = [pickle.PROTO + bytes([4])]
        self._frame = bytearray()

    def write(self, opcodes: bytes) -> None:
        """Append opcodes to the current frame."""
        self._frame += opcodes

    def commit(self) -> None:
        """End the frame if it has reached FRAME_BYTES; called before every value."""
        if len(self._frame) >= FRAME_BYTES:
            self._end_frame()

    def save(self, value: Value) -> None:
        """Write a value."""
        self.commit()
        if isinstance(value, int):
            self.write(_integer(value))
        elif isinstance(value, str):
            self._save_string(value.encode(), pickle.SHORT_BINUNICODE, pickle.BINUNICODE)
        elif isinstance(value, bytes):
            self._save_string(value, pickle.SHORT_BINBYTES, pickle.BINBYTES)
        else:
            self.write(pickle.EMPTY_DICT + pickle.MEMOIZE)
            self._save_items(list(value.items()))

    def finish(self) -> bytes:
        """End the last frame and return all bytes."""
        self._end_frame()
        return b"".join(self._done)

    def _save_items(self, items: list[tuple[str | bytes, Value]]) -> None:
        if len(items) == 1:
            self._save_pairs(items)
            self.write(pickle.SETITEM)
        elif items:
            # CPython writes an empty batch after a full last batch.
            for start in range(0, len(items) + 1, BATCH_ITEMS):
                self.write(pickle.MARK)
                self._save_pairs(items[start : start + BATCH_ITEMS])
                self.write(pickle.SETITEMS)

    def _save_pairs(self, items: list[tuple[str | bytes, Value]]) -> None:
        for key, value in items:
            self.save(key)
            self.save(value)

    def _save_string(self, data: bytes, short: bytes, long: bytes) -> None:
        size = len(data)
        header = short + bytes([size]) if size < SHORT_BYTES else long + struct.pack("<I", size)
        if size >= FRAME_BYTES:  # written between frames
            self._end_frame()
            self._done.append(header + data)
        else:
            self.write(header + data)
        self.write(pickle.MEMOIZE)

    def _end_frame(self) -> None:
        if len(self._frame) >= struct.calcsize("<I"):  # CPython writes shorter data without a frame
            self._done.append(pickle.FRAME + struct.pack("<Q", len(self._frame)))
        self._done.append(bytes(self._frame))
        self._frame.clear()


def _integer(value: int) -> bytes:
    if 0 <= value < 2**8:
        return pickle.BININT1 + struct.pack("<B", value)
    if 0 <= value < 2**16:
        return pickle.BININT2 + struct.pack("<H", value)
    return pickle.BININT + struct.pack("<i", value)


ENCODING_NAME = "rustbpe"
"""The name of nanochat's tiktoken encoding."""

_CLASS: Final = ("tiktoken.core", "Encoding")
_DATE = (1980, 1, 1, 0, 0, 0)
_LOCAL_HEADER_BYTES = 30
_ALIGNMENT = 64
"""torch maps the storage into memory at multiples of this number of bytes."""


def to_pickle(model: Model) -> bytes:
    """Return the bytes of tokenizer.pkl.

    Raises:
        TokenizerError: Two ids have the same bytes.
    """
    return pickle_instance(*_CLASS, state=_state(model, model.ranks()))


def is_pickle_of(data: bytes, model: Model) -> bool:
    """Return whether `data` is a tokenizer.pkl of this model, written here or by nanochat.

    An equal pickle with other opcodes is not recognized. The data is never unpickled.
    """
    ranks = dict(zip(model.tokens, model.token_ids, strict=True))
    return is_pickled_instance(data, *_CLASS, state=_state(model, ranks))


def _state(model: Model, ranks: Mapping[bytes, int]) -> dict[str, Value]:
    return {
        "name": ENCODING_NAME,
        "pat_str": model.pattern,
        "mergeable_ranks": ranks,
        "special_tokens": dict(model.special_tokens),
    }


def to_token_bytes(model: Model) -> bytes:
    """Return the bytes of token_bytes.pt."""
    return save_tensor(model.token_lengths())


def save_tensor(values: NDArray[np.int32]) -> bytes:
    """Return the file of a one-dimensional int32 tensor in the format of `torch.load`."""
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
    """Return the pickled call that rebuilds the tensor; its storage is the entry data/0.

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
