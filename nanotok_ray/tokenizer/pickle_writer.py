"""The part of pickle's protocol 4 that nanochat's tokenizer.pkl needs, written by hand.

`pickle` itself imports the class of what it pickles, and the class of that file is tiktoken's.
Gives the very bytes that CPython's C pickler gives, frames and all, for values in which no object
comes twice. Writes and compares bytes; never reads a pickle.
"""

import pickle
import struct
from collections.abc import Mapping

FRAME_BYTES = 64 * 1024
"""A frame ends before the first value after this many bytes."""
SHORT_BYTES = 256
"""Longer strings have a length of four bytes."""
BATCH_ITEMS = 1000
"""Items of a dict between a mark and its SETITEMS."""

Value = str | bytes | int | Mapping[str, "Value"] | Mapping[bytes, "Value"]


def pickle_instance(module: str, name: str, *, state: Mapping[str, Value]) -> bytes:
    """Pickle an instance of the class `module.name` that carries `state`."""
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
    """Tell whether `data` has the opcodes of `pickle_instance`, wherever its frames end.

    As the C pickler gives those of the state, this takes a tenth of the time. Other opcodes that
    would give the same instance are not recognised.
    """
    names = b"".join(
        pickle.SHORT_BINUNICODE + bytes([len(own)]) + own.encode() + pickle.MEMOIZE
        for own in (module, name)
    )
    new = pickle.STACK_GLOBAL + pickle.MEMOIZE + pickle.EMPTY_TUPLE + pickle.NEWOBJ + pickle.MEMOIZE
    own = _without_frames(pickle.dumps(dict(state), protocol=4)).removesuffix(pickle.STOP)
    return _without_frames(data) == names + new + own + pickle.BUILD + pickle.STOP


def _without_frames(data: bytes) -> bytes:
    """Return the opcodes behind PROTO, without the heads of the frames up to a first gap."""
    head = len(pickle.FRAME) + struct.calcsize("<Q")
    parts, start = [], len(pickle.PROTO) + 1
    while data.startswith(pickle.FRAME, start) and len(data) >= start + head:
        (size,) = struct.unpack_from("<Q", data, start + len(pickle.FRAME))
        parts.append(data[start + head : start + head + size])
        start += head + size
    return b"".join([*parts, data[start:]])


class _Writer:
    """Opcodes so far, cut into frames as CPython cuts them."""

    def __init__(self) -> None:
        self._done = [pickle.PROTO + bytes([4])]
        self._frame = bytearray()

    def write(self, opcodes: bytes) -> None:
        """Add to the frame."""
        self._frame += opcodes

    def commit(self) -> None:
        """End the frame if it is long enough; called before every value."""
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
        """End the last frame and give everything."""
        self._end_frame()
        return b"".join(self._done)

    def _save_items(self, items: list[tuple[str | bytes, Value]]) -> None:
        if len(items) == 1:
            self._save_pairs(items)
            self.write(pickle.SETITEM)
        elif items:
            # After a full last batch CPython writes an empty one.
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
        if size >= FRAME_BYTES:  # stands between frames
            self._end_frame()
            self._done.append(header + data)
        else:
            self.write(header + data)
        self.write(pickle.MEMOIZE)

    def _end_frame(self) -> None:
        if len(self._frame) >= struct.calcsize("<I"):  # CPython frames nothing shorter
            self._done.append(pickle.FRAME + struct.pack("<Q", len(self._frame)))
        self._done.append(bytes(self._frame))
        self._frame.clear()


def _integer(value: int) -> bytes:
    if 0 <= value < 2**8:
        return pickle.BININT1 + struct.pack("<B", value)
    if 0 <= value < 2**16:
        return pickle.BININT2 + struct.pack("<H", value)
    return pickle.BININT + struct.pack("<i", value)
