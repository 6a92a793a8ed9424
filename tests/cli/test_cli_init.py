"""`nanotok init`, and `nanotok prepare` with files: a recipe is drafted, written and run."""

import pytest

from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import load_recipe
from tests.support.small_corpus import write_corpus


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "data")
    return tmp_path / "data"


def test_init_writes_a_recipe_that_plan_accepts(corpus, run):
    code, values, reported = run("init", corpus)
    path = corpus.parent / "recipe.toml"
    assert (code, values["recipe"], values["unread"]) == (0, str(path), [])
    assert [line.partition(":")[0] for line in values["found"]] == ["chats", "text"]
    recipe = load_recipe(str(path))
    kinds = {source.name: source.kind for source in recipe.sources}
    assert kinds == {"chats": "chat", "text": "text"}
    assert recipe.output.path == f"{corpus}-tokens"
    assert recipe.tokenizer.vocab_size == 32768
    assert reported.startswith(f"looking at {corpus}\n")
    assert reported.endswith(
        f"next        nanotok plan {path}\n            nanotok prepare {path}\n"
    )
    code, values, _ = run("plan", path)
    assert (code, values["status"]) == (0, "planned")


def test_init_reports_what_it_left_out_and_accepts_a_size(corpus, tmp_path, run):
    (corpus / "scan.pdf").write_bytes(b"%PDF")
    flags = ["--output", tmp_path / "a.toml", "--vocab-size", "300"]
    code, values, reported = run("init", corpus, *flags)
    assert (code, values["unread"]) == (0, ["scan.pdf: no known format"])
    assert "skipped     scan.pdf: no known format\n" in reported
    assert load_recipe(str(tmp_path / "a.toml")).tokenizer.vocab_size == 300


def test_init_replaces_a_recipe_only_with_force(corpus, run):
    path = corpus.parent / "recipe.toml"
    path.write_text("mine")
    code, values, _ = run("init", corpus)
    assert (code, path.read_text()) == (2, "mine")
    assert "already exists" in values["error"]
    assert "--force" in values["error"]
    assert run("init", corpus, "--force")[0] == 0
    assert load_recipe(str(path)).sources


def test_init_explains_why_files_cannot_be_used(tmp_path, run):
    (tmp_path / "a.json").write_text('[{"text": "a"},\n{"text": "b"}]\n')
    code, values, _ = run("init", tmp_path / "a.json", "--output", tmp_path / "recipe.toml")
    assert code == 2
    assert "a.json: one JSON array; write each element on one line" in values["error"]
    assert not (tmp_path / "recipe.toml").exists()


def test_prepare_accepts_files_and_saves_its_recipe_unless_it_was_edited(
    corpus, tmp_path, in_process, run
):
    out = tmp_path / "out"
    words = ["prepare", corpus, "--output", out, "--vocab-size", "350"]
    code, values, reported = run(*words)
    assert (code, values["status"], values["vocab_size"]) == (0, "done", 350)
    assert values["documents"]["in"] == 150
    assert f"reading {corpus}\n" in reported
    assert "note: found chats: 2 files of jsonl" in reported
    assert 0 < len(open_shards(str(out), split="val")) < 40
    assert run(*words)[1]["status"] == "unchanged"
    assert "# --set" not in (out / "recipe.toml").read_text()
    path = out / "recipe.toml"
    code, values, _ = run("prepare", path)
    assert (code, values["status"]) == (0, "unchanged")
    path.write_text(path.read_text() + "[limits]\nmax_tails = 1\n")
    code, values, _ = run(*words)
    assert code == 2
    assert f"nanotok prepare {path}" in values["error"]
    assert "max_tails" in path.read_text()


def test_a_dry_run_of_files_writes_nothing(corpus, tmp_path, run):
    flags = ["--output", tmp_path / "out", "--vocab-size", "350", "--dry-run"]
    code, values, _ = run("prepare", corpus, *flags)
    assert (code, values["status"], values["learn"]["todo"]) == (0, "planned", 1)
    assert not (tmp_path / "out").exists()
