"""Fixtures of tests of the engine, the lease and the journal."""

from pathlib import Path

import pytest

from nanotok_ray.storage import Folder


@pytest.fixture
def out(tmp_path: Path) -> Folder:
    """Return the folder of an output that does not exist yet."""
    return Folder(str(tmp_path / "out"))
