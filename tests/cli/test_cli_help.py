"""The help of every command: a summary, examples that parse, a text and a default for each option.

Walks the parser itself, so that a command added later is checked too.
"""

import argparse
import re
import shlex
import subprocess
import sys

import pytest
from nanotok_ray.cli.overview import COMMANDS, GROUPS

from nanotok_ray.cli import main
from nanotok_ray.cli.main import parser

JOBS = {"prepare": "prepare", "train_tokenizer": "train", "tokenize_corpus": "tokenize"}
"""Modules that are run by `python -m jobs.NAME`, and the commands they are."""

EXAMPLE = ("  nanotok ", "  python -m ")
WIDTH = 101


def walk(own, words=()):
    """Yield every parser with the words that lead to it."""
    yield words, own
    for action in own._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from walk(inner, (*words, name))


PARSERS = {" ".join(words): own for words, own in walk(parser(default_recipe="recipe.toml"))}
IDS = [name or "nanotok" for name in PARSERS]
every_parser = pytest.mark.parametrize("own", PARSERS.values(), ids=IDS)


def examples(own):
    """Return the commands of a help text: lines that go on joined, remarks in brackets left out."""
    text = re.sub(r"\\\n\s*", "", own.description)
    lines = [line for line in text.splitlines() if line.startswith(EXAMPLE)]
    return [re.sub(r"\s{2,}\(.*\)$", "", line.strip()) for line in lines]


def arguments_of(example):
    """Return what a command hands to the parser."""
    words = shlex.split(example)
    if words[0] == "python":
        return [JOBS[words[2].removeprefix("jobs.")], *words[3:]]
    return words[1:]


def documented(own):
    """Return the arguments that a user sees, without -h and the commands."""
    left_out = (argparse._HelpAction, argparse._SubParsersAction)
    return [action for action in own._actions if not isinstance(action, left_out)]


@every_parser
def test_the_first_line_is_a_summary(own):
    first, _, rest = own.description.partition("\n")
    assert first[0].isupper()
    assert re.search(r"[.:]( |$)", first) or rest.lstrip()
    assert len(first) < WIDTH + 15


@every_parser
def test_there_are_examples_and_each_of_them_parses(own, capsys):
    found = examples(own)
    assert found
    for example in found:
        try:
            parser(default_recipe="recipe.toml").parse_args(arguments_of(example))
        except SystemExit:
            pytest.fail(f"{example}\n{capsys.readouterr().err}")


@every_parser
def test_every_argument_is_explained(own):
    for action in documented(own):
        told = action.help
        assert told, action.dest
        assert told.strip("( ") == told, f"{action.dest}: {told!r} begins with its default"
        assert len(told) > 8, f"{action.dest}: {told!r}"


@every_parser
def test_every_default_is_stated(own):
    for action in documented(own):
        is_flag = action.nargs == 0
        if action.option_strings and not is_flag and not action.required:
            stated = "default" in action.help or "needed" in action.help
            assert stated, f"{action.option_strings[0]}: {action.help!r} (is {action.default!r})"


@every_parser
def test_the_text_is_tidy(own):
    told = own.format_help()
    assert "\t" not in told
    assert [line for line in told.splitlines() if len(line) >= WIDTH + 15] == []
    for action in documented(own):
        assert "  " not in action.help, f"{action.dest}: two spaces"
        assert not action.help.endswith("."), f"{action.dest}: a full stop"
    paragraphs = [line for line in own.description.splitlines() if not line.startswith(" ")]
    assert [line for line in paragraphs if re.search(r"[a-z,;] {2,}[a-z]", line)] == []


def test_the_overview_has_every_command_once_with_its_own_summary():
    names = [each.name for _, group in GROUPS for each in group]
    assert sorted(names) == sorted({words.split()[0] for words in PARSERS if words})
    assert len(names) == len(set(names))
    for name, each in COMMANDS.items():
        whole = " ".join(PARSERS[name].description.split("\n\n")[0].split())
        assert whole.startswith(each.summary), name


def test_the_overview_is_in_the_order_of_the_flow():
    order = list(COMMANDS)
    flow = ["doctor", "plan", "prepare", "verify", "inspect", "pack", "export", "gc"]
    assert [name for name in order if name in flow] == flow
    first = [arguments_of(example)[0] for example in examples(PARSERS[""])]
    assert first == ["doctor", "plan", "prepare"]


def test_json_at_the_end_is_promised_by_those_that_print_it():
    without = {name for name, each in COMMANDS.items() if not each.has_json}
    assert without == {"verify", "inspect", "report"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_parsed_without_importing_the_others(name):
    one = parser(only=[name])
    (action,) = (each for each in one._actions if isinstance(each, argparse._SubParsersAction))
    assert action.choices[name].description == PARSERS[name].description or name == "train"
    assert set(action.choices) == set(COMMANDS)


def test_an_unknown_command_is_told_all_that_there_are(capsys):
    with pytest.raises(SystemExit) as end:
        main(["teach"])
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert all(repr(name) in told for name in COMMANDS)


@pytest.mark.parametrize(
    "words",
    [
        ["tokenizer", "show", "T", "a.txt", "b.txt", "--id", "3"],
        ["tokenizer", "show", "T", "--id", "3", "a.txt", "b.txt"],
        ["tokenizer", "show", "T", "a.txt", "--id", "3", "b.txt"],
        ["tokenizer", "show", "--id", "3", "T", "a.txt", "b.txt"],
    ],
)
def test_inputs_may_stand_before_and_after_options(words):
    arguments = parser().parse_args(words)
    assert (arguments.tokenizer, arguments.corpus, arguments.id) == ("T", ["a.txt", "b.txt"], [3])


def test_inputs_around_options_are_taken_where_one_is_needed():
    arguments = parser().parse_args(["train", "a.txt", "--output", "out", "b.txt"])
    assert (arguments.inputs, arguments.output) == (["a.txt", "b.txt"], "out")


@pytest.mark.parametrize(
    "words",
    [
        ["tokenizer", "show", "T", "--id", "3", "a.txt", "--nonsense"],
        ["verify", "out", "another"],
        ["tokenizer", "extend", "T"],
    ],
)
def test_what_is_wrong_stays_wrong(words):
    with pytest.raises(SystemExit) as end:
        parser().parse_args(words)
    assert end.value.code == 2


def test_the_version_names_core_and_ray_and_imports_neither_ray_nor_pyarrow():
    script = (
        "import sys\nfrom nanotok_ray.cli import main\n"
        "try:\n    main(['--version'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "assert not {'ray', 'pyarrow'} & sys.modules.keys()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pattern = r"nanotok_ray \S+, core \S+ \w+ \S+, Ray \d\S+, Python 3\.\S+\n"
    assert re.fullmatch(pattern, done.stdout)
