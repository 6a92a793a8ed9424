"""Exports of an output: resuming, refusals, checks."""

import errno
import json
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from nanotok_ray import api
from nanotok_ray.api import verify_export
from nanotok_ray.cli import main
from nanotok_ray.errors import CorruptOutputError, ExportError, OutputInUseError, TransientIOError
from nanotok_ray.exports import (
    Llmc,
    Mds,
    Raw,
    check_unit,
    export_unit,
    parse_layout,
    unit_problems,
)
from nanotok_ray.formats import file_values
from nanotok_ray.job.events import Advanced, StageEnded, StageStarted, ignore
from nanotok_ray.job.lease import lease_in_force, leased
from nanotok_ray.storage import Folder
from tests.support.executors import InProcess
from tests.support.lease_elsewhere import renew_while_others_wait
from tests.support.made_output import BOS, MadeSource, export_here, made_output, works_of
from tests.support.small_corpus import contents

export = partial(api.export, executor=InProcess())
"""In one thread, as the process that a test ends would be alone."""

LONG = [BOS, *range(4000)]
TEXT = MadeSource(name="web", shards=[[[BOS, 5, 6], [BOS]], [[BOS, 9, 9, 9], LONG]])
OTHER = MadeSource(name="zoo", shards=[[[BOS, 1]]])


class KilledError(KeyboardInterrupt):
    """Simulates the end of the process."""


def killed_at_event(kind):
    """Return a listener that ends the process at the first event of this kind."""

    def on_event(event):
        if isinstance(event, kind):
            raise KilledError

    return on_event


class DyingFolder(Folder):
    """A folder that ends the process before or after it publishes files, or at a removal."""

    def __init__(self, url, *, before="-", after="-", removal=0):
        super().__init__(url)
        self.before, self.after, self.removal = before, after, removal

    @contextmanager
    def create(self, name):
        with super().create(name) as file:
            yield file
        if name.endswith(self.after):
            raise KilledError

    def write_bytes(self, name, data):
        if name.endswith(self.before):
            raise KilledError
        super().write_bytes(name, data)

    def remove(self, name):
        self.removal -= 1
        if self.removal == 0:
            raise KilledError
        super().remove(name)


@pytest.fixture
def export_killed_before_a_record(folder, monkeypatch):
    """Return a function that exports until the process ends before the record of a unit."""
    original = Folder.write_bytes

    def write_bytes(folder, name, data):
        if name.startswith("records/"):
            raise KilledError
        original(folder, name, data)

    def run(out, layout):
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "write_bytes", write_bytes)
            with pytest.raises(KilledError):
                export(out, layout, folder=folder)

    return run


@pytest.mark.parametrize("finished", [True, False])
def test_an_output_is_refused_as_the_folder_of_an_export(finished, tmp_path):
    out, other = (made_output(tmp_path / name, TEXT) for name in ("out", "other"))
    if not finished:
        other.remove("manifest.json")
    before = contents(tmp_path)
    for own in (other, out) if finished else (other,):
        with pytest.raises(ExportError, match="--output"):
            export(out, Raw(), folder=own)
    assert contents(tmp_path) == before


def test_a_killed_export_with_other_options_leaves_no_earlier_record(
    tmp_path, folder, export_killed_before_a_record
):
    out = made_output(tmp_path / "out", TEXT)
    export(out, Mds(size_limit=5000), folder=folder)
    before = contents(tmp_path / "export")
    export_killed_before_a_record(out, Mds(size_limit=5001))  # files of the same sizes
    export(out, Mds(size_limit=5000), folder=folder)
    assert verify_export(folder, out)[1] == []
    assert contents(tmp_path / "export") == before


def test_records_of_files_that_may_be_overwritten_are_removed_first(tmp_path, folder):
    out = made_output(tmp_path / "out", TEXT)
    export(out, Llmc(), folder=folder)
    at_start = killed_at_event(StageStarted)
    with pytest.raises(KilledError):
        export(out, Llmc(bos="<|bos|>"), folder=Folder(str(tmp_path / "new")), on_event=at_start)
    assert folder.list("records/")
    made_output(tmp_path / "out", MadeSource(name="web", shards=[*TEXT.shards[:1], [[BOS, 3]]]))
    with pytest.raises(KilledError):
        export(out, Llmc(), folder=folder, on_event=at_start)
    assert [name.split("-")[1] for name in folder.list("records/")] == ["00000"]
    assert not folder.exists("export.json")


@pytest.mark.parametrize("removal", [1, 2, 3, 4])
def test_files_of_a_removed_source_are_deleted_despite_interruptions(removal, tmp_path, folder):
    out = made_output(tmp_path / "out", TEXT, OTHER)
    export(out, Raw(), folder=folder)
    (tmp_path / "export/web-mine").mkdir()
    (tmp_path / "export/web-mine/notes.txt").write_text("mine")
    made_output(tmp_path / "out", TEXT)
    with pytest.raises(KilledError):
        export(out, Raw(), folder=DyingFolder(folder.url, removal=removal))
    for name in (".export.json", "run/.begun.json", "web/train/.part.bin"):
        folder.write_bytes(f"{name}.host-1-0123456789ab.tmp", b"half")
    folder.write_bytes("run/probe/0123456789ab", b"left")
    export(out, Raw(), folder=folder)
    assert not folder.list("run/")
    assert not [name for name in folder.list() if "zoo" in name]
    assert folder.list_temporaries() == []
    assert folder.exists("web-mine/notes.txt")


@pytest.mark.parametrize("name", ["raw", "datatrove", "megatron", "llmc", "parquet"])
def test_a_missing_native_file_is_named(name, tmp_path, folder):
    out = made_output(tmp_path / "out", MadeSource(name="web", shards=[[[BOS, 5]]]))
    (path,) = (tmp_path / "out/web").rglob("*.bin")
    path.unlink()
    with pytest.raises(CorruptOutputError, match=f"{path.name} is missing"):
        export(out, parse_layout(name), folder=folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("layout", "zarr"), ("layout", 1), ("options", {"x": 1}), ("options", [])),
        *(("units", None), ("joint_files", [{"name": "a"}]), ("left_out", {"a": "b"})),
        ("manifest_sha256", "x"),
    ],
)
def test_a_damaged_export_json_is_reported_and_rewritten(key, value, tmp_path, folder):
    out = made_output(tmp_path / "out", TEXT)
    before = export(out, Mds(), folder=folder).export
    changed = {**file_values(before), key: value}
    folder.write_bytes("export.json", json.dumps(changed).encode())
    with pytest.raises(CorruptOutputError, match=r"export\.json"):
        verify_export(folder, out)
    result = export(out, Mds(), folder=folder)
    assert (result.export, result.units_done, result.unchanged) == (before, 0, False)
    assert verify_export(folder, out)[1] == []


def test_wrong_and_premature_commands_are_refused(tmp_path, capsys):
    out = str(made_output(tmp_path / "out", TEXT).url)
    twice = ["--to", "megatron:datasets=2", "--to", "raw", "--to", "megatron"]
    assert main(["export", out, *twice]) == 2
    assert "--to megatron is given twice" in capsys.readouterr().err
    assert not (tmp_path / "out/export").exists()
    assert main(["export", out, "--to", "raw"]) == 0
    for argument in (["--deep"], ["--masks"], ["--no-sample"], ["--cpus", "2"]):
        assert main(["verify", f"{out}/export/raw", *argument]) == 2
    (tmp_path / "out/export/raw/export.json").unlink()
    capsys.readouterr()
    assert main(["verify", f"{out}/export/raw"]) == 4
    assert "this is no export, or it has not finished" in capsys.readouterr().err
    assert main(["export", out, "--to", "raw"]) == 0
    next((tmp_path / "out/export/raw").rglob("*.offsets.npy")).write_bytes(b"?")
    assert main(["verify", f"{out}/export/raw"]) == 4
    assert "delete the files above and export again" in capsys.readouterr().err
    elsewhere = str(tmp_path / "elsewhere")
    assert main(["export", out, "--to", "raw", "--output", elsewhere]) == 0
    assert main(["verify", elsewhere]) == 4
    assert main(["verify", elsewhere, "--of", out]) == 0


@pytest.mark.parametrize("name", ["raw", "mds", "megatron"])
def test_an_export_killed_before_its_first_record_resumes(
    name, tmp_path, folder, export_killed_before_a_record
):
    out = made_output(tmp_path / "out", TEXT)
    export(out, parse_layout(name), folder=Folder(str(tmp_path / "quiet")))
    export_killed_before_a_record(out, parse_layout(name))
    assert [own for own in folder.list() if own.startswith("web/")]
    assert not folder.list("records/")
    export(out, parse_layout(name), folder=folder)
    assert contents(tmp_path / "export", leave_out=()) == contents(tmp_path / "quiet", leave_out=())


@pytest.mark.parametrize(
    ("moment", "on_event"),
    [
        ({}, killed_at_event(StageEnded)),
        ({"after": "/index.json"}, ignore),
        ({"before": "export.json"}, ignore),
    ],
    ids=["units exported", "index written", "strangers removed"],
)
def test_an_export_killed_at_its_end_resumes(moment, on_event, tmp_path, folder):
    out = made_output(tmp_path / "out", TEXT)
    export(out, Mds(), folder=Folder(str(tmp_path / "quiet")))
    with pytest.raises(KilledError):
        export(out, Mds(), folder=DyingFolder(folder.url, **moment), on_event=on_event)
    assert (len(folder.list("records/")), folder.exists("export.json")) == (2, False)
    assert export(out, Mds(), folder=folder).units_done == 0
    assert contents(tmp_path / "export", leave_out=()) == contents(tmp_path / "quiet", leave_out=())


def test_no_export_runs_beside_a_job_or_another_export(tmp_path, folder, monkeypatch):
    out = made_output(tmp_path / "out", TEXT)
    seen = []

    def look(event):
        if isinstance(event, Advanced):
            seen.append(lease_in_force(out))

    export(out, Raw(), folder=folder, on_event=look)
    assert set(seen) == {None}
    seen.clear()
    export(out, Raw(), on_event=look)
    assert {each.lease.command for each in seen} == {"export"}
    assert {each.is_released for each in seen} == {False}
    assert lease_in_force(out).is_released
    with leased(out, command="prepare", on_event=ignore) as lease:
        assert export(out, Raw()).unchanged  # reading needs no lease
        renew_while_others_wait(lease, monkeypatch)
        with pytest.raises(OutputInUseError, match="is in use by prepare"):
            export(out, Mds())
        lease.check()
    assert not (tmp_path / "out/export/mds").exists()


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_files_are_copied_where_links_are_impossible(number, tmp_path, folder, monkeypatch):
    out = made_output(tmp_path / "out", TEXT)
    export(out, Raw(), folder=Folder(str(tmp_path / "quiet")))

    def refuse(*_, **__):
        raise OSError(number, "no such link")

    monkeypatch.setattr("os.link", refuse)
    export(out, Raw(), folder=folder)
    assert contents(tmp_path / "export") == contents(tmp_path / "quiet")
    assert folder.list_temporaries() == []
    for own in (tmp_path / "export/web").rglob("*.bin"):
        assert own.stat().st_nlink == 1


def test_a_concurrently_changed_output_keeps_its_files(tmp_path, folder):
    out = made_output(tmp_path / "out", TEXT)
    export(out, Raw(), folder=folder)
    made_output(tmp_path / "out", OTHER)
    folder.write_bytes("web/train/new.bin", b"of the job that runs")

    def run_job(event):
        if isinstance(event, Advanced):
            made_output(tmp_path / "out", TEXT, OTHER)

    with pytest.raises(CorruptOutputError, match="changed while it was exported"):
        export(out, Raw(), folder=folder, on_event=run_job)
    assert folder.exists("web/train/new.bin")
    assert not folder.exists("export.json")


@pytest.fixture
def made(tmp_path):
    """Return an output of one chat shard."""
    source = MadeSource(name="chat", kind="chat", shards=[[[BOS, 1, 2], [BOS, 3]]])
    return made_output(tmp_path / "out", source)


@pytest.fixture
def work(made, folder):
    """Return the work of its only unit, not yet exported."""
    (work,) = works_of(made, Raw(), folder)
    return work


@pytest.fixture
def problems_of(made, folder):
    """Return a function that finds the problems of the exported unit, of which it gets changes."""
    (exported,) = export_here(made, Raw(), folder)

    def problems(**changes):
        wrong = replace(exported, record=replace(exported.record, **changes))
        return list(unit_problems(wrong, Raw(), folder))

    return problems


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda made: made[:-1], "hold fewer documents than they should, 1"),
        (lambda made: [*made, made[0]], "hold more documents than they should, 2"),
        (lambda made: made[::-1], "document 0: its 2 ids are not the 3"),
        (
            lambda made: [(np.asarray(ids) ^ 1, mask) for ids, mask in made],
            "document 0: its 3 ids are not the 3 of the native shard",
        ),
        (
            lambda made: [(ids, None) for ids, _ in made],
            "document 0: only one of export and native shard has a mask",
        ),
        (lambda made: [(ids, mask ^ 1) for ids, mask in made], "document 0: its mask is not that"),
    ],
    ids=["fewer", "more", "order", "ids", "no mask", "mask"],
)
def test_a_part_that_reads_back_differently_gets_no_record(
    change, reported, work, folder, monkeypatch
):
    own = Raw.read
    monkeypatch.setattr(Raw, "read", lambda *arguments: iter(change(list(own(*arguments)))))
    with pytest.raises(TransientIOError, match=reported):
        export_unit(work)
    assert folder.list("records/") == []


def test_the_files_agree_with_sums_and_sizes_of_their_record(problems_of, folder):
    assert problems_of() == []
    for wrong in ({"documents": 3}, {"tokens": 6}):
        (problem,) = problems_of(**wrong)
        assert "2 documents of 5 tokens, its record says" in problem
    (name,) = [name for name in folder.list() if name.endswith(".offsets.npy")]
    folder.write_bytes(name, b"short")
    (problem,) = problems_of()
    assert f"{folder.join(name)} has 5 bytes, its record says 152" in problem


def test_a_shard_that_contradicts_its_record_or_shards_idx_is_refused(work, made):
    (shard,) = work.unit.shards
    for own in ({"documents": 3}, {"tokens": 6}):
        with pytest.raises(CorruptOutputError, match=r"\.idx has 2 documents of 5 tokens"):
            list(replace(work.unit, shards=(replace(shard, **own),)).indexes())
    name = shard.record_name
    made.write_bytes(name, made.read_bytes(name) + b" ")
    with pytest.raises(CorruptOutputError, match=r"is not the record that shards\.idx names"):
        export_unit(work)


def test_a_unit_without_a_matching_record_is_reported(work):
    (problem,) = check_unit(work)
    assert "has no record that fits: export again" in problem
