"""Verification detects changed, cut, lost and mixed-up files, and names them."""

import json
import shutil
from pathlib import Path

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from tests.support.finished_output import finished_output, rewrite
from tests.support.small_corpus import recipe, texts, write_parquet


def problems(out, **options):
    return verify_output(Folder(str(out)), **options).problems


def first(out, pattern):
    return min(out.glob(pattern))


def test_a_valid_output_has_no_problem_and_a_sample_is_compared(out):
    result = verify_output(Folder(str(out)))
    assert result.passed
    assert result.documents == 150
    assert result.sampled > 2 * result.slices


def test_sources_inside_the_output_are_named(own_corpus):
    out = own_corpus
    (out.parent / "in").rename(out / "in")
    (out.parent / "in").symlink_to(out / "in")
    found = problems(out)
    assert len(found) == len(json.loads((out / "plan.json").read_text())["sources"])
    assert all("of this output" in problem for problem in found)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def cut(path):
    path.write_bytes(path.read_bytes()[:-2])


SHARD_FILES = [f"*/train/*.{suffix}" for suffix in ("bin", "idx", "mask")]
DAMAGE = [
    *((pattern, flip, "sha256") for pattern in SHARD_FILES),
    *((pattern, cut, "bytes") for pattern in SHARD_FILES),
    ("web/train/*.bin", Path.unlink, "missing"),
    ("records/tokenize/web/train/*.json", Path.unlink, "missing"),
    *((f"tokenizer/{name}", flip, name) for name in ("tokenizer.pkl", "token_bytes.pt")),
    ("tokenizer/tokenizer_config.json", flip, "tokenizer_config.json"),
]


@pytest.mark.parametrize(("pattern", "change", "reported"), DAMAGE)
def test_a_damaged_or_missing_file_is_detected_and_named(out, pattern, change, reported):
    path = first(out, pattern)
    change(path)
    (problem,) = problems(out)
    assert path.name in problem
    assert reported in problem


def test_a_record_of_another_recipe_is_detected(finished, out, tmp_path, in_process):
    other = tmp_path / "other"
    append = 'source.web.append=["<|user_end|>"]'
    prepare(recipe(finished.parent / "in", other, "limits.slice_bytes=60000", append))
    path = first(out, "records/tokenize/web/train/*.json")
    stem = path.name.rpartition("-")[0]
    shutil.copy(next(other.glob(f"records/tokenize/web/train/{stem}-*.json")), path)
    found = problems(out)
    assert len(found) == 1
    assert "another recipe" in found[0]


def test_an_edited_record_is_detected(out):
    path = first(out, "records/tokenize/web/train/*.json")
    values = json.loads(path.read_text())
    values["special_text"] += 1
    path.write_text(json.dumps(values))
    assert any("manifest.json" in problem for problem in problems(out))


def test_a_foreign_plan_tokenizer_or_index_is_detected(finished, out, tmp_path, in_process):
    other = tmp_path / "other"
    prepare(
        recipe(finished.parent / "in", other, "tokenizer.vocab_size=300", "limits.slice_bytes=9000")
    )
    wrong = {
        "plan.json": "plan.json is not the one that manifest.json names",
        "tokenizer/tokenizer.txt": "tokenizer/ does not hold the tokenizer that",
        "shards.idx": "shards.idx",
    }
    for name, problem in wrong.items():
        kept = (out / name).read_bytes()
        shutil.copy(other / name, out / name)
        assert any(found.startswith(problem) for found in problems(out)), name
        (out / name).write_bytes(kept)
    assert not problems(out)


@pytest.fixture
def own_corpus(tmp_path, in_process):
    """Return an output whose sources a test can change."""
    return finished_output(tmp_path)


def test_a_later_change_of_a_source_is_detected_by_the_sample(own_corpus, tmp_path):
    out = own_corpus
    for number in range(3):
        write_parquet(tmp_path / f"in/text/shard_{number:05d}.parquet", texts(40, seed=50 + number))
    assert any("changed since the plan was made" in problem for problem in problems(out))
    assert not problems(out, sample=False)


def test_a_later_change_of_a_source_outside_the_sample_is_detected(own_corpus, tmp_path):
    path = tmp_path / "in/chats/1.jsonl"
    data = path.read_bytes()
    path.write_bytes(data.replace(b": ", b" :", 1))  # the same document in another spelling
    assert path.read_bytes() != data
    [problem] = problems(own_corpus)
    assert "1.jsonl" in problem
    assert "has changed since it was read" in problem


def test_a_missing_source_is_a_problem_unless_sampling_is_disabled(own_corpus, tmp_path):
    out = own_corpus
    shutil.rmtree(tmp_path / "in")
    assert any("cannot be read again" in problem for problem in problems(out))
    assert not problems(out, sample=False)


def test_ids_beyond_the_vocabulary_and_mask_bytes_over_1_are_detected(out):
    # The files and their record agree, as after a bug in the writer: only the values are wrong.
    rewrite(out, "chats/train/*.bin", lambda data: (350).to_bytes(2, "little") + data[2:])
    rewrite(out, "chats/train/*.mask", lambda data: b"\x02" + data[1:])
    found = problems(out)
    assert any("holds 350" in problem for problem in found)
    assert any("holds 2" in problem for problem in found)
