"""The command line: exit codes, stdout and stderr, and texts for people."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nanotok_ray import errors
from nanotok_ray.cli import main
from nanotok_ray.job import use_executor
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess
from tests.support.small_corpus import texts, write_parquet

ROOT = Path(__file__).resolve().parents[2]


def last_json(captured):
    return json.loads(captured.out.splitlines()[-1])


def test_prepare_prints_text_and_one_json_line_last(job, capsys):
    path, out = job
    assert main(["prepare", path]) == 0
    captured = capsys.readouterr()
    values = last_json(captured)
    assert captured.out.count("\n") == 1
    assert (values["status"], values["documents"]["in"]) == ("done", 150)
    assert values["output"] == str(out)
    stages = ("count (1 of 5): ", "learn (3 of 5): ", "tokenize (4 of 5): ")
    for word in (*stages, "bytes per token", "verified"):
        assert word in captured.err
    assert main(["prepare", path]) == 0
    captured = capsys.readouterr()
    assert last_json(captured)["status"] == "unchanged"
    assert captured.err.splitlines()[1].startswith("Nothing to do")


def test_train_accepts_the_flags_of_nanochat_in_both_spellings(job, capsys):
    path, _ = job
    sizes = []
    for flags in (
        ["--vocab-size", "300", "--max-chars", "500", "--doc-cap", "40"],
        ["--vocab_size=290", "--max_chars=500", "--doc_cap=40"],
    ):
        assert main(["train", path, *flags]) == 0
        captured = capsys.readouterr()
        sizes.append(last_json(captured)["vocab_size"])
        assert f"nanotok tokenize {path}\n" in captured.err
    assert sizes == [300, 290]


def test_train_without_a_recipe_uses_the_folders_of_nanochat(
    tmp_path, in_process, capsys, monkeypatch
):
    monkeypatch.setenv("NANOCHAT_BASE_DIR", str(tmp_path))
    for number in range(2):
        path = tmp_path / f"base_data_climbmix/shard_{number:05d}.parquet"
        write_parquet(path, texts(40, seed=number))
    recipe = str(ROOT / "jobs/recipes/nanochat.toml")
    arguments = ["train", "--vocab-size", "300", "--to-nanochat"]
    assert main(arguments, default_recipe=recipe) == 0
    learned = Tokenizer.from_directory(tmp_path / "tokenizer")
    alone = Tokenizer.train_from_iterator(texts(40, seed=0), 300)
    assert learned == alone
    assert (tmp_path / "tokenizer/tokenizer.pkl").exists()
    assert str(tmp_path / "tokenizer") in capsys.readouterr().err


def test_bad_data_exits_3_and_a_damaged_output_4(job, capsys, tmp_path):
    path, out = job
    assert main(["prepare", path]) == 0
    assert main(["verify", str(out)]) == 0
    assert last_json(capsys.readouterr())["status"] == "verified"
    shard = next(out.glob("web/train/*.bin"))
    shard.write_bytes(shard.read_bytes()[:-2])
    assert main(["verify", str(out)]) == 4
    captured = capsys.readouterr()
    assert shard.name in captured.err
    assert last_json(captured)["problems"]
    assert main(["verify", str(tmp_path)]) == 4
    (tmp_path / "in/chats/0.jsonl").write_text("oops\n")
    assert main(["prepare", path]) == 3


def test_inspect_shows_the_id_of_a_document(job, capsys):
    path, out = job
    chats = out.parent / "in/chats/0.jsonl"
    messages = json.loads(chats.read_text().splitlines()[1])
    chats.write_text(json.dumps({"id": "a\x1b", "messages": messages}))
    main(["prepare", path, "--set", "source.chats.id_column=id"])
    capsys.readouterr()
    assert main(["inspect", str(out), "--source", "chats"]) == 0
    assert r"id 'a\x1b'" in capsys.readouterr().out.splitlines()[0]
    assert main(["inspect", str(out), "--source", "chats", "--doc", "1"]) == 0
    assert ", id" not in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.RecipeError, 2),
        (errors.SourceError, 2),
        (errors.PlanError, 2),
        (errors.QuarantineLimitError, 3),
        (errors.VerificationError, 4),
        (errors.CorruptOutputError, 4),
        (errors.IncompleteOutputError, 4),
        (errors.SliceError, 5),
        (errors.SharedFolderError, 5),
        (errors.TransientIOError, 5),
        (errors.OutputInUseError, 6),
        (errors.LeaseLostError, 6),
        (KeyboardInterrupt, 130),
    ],
)
def test_each_kind_of_failure_has_its_exit_code(job, capsys, error, code):
    def fail(**_):
        raise error("what happened")

    with use_executor(InProcess(on_session=fail)):
        assert main(["prepare", job[0]]) == code
    reported = json.loads(capsys.readouterr().out)
    assert reported["status"] == ("interrupted" if code == 130 else "failed")


@pytest.mark.parametrize("job_name", ["prepare", "train_tokenizer", "tokenize_corpus"])
def test_every_job_runs_as_a_module(job_name):
    done = subprocess.run(
        [sys.executable, "-m", f"jobs.{job_name}", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--set KEY=VALUE" in done.stdout


@pytest.mark.parametrize("flag", ["--quiet", "--verbose"])
def test_options_change_the_amount_of_progress(job, capsys, flag):
    path, out = job
    assert main(["prepare", path, flag]) == 0
    captured = capsys.readouterr()
    assert last_json(captured)["status"] == "done"
    if flag == "--quiet":
        assert captured.err == ""
    else:
        assert len(re.findall(r"^note: .*web/.*: done in ", captured.err, re.MULTILINE)) >= 20
    assert main(["verify", str(out / "nowhere"), flag]) == 4
    error = capsys.readouterr().err
    assert "nanotok: error: " in error
    assert ("Traceback" in error) == (flag == "--verbose")
