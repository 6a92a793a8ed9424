"""Jobs with and without a span table: the same output; made before it is used, and used."""

import json

import pytest

from nanotok_ray.api import prepare, train
from nanotok_ray.errors import RecipeError
from nanotok_ray.job import work
from nanotok_ray.job.events import StageStarted
from nanotok_ray.shards.verify import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import contents, recipe, write_corpus

TABLE = "tokenizer/span_table.bin"


@pytest.fixture
def corpus(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    return tmp_path / "in"


@pytest.fixture
def used(monkeypatch):
    """Return the list of how many spans the table of each tokenized slice has."""
    sizes = []
    tokenize_slices = work.tokenize_slices

    def note(*arguments, tokenizer, **others):
        sizes.append(tokenizer.span_table_size)
        return tokenize_slices(*arguments, tokenizer=tokenizer, **others)

    monkeypatch.setattr(work, "tokenize_slices", note)
    return sizes


def problems(out):
    return verify_output(Folder(str(out))).problems


def test_the_output_is_the_same_with_and_without(corpus, tmp_path, used):
    with_table = prepare(recipe(corpus, tmp_path / "with")).values
    assert with_table["span_table"] > 50
    assert set(used) == {with_table["span_table"]}
    used.clear()
    without = prepare(recipe(corpus, tmp_path / "without", "tokenizer.span_table=0")).values
    assert without["span_table"] == 0
    assert set(used) == {0}
    expected = contents(tmp_path / "with")
    del expected[TABLE]
    assert contents(tmp_path / "without") == expected
    assert contents(tmp_path / "with-work") == contents(tmp_path / "without-work")


def test_the_recipe_says_how_many_spans(corpus, tmp_path):
    summary = train(recipe(corpus, tmp_path / "out", "tokenizer.span_table=7"))
    assert summary.values["span_table"] == 7
    assert "span table  7 spans" in summary.text()
    for wrong in ("-1", "16000001"):
        with pytest.raises(RecipeError, match=r"tokenizer\.span_table"):
            recipe(corpus, tmp_path / "out", f"tokenizer.span_table={wrong}")


def test_the_table_is_there_before_the_first_slice_is_tokenized(corpus, tmp_path):
    seen = []

    def watch(event):
        if isinstance(event, StageStarted) and event.stage == "tokenize":
            seen.append((tmp_path / "out" / TABLE).read_bytes())

    prepare(recipe(corpus, tmp_path / "out"), on_event=watch)
    assert seen == [(tmp_path / "out" / TABLE).read_bytes()]


def test_a_tokenizer_that_is_kept_goes_on_without_a_table_that_is_gone(corpus, tmp_path, used):
    job = recipe(corpus, tmp_path / "out")
    prepare(job)
    before = contents(tmp_path / "out")
    (tmp_path / "out" / TABLE).unlink()
    assert prepare(job).values["status"] == "unchanged"
    min((tmp_path / "out/web/train").glob("*.bin")).unlink()
    used.clear()
    prepare(job)
    assert used == [0]
    del before[TABLE]
    assert contents(tmp_path / "out") == before


def test_a_table_that_is_no_longer_wanted_stays_and_is_not_used(corpus, tmp_path, used):
    prepare(recipe(corpus, tmp_path / "out"))
    before = contents(tmp_path / "out")
    min((tmp_path / "out/web/train").glob("*.bin")).unlink()
    used.clear()
    prepare(recipe(corpus, tmp_path / "out", "tokenizer.span_table=0"))
    assert used == [0]
    assert contents(tmp_path / "out") == before


def test_a_smaller_tokenizer_gets_a_table_of_its_own(corpus, tmp_path):
    prepare(recipe(corpus, tmp_path / "out"))
    for spans in (1_000_000, 0):
        job = recipe(
            corpus,
            tmp_path / "out",
            f"tokenizer.vocab_size={300 + bool(spans)}",
            f"tokenizer.span_table={spans}",
        )
        prepare(job)
        size = Tokenizer.load(tmp_path / "out/tokenizer").span_table_size
        assert (size > 0) == (spans > 0)
    assert not (tmp_path / "out" / TABLE).exists()


def test_the_table_of_a_named_tokenizer_comes_along(corpus, tmp_path, used):
    prepare(recipe(corpus, tmp_path / "one"))
    path = f"tokenizer.path={tmp_path}/one/tokenizer"
    used.clear()
    prepare(recipe(corpus, tmp_path / "two", path))
    assert set(used) == {Tokenizer.load(tmp_path / "one/tokenizer").span_table_size}
    assert (tmp_path / "two" / TABLE).read_bytes() == (tmp_path / "one" / TABLE).read_bytes()
    prepare(recipe(corpus, tmp_path / "three", path, "tokenizer.span_table=0"))
    assert not (tmp_path / "three" / TABLE).exists()


def test_no_record_names_the_table(corpus, tmp_path):
    prepare(recipe(corpus, tmp_path / "out"))
    for path in (tmp_path / "out").rglob("*.json"):
        if path.parts[-2] != "run":
            assert b"span_table" not in path.read_bytes(), path
    assert "span_table" in json.loads((tmp_path / "out/run/summary.json").read_text())


def test_verification_wants_no_table_but_refuses_a_wrong_one(corpus, tmp_path):
    out = tmp_path / "out"
    prepare(recipe(corpus, out))
    prepare(recipe(corpus, tmp_path / "other", "tokenizer.vocab_size=300"))
    assert not problems(out)
    data = (out / TABLE).read_bytes()
    foreign = (tmp_path / "other" / TABLE).read_bytes()
    for wrong in (data[:-1] + bytes([data[-1] ^ 1]), data[:-1], foreign):
        (out / TABLE).unlink()
        (out / TABLE).write_bytes(wrong)
        [problem] = problems(out)
        assert str(out / TABLE) in problem
        assert "delete it" in problem
    (out / TABLE).unlink()
    assert not problems(out)
