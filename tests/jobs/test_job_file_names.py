"""Files of any name through a whole job by the command line: none is lost or mixed up.

Names of files of sources can be hostile; outputs are never written outside the output folder.
"""

import json
import os

import pytest

from nanotok_ray.cli import main
from nanotok_ray.loader import open_shards
from nanotok_ray.tokenizer import Tokenizer

RECIPE = """
tokenizer.vocab_size = 300
output.path = "{out}"
limits = {{slice_bytes = {slice_bytes}, max_quarantined_share = 1.0}}

[[source]]
name = "web"
kind = "text"
paths = {paths}
split = "train"
"""
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
def job(tmp_path, in_process, capsys):
    """Return a function that runs a command on paths: (exit code, JSON, stderr)."""

    def run(paths, command="prepare", slice_bytes=100_000):
        recipe = tmp_path / "recipe.toml"
        values = {"paths": json.dumps([str(path) for path in paths]), "slice_bytes": slice_bytes}
        recipe.write_text(RECIPE.format(out=tmp_path / "out", **values))
        code = main([command, str(recipe)])
        printed = capsys.readouterr()
        return code, json.loads(printed.out.splitlines()[-1]), printed.err

    return run


def written(out):
    tokenizer = Tokenizer.load(out / "tokenizer")
    return [tokenizer.decode(ids[1:]) for ids in open_shards(str(out))]


def write(path):
    """Write a document with the name of the file, and an invalid line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"text": path.name}) + "\noops\n")


@pytest.mark.parametrize("slice_bytes", [40, 2**28], ids=["slices", "groups"])
def test_every_name_is_read_in_byte_order_and_printed_unchanged(job, tmp_path, slice_bytes):
    for name in NAMES + HIDDEN:
        write(tmp_path / "in" / name)
    code, reported, printed = job([tmp_path / "in"], slice_bytes=slice_bytes)
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
    assert "Nothing to do" in job([tmp_path / "in"], slice_bytes=slice_bytes)[2]


def test_a_changed_file_cannot_write_to_the_terminal_or_forge_a_line(job, tmp_path):
    names = ["\x1b[31mred.jsonl", "one\ncount       0 to do.jsonl"]
    for name in [*names, "other.jsonl"]:
        write(tmp_path / "in" / name)
    assert job([tmp_path / "in"])[0] == 0
    for name in names:
        (tmp_path / "in" / name).write_text('{"text": "another"}\n')
    for command in ("plan", "prepare"):
        code, reported, printed = job([tmp_path / "in"], command=command)
        assert code == 0, reported
        assert "changed" in printed
        assert "\x1b" not in printed
        assert "\ncount       0 to do.jsonl" not in printed


def test_links_are_followed_and_dangling_ones_are_named(job, tmp_path):
    write(tmp_path / "elsewhere/a.jsonl")
    write(tmp_path / "in/b.jsonl")
    (tmp_path / "in/c.jsonl").symlink_to(tmp_path / "elsewhere/a.jsonl")
    (tmp_path / "in/folder").symlink_to(tmp_path / "elsewhere")
    code, reported, _ = job([tmp_path / "in"])
    assert code == 0, reported
    assert written(tmp_path / "out")[:2] == ["b.jsonl", "a.jsonl"]
    (tmp_path / "in/loop").symlink_to(tmp_path / "in")
    assert job([tmp_path / "in"])[0] in (0, 2)
    (tmp_path / "in/d.jsonl").symlink_to(tmp_path / "nowhere")
    code, reported, _ = job([tmp_path / "in"])
    assert code == 2
    assert "d.jsonl" in reported["error"]
