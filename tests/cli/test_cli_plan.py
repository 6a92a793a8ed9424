"""`nanotok plan` and `nanotok init`."""

import json
from functools import partial

import pytest

from nanotok_ray.formats import PLAN_NAME
from nanotok_ray.job.planning import measured_rates
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import load_recipe
from tests.support.small_corpus import contents, texts, write_corpus, write_parquet


@pytest.fixture
def planned(succeed):
    """Return a function that runs `nanotok plan` and returns its JSON line and its text."""
    return partial(succeed, "plan")


def test_plan_freezes_the_inputs_and_writes_nothing_else(job, planned, run, tmp_path):
    path, out = job
    values, reported = planned(path)
    assert list(contents(out)) == [PLAN_NAME]
    assert [name.name for name in (out / "run").iterdir()] == ["checksums"]
    assert not (tmp_path / "out-work").exists()
    assert values["frozen"] == {"status": "frozen", "path": f"{out}/plan.json"}
    assert "files that are added later belong to train" in reported
    write_parquet(tmp_path / "in/text/shard_00009.parquet", texts(5, seed=9))
    values, reported = planned(path)
    val = values["sources"][0]["val"]
    assert (val["files"], val["first"]) == (1, ["shard_00002.parquet"])
    assert 0 < val["stored_bytes"] < values["sources"][0]["stored_bytes"]
    assert values["changes"]["sources"][0]["added"] == ["shard_00009.parquet"]
    assert "changed     web: 1 added (shard_00009.parquet)" in reported
    assert values["frozen"]["status"] == "frozen"
    assert planned(path)[0]["frozen"]["status"] == "as before"
    values, _ = planned(path, "--resplit")
    assert values["sources"][0]["val"]["first"] == ["shard_00009.parquet"]
    assert run("prepare", path)[0] == 0
    assert {p.name.split("-")[0] for p in (out / "web/val").iterdir()} == {"shard_00009"}


def test_plan_lists_the_contents_of_each_source(job, planned):
    values, reported = planned(job[0])
    web, chats = values["sources"]
    assert (web["format"], web["documents"], web["files"]) == ("parquet", 120, 3)
    assert (chats["format"], chats["documents"]) == ("jsonl", None)
    assert web["root"].endswith("/in/text")
    assert web["slices"] == {"train": 10, "val": 5}
    assert 0 < web["largest_slice"] <= 3000
    assert web["bytes"] > web["stored_bytes"] > 0
    assert chats["bytes"] == chats["stored_bytes"]
    assert (values["count"]["todo"], values["tokenize"]["todo"]) == (10, 19)
    for word in ("120 documents", "documents unknown", "val: shard_00002.parquet", "10 train"):
        assert word in reported


def test_plan_reports_groups_of_small_files(job, planned):
    values, reported = planned(job[0], "--set", "limits.slice_bytes=64MiB")
    web = values["sources"][0]
    assert web["groups"] == {"groups": 1, "files": 2}
    assert web["slices"] == {"train": 1, "val": 1}
    assert "2 small files in 1 group\n" in reported
    shared = (
        *("--set", "limits.slice_bytes=64MiB"),
        *("--set", "source.web.split=share:0.2", "--resplit"),
    )
    values, reported = planned(job[0], *shared)
    assert "belong to train; with split = share:S, the hash of each document decides\n" in reported
    assert values["sources"][0]["slices"] == {"train": 1, "val": 1}
    assert values["sources"][0]["groups"] == {"groups": 1, "files": 3}


def test_a_finished_output_keeps_its_plan_passes_verify_and_an_empty_plan_takes_no_time(
    job, planned, run, tmp_path
):
    path, out = job
    assert run("prepare", path)[0] == 0
    before = contents(out)
    write_parquet(tmp_path / "in/text/shard_00000b.parquet", texts(5, seed=9))
    values, reported = planned(path)
    assert values["frozen"]["status"] == "not frozen"
    assert "not saved" in reported
    assert contents(out) == before
    assert run("verify", out)[0] == 0
    assert (values["count"]["todo"], values["learn"]["todo"]) == (0, 0)
    anew = planned(path, "--relearn")[0]
    assert (anew["count"]["todo"], anew["learn"]["todo"]) == (1, 1)
    assert run("prepare", path)[0] == 0
    values, reported = planned(path)
    assert values["frozen"]["status"] == "as before"
    assert (values["estimate"]["seconds"], values["estimate"]["stages"]) == (0, {})
    assert "estimate    nothing to count, learn or tokenize" in reported


def test_time_is_the_maximum_of_all_bytes_and_the_largest_slice_at_the_given_rate(job, planned):
    values, reported = planned(job[0], "--rate", "0.001", "--cpus", "2")
    count = values["estimate"]["stages"]["count"]
    assert count["seconds"] == round(values["count"]["bytes"] / 2000, 1)
    assert (count["per_cpu"], count["megabytes_per_second"]) == (True, 0.001)
    assert values["estimate"]["stages"]["learn"]["seconds"] is None
    assert "on 2 CPUs: count about" in reported
    assert "learn not estimated" in reported
    assert "CPUs busy" not in reported
    many, reported = planned(job[0], "--rate", "0.00001", "--cpus", "1000")
    few = many["estimate"]["stages"]["count"]["tasks"]
    assert f"count keeps at most {few} of 1,000 CPUs busy; a smaller limits.slice_bytes" in reported
    many = planned(job[0], "--rate", "0.001", "--cpus", "1000")[0]
    slices = [many[stage]["largest_slice"] / 1000 for stage in ("count", "tokenize")]
    other = many["estimate"]["stages"]["other"]["seconds"]
    assert other >= 5
    assert many["estimate"]["seconds"] == pytest.approx(sum(slices) + other, abs=0.2)
    assert "other: planning, start and end of Ray" in reported


def test_the_rate_of_the_last_run_is_used_if_it_was_long_enough(job, planned, run):
    path, out = job
    assert run("prepare", path)[0] == 0
    summary = json.loads((out / "run/summary.json").read_text())
    other = ["--set", "tokenizer.pattern=gpt4"]  # everything must be done again
    stages = planned(path, *other)[0]["estimate"]["stages"]
    assert "measured on this machine" in stages["count"]["from"]  # the run was too short to measure
    summary["stages"]["count"] |= {"seconds": 10.0, "bytes": 5000}
    (out / "run/summary.json").write_text(json.dumps(summary))
    values, reported = planned(path, *other)
    stages = values["estimate"]["stages"]
    assert stages["count"]["seconds"] == round(values["count"]["bytes"] / 500, 1)
    assert stages["count"]["per_cpu"] is False
    assert "as in the last run" in stages["count"]["from"]
    assert "measured on this machine" in stages["tokenize"]["from"]
    assert stages["learn"]["seconds"] == round(summary["stages"]["learn"]["seconds"], 1)
    assert "not estimated" not in reported
    # The CPUs of the last run are unknown, so its rate is not used for four CPUs.
    stages = planned(path, *other, "--cpus", "4")[0]["estimate"]["stages"]
    assert "measured" in stages["count"]["from"]
    (out / "run/summary.json").write_text("half a")
    assert "measured" in planned(path, *other)[0]["estimate"]["stages"]["count"]["from"]


def test_without_text_the_time_is_unknown(job, planned, tmp_path):
    write_parquet(tmp_path / "in/empty/0.parquet", [])
    values, reported = planned(job[0], "--set", f"source.web.paths={tmp_path}/in/empty")
    assert values["estimate"]["seconds"] is None
    assert values["estimate"]["stages"]["count"]["seconds"] is None
    assert "unknown" in reported
    assert "--rate" in reported
    assert measured_rates([], pattern="nanochat", tokenizer=None) == {}


def test_with_max_chars_the_plan_expects_about_as_many_slices_as_needed(job, planned):
    values = planned(job[0], "--rate", "1", "--set", "limits.max_chars=4000")[0]
    assert values["count"]["todo"] == 2
    (note,) = values["notes"]
    assert "to 2 slices at first" in note
    assert "at most 10" in note


def test_an_existing_tokenizer_requires_no_counting(job, planned, run, tmp_path):
    path, out = job
    assert run("train", path)[0] == 0
    other = ["--set", f"tokenizer.path={out}/tokenizer", "--set", f"output.path={tmp_path}/two"]
    values = planned(path, *other)[0]
    assert "count" not in values
    assert list(values["estimate"]["stages"]) == ["other", "tokenize"]


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "data")
    return tmp_path / "data"


def test_init_writes_a_recipe_that_plan_accepts_and_replaces_it_only_with_force(corpus, run):
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
    assert run("plan", path)[1]["status"] == "planned"
    path.write_text("mine")
    code, values, _ = run("init", corpus)
    assert (code, path.read_text()) == (2, "mine")
    assert "already exists" in values["error"]
    assert "--force" in values["error"]
    assert run("init", corpus, "--force")[0] == 0
    assert load_recipe(str(path)) == recipe


def test_init_reports_what_it_left_out_and_accepts_a_size(corpus, tmp_path, run):
    (corpus / "scan.pdf").write_bytes(b"%PDF")
    flags = ["--output", tmp_path / "a.toml", "--vocab-size", "300"]
    code, values, reported = run("init", corpus, *flags)
    [line] = values["unread"]
    assert (code, line.partition(";")[0]) == (0, "scan.pdf: no known format, 4 bytes")
    assert f"skipped     {line}\n" in reported
    assert load_recipe(str(tmp_path / "a.toml")).tokenizer.vocab_size == 300


def test_init_explains_why_files_cannot_be_used(tmp_path, run):
    (tmp_path / "a.json").write_text('[{"text": "a"},\n{"text": "b"}]\n')
    code, values, _ = run("init", tmp_path / "a.json", "--output", tmp_path / "recipe.toml")
    assert code == 2
    assert "a.json: one JSON array, which is not read: convert it with" in values["error"]
    assert not (tmp_path / "recipe.toml").exists()


def test_prepare_accepts_files_and_saves_a_recipe_that_can_be_edited(
    corpus, tmp_path, in_process, run
):
    out = tmp_path / "out"
    words = ["prepare", corpus, "--output", out, "--vocab-size", "350"]
    code, values, _ = run(*words, "--dry-run")
    assert (code, values["status"], values["learn"]["todo"]) == (0, "planned", 1)
    assert not out.exists()
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
    code, values, reported = run(*words)
    assert (code, values["status"]) == (0, "unchanged")
    assert f"note: using {path}\n" in reported
    assert "max_tails" in path.read_text()
