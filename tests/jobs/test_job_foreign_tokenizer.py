"""Whole jobs in one process with a foreign tokenizer: shards have its ids, with our files."""

import pickle

import pytest

from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.foreign_models import in_order
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe, texts

FIRST = len(in_order().tokens) + 3
MODEL = in_order(special_tokens={name: FIRST + 2 * n for n, name in enumerate(SPECIAL_TOKENS)})
"""Special tokens leave ids unused before each of them."""


@pytest.fixture
def encoding():
    return Tokenizer(MODEL).to_tiktoken()


@pytest.mark.parametrize("spec", ["pickled", "pickled/tokenizer.pkl"])
def test_a_foreign_pickle_is_accepted_and_its_ids_are_written(corpus, tmp_path, encoding, spec):
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled/tokenizer.pkl").write_bytes(pickle.dumps(encoding))
    job = recipe(corpus, tmp_path / "out", f"tokenizer.path={tmp_path}/{spec}")
    summary, stages, _ = run(job)
    assert list(stages) == ["tokenize", "verify"]
    assert summary.values["proof"]["encoded_again"] == summary.values["proof"]["documents"] > 10
    assert Tokenizer.load(tmp_path / "out/tokenizer").model == MODEL
    assert not (tmp_path / "out/tokenizer/tokenizer.json").exists()
    bos = MODEL.special_tokens["<|bos|>"]
    shards = open_shards(str(tmp_path / "out"), source="web")
    expected = [[bos, *encoding.encode_ordinary(text)] for text in texts(40, seed=0)]
    assert [document.tolist() for document in shards][:40] == expected
    assert run(job).summary.values["status"] == "unchanged"
    assert contents(tmp_path / "pickled").keys() == {"tokenizer.pkl"}
    out = Folder(str(tmp_path / "out"))
    assert verify_output(out).problems == []
    out.write_whole("tokenizer/tokenizer.json", b"{}")
    [problem] = verify_output(out).problems
    assert "tokenizer/tokenizer.json is not what tokenizer/tokenizer.txt gives" in problem
