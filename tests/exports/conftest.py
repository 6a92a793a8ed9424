"""Fixtures of tests of exports: the folder of an export, without waiting for the disk."""

import pytest

from nanotok_ray.storage import Folder


@pytest.fixture
def folder(tmp_path):
    """Return the folder of an export."""
    return Folder(str(tmp_path / "export"))


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)
