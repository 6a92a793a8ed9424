"""An argument parser whose inputs may stand before and after options. Knows no command."""

import argparse
from collections.abc import Sequence

_SEVERAL = {"*", "+"}


class CommandParser(argparse.ArgumentParser):
    """As argparse's own, which takes `FILE --flag` and `--flag FILE`, but not both in one line."""

    _is_second_try = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; inputs that are left over are taken together with those before the options."""
        known, left = super().parse_known_args(args, namespace)
        if self._is_second_try or not self._takes_several or not any(map(_is_input, left)):
            return known, left
        self._is_second_try = True  # what is called here calls this method
        try:
            return self.parse_known_intermixed_args(args)
        finally:
            self._is_second_try = False

    @property
    def _takes_several(self) -> bool:
        positionals = self._get_positional_actions()
        return any(action.nargs in _SEVERAL for action in positionals)


def _is_input(argument: str) -> bool:
    return not argument.startswith("-")
