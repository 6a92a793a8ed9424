"""Packages that are installed, and appear as missing in a test."""

import sys

import pytest
from fsspec.registry import _registry, known_implementations


def uninstall_stores(patch: pytest.MonkeyPatch, message: str) -> None:
    """Make fsspec find the package of no store; its error is an ImportError with this message."""
    missing = {"class": "no_such_package.FileSystem", "err": message}
    for name in [*known_implementations, "abfss"]:  # which adlfs adds when it is installed
        patch.setitem(known_implementations, name, missing)
    for name in list(_registry):
        patch.delitem(_registry, name)


def uninstall(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Make Python find no package of these names."""
    for name in names:
        patch.setitem(sys.modules, name, None)
