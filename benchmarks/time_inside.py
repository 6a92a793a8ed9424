"""Measures the time inside chosen modules or functions, which are wrapped in place.

Modules are selected by prefixes, functions directly; every name of the package that refers to one
of their functions, and the methods of their classes, is timed. Only the outermost call of a group
counts; of a generator, the time in which it runs.
"""

import functools
import inspect
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

PACKAGE = "nanotok_ray"


class TimeInside:
    """Seconds inside one group of functions."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def modules(self, *prefixes: str) -> None:
        """Time the functions and methods of all imported modules with these prefixes."""
        for module in _imported(prefixes):
            for name, value in list(vars(module).items()):
                if isinstance(value, type) and value.__module__ == module.__name__:
                    self._methods(value)
                elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
                    self.function(getattr(module, name))

    def function(self, function: Callable[..., Any]) -> None:
        """Time one function under every name in the package's modules."""
        timed = self._timed(function)
        for module in _imported([PACKAGE]):
            for name, value in list(vars(module).items()):
                if value is function:
                    setattr(module, name, timed)

    def method(self, owner: type, name: str) -> None:
        """Time one method."""
        setattr(owner, name, self._timed(vars(owner)[name]))

    def _methods(self, owner: type) -> None:
        for name, value in list(vars(owner).items()):
            if isinstance(value, FunctionType):
                setattr(owner, name, self._timed(value))
            elif isinstance(value, classmethod):
                setattr(owner, name, classmethod(self._timed(value.__func__)))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def run(*arguments: Any, **named: Any) -> Iterator[Any]:
                return self._steps(function(*arguments, **named))
        else:

            @functools.wraps(function)
            def run(*arguments: Any, **named: Any) -> Any:
                with self._inside():
                    return function(*arguments, **named)

        return run

    def _steps(self, iterator: Iterator[Any]) -> Generator[Any, None, Any]:
        while True:
            with self._inside():
                try:
                    value = next(iterator)
                except StopIteration as end:
                    return end.value
            yield value

    @contextmanager
    def _inside(self) -> Iterator[None]:
        start = time.perf_counter()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.seconds += time.perf_counter() - start


def _imported(prefixes: Iterable[str]) -> list[Any]:
    return [
        module
        for name, module in list(sys.modules.items())
        if any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
    ]
