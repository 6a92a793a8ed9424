"""The last files of an output appear only while a check passes, and are withdrawn afterwards."""

import pytest

from nanotok_ray.errors import LeaseLostError
from nanotok_ray.formats import read_manifest
from nanotok_ray.shards import Output
from nanotok_ray.storage import Folder


@pytest.fixture
def output(out):
    """Return the values of a finished output, whose last files are removed."""
    manifest = read_manifest(Folder(str(out)))
    index = (out / "shards.idx").read_bytes()
    for name in ("manifest.json", "shards.idx"):
        (out / name).unlink()
    return Output(manifest=manifest, shards_index=index)


@pytest.mark.parametrize(("passes", "published"), [(0, []), (1, ["shards.idx"])])
def test_nothing_appears_after_the_check_has_failed(output, out, passes, published):
    left = [None] * passes

    def check():
        if not left:
            raise LeaseLostError("another run has taken over")
        left.pop()

    with pytest.raises(LeaseLostError):
        output.publish(Folder(str(out)), check=check)
    assert [path.name for path in sorted(out.iterdir()) if path.is_file()] == sorted(
        [*published, "plan.json"]
    )


@pytest.mark.parametrize(
    ("other", "is_in_use", "stays"),
    [
        (None, False, True),  # the other run has published the same bytes
        (None, True, False),  # it will publish its own manifest
        ("manifest.json", True, True),  # it has published another manifest
        ("shards.idx", False, False),
        ("tokenizer/tokenizer.txt", False, False),
    ],
)
def test_a_manifest_that_appeared_too_late_is_removed(output, out, other, is_in_use, stays):
    folder = Folder(str(out))
    output.publish(folder)
    if other is not None:
        (out / other).write_bytes((out / other).read_bytes() + b"\n")
    output.withdraw(folder, is_in_use=is_in_use)
    assert (out / "manifest.json").exists() == stays
