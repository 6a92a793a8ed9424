"""Common mistakes: their messages and exit codes."""

import errno
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.api import export
from nanotok_ray.cli import main
from nanotok_ray.cluster.submit import ship
from nanotok_ray.errors import ExportError, os_error_message
from nanotok_ray.exports import parse_layout
from nanotok_ray.job import LocalExecutor
from nanotok_ray.recipe import load_recipe
from tests.support.finished_output import copy_of
from tests.support.made_output import BOS, MadeSource, made_output

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/*.parquet"]
[output]
path = "{root}/out"
"""


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(2):
        pq.write_table(pa.table({"text": ["a b", "c"]}), tmp_path / f"in/{number}.parquet")
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(root=tmp_path))
    (tmp_path / "file").write_text("")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and then nothing of the kind")
    return path


def reported(capsys, *arguments):
    code = main(list(arguments))
    return code, capsys.readouterr().err.splitlines()[-1].replace("nanotok: error: ", "")


def test_a_recipe_may_start_with_a_byte_order_mark(recipe, tmp_path):
    plain = load_recipe(str(recipe))
    recipe.write_bytes(b"\xef\xbb\xbf" + recipe.read_bytes())
    assert load_recipe(str(recipe)) == plain
    assert (
        ship(str(recipe), job="prepare", variables={}, environment={}).output == plain.output.path
    )


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


def test_a_complete_error_message_is_not_extended():
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
@pytest.mark.parametrize(("command", "stream"), [("inspect", "stdout"), ("verify", "stderr")])
def test_an_ascii_terminal_receives_escapes(out, tmp_path, environment, command, stream):
    out = copy_of(out, tmp_path / "caf\u00e9")
    code = "import sys; from nanotok_ray.cli import main; sys.exit(main())"
    more = ["--doc", "0-30"] if command == "inspect" else []
    done = subprocess.run(
        [sys.executable, "-c", code, command, str(out), *more],
        env={**os.environ, "PYTHONCOERCECLOCALE": "0", **environment},
        capture_output=True,
        check=False,
    )
    assert b"UnicodeEncodeError" not in done.stderr
    assert done.returncode == 0
    assert b"\\u" in getattr(done, stream) or b"\\xe9" in getattr(done, stream)


@pytest.mark.parametrize("command", ["prepare", "train", "tokenize"])
def test_the_cluster_is_contacted_before_the_inputs(recipe, capsys, monkeypatch, command):
    for address, code, words in (
        ("127.0.0.1:9", 5, "127.0.0.1:9 cannot be reached"),
        ("http://127.0.0.1:9", 2, "is a job server"),
    ):
        monkeypatch.setenv("RAY_ADDRESS", address)
        found = reported(capsys, command, str(recipe), "--set", "source.web.paths=/gone/*")
        assert (found[0], "RAY_ADDRESS" in found[1], words in found[1]) == (code, True, True)
