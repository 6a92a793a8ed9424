"""Installed packages that appear to be missing in a test."""

import sys

import pytest
from fsspec.registry import _registry, known_implementations


def uninstall_stores(patch: pytest.MonkeyPatch, message: str) -> None:
    """Make fsspec find no package of a store; its error is an ImportError with this message."""
    missing = {"class": "no_such_package.FileSystem", "err": message}
    for name in [*known_implementations, "abfss"]:  # adlfs adds it when installed
        patch.setitem(known_implementations, name, missing)
    for name in list(_registry):
        patch.delitem(_registry, name)


def uninstall(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Make Python find no packages of these names."""
    for name in names:
        patch.setitem(sys.modules, name, None)
