"""`nanotok init`, and `nanotok prepare` with files: a recipe is drafted, written and run."""

import json

import pytest

from nanotok_ray.cli import main
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import load_recipe
from tests.support.small_corpus import write_corpus


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "data")
    return tmp_path / "data"


def run(capsys, *words):
    """Return the exit code, the JSON line and the text."""
    code = main([*map(str, words)])
    captured = capsys.readouterr()
    return code, json.loads(captured.out.splitlines()[-1]), captured.err


def test_init_writes_a_recipe_that_plan_accepts(corpus, capsys):
    code, values, reported = run(capsys, "init", corpus)
    path = corpus.parent / "recipe.toml"
    assert (code, values["recipe"], values["unread"]) == (0, str(path), [])
    assert [line.partition(":")[0] for line in values["found"]] == ["chats", "text"]
    recipe = load_recipe(str(path))
    assert {source.name: source.kind for source in recipe.sources} == {
        "chats": "chat",
        "text": "text",
    }
    assert recipe.output.path == f"{corpus}-tokens"
    assert recipe.tokenizer.vocab_size == 32768
    assert reported.startswith(f"looking at {corpus}\n")
    assert reported.endswith(
        f"next        nanotok plan {path}\n            nanotok prepare {path}\n"
    )
    code, values, _ = run(capsys, "plan", path)
    assert (code, values["status"]) == (0, "planned")


def test_init_reports_what_it_left_out_and_accepts_a_size(corpus, tmp_path, capsys):
    (corpus / "scan.pdf").write_bytes(b"%PDF")
    flags = ["--output", tmp_path / "a.toml", "--vocab-size", "300"]
    code, values, reported = run(capsys, "init", corpus, *flags)
    assert (code, values["unread"]) == (0, ["scan.pdf: no known format"])
    assert "skipped     scan.pdf: no known format\n" in reported
    assert load_recipe(str(tmp_path / "a.toml")).tokenizer.vocab_size == 300


def test_init_replaces_a_recipe_only_with_force(corpus, capsys):
    path = corpus.parent / "recipe.toml"
    path.write_text("mine")
    code, values, _ = run(capsys, "init", corpus)
    assert (code, path.read_text()) == (2, "mine")
    assert "already exists" in values["error"]
    assert "--force" in values["error"]
    assert run(capsys, "init", corpus, "--force")[0] == 0
    assert load_recipe(str(path)).sources


def test_init_explains_why_files_cannot_be_used(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('[{"text": "a"},\n{"text": "b"}]\n')
    code, values, _ = run(capsys, "init", tmp_path / "in")
    assert code == 2
    assert "a.json: one JSON array; write each element on one line" in values["error"]
    assert not (tmp_path / "recipe.toml").exists()


def test_prepare_accepts_files_and_saves_its_recipe(corpus, tmp_path, in_process, capsys):
    out = tmp_path / "out"
    words = ["prepare", corpus, "--output", out, "--vocab-size", "350"]
    code, values, reported = run(capsys, *words)
    assert (code, values["status"], values["vocab_size"]) == (0, "done", 350)
    assert values["documents"]["in"] == 150
    assert f"reading {corpus}\n" in reported
    assert "note: found chats: 2 files of jsonl" in reported
    assert 0 < len(open_shards(str(out), split="val")) < 40
    assert run(capsys, *words)[1]["status"] == "unchanged"
    assert "# --set" not in (out / "recipe.toml").read_text()
    code, values, _ = run(capsys, "prepare", out / "recipe.toml")
    assert (code, values["status"]) == (0, "unchanged")


def test_an_edited_recipe_is_not_replaced(corpus, tmp_path, in_process, capsys):
    words = ["prepare", corpus, "--output", tmp_path / "out", "--vocab-size", "350"]
    assert run(capsys, *words)[0] == 0
    path = tmp_path / "out/recipe.toml"
    path.write_text(path.read_text() + "[limits]\nmax_tails = 1\n")
    code, values, _ = run(capsys, *words)
    assert code == 2
    assert f"nanotok prepare {path}" in values["error"]
    assert "max_tails" in path.read_text()


def test_a_dry_run_of_files_writes_nothing(corpus, tmp_path, capsys):
    flags = ["--output", tmp_path / "out", "--vocab-size", "350", "--dry-run"]
    code, values, _ = run(capsys, "prepare", corpus, *flags)
    assert (code, values["status"], values["learn"]["todo"]) == (0, "planned", 1)
    assert not (tmp_path / "out").exists()
