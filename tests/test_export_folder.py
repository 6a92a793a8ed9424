"""The folder of an export: whose it is, what is left of former exports, what killed ones leave."""

import pytest

from nanotok_ray.cluster.export_check import verify_export
from nanotok_ray.cluster.exporting import export
from nanotok_ray.errors import CorruptOutputError, ExportError, TransientIOError
from nanotok_ray.export import parse_layout, read_export
from nanotok_ray.export import work as export_work
from nanotok_ray.export.llmc import Llmc
from nanotok_ray.export.mds import Mds
from nanotok_ray.export.raw import Raw
from nanotok_ray.storage import Folder
from tests.made_output import BOS, MadeSource, made_output
from tests.small_corpus import contents

LONG = [BOS, *range(4000)]
TEXT = MadeSource(name="web", shards=[[[BOS, 5, 6], [BOS]], [[BOS, 9, 9, 9], LONG]])
OTHER = MadeSource(name="zoo", shards=[[[BOS, 1]]])


@pytest.fixture
def folder(tmp_path):
    return Folder(str(tmp_path / "export"))


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)


class KilledError(Exception):
    """Stands for the end of the process."""


def killed_at(monkeypatch, target, *, call=1):
    """Let a function of a module end the process at its so-many-th call."""
    left = [call]
    module, name = target.rsplit(".", 1)
    import importlib  # noqa: PLC0415

    own = getattr(importlib.import_module(module), name)

    def run(*arguments, **others):
        left[0] -= 1
        if left[0] == 0:
            raise KilledError
        return own(*arguments, **others)

    monkeypatch.setattr(target, run)


@pytest.mark.parametrize("finished", [True, False])
def test_an_output_is_no_folder_of_an_export(finished, tmp_path):
    out, other = (made_output(tmp_path / name, TEXT) for name in ("out", "other"))
    if not finished:
        other.remove("manifest.json")
    before = contents(tmp_path)
    for own in (other, out) if finished else (other,):
        with pytest.raises(ExportError, match="--output"):
            export(out, Raw(), folder=own)
    assert contents(tmp_path) == before


def test_an_export_with_other_options_that_was_killed_leaves_no_record_of_the_former(
    tmp_path, folder, monkeypatch
):
    out = made_output(tmp_path / "out", TEXT)
    export(out, Mds(size_limit=5000), folder=folder)
    before = contents(tmp_path / "export")
    with monkeypatch.context() as patch:
        killed_at(patch, "nanotok_ray.export.work.write_record", call=1)
        with pytest.raises(KilledError):
            export(out, Mds(size_limit=5001), folder=folder)  # files of the same sizes
    export(out, Mds(size_limit=5000), folder=folder)
    assert verify_export(folder, out)[1] == []
    assert contents(tmp_path / "export") == before
