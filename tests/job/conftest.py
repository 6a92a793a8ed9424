"""Fixtures of tests of jobs: a recipe, its output, and a folder on a server of S3."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanotok_ray.recipe import Recipe
from nanotok_ray.storage import Folder
from tests.support.faulty_proxy import FaultyProxy
from tests.support.s3_server import BUCKET, s3_behind_a_proxy, without_waiting
from tests.support.small_corpus import recipe, write_corpus


@pytest.fixture
def out(tmp_path: Path) -> Folder:
    """Return the folder of an output that does not exist yet."""
    return Folder(str(tmp_path / "out"))


@pytest.fixture
def job(tmp_path: Path, in_process: None) -> Recipe:
    """Return the recipe of a job that has not run, with a corpus, and with `out` as its output."""
    write_corpus(tmp_path / "in")
    return recipe(tmp_path / "in", tmp_path / "out")


@pytest.fixture(scope="module")
def server() -> Iterator[FaultyProxy]:
    with s3_behind_a_proxy() as proxy:
        yield proxy


@pytest.fixture
def proxy(server: FaultyProxy) -> Iterator[FaultyProxy]:
    """Yield the proxy of a server of S3 without faults; storage retries without waits."""
    with without_waiting(server, tries=3) as proxy:
        yield proxy


@pytest.fixture
def remote(proxy: FaultyProxy) -> Folder:
    """Return a folder of the server that does not exist yet."""
    return Folder(f"s3://{BUCKET}/{uuid.uuid4().hex}")
