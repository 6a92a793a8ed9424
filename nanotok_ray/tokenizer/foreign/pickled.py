"""Reads nanochat's tokenizer.pkl as a model without executing it."""

import io
import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign.tiktoken import EncodingState, model_of_state
from nanotok_ray.tokenizer.model import Model

MAX_STEPS = 1 << 23
"""Limit of the opcodes of a file: about five are needed for each token."""

_MARK = object()
_CLASS = object()

_STRINGS = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8")
_BYTES = ("SHORT_BINBYTES", "BINBYTES", "BINBYTES8")
_NUMBERS = ("BININT", "BININT1", "BININT2")
_VALUES = frozenset([*_STRINGS, *_BYTES, *_NUMBERS])


@dataclass(slots=True)
class _Instance:
    state: object = None


def read_instance(data: bytes, *, module: str, cls: str, name: str) -> object:
    """Return the state of a pickled instance of the class `module.cls` without creating it.

    Raises:
        TokenizerError: The pickle contains anything else; the message names the file and the byte.
    """
    machine = _Machine(f"{module} {cls}")
    position = 0
    try:
        for opcode, argument, at in _steps_of(data):
            position = at
            machine.run(opcode, argument)
        return machine.state()
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise TokenizerError(
            f"{name}, byte {position}: {error}; only a pickled {module}.{cls} is read, of protocol "
            "3 or newer, and nothing in it is executed"
        ) from error


@dataclass(slots=True)
class _Machine:
    """The stack and the memo of a pickle that is read."""

    admitted: str
    stack: list[object] = field(default_factory=list)
    memo: dict[int, object] = field(default_factory=dict)
    steps: int = 0

    def run(self, opcode: str, argument: object) -> None:
        """Execute an opcode."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise ValueError(f"more than {MAX_STEPS:,} steps")
        if opcode in _VALUES:
            self.stack.append(argument)
            return
        _STEPS[opcode](self, argument)

    def state(self) -> object:
        """Return the state of the instance that remains on the stack."""
        [instance] = self.stack
        if not isinstance(instance, _Instance):
            raise TypeError(f"it holds a {type(instance).__name__}")
        return instance.state

    def remember(self, argument: object) -> None:
        """Store the top of the stack in the memo, at the next index or at the given one."""
        self.memo[argument if isinstance(argument, int) else len(self.memo)] = self.stack[-1]

    def recall(self, argument: object) -> None:
        """Push the value of the memo at an index."""
        assert isinstance(argument, int)
        if argument not in self.memo:
            raise ValueError(f"nothing was remembered as {argument}")
        self.stack.append(self.memo[argument])

    def find_class(self, argument: object) -> None:
        """Push the named class if it is the permitted one."""
        if argument is None:
            cls, module = self.stack.pop(), self.stack.pop()
            if not (isinstance(module, str) and isinstance(cls, str)):  # an unterminated name
                raise TypeError(f"a class is named by a {type(module).__name__}, not by two texts")
            argument = f"{module} {cls}"
        if argument != self.admitted:
            raise ValueError(f"it names {str(argument)[:80]!r}, which is not admitted")
        self.stack.append(_CLASS)

    def make(self, _argument: object) -> None:
        """Replace a class and its empty arguments by an instance."""
        arguments, cls = self.stack.pop(), self.stack.pop()
        if cls is not _CLASS or arguments != ():
            raise ValueError("an instance is made of something else than its class alone")
        self.stack.append(_Instance())

    def build(self, _argument: object) -> None:
        """Set the state of the instance below the top of the stack to the top."""
        state, instance = self.stack.pop(), self.stack[-1]
        if not isinstance(instance, _Instance):
            raise TypeError("a state is set on something else than the instance")
        instance.state = state

    def set_item(self, _argument: object) -> None:
        """Add a key and a value to the dict below them."""
        value, key = self.stack.pop(), self.stack.pop()
        self._put([key, value])

    def set_items(self, _argument: object) -> None:
        """Add the keys and values above the last mark to the dict below it."""
        items = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        self._put(items[::-1])

    def _put(self, items: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise ValueError("items are set on no dict, or a key has no value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | bytes) or isinstance(value, _Instance):
                raise TypeError(f"a dict has a key of type {type(key).__name__}")
            if key in target:
                raise ValueError(f"a dict has the key {key[:60]!r} twice")
            target[key] = value


_STEPS: dict[str, Callable[[_Machine, object], None]] = {
    "PROTO": lambda _machine, _argument: None,
    "FRAME": lambda _machine, _argument: None,
    "STOP": lambda _machine, _argument: None,
    "MARK": lambda machine, _argument: machine.stack.append(_MARK),
    "EMPTY_DICT": lambda machine, _argument: machine.stack.append({}),
    "EMPTY_TUPLE": lambda machine, _argument: machine.stack.append(()),
    "MEMOIZE": _Machine.remember,
    "BINPUT": _Machine.remember,
    "LONG_BINPUT": _Machine.remember,
    "BINGET": _Machine.recall,
    "LONG_BINGET": _Machine.recall,
    "GLOBAL": _Machine.find_class,
    "STACK_GLOBAL": _Machine.find_class,
    "NEWOBJ": _Machine.make,
    "BUILD": _Machine.build,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
}


_OPCODES = {opcode.code.encode("latin-1"): opcode for opcode in pickletools.opcodes}


def _steps_of(data: bytes) -> Iterator[tuple[str, object, int]]:
    """Yield name, argument and position of each opcode; reject others before their arguments."""
    file = io.BytesIO(data)
    name = ""
    while name != "STOP":
        at = file.tell()
        opcode = _OPCODES.get(file.read(1))
        if opcode is None:
            raise ValueError(f"no step begins with {data[at : at + 1]!r}, at byte {at}")
        name = opcode.name
        if name not in _STEPS and name not in _VALUES:
            raise ValueError(f"the step {name}, at byte {at}, is not admitted")
        yield name, _argument_of(opcode, file), at


def _argument_of(opcode: pickletools.OpcodeInfo, file: io.BytesIO) -> object:
    if (
        opcode.name == "GLOBAL"
    ):  # pickletools would unescape the argument, with a warning for some escapes
        return " ".join(file.readline().decode("ascii").rstrip("\n") for _ in range(2))
    return None if opcode.arg is None else opcode.arg.reader(file)


def from_pickle(data: bytes, *, name: str) -> Model:
    """Return the model of a file.

    Raises:
        TokenizerError: The file contains anything but an encoding with its state, is damaged, or
            cannot be converted.
    """
    return model_of_state(pickled_state(data, name=name), name=name)


def pickled_state(data: bytes, *, name: str) -> EncodingState:
    """Return the attributes of the encoding in a file.

    Raises:
        TokenizerError: The file contains anything but an encoding with its state, or is damaged.
    """
    state = read_instance(data, module="tiktoken.core", cls="Encoding", name=name)
    if isinstance(state, str):
        raise TokenizerError(
            f"{name} names the encoding {state[:80]!r} of tiktoken and does not hold it: use "
            f"Tokenizer.from_tiktoken(tiktoken.get_encoding({state[:80]!r}))"
        )
    if not isinstance(state, dict):
        raise TokenizerError(f"{name}: the state of the encoding is a {type(state).__name__}")
    return EncodingState(
        pat_str=state.get("pat_str"),
        mergeable_ranks=state.get("mergeable_ranks"),
        special_tokens=state.get("special_tokens"),
    )
