"""The help of every command: summary, options and examples; versions and completion.

The tests visit all commands, so that commands added later are checked too.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nanotok_ray.cli import main
from nanotok_ray.counts import PATTERNS
from nanotok_ray.exports import LAYOUTS, format_options
from nanotok_ray.recipe import PRESETS
from tests.support.cli_commands import COLUMNS, GOLDEN, parse, walk, whole_help
from tests.support.machine_speed import scaled

JOBS = {"prepare": "prepare", "train_tokenizer": "train", "tokenize_corpus": "tokenize"}
"""Modules that are run by `python -m jobs.NAME`, and their commands."""

ROOT = Path(__file__).parents[2]
CONTEXTS = {context.command_path: context for context in walk()}
every_command = pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)


def examples(command):
    """Return the words of each example; a backslash at the end of a line continues it."""
    text = re.sub(r"(?<=-)\$\([^)]*\)", "DATE", command.examples.replace("\\\n", " "))
    for line in text.splitlines():
        words = shlex.split(line.partition(" # ")[0].partition(" > ")[0].partition(" | ")[0])
        if words[:1] == ["python"]:
            yield [JOBS[words[2].removeprefix("jobs.")], *words[3:]]
        elif "nanotok" in words:
            yield words[words.index("nanotok") + 1 :]


def test_the_help_of_all_commands_equals_the_golden_file():
    """After a change, run python -m tests.support.cli_commands and review the diff."""
    assert f"{whole_help()}\n" == GOLDEN.read_text("utf-8")


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


@every_command
def test_one_option_name_has_one_meaning(context):
    """An option has the same metavar and the same kind in all commands."""
    for other in CONTEXTS.values():
        theirs = {name: param for param in other.command.params for name in param.opts}
        for param in context.command.params:
            for name in param.opts:
                if name.startswith("--") and name in theirs and name not in {"--output", "--all"}:
                    same = theirs[name]
                    assert (param.metavar, param.is_flag) == (same.metavar, same.is_flag), name


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


@pytest.mark.parametrize(
    "words",
    [
        "T a.txt b.txt --id 3",
        "T --id 3 a.txt b.txt",
        "T a.txt --id 3 b.txt",
        "--id 3 T a.txt b.txt",
    ],
)
def test_inputs_are_accepted_before_and_after_options(words):
    values = parse(["tokenizer", "show", *words.split()]).params
    assert (values["tokenizer"], values["files"], values["ids"]) == ("T", ("a.txt", "b.txt"), (3,))


def test_a_special_token_option_does_not_consume_a_file():
    words = "tokenizer train --vocab-size 9 --output o --special-token <a> corpus.txt"
    values = parse(words.split()).params
    assert (values["special_tokens"], values["files"]) == (("<a>",), ("corpus.txt",))


def run(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, **options
    )


def test_help_and_version_import_neither_ray_nor_numpy():
    for word, printed in (
        ("--help", "(?s)Usage: .*"),
        ("--version", r"nanotok_ray \S+, core \S+ \w+ \S+, Ray \d\S+, Python 3\.\S+\n"),
    ):
        done = run(
            "import sys\nfrom nanotok_ray.cli import main\n"
            f"assert main([{word!r}]) == 0\n"
            "assert not {'ray', 'pyarrow', 'numpy', 'pydantic', 'tqdm'} & sys.modules.keys()\n"
        )
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(printed, done.stdout)


def test_help_starts_quickly():
    def cpu_seconds():
        start = os.times()
        run("import sys; from nanotok_ray.cli import main; sys.exit(main(['--help']))")
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
