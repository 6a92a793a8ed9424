"""Every command of the docs is run on a small corpus if possible here, otherwise parsed.

A page is one scenario: its commands and Python blocks in order, in a folder that replaces /data.
Jobs run without Ray. An unknown command is a failure.
"""

import ast
import importlib.util
import os
import re
import runpy
import shutil
import sys
from pathlib import Path

import click
import pytest

from nanotok_ray.cli import main
from nanotok_ray.recipe.text import tomllib  # tomli on Python 3.10
from tests.support.doc_commands import (
    JOBS,
    RECIPE,
    ROOT,
    head_commands,
    make_folder,
    parse,
    steps_of,
    walk,
    words_of,
)

EXAMPLES = ("examples/*.md", "examples/*/*.md")
API = ("docs/api/*.md",)
PAGES = ("README.md", "CONTRIBUTING.md", "deploy/README.md", "docs/*.md", *API, *EXAMPLES)
HEADS = (
    "examples/*.py",
    "examples/*/recipe.toml",
    "jobs/*.py",
    "jobs/recipes/*.toml",
    "deploy/*.toml",
    "deploy/Dockerfile",
)
THEIRS = ("scripts.",)
"""Modules of nanochat that a page names."""

WITH_OWN_RECIPES = ("CONTRIBUTING.md", "deploy/*.md", *EXAMPLES)
"""Pages whose commands need no output to begin with."""

RUN_PYTHON = (
    *("README.md", "docs/tutorial.md", "docs/tokenizers.md", "docs/superwords.md"),
    *("docs/datasets.md", "docs/columns.md"),
    "docs/from-*.md",
    *API,
    *EXAMPLES,
)
"""Pages whose Python runs here. The Python of training.md, tokenization.md and sizing.md runs in
their own tests; that of other pages is only compiled, since it needs packages or texts that are
missing here.
"""

IN_NANOCHAT = re.compile(r"^from (tasks|nanotok_ray\.nanochat)\b", re.MULTILINE)
"""Python that needs nanochat's checkout, or torch."""

BESIDE_THE_RECIPE = re.compile(r"# (\w+\.py), beside the recipe\n")
"""The first line of a block that is a file."""

SMALLER = {"truncated(8192)": "truncated(300)"}
"""Replacements for values that a corpus of several KB cannot reach."""

NEEDS_TORCH = ("examples/train_tiny.py",)
FEWER_STEPS = {"300": "3", "100": "1"}
"""Arguments of an example that trains."""

ELSEWHERE = re.compile(r"^RAY_ADDRESS=|^\w+://|^--address$|^/etc/|^(cl100k|o200k)$|[$]\{?HOME|^~")
"""A word of a command that needs another machine, a store, or packages that are not in the lock."""
ONLY_PARSED = ("doctor", "submit")

GROUPS = ("tokenizer", "cache")
PYTHONS = ("python", ".venv/bin/python")
FLAGS = {
    ("kubectl", "create"): {"-f", "--from-file"},
    ("kubectl", "apply"): {"-f"},
    ("kubectl", "get"): set(),
    ("kubectl", "logs"): {"-l", "--follow"},
    ("docker", "build"): {"-f", "-t"},
    ("docker", "push"): set(),
    ("pip", "install"): {"--require-hashes", "--requirement", "--no-deps"},
    ("uv", "pip"): set(),
    ("uv", "venv"): {"--python"},
    ("rustup", "toolchain"): set(),
    ("cargo", "test"): {"--manifest-path"},
    ("cargo", "run"): {"--release", "--manifest-path", "-p", "--example", "--"},
    ("mkdir", "-p"): {"-p"},
    ("chmod", "600"): set(),
    ("hf", "download"): {"--repo-type", "--include", "--local-dir"},
}
"""Programs of others, with known options."""
FILES_AFTER = {"-f", "--from-file", "--requirement", "--manifest-path", "--working-dir"}


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def found(patterns):
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def name_of(path):
    return path.relative_to(ROOT).as_posix()


PAGE_PATHS = found(PAGES)
DESIGN = ROOT / "DESIGN.md"
HEAD_PATHS = found(HEADS)


@pytest.fixture
def place(tmp_path, monkeypatch, in_process):
    """Create the reader's folder, make it the working directory, and let jobs run without Ray."""
    make_folder(tmp_path)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("NANOCHAT_BASE_DIR", str(tmp_path / "data/nanochat"))
    for name in ("RAY_ADDRESS", "CODE", "DATA", "RUN", "NANOTOK_BUCKET"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def here(text, place):
    """Return a text with /data replaced by the reader's folder."""
    return re.sub(r"(?<![\w.}/])/data\b", f"{place}/data", text)


def check(words, *, may_run, place=None):
    """Run or parse one command.

    Raises:
        AssertionError: The command is wrong, or its program is unknown.
    """
    wants_more = any(ELSEWHERE.search(word) for word in words)
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    if not words:  # only variables
        return
    program, *arguments = words
    program = program if program in PYTHONS else program.rpartition("/")[2]
    runs = may_run and not wants_more
    if program == "nanotok":
        check_nanotok(arguments, runs=runs, place=place)
    elif program in PYTHONS:
        check_python(arguments, runs=runs, place=place)
    elif program in READ:
        READ[program](arguments)
    else:
        check_other(program, arguments)


def check_nanotok(arguments, *, runs, place=None, default_recipe=None):
    try:
        parse(arguments, default_recipe=default_recipe)
    except click.UsageError as error:
        raise AssertionError(f"nanotok {' '.join(arguments)}: {error.format_message()}") from error
    except click.exceptions.Exit:  # --help, --version
        assert arguments[-1].startswith("--")
    if runs and arguments[0] not in ONLY_PARSED:
        own = [here(os.path.expandvars(each), place) for each in arguments]
        assert main(own, default_recipe=default_recipe) == 0, own


def check_python(arguments, *, runs, place):
    """Run a module of jobs/ as its command, and an example if its packages are installed.

    Raises:
        AssertionError: The module or the file does not exist.
    """
    if arguments[0] != "-m":
        assert (ROOT / arguments[0]).is_file(), arguments
        can_run = arguments[0] not in NEEDS_TORCH or importlib.util.find_spec("torch")
        if runs and can_run and arguments[0].startswith("examples/"):
            name, *words = (here(FEWER_STEPS.get(word, word), place) for word in arguments)
            run_program(runpy.run_path, str(ROOT / name), words)
        return
    module = arguments[1]
    assert importlib.util.find_spec(module), module
    verb = JOBS.get(module)
    if verb is None:
        return
    recipe = str(ROOT / "jobs/recipes/nanochat.toml")
    default_recipe = recipe if verb == "train" else None
    check_nanotok([verb, *arguments[2:]], runs=False, default_recipe=default_recipe)
    if runs:
        arguments = [here(os.path.expandvars(each), place) for each in arguments[2:]]
        with pytest.raises(SystemExit) as ended:
            run_program(runpy.run_module, module, arguments)
        assert ended.value.code == 0, (module, arguments)


def run_program(run, name, arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *arguments])
        patch.delitem(sys.modules, name, raising=False)  # another test may have imported it
        run(name, run_name="__main__")


def check_make(arguments):
    verbs = re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert arguments
    for each in arguments:
        if "=" in each:
            assert each.partition("=")[0] in (ROOT / "Makefile").read_text(), each
        else:
            assert each in verbs, f"make {each}"


def check_ray(arguments):
    """Parse a command with Ray's own parser, without executing it."""
    from ray.scripts.scripts import cli  # noqa: PLC0415 - takes a second

    command, rest, context = cli, arguments, None
    while True:
        try:
            context = command.make_context(command.name, list(rest), parent=context)
        except click.UsageError as error:
            raise AssertionError(f"ray {' '.join(arguments)}: {error.format_message()}") from error
        if not isinstance(command, click.Group):
            break
        rest = [*context._protected_args, *context.args]
        _, command, rest = command.resolve_command(context, rest)
    check_files(arguments)
    for each in arguments:  # the command of `ray exec`
        if " " in each and not each.startswith("{"):
            check(words_of(each), may_run=False)
    if "--" in arguments:
        check(arguments[arguments.index("--") + 1 :], may_run=False)


def check_files(arguments):
    """Check that the files of this project in a command exist."""
    for flag, value in zip(arguments, [*arguments[1:], ""], strict=True):
        own, is_joined, after = flag.partition("=")
        if own in FILES_AFTER:
            assert (ROOT / (after if is_joined else value)).exists(), arguments
        if flag.endswith(".yaml") and not flag.startswith("-"):
            assert (ROOT / flag).is_file(), arguments


def check_other(program, arguments):
    own = (program, arguments[0] if arguments else "")
    assert own in FLAGS, f"what becomes of this command? {program} {' '.join(arguments)}"
    for each in arguments:
        if each.startswith("-"):
            assert each.partition("=")[0] in FLAGS[own], (own, each)
    check_files(arguments)
    if program in {"pip", "uv"}:
        named = re.findall(r"(?:\.|whl)\[([^\]]+)\]", " ".join(arguments))
        assert set(",".join(named).split(",")) - {""} <= EXTRAS.keys(), arguments


def check_shell(arguments):
    """Check `export NAME=VALUE`, `cmp A B`, and `. .venv/bin/activate`."""
    assert all(re.search(r"^\w+=\S|^/|^[$]|\.venv/bin/activate$", each) for each in arguments)


READ = {"make": check_make, "ray": check_ray}
READ |= dict.fromkeys(["export", "cmp", "."], check_shell)


def recipe_of(steps):
    """Return the first complete recipe of a page, or else that of pages without one."""
    whole = [each.text for each in steps if each.language == "toml" and "[output]" in each.text]
    return whole[0] if whole else RECIPE


def test_the_install_page_lists_every_extra():
    table = (ROOT / "docs/install.md").read_text("utf-8").partition("\n| extra |")[2]
    rows = [line for line in table.partition("\n\n")[0].splitlines() if line.startswith("| `")]
    named = {name for line in rows for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
    assert named == EXTRAS.keys()


@pytest.mark.parametrize("path", PAGE_PATHS, ids=name_of)
def test_the_commands_of_a_page_run(path, place, capsys, monkeypatch):
    steps = steps_of(path.read_text("utf-8"))
    if path in found(EXAMPLES):
        monkeypatch.setenv("DATA", f"{place}/data")
    if not any(step.commands or step.language == "python" for step in steps):
        return
    own = recipe_of(steps)
    Path("recipe.toml").write_text(here(own, place), "utf-8")
    has_commands = any(step.commands for step in steps)
    if own == RECIPE and has_commands and path not in found(WITH_OWN_RECIPES):
        assert main(["prepare", "recipe.toml"]) == 0
    names = {"__name__": "docs"}
    for step in steps:
        for words in step.commands:
            check(words, may_run=True, place=place)
        if step.language == "python":
            run_python(step.text, names, path, place)


def run_python(text, names, path, place):
    """Run a block, or compile it if the page's Python does not run here."""
    if path not in found(RUN_PYTHON) or IN_NANOCHAT.search(text):
        ast.parse(text if ">>>" not in text else "")
        return
    if (named := BESIDE_THE_RECIPE.match(text)) is not None:
        Path(named[1]).write_text(text, "utf-8")
        return
    if "/data/tokens" in text:  # what datatrove made: the same documents, here from our export
        shutil.copytree(place / "data/out/export/datatrove", place / "data/tokens")
    for of_the_page, smaller in SMALLER.items():
        text = text.replace(of_the_page, smaller)
    exec(compile(here(text, place), str(path), "exec"), names)


@pytest.mark.parametrize("path", HEAD_PATHS, ids=name_of)
def test_the_commands_in_the_header_of_a_file_run(path):
    for words in head_commands(path.read_text("utf-8")):
        check(words, may_run=False)


INLINE = re.compile(r"(?<!`)`((?:nanotok|make|python -m|\.venv/bin/python -m|ray job) [^`]+)`")


@pytest.mark.parametrize("path", [*PAGE_PATHS, DESIGN], ids=name_of)
def test_names_in_sentences_exist(path):
    """A command within a sentence may stop short; its verb or module must be there."""
    known = {context.command_path.partition(" ")[2] for context in walk()}
    for text in INLINE.findall(path.read_text("utf-8")):
        program, first, *rest = text.replace("\\|", "|").split()
        if program == "nanotok":
            group = f"{first} {rest[0]}" if rest and first in GROUPS else first
            assert group in known or first.startswith("--"), text
        elif program == "make":
            check_make([word for word in (first, *rest) if "=" not in word])
        elif program != "ray" and not rest[0].startswith(THEIRS):
            assert importlib.util.find_spec(rest[0]), text


OWN_FILE = re.compile(
    r"`((?:benchmarks|examples|jobs|nanotok_ray|rust|storage|tests)/[\w/]+\.(?:py|rs))`"
)
FILE_OF_THE_DESIGN = re.compile(r"`((?!tests/)[\w/]+\.(?:py|rs))`")


@pytest.mark.parametrize("path", [*PAGE_PATHS, DESIGN], ids=name_of)
def test_links_have_targets_and_named_files_exist(path):
    """The log also names files of earlier versions, and pages name those of other projects."""
    text = path.read_text("utf-8")
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        assert link.startswith("https://") or (path.parent / link).exists(), link
    names = (FILE_OF_THE_DESIGN if path == DESIGN else OWN_FILE).findall(text)
    assert names or path != DESIGN
    for name in names if path.name != "log.md" else ():
        assert (ROOT / name).exists() or (ROOT / "nanotok_ray" / name).exists(), name


def test_the_tests_of_the_guarantees_exist():
    table = DESIGN.read_text("utf-8").partition("\n| guarantee | tests |\n|---|---|\n")[2]
    cells = [row.split(" | ")[1] for row in table.partition("\n\n")[0].splitlines()]
    folders = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert folders
    assert {name for name in folders if not found([f"tests/{name}/test_*.py"])} == set()


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_the_site_lists_every_page():
    listed = re.findall(
        r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )
    others = {"CHANGELOG.md", "DESIGN.md", "SECURITY.md"}
    assert sorted(listed) == sorted({*map(name_of, PAGE_PATHS)} | others)
