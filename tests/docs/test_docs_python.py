"""Python of the documentation runs: pages, examples, records of measurements, the API."""

import doctest
import importlib
import importlib.util
import inspect
import json
import re
import runpy
import shlex
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray

import nanotok_ray
from nanotok_ray import Tokenizer
from nanotok_ray.api import prepare
from nanotok_ray.cli import main
from nanotok_ray.recipe import Recipe, parse_recipe
from tests.support.doc_commands import RECIPE, ROOT, code_of, make_folder
from tests.support.finished_output import finished_output

TOKENIZATION = ROOT / "docs/tokenization.md"
NAMED = re.compile(
    r"`([\w.]+\.(?:txt|jsonl|toml))`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL
)
"""A file of the reader, whose name ends the sentence before the block."""
SHOWN = re.compile(r"^```(console|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)


def commands(block):
    """Return each command of a block with its shown output."""
    _, *parts = COMMAND.split(block)
    return [*zip(parts[::2], parts[1::2], strict=True)]


def output_of(command, capsys):
    """Run a command in this process; return its lines for people, with stderr last."""
    program, *arguments = shlex.split(command)
    if program == "nanotok":
        assert main(arguments) == 0, command
    else:
        assert program == "python"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", arguments)
            runpy.run_path(arguments[0], run_name="__main__")
    captured = capsys.readouterr()
    reported = captured.out.splitlines() + captured.err.splitlines()
    return "".join(f"{line}\n" for line in reported if not is_json(line))


def is_json(line):
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def check_output(shown, reported, command):
    """Compare; a line `...` matches any lines, and `...` within a line any text."""
    wanted = re.sub(r"^\.\.\.\n", "\0", shown, flags=re.MULTILINE)
    wanted = re.escape(wanted).replace(r"\.\.\.", ".+").replace("\0", r"(?:.*\n)*")
    assert re.fullmatch(wanted, reported), f"{command}\n{reported}"


def check_python(block, names):
    """Run the lines of a block and compare their output."""
    test = doctest.DocTestParser().get_doctest(
        block, names, TOKENIZATION.name, str(TOKENIZATION), 0
    )
    reported = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=reported.append, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, "".join(reported)
    assert runner.tries > 0


@pytest.fixture
def walk(tmp_path, monkeypatch, in_process):
    """The folder of the page, with its files."""
    folder = tmp_path / "build/walk"
    folder.mkdir(parents=True)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, text in NAMED.findall(TOKENIZATION.read_text("utf-8")):
        (folder / name).write_text(text, "utf-8")
    monkeypatch.chdir(folder)
    return folder


def test_every_command_prints_the_output_on_the_page(walk, capsys):
    names, run = {}, 0
    for kind, block in SHOWN.findall(TOKENIZATION.read_text("utf-8")):
        if kind == "python":
            check_python(block, names)
            continue
        for command, shown in commands(block):
            check_output(shown, output_of(command, capsys), command)
            run += 1
    assert run >= 10
    assert sorted(path.name for path in walk.iterdir() if path.is_file()) == [
        "chats.jsonl",
        "corpus.txt",
        "recipe.toml",
        "unseen.txt",
    ]


TRAINING = ROOT / "docs/training.md"
FOLDER = "/data/out"
NEEDS_TORCH = re.compile(r"^(import|from) (torch|nanotok_ray\.(torch|nanochat))\b", re.MULTILINE)
"""Blocks with such a line run if torch is installed."""

BLOCKS = code_of(TRAINING.read_text("utf-8"), "python")


@pytest.fixture
def texts_output(tmp_path, in_process):
    """Return the output of the texts of the pages' recipe, both in parquet."""
    make_folder(tmp_path)
    text = RECIPE.replace("code/*.jsonl.gz", "nanochat/base_data_climbmix/*.parquet")
    recipe = parse_recipe(text.replace("/data", f"{tmp_path}/data"))
    prepare(Recipe(sources=recipe.sources[:2], tokenizer=recipe.tokenizer, output=recipe.output))
    return recipe.output.path


def test_every_block_runs(texts_output, monkeypatch):
    monkeypatch.setenv("NANOTOK_SHARDS", texts_output)
    assert len(BLOCKS) > 3
    assert all(FOLDER in block for block in BLOCKS if "open_shards(" in block)
    names = {"__name__": "docs"}
    for block in BLOCKS:
        if NEEDS_TORCH.search(block) and not importlib.util.find_spec("torch"):
            continue
        code = block.replace(FOLDER, texts_output)
        exec(compile(code, str(TRAINING), "exec"), names)


FRAMEWORKS = (ROOT / "docs/frameworks.md").read_text("utf-8")
PROGRAMS = {
    title: code_of(section, "python")
    for title, section in re.findall(
        r"^## (.*?)\n(.*?)(?=^## |\Z)", FRAMEWORKS, re.DOTALL | re.MULTILINE
    )
}
TEXTS = ["ab ab", "é🙂", "", "the cat\n", None] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator([text for text in TEXTS if text], 270)


@pytest.fixture
def run(tmp_path, tokenizer):
    """Return a function that runs a program on a corpus and returns its names."""
    tokenizer.save(tmp_path / "out/tokenizer")
    (tmp_path / "web").mkdir()
    for number, part in enumerate((TEXTS[:7], TEXTS[7:])):
        pq.write_table(pa.table({"text": part}), tmp_path / f"web/{number}.parquet")

    def function(title, number=0):
        names = {}
        exec(PROGRAMS[title][number].replace("/data/", f"{tmp_path}/"), names)
        return names

    return function


def expected(tokenizer):
    return [None if text is None else tokenizer.encode(text, "<|bos|>") for text in TEXTS]


@pytest.mark.parametrize("number", [0, 1])
def test_datasets_reads_an_output(run, tokenizer, tmp_path, number, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    result = run("Hugging Face datasets", number)["result"]
    assert result["ids"][:] == expected(tokenizer)


def test_polars_reads_an_output(run, tokenizer):
    pytest.importorskip("polars")
    assert run("polars")["result"]["ids"].to_list() == expected(tokenizer)


def test_duckdb_reads_an_output(run, tokenizer):
    pytest.importorskip("duckdb")
    found = dict(run("DuckDB")["result"].fetchall())
    assert found == dict(zip(TEXTS, expected(tokenizer), strict=True))


@pytest.mark.ray
@pytest.mark.parametrize("number", [0, 1])
def test_ray_data_reads_an_output(run, tokenizer, tmp_path, number, monkeypatch):
    pytest.importorskip("pandas")  # ray.data imports it
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        rows = run("Ray Data", number)["result"].take_all()
    finally:
        ray.shutdown()
    found = [(row["text"], None if row["ids"] is None else list(row["ids"])) for row in rows]
    wanted = zip(TEXTS, expected(tokenizer), strict=True)
    assert sorted(found, key=repr) == sorted(wanted, key=repr)  # files are in any order


def test_spark_and_daft_read_an_output(run, tokenizer):
    (result,) = run("Spark")["tokenize"](iter([pa.record_batch({"text": TEXTS})]))
    assert result["ids"].to_pylist() == expected(tokenizer)
    assert result.schema.field("ids").type == pa.list_(pa.int32())

    class Series:
        def to_arrow(self):
            return pa.array(TEXTS, pa.large_string())

    assert run("Daft")["encode"](Series()).to_pylist() == expected(tokenizer)


def test_conversations_are_read(run, tokenizer):
    good, bad = run("Conversations")["result"].to_pylist()
    messages = [{"role": "user", "content": "hi"}]
    assert good["ids"] == tokenizer.render_conversation({"messages": messages})[0]
    assert bad["problem"] == "the conversation has no messages"


def test_every_program_runs():
    counts = {"Ray Data": 2, "Hugging Face datasets": 2, "polars": 1, "DuckDB": 1, "Spark": 1}
    counts |= {"Daft": 1, "Conversations": 1}
    assert {title: len(programs) for title, programs in PROGRAMS.items()} == counts


def test_the_first_example_runs(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "out/tokenizer")
    names = {}
    exec(code_of(FRAMEWORKS, "python")[0].replace("/data/", f"{tmp_path}/"), names)
    assert names["ids"].to_pylist() == [tokenizer.encode("hello world", "<|bos|>"), None]
    assert names["counts"].to_pylist() == [len(names["ids"][0]) - 1, None]
    assert names["same"].to_pylist() == ["<|bos|>hello world", None]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finished_output(tmp_path_factory.mktemp("job"))


def run_example(monkeypatch, capsys, name, *arguments):
    path = ROOT / f"examples/{name}.py"
    monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
    runpy.run_path(str(path), run_name="__main__")
    return capsys.readouterr().out


def test_numpy_batches_do_not_require_torch(finished, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    settings = ("--source", "web", "--length", 32, "--batch-size", 4, "--batches", 6)
    reported = run_example(monkeypatch, capsys, "numpy_batches", finished, *settings)
    assert re.search(r"\d+ rows of [\d,]+ tokens .* 0 tokens lost\n", reported)
    assert "768 inputs in" in reported


def test_a_tiny_model_learns(finished, monkeypatch, capsys):
    pytest.importorskip("torch")
    settings = ("--steps", 60, "--length", 32, "--every", 15, "--source", "web")
    reported = run_example(monkeypatch, capsys, "train_tiny", finished, *settings)
    losses = [float(found) for found in re.findall(r"loss ([\d.]+)", reported)]
    bits = [float(found) for found in re.findall(r"validation ([\d.]+) bits", reported)]
    assert len(losses) == 4
    assert len(bits) == 2
    assert losses[-1] < losses[0] - 0.3
    assert 0 < bits[1] < bits[0] - 0.1 < 20


API = [path for path in (ROOT / "docs/api").glob("*.md") if path.name != "README.md"]
DIRECTIVE = re.compile(r"^::: ([\w.]+)\.(\w+)$", re.MULTILINE)
NOT_ON_THE_PAGES = {
    *("SPECIAL_TOKENS", "SPLIT_PATTERN", "__version__"),
    *("get_token_bytes", "get_tokenizer"),  # on the page for users of nanochat
}


def members_of(item):
    """Return the public functions and properties that a class and its bases here define."""
    members = {}
    for base in inspect.getmro(item) if inspect.isclass(item) else ():
        if base.__module__.startswith("nanotok_ray"):
            members = {**vars(base), **members}
    members = {name: getattr(member, "__func__", member) for name, member in members.items()}
    return {
        name: member
        for name, member in members.items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


def test_every_public_name_is_on_a_page_of_the_api_with_a_docstring():
    named = [found for path in API for found in DIRECTIVE.findall(path.read_text("utf-8"))]
    assert len(named) == len({*named})
    assert {*nanotok_ray.__all__} - NOT_ON_THE_PAGES <= {name for _, name in named}
    listed = (ROOT / "docs/api/README.md").read_text("utf-8")
    for module, name in named:
        assert f"`{name}`" in listed
        item = getattr(importlib.import_module(module), name)
        assert inspect.getdoc(item), name
        for own, member in members_of(item).items():
            assert own == "model_post_init" or inspect.getdoc(member), f"{name}.{own}"


@pytest.fixture
def figures(monkeypatch):
    folder = ROOT / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    for name in ("frame", "figures"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location("figure_tables", folder / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_newest_records(figures):
    text = figures.PAGE.read_text("utf-8")
    assert figures.page(text) == text
    assert len(re.findall(r"<!-- table: \w+ -->\n\| ", text)) >= 8
