"""Jobs that learn tokens of several words."""

import json

import pytest

from nanotok_ray.api import prepare, train
from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import RecipeError
from nanotok_ray.job import reducing
from nanotok_ray.job.reducing import names_in_use
from nanotok_ray.job.superwords import recounts_in_use
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import in_place_of_ray, on_ray_with
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe, texts, write_corpus
from tests.support.superwords import learn_superwords

SUPERWORD = ("tokenizer.vocab_size=450", "tokenizer.superword={from = 390}")
STAGES = ["count", "reduce", "learn", "pairs", "segments"]


def tokenizer_of(out):
    return Tokenizer.load(out / "tokenizer")


def test_a_job_learns_what_is_learned_in_memory(corpus, out):
    parsed = recipe(corpus, out, *SUPERWORD, "tokenizer.also=[420]")
    summary, stages, _ = run(parsed, prepare)
    assert {*STAGES} <= {*stages}
    expected = learn_superwords(
        [text for seed in range(2) for text in texts(40, seed=seed)],
        450,
        from_size=390,
        pattern=PATTERNS["nanochat-superwords"],
        special_tokens=SPECIAL_TOKENS,
    ).tokenizer
    assert tokenizer_of(out) == expected
    assert any(b" " in token.strip(b" ") for token in expected.model.tokens)
    assert Tokenizer.load(out / "tokenizer-420") == expected.truncated(420)
    assert summary.values["learned"]["merges"] == 450 - 256 - len(SPECIAL_TOKENS)
    assert not verify_output(Folder(str(out)), depth="full").problems
    before = contents(out)
    assert run(parsed, prepare).stages == {}
    assert contents(out) == before


def test_slices_parts_and_earlier_counts_change_no_byte(corpus, out, tmp_path, monkeypatch):
    run(recipe(corpus, out, *SUPERWORD), train)
    small = recipe(corpus, tmp_path / "small", *SUPERWORD, "limits.slice_bytes=1500")
    monkeypatch.setattr(reducing, "PART_BYTES", 8000)
    run(small, train)
    assert contents(tmp_path / "small/tokenizer") == contents(out / "tokenizer")
    other = recipe(corpus, out, SUPERWORD[0], "tokenizer.superword={from = 390, max_words = 2}")
    _, stages, _ = run(other, train)
    assert stages["count"][0] == stages["pairs"][0] == 0  # both are those of before
    weighted = recipe(corpus, out, *SUPERWORD, "source.web.weight=3")
    run(weighted, train)
    assert tokenizer_of(out) == tokenizer_of(tmp_path / "small")


def test_the_counts_of_both_passes_are_in_use(corpus, out, tmp_path):
    parsed = recipe(corpus, out, *SUPERWORD)
    assert recounts_in_use(parsed) == frozenset()
    run(parsed, train)
    names = {
        str(path.relative_to(tmp_path / "out-work").with_suffix(""))
        for path in (tmp_path / "out-work/counts").rglob("*.arrow")
    }
    assert names == recounts_in_use(parsed) | names_in_use(parsed)
    assert len(recounts_in_use(parsed)) == 2 * len(names_in_use(parsed))


def test_a_damaged_count_of_segments_is_made_again(corpus, out, tmp_path):
    parsed = recipe(corpus, out, *SUPERWORD)
    run(parsed, train)
    before = contents(out / "tokenizer")
    work = tmp_path / "out-work/counts"
    damaged = 0
    for record in work.rglob("*.json"):
        name = json.loads(record.read_text())["files"][0]["name"]
        path = tmp_path / "out-work" / name
        data = bytearray(path.read_bytes())
        if b"superwords" not in data and b"pairs" not in data:
            continue
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        damaged += 1
    assert damaged
    (out / "records/learn.json").unlink()
    run(parsed, train)
    assert contents(out / "tokenizer") == before


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("{from = 350}", "from = 350"),
        ("{from = 200}", "from = 200"),
        ("{max_words = 3}", "lacks from"),
        ("{from = 300, max_words = 0}", "below 1"),
        ("{from = 300, words = 3}", "unknown key 'words'"),
        ('{from = "x"}', "not of type int"),
        ("300", "not a table"),
    ],
)
def test_a_wrong_setting_is_refused(setting, message, corpus, out):
    with pytest.raises(RecipeError, match=message):
        recipe(corpus, out, f"tokenizer.superword={setting}")


@pytest.mark.ray
@pytest.mark.timeout(180)
@pytest.mark.usefixtures("shared_ray")
def test_a_job_on_ray_learns_the_same(tmp_path):
    write_corpus(tmp_path / "in")
    learner = ('learner.memory="1GiB"',)
    run(recipe(tmp_path / "in", tmp_path / "local", *SUPERWORD), train)
    with in_place_of_ray(on_ray_with({})):
        train(recipe(tmp_path / "in", tmp_path / "ray", *SUPERWORD, *learner))
    assert contents(tmp_path / "ray/tokenizer") == contents(tmp_path / "local/tokenizer")
