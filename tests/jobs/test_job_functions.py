"""Whole jobs whose documents go through a function of the recipe."""

import json
import random
import shutil

import pytest

from nanotok_ray.api import prepare, verify
from nanotok_ray.cli import main
from nanotok_ray.cluster.submit.shipping import JobCommand, ship
from nanotok_ray.errors import CorruptOutputError, RecipeError, SliceError, SourceError
from nanotok_ray.formats import read_manifest
from nanotok_ray.job.planning import plan_job
from nanotok_ray.job.work import count_work, tokenize_work
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import load_recipe
from nanotok_ray.report.page import report_page
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess, Replacing, in_place_of_ray, shuffled
from tests.support.run_job import run
from tests.support.small_corpus import contents, conversations, texts

CODE = """
from nanotok_ray.filters import drop, per_document
from words import BLOCKED

@per_document
def edit(text, *, source):
    if source in BLOCKED:
        return drop("blocked source")
    if "3.14" in text:
        raise ValueError("a number")
    return text.split("\\n\\n    ")

@per_document
def shorten(row):
    row["messages"] = row["messages"][:2]
    return row if row["score"] > 2 else None
"""
RECIPE = """
tokenizer.vocab_size = 300
output = {path = "OUT", work = "OUT-work"}
limits = {slice_bytes = 20000, max_quarantined_share = 0.5}

[[source]]
name = "web"
kind = "text"
paths = ["web.jsonl"]
split = "share:0.1"
transform = "edits:edit"
columns = ["source"]
depends = ["words.py"]

[[source]]
name = "chats"
kind = "chat"
dialect = "messages"
paths = ["chats.jsonl"]
transform = "edits:shorten"
depends = ["words.py"]
"""


def rows():
    rng = random.Random(5)
    return [
        {"text": text, "source": rng.choice("abc")} for text in texts(300, seed=3) if text.strip()
    ]


@pytest.fixture
def recipe(tmp_path, in_process, monkeypatch):
    """Write a corpus and the function beside its recipe; return the path of the recipe."""
    monkeypatch.chdir(tmp_path)
    chats = [
        {"messages": messages, "score": at % 5}
        for at, messages in enumerate(conversations(40, seed=1))
    ]
    for name, written in (("web", rows()), ("chats", chats)):
        lines = "".join(json.dumps(row) + "\n" for row in written)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    (tmp_path / "edits.py").write_text(CODE)
    (tmp_path / "words.py").write_text('BLOCKED = ["b"]\n')
    path = tmp_path / "r.toml"
    path.write_text(RECIPE.replace("OUT", str(tmp_path / "out")))
    return path


def documents(out, split):
    shards = open_shards(str(out), split=split)
    tokenizer = Tokenizer.load(str(out / "tokenizer"))
    return [tokenizer.decode(shards[at].tolist()) for at in range(len(shards))]


def test_the_output_is_that_of_a_file_with_the_results(recipe, tmp_path):
    summary = prepare(load_recipe(str(recipe)))
    kept = [
        {"text": part}
        for row in rows()
        if row["source"] != "b" and "3.14" not in row["text"]
        for part in row["text"].split("\n\n    ")
    ]
    lines = (tmp_path / "chats.jsonl").read_text().splitlines()
    chats = [row | {"messages": row["messages"][:2]} for row in map(json.loads, lines)]
    chats = [row for row in chats if row["score"] > 2]
    plain = tmp_path / "plain"
    plain.mkdir()
    for name, written in (("web", kept), ("chats", chats)):
        (plain / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in written))
    text = recipe.read_text().replace(str(tmp_path / "out"), str(tmp_path / "expected"))
    leave = ("transform", "columns", "depends")
    lines = [line for line in text.splitlines() if not line.startswith(leave)]
    (plain / "r.toml").write_text("\n".join(lines))
    (plain / "r.toml").write_text((plain / "r.toml").read_text().replace('["', f'["{plain}/'))
    other = prepare(load_recipe(str(plain / "r.toml")))
    assert summary.values["tokenizer_sha256"] == other.values["tokenizer_sha256"]
    for split in ("train", "val"):
        assert documents(tmp_path / "out", split) == documents(tmp_path / "expected", split)
    num_blocked = sum(row["source"] == "b" for row in rows())
    assert summary.values["dropped"] == {"blocked source": num_blocked, "removed": 24}
    assert [*summary.values["quarantined"]] == ["the function raised ValueError"]
    page = report_page(Folder(str(tmp_path / "out")))
    assert "Dropped rows, by source and reason" in page
    assert "blocked source" in page


def test_any_order_and_a_resumed_job_give_the_same_bytes(recipe, tmp_path):
    job, out = load_recipe(str(recipe)), tmp_path / "out"
    prepare(job)
    expected = contents(out)

    def anew():
        for folder in (out, tmp_path / "out-work"):
            shutil.rmtree(folder)

    anew()
    with in_place_of_ray(InProcess(order=shuffled(4))):
        prepare(job)
    assert contents(out) == expected
    for work in (count_work, tokenize_work):
        anew()
        left = iter([True, True])

        def stopped(argument, *, work=work, left=left):
            if not next(left, False):
                raise SourceError("stopped")
            return work(argument)

        with in_place_of_ray(Replacing({work: stopped})), pytest.raises(SliceError):
            prepare(job)
        assert prepare(job).values["status"] == "done"
        assert contents(out) == expected
    repeated = run(job)
    assert (repeated.summary.values["status"], repeated.stages) == ("unchanged", {})


def test_a_changed_file_makes_the_shards_of_its_sources_anew_and_keeps_the_tokenizer(recipe):
    first = run(load_recipe(str(recipe)))
    (recipe.parent / "words.py").write_text('BLOCKED = ["c"]\n')
    second = run(load_recipe(str(recipe)))
    assert second.stages["tokenize"][1] == 0  # no slice was kept
    values = first.summary.values["tokenizer_sha256"], second.summary.values["tokenizer_sha256"]
    assert values[0] == values[1]
    assert second.summary.values["learned"]["of_other_inputs"]
    assert any("transform" in note for note in second.notes)
    manifest = read_manifest(Folder(str(recipe.parent / "out")))
    assert manifest.totals["web/train"].dropped == {
        "blocked source": sum(row["source"] == "c" for row in rows())
    }


def test_a_function_of_one_source_leaves_the_slices_of_others(recipe):
    prepare(load_recipe(str(recipe)))
    text = recipe.read_text()
    recipe.write_text(text.replace('transform = "edits:shorten"\ndepends = ["words.py"]\n', ""))
    stages = run(load_recipe(str(recipe))).stages
    assert stages["tokenize"][0] == 1  # the slice of chats
    assert stages["tokenize"][1] > 2


def test_only_a_trusted_output_runs_its_functions_when_it_is_verified(recipe, tmp_path):
    out = Folder(str(tmp_path / "out"))
    prepare(load_recipe(str(recipe)))
    for depth in ("sample", "full", "masks"):
        assert verify_output(out, depth=depth, run_code=True).passed
    result = verify(out, deep=True)
    assert result.problems == []
    assert ["--run-code" in line for line in result.unchecked] == [True, True]
    assert verify_output(out, depth="files").passed
    plan = tmp_path / "out/plan.json"
    plan.write_text(plan.read_text().replace("BLOCKED = [", "BLOCKED = 0, ["))
    with pytest.raises(CorruptOutputError, match=r"words\.py"):
        verify_output(out, depth="full", run_code=True)


def test_the_plan_shows_rows_before_and_after(recipe, capsys):
    plan = plan_job(load_recipe(str(recipe)))
    web, chats = plan.functions
    assert (web.source, web.function, chats.rows) == ("web", "edits:edit", 40)
    read = rows()[: web.rows]
    assert web.dropped == {"blocked source": sum(row["source"] == "b" for row in read)}
    assert [*web.errors] == ["ValueError: a number"]
    assert any(len(example.after) > 1 for example in web.examples)
    assert main(["plan", str(recipe)]) == 0
    printed = capsys.readouterr()
    assert "dropped: blocked source" in printed.err + printed.out


def test_reasons_are_counted_up_to_a_colon_and_their_number_is_limited(recipe, tmp_path):
    (tmp_path / "edits.py").write_text(
        CODE.replace('drop("blocked source")', 'drop(f"{len(text)} characters: too many")')
    )
    dropped = prepare(load_recipe(str(recipe))).values["dropped"]
    lengths = {f"{len(row['text'])} characters" for row in rows() if row["source"] == "b"}
    assert len(lengths) > 40
    assert len(dropped) == 33
    assert dropped.keys() <= {*lengths, "removed", "other reasons"}
    assert sum(dropped.values()) == sum(row["source"] == "b" for row in rows()) + 24
    assert verify_output(Folder(str(tmp_path / "out")), depth="full", run_code=True).passed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("import drop", "import dropp"), "ImportError: cannot import name 'dropp'"),
        (("def edit", "def edits"), "has no attribute 'edit'"),
        (
            ("return text.split", "import os; return str(os.urandom(8))\n    #"),
            "called again",
        ),
        (("if source in BLOCKED", "if source.nothing"), "AttributeError.*Correct the function"),
    ],
)
def test_an_unusable_function_is_refused_before_the_job_starts(recipe, tmp_path, change, words):
    (tmp_path / "edits.py").write_text(CODE.replace(*change))
    with pytest.raises(SourceError, match=words):
        prepare(load_recipe(str(recipe)))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"edits:edit"', '"edits"', "MODULE:FUNCTION"),
        ('"edits:edit"', '"package.edits:edit"', "version is not set"),
        ('["words.py"]', '["../words.py"]', "in the folder"),
        ('columns = ["source"]', 'columns = ["text"]', "column of the documents"),
        ('transform = "edits:edit"\n', "", "set transform"),
        ('depends = ["words.py"]', 'version = "1"', "no use"),
    ],
)
def test_wrong_keys_are_refused(recipe, old, new, words):
    recipe.write_text(recipe.read_text().replace(old, new, 1))
    with pytest.raises(RecipeError, match=words):
        load_recipe(str(recipe))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("words.py", b"\xff", "not UTF-8"),
        ("words.py", b"#" * (1 << 18), "262,144 bytes"),
        ("words.py", None, "cannot read"),
    ],
)
def test_unreadable_and_large_files_are_refused(recipe, name, content, words):
    path = recipe.parent / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(SourceError, match=words):
        prepare(load_recipe(str(recipe)))


def test_a_submission_has_the_files_beside_the_recipe(recipe, tmp_path):
    text = recipe.read_text().replace('["web', f'["{tmp_path}/web')
    recipe.write_text(text.replace('["chats', f'["{tmp_path}/chats'))
    shipped = ship(str(recipe), JobCommand(job="prepare"), variables={}, environment={})
    assert sorted(shipped.files) == ["edits.py", "r.toml", "words.py"]
    (tmp_path / "words.py").write_text("BLOCKED = []\n")
    other = ship(str(recipe), JobCommand(job="prepare"), variables={}, environment={})
    assert other.base_id != shipped.base_id
    (tmp_path / "lib").mkdir()
    (tmp_path / "edits.py").rename(tmp_path / "lib/edits.py")
    (tmp_path / "words.py").rename(tmp_path / "lib/words.py")
    recipe.write_text(recipe.read_text().replace('"edits:', '"lib/edits.py:'))
    with pytest.raises(RecipeError, match="beside the recipe"):
        ship(str(recipe), JobCommand(job="prepare"), variables={}, environment={})


def test_a_file_of_a_function_can_be_in_the_home_folder(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    recipe.write_text(recipe.read_text().replace('"edits:', '"~/edits.py:'))
    names = {source.transform for source in load_recipe(str(recipe)).sources}
    assert f"{tmp_path}/home/edits.py:shorten" in names
