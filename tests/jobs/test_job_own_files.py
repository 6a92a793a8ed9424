"""Names of files, and outputs inside sources."""

import json
import os
import uuid

import pytest

from nanotok_ray.cli import main
from nanotok_ray.errors import SourceError
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer

RECIPE = """
tokenizer.vocab_size = 300
output.path = "{out}"

[[source]]
name = "web"
kind = "text"
paths = {paths}
split = "train"
"""


def write_documents(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f'{{"text": "document {number}"}}\n' for number in range(20)))


def job(paths, out, *overrides):
    return parse_recipe(RECIPE.format(paths=json.dumps(paths), out=out), overrides=overrides)


def refused(recipe):
    """Return the error with which planning refuses a recipe."""
    with pytest.raises(SourceError) as caught:
        make_plan(recipe)
    return str(caught.value)


@pytest.mark.parametrize(
    ("paths", "out"),
    [
        *(("mix", "mix/out"), ("mix/", "mix/deep/er/out"), ("mix", "mix"), ("mix/*.jsonl", "mix")),
        *(("mix/**/*.jsonl", "mix/out"), ("mix/**", "mix/a/out"), ("*/*.jsonl", "out")),
        *(("m*/*/*.jsonl", "mix/out"), ("mix/a.jsonl", "mix"), ("mix/part/*.jsonl", "mix")),
        ("mix/_*/*.jsonl", "mix/_out"),
    ],
)
def test_a_source_that_contains_the_output_is_refused_with_both_paths(tmp_path, paths, out):
    for name in ("mix/a.jsonl", "mix/part/b.jsonl", "mix/_c/c.jsonl"):
        write_documents(tmp_path / name)
    message = refused(job([f"{tmp_path}/{paths}"], tmp_path / out))
    for words in (f"{tmp_path}/{paths}", str(tmp_path / out), "source 'web'", "output"):
        assert words in message


@pytest.mark.parametrize(
    ("paths", "out"),
    [
        *(("data/web", "data/out"), ("data/web/*.jsonl", "data/out"), ("data/*.jsonl", "data/out")),
        *(
            ("data/*/a.jsonl", "data/deep/out"),
            ("data", "data/_out"),
            ("data", "data/.nanotok/out"),
        ),
        *(("data/web", "data/web-out"), ("data/[!o]*/*.jsonl", "data/out")),
        ("data/w*/**/*.jsonl", "data/out"),
    ],
)
def test_a_shared_parent_and_unlisted_folders_are_allowed(tmp_path, paths, out):
    write_documents(tmp_path / "data/web/a.jsonl")
    write_documents(tmp_path / "data/b.jsonl")
    plan = make_plan(job([f"{tmp_path}/{paths}"], tmp_path / out))
    assert plan.sources[0].files


def test_work_folder_and_root_are_refused(tmp_path):
    write_documents(tmp_path / "mix/a.jsonl")
    work = tmp_path / "mix/counts"
    message = refused(job([f"{tmp_path}/mix"], tmp_path / "out", f"output.work={work}"))
    assert str(work) in message
    assert "output.work" in message
    assert str(tmp_path / "mix") in refused(job([f"{tmp_path}/mix"], "/"))


def test_links_are_resolved(tmp_path):
    write_documents(tmp_path / "real/a.jsonl")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert "link/out" in refused(job([f"{tmp_path}/real"], tmp_path / "link/out"))
    assert "real/out" in refused(job([f"{tmp_path}/link"], tmp_path / "real/out"))
    write_documents(tmp_path / "source/b.jsonl")
    (tmp_path / "source/more").symlink_to(tmp_path / "real")
    assert "real/out" in refused(job([f"{tmp_path}/source"], tmp_path / "real/out"))
    make_plan(job([f"{tmp_path}/source"], tmp_path / "out"))
    make_plan(job([f"{tmp_path}/real"], f"memory://{tmp_path}/real/out"))
    written = tmp_path / "out/run/journal/000001-000001.jsonl"
    write_documents(written)
    (tmp_path / "source/c.jsonl").symlink_to(written)
    message = refused(job([f"{tmp_path}/source"], tmp_path / "out"))
    assert "c.jsonl" in message
    assert str(tmp_path / "out") in message


@pytest.mark.parametrize(("paths", "out"), [("mix", "mix/out"), ("mix/**/*.jsonl", "mix/a/out")])
def test_urls_are_protected(paths, out):
    root = f"memory:///{uuid.uuid4().hex}"
    Folder(root).write_bytes("mix/a.jsonl", b'{"text": "a"}\n')
    message = refused(job([f"{root}/{paths}"], f"{root}/{out}"))
    assert f"{root}/{out}" in message
    make_plan(job([f"{root}/{paths}"], f"{root}/mix-out"))
    assert "out" in refused(job([f"simplecache::{root}/mix"], f"{root}/mix/out"))


def test_the_command_line_refuses_in_one_line_and_the_doctor_reports_it(tmp_path, capsys):
    write_documents(tmp_path / "mix/a.jsonl")
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(paths=f'["{tmp_path}/mix"]', out=tmp_path / "mix/out"))
    for command in (["prepare"], ["plan"], ["prepare", "--dry-run"]):
        assert main([*command, str(path)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("reading ")
        assert error.count("\n") == 2
        assert str(tmp_path / "mix/out") in error
    assert main(["doctor", str(path)]) != 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "source web" in line]
    assert line.startswith("fail")
    assert str(tmp_path / "mix/out") in line
    assert not (tmp_path / "mix/out").exists()


def test_training_on_files_refuses_a_folder_that_contains_the_tokenizer(tmp_path, capsys):
    write_documents(tmp_path / "mix/a.jsonl")
    command = ["tokenizer", "train", "--vocab-size=300", f"--output={tmp_path}/mix/tok"]
    assert main([*command, str(tmp_path / "mix")]) == 2
    assert str(tmp_path / "mix/tok") in capsys.readouterr().err
    assert main([*command, str(tmp_path / "mix/*.jsonl")]) == 0


NAMES = [
    *("line\nbreak.jsonl", "quo'te.jsonl", 'dou"ble.jsonl', "back\\slash.jsonl", "tab\t.jsonl"),
    *("ünï 数据🙂.jsonl", "e\u0301.jsonl", "\u00e9.jsonl", "\x01.jsonl", "\x1b[31mred.jsonl"),
    *("-.jsonl", "--dry-run.jsonl", " .jsonl", "~.jsonl", "$HOME.jsonl"),
    *("a%20b.jsonl", "a#b.jsonl", "a?b=1.jsonl", "[x].jsonl", "a*b.jsonl", "a{b}.jsonl"),
    *("same.jsonl", "sub/same.jsonl", "su b/same.jsonl", "sub../same.jsonl"),
    *("x" * 240 + ".jsonl", "x" * 240 + "y.jsonl"),
]
HIDDEN = ["..jsonl", "...jsonl", ".hidden.jsonl", "..sub../same.jsonl", "_part.jsonl"]


@pytest.fixture
def run_job(tmp_path, in_process, capsys):
    """Return a function that runs a command on `in`: (exit code, JSON, stderr)."""
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(paths=f'["{tmp_path}/in"]', out=tmp_path / "out"))

    def run(*, command="prepare", slice_bytes=100_000):
        limits = (f"limits.slice_bytes={slice_bytes}", "limits.max_quarantined_share=1.0")
        code = main([command, str(path), *(f"--set={limit}" for limit in limits)])
        printed = capsys.readouterr()
        return code, json.loads(printed.out.splitlines()[-1]), printed.err

    return run


def written(out):
    tokenizer = Tokenizer.load(out / "tokenizer")
    return [tokenizer.decode(ids[1:]) for ids in open_shards(str(out))]


def write_named(path):
    """Write a document with the name of the file, and an invalid line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"text": path.name}) + "\noops\n")


@pytest.mark.parametrize("slice_bytes", [40, 2**28], ids=["slices", "groups"])
def test_every_name_is_read_in_byte_order_and_printed_unchanged(run_job, tmp_path, slice_bytes):
    for name in NAMES + HIDDEN:
        write_named(tmp_path / "in" / name)
    code, reported, printed = run_job(slice_bytes=slice_bytes)
    assert code == 0, reported
    ordered = sorted(NAMES, key=os.fsencode)
    assert written(tmp_path / "out") == [name.rpartition("/")[2] for name in ordered]
    entries = [
        json.loads(line)
        for path in (tmp_path / "out/quarantine").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert sorted(entry["file"] for entry in entries) == sorted(NAMES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out", "recipe.toml"]
    assert all(path.name.isascii() for path in (tmp_path / "out").rglob("*"))
    assert "\x1b[31m" not in printed
    assert main(["verify", str(tmp_path / "out"), "--deep"]) == 0
    assert main(["gc", str(tmp_path / "out")]) == 0
    assert "Nothing to do" in run_job(slice_bytes=slice_bytes)[2]


def test_a_changed_file_cannot_write_to_the_terminal_or_forge_a_line(run_job, tmp_path):
    names = ["\x1b[31mred.jsonl", "one\ncount       0 to do.jsonl"]
    for name in [*names, "other.jsonl"]:
        write_named(tmp_path / "in" / name)
    assert run_job()[0] == 0
    for name in names:
        (tmp_path / "in" / name).write_text('{"text": "another"}\n')
    for command in ("plan", "prepare"):
        code, reported, printed = run_job(command=command)
        assert code == 0, reported
        assert "changed" in printed
        assert "\x1b" not in printed
        assert "\ncount       0 to do.jsonl" not in printed


def test_links_are_followed_and_dangling_ones_are_named(run_job, tmp_path):
    write_named(tmp_path / "elsewhere/a.jsonl")
    write_named(tmp_path / "in/b.jsonl")
    (tmp_path / "in/c.jsonl").symlink_to(tmp_path / "elsewhere/a.jsonl")
    (tmp_path / "in/folder").symlink_to(tmp_path / "elsewhere")
    code, reported, _ = run_job()
    assert code == 0, reported
    assert written(tmp_path / "out")[:2] == ["b.jsonl", "a.jsonl"]
    (tmp_path / "in/loop").symlink_to(tmp_path / "in")
    assert run_job()[0] in (0, 2)
    (tmp_path / "in/d.jsonl").symlink_to(tmp_path / "nowhere")
    code, reported, _ = run_job()
    assert code == 2
    assert "d.jsonl" in reported["error"]
