"""Jobs that also write their output in other layouts, and the command that exports later."""

import shutil

import pytest

from nanotok_ray.api import export, prepare, verify_export
from nanotok_ray.errors import ExportError, IncompleteOutputError, RecipeError
from nanotok_ray.exports import Raw, parse_layout, read_corpus
from nanotok_ray.job.events import Planned, StageStarted
from nanotok_ray.job.work import tokenize_work
from nanotok_ray.storage import Folder
from tests.support.executors import Replacing, in_place_of_ray
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe, texts, write_parquet

LAYOUTS = 'output.layouts=["raw", "datatrove"]'


@pytest.mark.parametrize("most", [10**6, 200])
def test_the_workers_export_what_a_later_export_writes(corpus, tmp_path, most):
    limit = f"limits.max_shard_tokens={most}"
    summary, stages, _ = run(recipe(corpus, tmp_path / "out", LAYOUTS, limit))
    assert "export" not in stages  # the worker that tokenized a slice also exported it
    exports = summary.values["exports"]
    assert [own["layout"] for own in exports] == ["raw", "datatrove"]
    assert {own["documents"] for own in exports} == {summary.values["documents"]["out"]}
    assert "export      raw: " in summary.text()
    assert "; datatrove: " in summary.text()
    run(recipe(corpus, tmp_path / "later", limit))
    for name in ("raw", "datatrove"):
        result = export(Folder(str(tmp_path / "later")), parse_layout(name))
        assert result.units_done == result.export.units > 3
        own = contents(tmp_path / f"out/export/{name}")
        assert own == contents(tmp_path / f"later/export/{name}")


def test_an_added_layout_is_exported_without_tokenizing(corpus, out):
    run(recipe(corpus, out))
    before = contents(out)
    summary, stages, _ = run(recipe(corpus, out, LAYOUTS))
    assert (summary.values["status"], stages.keys()) == ("done", {"export"})
    assert contents(out, leave_out=("run", "export")) == before
    summary, stages, _ = run(recipe(corpus, out, LAYOUTS))
    assert (summary.values["status"], stages) == ("unchanged", {})


def test_a_recipe_can_order_a_layout(corpus, tmp_path):
    ordered = 'output.layouts=["raw", "parquet:shuffle=7", "llmc:tokens=2K,shuffle=7"]'
    summary, stages, _ = run(recipe(corpus, tmp_path / "out", ordered))
    assert {"scatter", "export"} <= stages.keys()
    exports = {own["layout"]: own for own in summary.values["exports"]}
    assert exports["parquet"]["documents"] == exports["raw"]["documents"]
    assert exports["llmc"]["documents"] < exports["raw"]["documents"]
    summary, stages, _ = run(recipe(corpus, tmp_path / "out", ordered))
    assert (summary.values["status"], stages) == ("unchanged", {})
    again = recipe(corpus, tmp_path / "out", ordered.replace("2K", "3K"))
    summary, stages, _ = run(again)
    assert (summary.values["status"], stages.keys()) == ("done", {"scatter", "export"})


def test_only_new_shards_are_exported_and_obsolete_files_are_removed(corpus, tmp_path):
    run(recipe(corpus, tmp_path / "out", LAYOUTS))
    before = set(contents(tmp_path / "out/export/raw"))
    write_parquet(corpus / "text/shard_00001.parquet", texts(41, seed=9))
    out = Folder(str(tmp_path / "out"))
    with pytest.raises(IncompleteOutputError):
        export(Folder(str(tmp_path / "in")), parse_layout("raw"))
    run(recipe(corpus, tmp_path / "out", "tokenizer.path=" + str(tmp_path / "out/tokenizer")))
    [problem] = verify_export(Folder(out.join("export/raw")), out)[1]
    assert "export again" in problem
    result = export(out, parse_layout("raw"))
    assert 0 < result.units_done < result.export.units
    assert result.removed
    after = set(contents(tmp_path / "out/export/raw"))
    named = {f"{shard.name}.bin" for shard in read_corpus(out)[1]}
    assert {name for name in after if name.endswith(".bin")} == named
    assert before - after
    again = export(out, parse_layout("raw"))
    assert again.unchanged


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ('["raw:weights=zoo=1,tokens=5"]', "'zoo'"),
        ('["raw:weights=web=1"]', "tokens=10B"),
        ('["zarr"]', "zarr"),
        ('["raw", "raw"]', "twice"),
        ('["raw:x=1"]', "x=1"),
        ('[""]', "empty"),
    ],
)
def test_wrong_layouts_are_refused_before_anything_is_read(value, part, out, tmp_path):
    with pytest.raises(RecipeError, match=part) as error:
        prepare(recipe(tmp_path / "nowhere", out, f"output.layouts={value}"))
    assert "output.layouts" in str(error.value)


def spoil(path):
    """Change one byte in the middle of this file only."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()  # a link to the native file
    path.write_bytes(bytes(data))


def test_a_changed_file_is_detected_and_named(corpus, tmp_path):
    out, folder = Folder(str(tmp_path / "out")), Folder(str(tmp_path / "out/export/datatrove"))
    run(recipe(corpus, tmp_path / "out", LAYOUTS))
    for suffix in (".ds", ".ds.index", ".ds.loss", ".ds.metadata"):
        path = min((tmp_path / "out/export/datatrove").rglob(f"*{suffix}"))
        spoil(path)
        checked, problems = verify_export(folder, out)
        assert checked.layout == "datatrove"
        assert [str(path) in problem for problem in problems] == [True]
        path.unlink()
        assert export(out, parse_layout("datatrove")).units_done == 1
        assert verify_export(folder, out)[1] == []


def test_a_changed_joint_file_is_detected_and_named(corpus, tmp_path):
    out, folder = Folder(str(tmp_path / "out")), Folder(str(tmp_path / "mds"))
    run(recipe(corpus, tmp_path / "out"))
    export(out, parse_layout("mds"), folder=folder)
    path = tmp_path / "mds/chats/train/index.json"
    own = path.read_bytes()
    for spoiled in (own[:-1], own.replace(b"2", b"3", 1)):
        path.write_bytes(spoiled)
        _, problems = verify_export(folder, out)
        assert [str(path) in problem for problem in problems] == [True]
    path.unlink()
    result = export(out, parse_layout("mds"), folder=folder)
    assert (result.units_done, result.unchanged) == (0, False)
    assert path.read_bytes() == own
    assert verify_export(folder, out)[1] == []


def test_a_layout_that_cannot_hold_a_document_does_not_affect_the_output(
    corpus, tmp_path, monkeypatch
):
    def hostile(*_, **__):
        raise ExportError("a document cannot be held")

    own = (LAYOUTS, "limits.max_skipped_slices=1000")
    run(recipe(corpus, tmp_path / "quiet"))
    with monkeypatch.context() as patch:
        patch.setattr(Raw, "write", hostile)
        with pytest.raises(ExportError, match="a document cannot be held"):
            run(recipe(corpus, tmp_path / "out", *own))
    native = contents(tmp_path / "out", leave_out=("run", "export"))
    assert native == contents(tmp_path / "quiet", leave_out=("run",))
    _, stages, _ = run(recipe(corpus, tmp_path / "out", *own))
    assert stages.keys() == {"check", "export"}
    out = Folder(str(tmp_path / "out"))
    assert verify_export(Folder(out.join("export/raw")), out)[1] == []


def test_no_export_is_complete_while_workers_add_to_it(corpus, out, tmp_path):
    run(recipe(corpus, out, LAYOUTS))
    write_parquet(corpus / "text/shard_00001.parquet", texts(41, seed=9))
    own = (LAYOUTS, "tokenizer.path=" + str(out / "tokenizer"))
    (out / "export/raw").rename(tmp_path / "kept")
    (out / "export/raw").mkdir()
    (out / "export/raw/thesis.txt").write_text("years")
    with pytest.raises(ExportError, match=r"thesis\.txt"):
        run(recipe(corpus, out, *own))
    assert (out / "manifest.json").exists()
    shutil.rmtree(out / "export/raw")
    (tmp_path / "kept").rename(out / "export/raw")
    found = []

    def look(_):
        folders = [out / "export" / name for name in ("raw", "datatrove")]
        found.append([(folder / "export.json").exists() for folder in folders])
        raise KeyboardInterrupt

    with in_place_of_ray(Replacing({tokenize_work: look})), pytest.raises(KeyboardInterrupt):
        run(recipe(corpus, out, *own))
    assert found == [[False, False]]


@pytest.mark.parametrize("settings", [[], ['output.layouts=["raw", "parquet", "llmc"]']])
def test_the_stages_of_a_job_are_those_that_it_announces(corpus, out, settings):
    def stages():
        events = []
        prepare(recipe(corpus, out, *settings), on_event=events.append)
        [planned] = [[stage.name for stage in e.stages] for e in events if isinstance(e, Planned)]
        started = [event.stage for event in events if isinstance(event, StageStarted)]
        return planned, started

    planned, started = stages()
    assert planned == started
    assert {"learn", "tokenize", "verify"} <= set(planned)
    (out / "manifest.json").unlink()
    planned, started = stages()
    assert planned == started == ["check", "tokenize", "verify"]
