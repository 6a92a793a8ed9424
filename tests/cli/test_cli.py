"""The command line: exit codes, help, output for machines, `nanotok gc`."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nanotok_ray import errors
from nanotok_ray.api import export
from nanotok_ray.cli import main
from nanotok_ray.cluster.submit.shipping import JobCommand, ship
from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import ExportError, os_error_message
from nanotok_ray.exports import LAYOUTS, format_options, parse_layout
from nanotok_ray.job.local import LocalExecutor
from nanotok_ray.recipe import PRESETS, load_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.support.doc_commands import COLUMNS, JOBS, parse, walk, words_of
from tests.support.executors import InProcess, in_place_of_ray
from tests.support.golden_files import HELP, whole_help
from tests.support.machine_speed import scaled
from tests.support.made_output import BOS, MadeSource, made_output
from tests.support.small_corpus import RECIPE, contents, texts, write_parquet

ROOT = Path(__file__).resolve().parents[2]


def test_prepare_prints_text_and_one_json_line_last(job, run):
    path, out = job
    code, values, text = run("prepare", path)
    assert (code, values["status"], values["documents"]["in"]) == (0, "done", 150)
    assert values["output"] == str(out)
    stages = ("count (1 of 5): ", "learn (3 of 5): ", "tokenize (4 of 5): ")
    for word in (*stages, "bytes per token", "verified"):
        assert word in text
    in_stages = sum(stage["seconds"] for stage in values["stages"].values())
    assert values["wall_seconds"] > in_stages
    assert f", other {values['wall_seconds'] - in_stages:.1f} s, together " in text
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
        keys = f"tokenizer.vocab_size={size}", "limits.max_chars=500", "limits.doc_cap=40"
        settings = " ".join(f"--set {key}" for key in keys)
        assert f"nanotok tokenize {job[0]} {settings}\n" in text


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
    5: [
        *(errors.SliceError, errors.SharedFolderError, errors.TransientIOError),
        errors.UnsafeStoreError,
    ],
    6: [errors.OutputInUseError, errors.LeaseLostError],
    130: [KeyboardInterrupt],
}


@pytest.mark.parametrize("code", EXIT_CODES)
def test_each_kind_of_failure_has_its_exit_code(job, run, code):
    for error in EXIT_CODES[code]:

        def fail(error=error, **_):
            raise error("what happened")

        with in_place_of_ray(InProcess(on_session=fail)):
            found, values, _ = run("prepare", job[0])
        status = "interrupted" if code == 130 else "failed"
        assert (found, values["status"]) == (code, status), error


@pytest.mark.parametrize("module", JOBS)
def test_every_job_runs_as_a_module(module):
    command = [sys.executable, "-m", module, "--help"]
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


def test_the_traceback_of_verbose_has_no_control_characters(run):
    code, _, text = run("verify", "/nowhere/\x1b[31mred", "--verbose")
    assert (code, "Traceback" in text, r"\x1b[31mred" in text, "\x1b" in text) == (
        4,
        True,
        True,
        False,
    )


def test_a_recipe_may_start_with_a_byte_order_mark(job):
    path = Path(job[0])
    plain = load_recipe(str(path))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_recipe(str(path)) == plain
    shipped = ship(str(path), JobCommand(job="prepare"), variables={}, environment={})
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
    out = shutil.copytree(out, tmp_path / "caf\u00e9")
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


CONTEXTS = {context.command_path: context for context in walk()}
every_command = pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)


def examples(command):
    """Return the words of each example; a backslash at the end of a line continues it."""
    for line in command.examples.replace("\\\n", " ").splitlines():
        words = words_of(line)
        if words[:1] == ["python"]:
            yield [JOBS[words[2]], *words[3:]]
        elif "nanotok" in words:
            yield words[words.index("nanotok") + 1 :]


def test_the_help_of_all_commands_equals_the_golden_file():
    assert whole_help() == HELP.read_text("utf-8"), "run `make golden` and review the diff"


@every_command
def test_the_first_line_is_a_summary_and_lines_except_examples_fit_a_terminal(context):
    summary = context.command.get_short_help_str(limit=300)
    assert re.fullmatch(r"[A-Z][^\n]+\.", summary)
    assert len(summary) < 100
    shown = context.command.examples.splitlines()
    lines = [line for line in context.get_help().splitlines() if line[2:] not in shown]
    assert max(map(len, lines)) <= COLUMNS
    assert max(map(len, shown), default=0) <= 98


@every_command
def test_examples_in_help_parse(context):
    found = list(examples(context.command))
    assert found or context.info_name == "completion"
    for words in found:
        parse(words, default_recipe="recipe.toml")


@every_command
def test_every_option_has_a_sentence_and_its_default(context):
    for param in context.command.params:
        if isinstance(param, click.Argument):
            continue
        assert re.match(r"[A-Z]", param.help), param.name
        assert re.sub(r"  \[default: [^\]]+\]$", "", param.help).endswith("."), param.name
        assert "  " not in re.sub(r"  \[", "", param.help), param.name
        if not param.is_flag and isinstance(param.get_default(context), str | int | list):
            assert param.show_default or "[default" in param.help, param.name


def test_one_option_name_has_one_meaning():
    """An option has the same metavar and the same kind in all commands.

    `--shuffle` is the seed of an order in `export`, and the kind of an order in `inspect`.
    """
    meanings = {}
    for context in CONTEXTS.values():
        for param in context.command.params:
            for name in {*param.opts} - {"--output", "--all", "--shuffle"}:
                if name.startswith("--"):
                    own = (param.metavar, param.is_flag)
                    assert meanings.setdefault(name, own) == own, name


def test_layouts_patterns_and_presets_match_the_help_and_the_pages():
    shown = CONTEXTS["nanotok export"].get_help()
    named = re.findall(r"^    (\w+) {2,}", shown, re.MULTILINE)
    assert named == list(LAYOUTS), (
        "the help of `nanotok export` in cli/outputs.py lists the layouts"
    )
    options = shown.partition("with their defaults:")[2].partition("Nothing")[0].split()
    assert sorted(options) == sorted(
        format_options(layout()) for layout in LAYOUTS.values() if layout().options
    )
    formats = (ROOT / "docs/formats.md").read_text("utf-8")
    for layout in LAYOUTS.values():
        assert f"| `{layout.name}` |" in formats
        assert f"`{layout.format}`" in formats
        assert layout.name in (ROOT / "README.md").read_text("utf-8")
    shown = " ".join(CONTEXTS["nanotok tokenizer train"].get_help().split())
    assert f"Split pattern: {', '.join(PATTERNS)}, or" in shown
    shown = CONTEXTS["nanotok tokenizer extend"].get_help()
    for name, preset in PRESETS.items():
        assert re.search(rf"{name} +{re.escape(' '.join(preset.special_tokens))}", shown)


@pytest.mark.parametrize("words", [[], ["tokenizer"], ["cache"]])
def test_a_group_without_a_command_prints_its_help(words, capsys):
    assert main(words) == 0
    alone = capsys.readouterr()
    assert main([*words, "--help"]) == 0
    assert (alone.out, alone.err) == (capsys.readouterr().out, "")


@pytest.mark.parametrize("words", ["T a b --id 3", "T --id 3 a b", "T a --id 3 b", "--id 3 T a b"])
def test_inputs_are_accepted_before_and_after_options(words):
    values = parse(["tokenizer", "show", *words.split()]).params
    assert (values["tokenizer"], values["files"], values["ids"]) == ("T", ("a", "b"), (3,))


@pytest.mark.parametrize(
    ("forced", "level"), [("portable", "portable"), ("vax", r"unknown \(NANOTOK_CPU=vax\)")]
)
def test_the_version_names_the_core_its_cpu_level_ray_and_python(forced, level):
    command = [sys.executable, "-c", "from nanotok_ray.cli import main; main(['--version'])"]
    environment = os.environ | {"NANOTOK_CPU": forced}  # the level is chosen once in a process
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    core = rf"core \S+ \w+ \S+, CPU level {level}"
    printed = rf"nanotok_ray \S+, {core}, Ray \d\S+, Python 3\.\S+\n"
    assert re.fullmatch(printed, done.stdout)


def test_help_starts_quickly():
    code = "import sys; from nanotok_ray.cli import main; sys.exit(main(['--help']))"

    def cpu_seconds():
        start = os.times()
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        end = os.times()
        return sum(end[2:4]) - sum(start[2:4])  # of the child, user and system

    assert min(cpu_seconds() for _ in range(5)) < scaled(0.4)  # 0.1 s on a quiet machine


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_receives_a_working_completion_script(shell, capsys, monkeypatch):
    assert main(["completion", shell]) == 0
    assert "_NANOTOK_COMPLETE" in capsys.readouterr().out
    monkeypatch.setenv("_NANOTOK_COMPLETE", f"{shell}_complete")
    for words, word, found in (
        ("nanotok pre", "pre", "prepare"),
        ("nanotok tokenizer ", "", "compare"),
        ("nanotok prepare --cp", "--cp", "--cpus"),
        ("nanotok submit --job t", "t", "tokenize"),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", word if shell == "fish" else str(words.count(" ")))
        with pytest.raises(SystemExit) as end:
            main([])
        assert end.value.code == 0
        assert found in capsys.readouterr().out


def test_a_dry_run_removes_nothing_and_lists_what_a_run_removes(job, run, succeed):
    path, out = job
    succeed("prepare", path)
    succeed("prepare", path, "--set", "tokenizer.vocab_size=320")
    before = contents(out, leave_out=())
    code, planned, reported = run("gc", out, "--dry-run")
    assert (code, planned["status"]) == (0, "planned")
    assert "would free" in reported
    assert contents(out, leave_out=()) == before
    sizes = [Path(out, name).stat().st_size for name in planned["files"]]
    code, removed, reported = run("gc", out)
    assert (code, removed["status"]) == (0, "removed")
    assert removed["removed"] == planned["removed"]
    assert removed["removed"]["bytes"] == sum(sizes) > 0
    assert removed["removed"]["records"] + removed["removed"]["files"] == len(sizes)
    assert before.keys() - contents(out, leave_out=()).keys() >= set(planned["files"])
    assert run("verify", out)[0] == 0
    code, again, _ = run("gc", out)
    assert (code, again["removed"]) == (0, {"records": 0, "files": 0, "bytes": 0})
