"""`nanotok submit`: arguments, the job's entrypoint, endings, the job's log."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.cli import main
from nanotok_ray.cli.display import Display
from nanotok_ray.cli.submit import MAX_NOTES, SubmitLines, address_of
from nanotok_ray.cluster.submit.following import LAST_LINES, MAX_NEW_LINES, JobLog, ending_of
from nanotok_ray.cluster.submit.shipping import (
    JobCommand,
    Submission,
    check_id,
    ship,
    variables_of,
)
from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.text import tomllib  # tomli on Python 3.10
from nanotok_ray.storage import Folder
from tests.support.job_server import job_details

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["${DATA:-/data}/web/*.parquet"]
[output]
path = "/data/out"
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "My web.toml"
    path.write_text(RECIPE)
    return path


def shipped(recipe, **options):
    settings = {name: options.pop(name, {}) for name in ("variables", "environment")}
    return ship(str(recipe), JobCommand(**{"job": "prepare", **options}), **settings)


def test_only_the_recipe_is_uploaded_and_the_command_survives_a_shell(recipe):
    (recipe.parent / "secret.txt").write_text("no")
    own = shipped(recipe, overrides=["limits.slice_bytes=4 MiB"], also="8192", flags=["--resplit"])
    assert own.files == {"My-web.toml": RECIPE.encode()}
    assert own.entrypoint == (
        "python -m jobs.prepare My-web.toml --set 'limits.slice_bytes=4 MiB' --also 8192 --resplit"
    )
    assert own.output == "/data/out"
    assert own.notes == ()
    assert shipped(recipe, job="train").entrypoint.startswith("python -m jobs.train_tokenizer ")


def test_the_id_depends_on_everything_the_job_depends_on(recipe):
    def own_id(**options):
        return shipped(recipe, **options).base_id

    first = own_id()
    assert first.startswith("nanotok-My-web-")
    assert len(first.rpartition("-")[2]) == 12
    assert own_id(environment={"OTHER": "1"}) == first
    others = (
        {"job": "train"},
        {"overrides": ["output.path=/data/other"]},
        {"also": "8192"},
        {"flags": ["--relearn"]},
        {"variables": {"DATA": "/data"}},
        {"variables": {"DATA": "/data2"}},
    )
    ids = {first, *(own_id(**options) for options in others)}
    recipe.write_text(RECIPE + "# another\n")
    assert len({*ids, own_id()}) == 8
    recipe.write_text(RECIPE)
    assert own_id() == first


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("output.path=build/out", "output.path = 'build/out'"),
        ("output.work=./work", "output.work = './work'"),
        ("output.path=none", "output.path = 'none'"),
        ("tokenizer.path=../tokenizer", "tokenizer.path = '../tokenizer'"),
        ('source.web.paths=["/a", "b/*.parquet"]', "source.web.paths = 'b/*.parquet'"),
        (
            "source.web.paths=${DATA:-data}/x",
            "source.web.paths = 'data/x' (from '${DATA:-data}/x')",
        ),
        ("output.path=${OUT}", "--env NAME=VALUE"),
        ("limits.slice_byte=3", "slice_bytes"),
    ],
)
def test_paths_that_differ_on_the_cluster_are_refused_by_key(recipe, override, named):
    with pytest.raises(RecipeError) as raised:
        shipped(recipe, overrides=[override], environment={"OUT": "/here"})
    assert named in str(raised.value)


@pytest.mark.parametrize("path", ["s3://bucket/out", "file:///data/out", "/data/out", "~/out"])
def test_absolute_paths_and_urls_are_accepted(recipe, path):
    own = shipped(recipe, overrides=[f"output.path={path}", "tokenizer.path=none"])
    assert [note.partition(":")[0] for note in own.notes] == (
        ["output.path = '~/out'"] if path == "~/out" else []
    )


def test_a_variable_set_only_here_is_reported(recipe):
    (note,) = shipped(recipe, environment={"DATA": "/mine"}).notes
    assert "--env DATA passes it on" in note
    own = shipped(recipe, variables={"DATA": "/mine"}, environment={"DATA": "x"})
    assert own.notes == ()
    assert own.variables == {"DATA": "/mine"}
    variables = {"AWS_SECRET_ACCESS_KEY": "hush-hush", "RAY_AUTH_TOKEN_PATH": "/etc/token"}
    (note,) = shipped(recipe, variables=variables).notes
    assert note.startswith("AWS_SECRET_ACCESS_KEY looks like a secret")
    assert "hush" not in note


def test_invalid_variables_and_ids_are_refused():
    assert variables_of(["A=", "B"], {"B": "=2"}) == {"A": "", "B": "=2"}
    for arguments in ("=1", "1A=2", "A B=2", ""):
        with pytest.raises(RecipeError, match="--env"):
            variables_of([arguments], {})
    with pytest.raises(RecipeError, match="not set here"):
        variables_of(["MISSING"], {})
    for bad in ("", "a/b", "-a", "a b", "é", "a" * 129):
        with pytest.raises(RecipeError, match="--submission-id"):
            check_id(bad)
    assert check_id("web-2026.11.22_a") == "web-2026.11.22_a"


DONE = {"status": "done"}


def ending(status, *, code=None, summary=None, job="prepare", output="/nowhere/at/all"):
    submission = Submission(
        base_id="web",
        entrypoint="",
        files={},
        variables={},
        digest="",
        output=output,
        last_file=JobCommand(job=job).last_file(),
    )
    own = ending_of(job_details(status, exit_code=code), summary, submission)
    return own.status, own.exit_code


def test_a_failed_job_returns_the_exit_code_of_its_driver():
    codes = {code: code for code in (1, 2, 3, 4, 5, 6, 130, 143)}
    for code, reported in (codes | {None: 1, 0: 1, -9: 5, 137: 5, 99: 1}).items():
        assert ending("FAILED", code=code, summary=DONE) == ("failed", reported)


@pytest.mark.parametrize("kind", ["folder", "store"])
def test_a_success_without_its_last_file_is_a_failure(tmp_path, kind):
    output = str(tmp_path) if kind == "folder" else "memory://submit/out"
    assert ending("SUCCEEDED", summary=DONE, output=output) == ("unfinished", 4)
    Folder(output).write_bytes("manifest.json", b"{}")
    assert ending("SUCCEEDED", output=output) == ("done", 0)
    unchanged = {"status": "unchanged"}
    assert ending("SUCCEEDED", summary=unchanged, output=output) == ("unchanged", 0)
    moved = DONE | {"output": str(tmp_path / "gone")}
    assert ending("SUCCEEDED", summary=moved, output=output) == ("done", 0)
    assert ending("SUCCEEDED", job="train", summary=DONE, output=output) == ("unfinished", 4)
    Folder(output).write_bytes("tokenizer/tokenizer.txt", b"")
    assert ending("SUCCEEDED", job="train", output=output) == ("done", 0)


@pytest.mark.parametrize("output", ["/nowhere/at/all", "nosuchstore://bucket/out"])
def test_an_output_invisible_from_here_is_trusted_to_the_job(output):
    assert ending("SUCCEEDED", summary=DONE, output=output) == ("done", 0)
    for summary in (None, {"status": "failed"}):
        assert ending("SUCCEEDED", summary=summary, output=output) == ("unfinished", 4)


def test_the_address_is_the_argument_or_that_of_the_environment():
    both = {"RAY_API_SERVER_ADDRESS": "http://a:1", "RAY_ADDRESS": "http://b:2"}
    assert address_of("https://c:3/", both) == "https://c:3"
    assert address_of(None, both) == "http://a:1"
    assert address_of(None, {"RAY_ADDRESS": "http://b:2"}) == "http://b:2"
    ray = {"RAY_ADDRESS": "10.0.0.1:6379"}
    wrong = ("a:1", "ray://a:1", "http://", "http://a:b", "http://a:99999")
    for arguments, environment in ((None, {}), (None, ray), *((each, {}) for each in wrong)):
        with pytest.raises(RecipeError, match="http://127"):
            address_of(arguments, environment)


def test_a_dry_run_contacts_nothing_and_prints_everything(recipe, capsys):
    options = ("--address", "http://127.0.0.1:9", "--env", "DATA=/secret", "--relearn")
    assert main(["submit", str(recipe), *options, "--dry-run"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported["entrypoint"] == "python -m jobs.prepare My-web.toml --relearn"
    assert reported["address"] == "http://127.0.0.1:9"
    assert reported["env"] == ["DATA"]
    assert "/secret" not in json.dumps(reported)
    assert tomllib.loads(recipe.read_text()) == tomllib.loads(RECIPE)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_log_receives_a_line_every_ten_seconds_and_a_terminal_one_changing_line():
    now = 0.0
    stream = io.StringIO()
    lines = SubmitLines(Display(stream, clock=lambda: now))
    for second in range(25):
        now = float(second)
        lines.show(f"count: {second} of 25 slices")
    lines.show('{"status": "done"}')
    lines.show("")
    lines.flush()
    lines.flush()
    assert stream.getvalue().splitlines() == [
        f"count: {second} of 25 slices" for second in (0, 10, 20, 24)
    ]
    stream = Terminal()
    lines = SubmitLines(Display(stream, clock=lambda: now))
    lines.show("count: 1 of 2\x1b[31m slices")
    lines.show("x" * 5000)
    lines.message("no answer about the job")
    text = stream.getvalue()
    assert text.endswith("\rnanotok: no answer about the job\n")
    assert text.count("\n") == 1
    assert [part.strip() for part in text.split("\r") if part.strip()][:2] == [
        "count: 1 of 2\\x1b[31m slices",
        "x" * 79,
    ]


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_notes_of_the_job_are_kept_up_to_a_limit(kind):
    stream = kind()
    lines = SubmitLines(Display(stream, clock=lambda: 0.0))
    for text in ("count: 1 of 9", "note: the tokenizer stays", "note: its node went away"):
        lines.show(text)
    shown = stream.getvalue().replace("\r", "")
    assert "note: the tokenizer stays\nnote: its node went away\n" in shown
    for number in range(100):
        lines.show(f"note: {number}")
    reported = stream.getvalue().splitlines()
    assert sum(line.startswith("note: ") for line in reported) == MAX_NOTES
    assert "further notes" in reported[-1]


LINES = st.lists(st.text(st.characters(exclude_characters="\n\t", codec="utf-8")), max_size=40)


@given(LINES, st.lists(st.integers(0, 200), max_size=20))
def test_every_log_line_is_printed_once_in_order(lines, ends):
    whole, shown = "".join(f"{line}\n" for line in lines), []
    log = JobLog(shown.append)
    for text in (*(whole[:end] for end in ends), whole):
        log.update(text)
    assert shown == lines
    assert log.last == lines[-LAST_LINES:]


@given(st.sampled_from(["{", "{}", "[1]", '{"status": 3}', "done", '{"status"', "{" * 100_000]))
def test_only_an_object_with_a_status_is_a_summary(line):
    log = JobLog([].append)
    log.update(f"{json.dumps({'status': 'done'})}\n{line}\n")
    assert log.summary == {"status": "done"}


def test_an_incomplete_last_line_is_printed():
    shown = []
    log = JobLog(shown.append)
    assert (log.last, log.summary) == ([], None)
    log.update('a\n{"status": "failed"}')
    assert shown == ["a"]
    assert log.summary == {"status": "failed"}
    assert log.last == ["a", '{"status": "failed"}']


def test_a_long_log_returns_its_newest_lines():
    lines = [f"count: {number}" for number in range(3 * MAX_NEW_LINES)]
    shown = []
    log = JobLog(shown.append)
    log.update("\n".join(lines))
    assert shown == lines[:-1][-MAX_NEW_LINES:]
    log.update("\n".join(lines) + "\n")
    assert shown[MAX_NEW_LINES:] == lines[-1:]
