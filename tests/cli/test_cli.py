"""The command line: exit codes, stdout and stderr, and texts for people."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nanotok_ray import errors
from nanotok_ray.api import export
from nanotok_ray.cli import main
from nanotok_ray.cluster.submit import ship
from nanotok_ray.errors import ExportError, os_error_message
from nanotok_ray.exports import parse_layout
from nanotok_ray.job import LocalExecutor, use_executor
from nanotok_ray.recipe import load_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess
from tests.support.finished_output import copy_of
from tests.support.made_output import BOS, MadeSource, made_output
from tests.support.small_corpus import RECIPE, texts, write_parquet

ROOT = Path(__file__).resolve().parents[2]


def test_prepare_prints_text_and_one_json_line_last(job, run):
    path, out = job
    code, values, text = run("prepare", path)
    assert (code, values["status"], values["documents"]["in"]) == (0, "done", 150)
    assert values["output"] == str(out)
    stages = ("count (1 of 5): ", "learn (3 of 5): ", "tokenize (4 of 5): ")
    for word in (*stages, "bytes per token", "verified"):
        assert word in text
    code, values, text = run("prepare", path)
    assert (code, values["status"]) == (0, "unchanged")
    assert text.splitlines()[1].startswith("Nothing to do")
    assert run("verify", out)[1]["status"] == "verified"
    shard = next(out.glob("web/train/*.bin"))
    shard.write_bytes(shard.read_bytes()[:-2])
    code, values, text = run("verify", out)
    assert (code, shard.name in text, len(values["problems"]) > 0) == (4, True, True)


def test_train_accepts_the_flags_of_nanochat_in_both_spellings(job, run):
    for size, flags in (
        (300, ["--vocab-size", "300", "--max-chars", "500", "--doc-cap", "40"]),
        (290, ["--vocab_size=290", "--max_chars=500", "--doc_cap=40"]),
    ):
        code, values, text = run("train", job[0], *flags)
        assert (code, values["vocab_size"]) == (0, size)
        assert f"nanotok tokenize {job[0]}\n" in text


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
    assert learned == Tokenizer.train_from_iterator(texts(40, seed=0), 300)
    assert (tmp_path / "tokenizer/tokenizer.pkl").exists()
    assert str(tmp_path / "tokenizer") in capsys.readouterr().err


def test_inspect_shows_the_id_of_a_document(job, run, capsys):
    path, out = job
    chats = out.parent / "in/chats/0.jsonl"
    messages = json.loads(chats.read_text().splitlines()[1])
    chats.write_text(json.dumps({"id": "a\x1b", "messages": messages}))
    run("prepare", path, "--set", "source.chats.id_column=id")
    for number, is_shown in (0, True), (1, False):
        assert main(["inspect", str(out), "--source", "chats", "--doc", str(number)]) == 0
        heading = capsys.readouterr().out.splitlines()[0]
        assert (r", id 'a\x1b'" in heading, ", id" in heading) == (is_shown, is_shown)


EXIT_CODES = {
    2: [errors.RecipeError, errors.SourceError, errors.PlanError],
    3: [errors.QuarantineLimitError],
    4: [errors.VerificationError, errors.CorruptOutputError, errors.IncompleteOutputError],
    5: [errors.SliceError, errors.SharedFolderError, errors.TransientIOError],
    6: [errors.OutputInUseError, errors.LeaseLostError],
    130: [KeyboardInterrupt],
}


@pytest.mark.parametrize("code", EXIT_CODES)
def test_each_kind_of_failure_has_its_exit_code(job, run, code):
    for error in EXIT_CODES[code]:

        def fail(error=error, **_):
            raise error("what happened")

        with use_executor(InProcess(on_session=fail)):
            found, values, _ = run("prepare", job[0])
        status = "interrupted" if code == 130 else "failed"
        assert (found, values["status"]) == (code, status), error


@pytest.mark.parametrize("job_name", ["prepare", "train_tokenizer", "tokenize_corpus"])
def test_every_job_runs_as_a_module(job_name):
    command = [sys.executable, "-m", f"jobs.{job_name}", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--set KEY=VALUE" in done.stdout


@pytest.mark.parametrize("flag", ["--quiet", "--verbose"])
def test_options_change_the_amount_of_progress(job, run, flag):
    path, out = job
    code, values, text = run("prepare", path, flag)
    assert (code, values["status"]) == (0, "done")
    if flag == "--quiet":
        assert text == ""
    else:
        assert len(re.findall(r"^note: .*web/.*: done in ", text, re.MULTILINE)) >= 20
    code, _, text = run("verify", out / "nowhere", flag)
    assert (code, "nanotok: error: " in text) == (4, True)
    assert ("Traceback" in text) == (flag == "--verbose")


def test_a_recipe_may_start_with_a_byte_order_mark(job):
    path = Path(job[0])
    plain = load_recipe(str(path))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_recipe(str(path)) == plain
    shipped = ship(str(path), job="prepare", variables={}, environment={})
    assert shipped.output == plain.output.path


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EACCES, "give this user access"),
        (errno.EROFS, "choose another folder"),
        (errno.EMFILE, "ulimit -n"),
    ],
)
def test_errors_of_the_operating_system_name_a_remedy(number, step):
    line = os_error_message(OSError(number, os.strerror(number), "/data/out/a"))
    assert line.startswith(f"/data/out/a: {os.strerror(number)}; ")
    assert step in line
    assert os_error_message(OSError("plain")) == "plain"
    assert os_error_message(OSError(5, "odd", "/a")) == "/a: odd"


@pytest.mark.parametrize("executor", [None, LocalExecutor(in_threads=True), "local"])
def test_a_layout_that_cannot_hold_a_document_is_one_error_on_every_executor(
    tmp_path, in_process, executor
):
    made = made_output(tmp_path / "out", MadeSource(name="web", shards=[[[BOS, 1], [BOS, 5, BOS]]]))
    with pytest.raises(ExportError, match=r"holds <\|bos\|> again at token 2"):
        export(made, parse_layout("llmc"), executor=executor)
    assert not made.exists("export/llmc/export.json")


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii:strict"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}]
)
@pytest.mark.parametrize(
    ("words", "stream"), [(["inspect", "--doc", "0-30"], "stdout"), (["verify"], "stderr")], ids=str
)
def test_an_ascii_terminal_receives_escapes(out, tmp_path, environment, words, stream):
    out = copy_of(out, tmp_path / "caf\u00e9")
    code = "import sys; from nanotok_ray.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, words[0], str(out), *words[1:]],
        env={**os.environ, "PYTHONCOERCECLOCALE": "0", **environment},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"UnicodeEncodeError" in done.stderr) == (0, False)
    assert b"\\u" in getattr(done, stream) or b"\\xe9" in getattr(done, stream)


@pytest.mark.parametrize("command", ["prepare", "train", "tokenize"])
def test_the_cluster_is_contacted_before_the_inputs(tmp_path, run, monkeypatch, command):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(root="/gone", out=tmp_path / "out"))
    for address, code, words in (
        ("127.0.0.1:9", 5, "127.0.0.1:9 cannot be reached"),
        ("http://127.0.0.1:9", 2, "is a job server"),
    ):
        monkeypatch.setenv("RAY_ADDRESS", address)
        found, values, _ = run(command, path)
        error = values["error"]
        assert (found, "RAY_ADDRESS" in error, words in error) == (code, True, True)
