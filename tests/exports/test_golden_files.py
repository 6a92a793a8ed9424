"""Formats do not change by accident: written files equal the stored ones byte for byte.

Files whose bytes depend on Arrow's writers, or on zlib, are compared by content.
"""

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.golden_files import GOLDEN, OLD_OUTPUT, write_golden_files

NAMES = sorted(
    path.relative_to(GOLDEN).as_posix()
    for path in GOLDEN.rglob("*")
    if path.is_file() and OLD_OUTPUT not in path.parents
)
TABLES = {".arrow": lambda path: pa.ipc.open_file(path).read_all(), ".parquet": pq.read_table}


def contents(path):
    """Return the bytes of a file, decompressed."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        root = tmp_path_factory.mktemp("golden")
        write_golden_files(root)
        return root


def test_the_same_files_are_written(written):
    found = (path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file())
    assert sorted(found) == NAMES, "run `make golden` and review the diff"
    assert len(NAMES) > 50


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_unchanged(written, name):
    read = TABLES.get(Path(name).suffix)
    if read is None:
        assert contents(written / name) == contents(GOLDEN / name)
    else:
        own, other = read(written / name), read(GOLDEN / name)
        assert own.equals(other)
        assert own.schema.equals(other.schema, check_metadata=True)
