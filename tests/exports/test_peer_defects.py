"""What other tools were seen to get wrong, each as a job that gets it right, by the command line.

The name of a test says what would be wrong; exit codes, files and tokens are looked at as a user
would. What is about one module alone is tested there.
"""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nanotok_ray.cli import main
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import contents, texts, write_conversations

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["{paths}"]
split = "train"
append = {append}

[tokenizer]
vocab_size = {vocab_size}
special_tokens = {special_tokens}

[output]
path = "{out}"
work = "{out}-work"

[limits]
slice_bytes = 2000
"""


@pytest.fixture
def job(tmp_path, in_process, capsys):
    """Return a function that runs a command on files of documents: (exit code, JSON, stderr)."""

    def run(*arguments, command="prepare", append=(), special_tokens=SPECIAL_TOKENS, size=340):
        recipe = tmp_path / "recipe.toml"
        values = {"append": json.dumps(append), "special_tokens": json.dumps(special_tokens)}
        recipe.write_text(
            RECIPE.format(paths=tmp_path / "in", out=tmp_path / "out", vocab_size=size, **values)
        )
        code = main([command, str(recipe), *arguments])
        printed = capsys.readouterr()
        return code, json.loads(printed.out.splitlines()[-1]), printed.err

    (tmp_path / "in").mkdir()
    return run


def write(folder: Path, name: str, documents: list[str]) -> list[str]:
    """Write documents, one a line, and give them back."""
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    (folder / "in" / name).write_text(lines)
    return documents


def written(folder: Path) -> list[str]:
    """Return the documents of the shards, without the token before each."""
    tokenizer = Tokenizer.load(folder / "out/tokenizer")
    shards = open_shards(str(folder / "out"))
    assert all(ids[0] == tokenizer.get_bos_token_id() for ids in shards)
    return [tokenizer.decode(ids[1:]) for ids in shards]


def test_a_part_that_failed_is_not_success_and_a_file_added_later_is_not_mixed_up(
    job, tmp_path, monkeypatch
):
    files = {name: write(tmp_path, f"{name}.jsonl", texts(20, seed=ord(name))) for name in "abcd"}
    from nanotok_ray.job import work  # noqa: PLC0415 - patched

    right = work.tokenize_slices

    def fail(slices, *arguments, **options):
        if any(piece.path in ("a.jsonl", "c.jsonl") for piece in slices[0].pieces):
            raise CorruptOutputError("no")
        return right(slices, *arguments, **options)

    monkeypatch.setattr(work, "tokenize_slices", fail)
    code, told, _ = job()
    assert (code, told["status"]) == (5, "failed")
    assert "2 of " in told["error"] or "slices failed" in told["error"]
    assert not (tmp_path / "out/manifest.json").exists()
    with pytest.raises(FileNotFoundError, match="has not finished"):
        open_shards(str(tmp_path / "out"))
    files["aa"] = write(tmp_path, "aa.jsonl", texts(20, seed=99))
    monkeypatch.setattr(work, "tokenize_slices", right)
    code, told, _ = job()
    assert (code, told["status"]) == (0, "done")
    assert written(tmp_path) == [text for name in sorted(files) for text in files[name]]


def test_special_tokens_in_a_page_end_no_document_and_begin_none(job, tmp_path):
    documents = write(tmp_path, "a.jsonl", ["a<|bos|>b", "<|user_end|>", " <|endoftext|> "] * 9)
    code, told, _ = job(append=["<|user_end|>"])
    assert code == 0
    assert told["special_text"] == 18
    tokenizer = Tokenizer.load(tmp_path / "out/tokenizer")
    end = tokenizer.encode_special("<|user_end|>")
    for ids, text in zip(open_shards(str(tmp_path / "out")), documents, strict=True):
        assert [ids[0], ids[-1]] == [tokenizer.get_bos_token_id(), end]
        assert tokenizer.decode(ids[1:-1]) == text
        assert (ids[1:-1] < 256 + len(tokenizer.merges)).all()


def test_an_end_token_that_the_tokenizer_lacks_is_refused_before_anything_is_written(job, tmp_path):
    write(tmp_path, "a.jsonl", texts(5, seed=1))
    code, told, _ = job(append=["<|endoftext|>"])
    assert (code, told["status"]) == (2, "failed")
    assert "<|endoftext|>" in told["error"]
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("count", "dtype"), [(65_280, "<u2"), (65_281, "<u4")])
def test_ids_of_special_tokens_count_for_the_width_and_none_wraps(job, tmp_path, count, dtype):
    names = ["<|bos|>", *[f"<|{number}|>" for number in range(count - 1)]]
    write(tmp_path, "a.jsonl", ["ab"])
    code, _, _ = job(append=[names[-1]], special_tokens=names, size=256 + count)
    assert code == 0
    [ids] = open_shards(str(tmp_path / "out"))
    assert ids.dtype == np.dtype(dtype)
    assert ids.tolist() == [256, 97, 98, 255 + count]


def test_no_space_is_stripped_and_empty_documents_keep_their_place(job, tmp_path):
    documents = write(tmp_path, "a.jsonl", ["  a \n", "", "\n\n", "b", "", " "])
    assert job(append=["<|user_end|>"])[0] == 0
    tokenizer = Tokenizer.load(tmp_path / "out/tokenizer")
    shards = open_shards(str(tmp_path / "out"))
    assert [tokenizer.decode(ids[1:-1]) for ids in shards] == documents


def test_half_a_gzip_is_no_success_and_says_where_it_broke(job, tmp_path):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts(600, seed=3))
    packed = gzip.compress(lines.encode(), mtime=0)
    (tmp_path / "in/a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    code, told, _ = job()
    assert (code, told["status"]) == (3, "failed")
    assert "max_tails" in told["error"]
    assert not (tmp_path / "out/manifest.json").exists()
    code, told, _ = job("--set", "limits.max_tails=1", "--set", "limits.max_quarantined_share=1.0")
    assert code == 0
    assert told["quarantined"] == {"tail": 1}
    assert told["bytes"]["in"] == told["bytes"]["out"] + told["bytes"]["quarantined"]
    assert written(tmp_path) == texts(600, seed=3)[: told["documents"]["out"]]


def test_rows_without_the_field_make_no_file_and_no_success(job, tmp_path):
    (tmp_path / "in/a.jsonl").write_text('{"body": "a"}\n' * 20)
    write(tmp_path, "b.jsonl", texts(20, seed=1))
    code, told, _ = job()
    assert (code, "field is missing (20)" in told["error"]) == (3, True)
    everything = ("--set", "limits.max_quarantined_share=1.0")
    assert job(*everything)[0] == 0
    sizes = [path.stat().st_size for path in (tmp_path / "out/web/train").glob("*.bin")]
    assert sizes
    assert all(sizes)
    assert written(tmp_path) == texts(20, seed=1)


def test_a_document_above_the_limit_of_a_shard_has_one_of_its_own_and_the_job_ends(job, tmp_path):
    documents = write(tmp_path, "a.jsonl", ["a b", "word " * 500, "c", "d"])
    assert job("--set", "limits.max_shard_tokens=20")[0] == 0
    assert written(tmp_path) == documents
    counts = [len(path.read_bytes()) // 2 for path in sorted(tmp_path.glob("out/web/*/*.bin"))]
    assert len(counts) == 3
    assert [count > 20 for count in counts].count(True) == 1


def test_a_file_left_by_a_killed_worker_is_not_taken_for_a_result(job, tmp_path):
    write(tmp_path, "a.jsonl", texts(30, seed=1))
    assert job()[0] == 0
    right = contents(tmp_path / "out")
    [shard, *_] = sorted((tmp_path / "out/web/train").glob("*.bin"))
    shard.write_bytes(shard.read_bytes()[:-2])
    (tmp_path / "out/manifest.json").unlink()
    code, told, _ = job()
    assert (code, told["status"]) == (0, "done")
    assert contents(tmp_path / "out") == right


def test_no_input_is_no_success(job, tmp_path):
    code, told, _ = job()
    assert (code, told["status"]) == (2, "failed")
    (tmp_path / "in/a.jsonl").write_text("")
    assert job()[0] == 2


def test_conversations_are_not_cut_unless_asked_and_cuts_are_counted(job, tmp_path):
    messages = [{"role": "user", "content": "a " * 3000}, {"role": "assistant", "content": "b"}]
    write_conversations(tmp_path / "chats/a.jsonl", [messages])
    write(tmp_path, "a.jsonl", texts(5, seed=1))
    recipe = tmp_path / "recipe.toml"
    job()
    recipe.write_text(
        recipe.read_text()
        + f'\n[[source]]\nname = "chats"\nkind = "chat"\npaths = ["{tmp_path}/chats"]\n'
    )
    for limit, cut in ((None, 0), (100, 1)):
        cutting = ["--set", f"limits.max_tokens={limit}", "--set", "limits.too_long=cut"]
        options = [] if limit is None else cutting
        assert main(["prepare", str(recipe), *options]) == 0
        manifest = json.loads((tmp_path / "out/manifest.json").read_text())
        assert manifest["totals"]["all"]["truncated"] == cut
        assert manifest["totals"]["all"]["without_trainable_token"] == cut
        [ids] = open_shards(str(tmp_path / "out"), source="chats")
        assert (len(ids) == limit) if cut else (len(ids) > 3000)


def test_the_seed_of_pythons_hash_changes_no_byte(tmp_path):
    (tmp_path / "in").mkdir()
    write(tmp_path, "a.jsonl", texts(30, seed=1))
    code = (
        "import sys, pytest\n"
        "from nanotok_ray.storage import Folder\n"
        "from nanotok_ray.sources import make_plan\n"
        "from nanotok_ray.recipe import load_recipe\n"
        "from nanotok_ray.shards import ShardSettings, tokenize_slice\n"
        "from nanotok_ray.tokenizer import Tokenizer\n"
        "from nanotok_ray.formats.manifest import to_json\n"
        "plan = make_plan(load_recipe(sys.argv[1]))\n"
        "own = Tokenizer.train_from_iterator(['ab ab'], 270)\n"
        "settings = ShardSettings(tokenizer_sha256=own.sha256, gaps='spans', prepend=(),\n"
        "    append=(), max_document_bytes=9999, max_shard_tokens=99, max_tokens=None)\n"
        "for each in plan.slices():\n"
        "    record = tokenize_slice(each, settings, tokenizer=own, out=Folder(sys.argv[2]))\n"
        "    sys.stdout.buffer.write(to_json(record))\n"
    )
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        RECIPE.format(
            paths=tmp_path / "in", out="unused", vocab_size=340, append="[]", special_tokens="[]"
        ).replace("[tokenizer]", "prepend = []\n[tokenizer]")
    )
    answers = [
        subprocess.run(
            [sys.executable, "-c", code, str(recipe), str(tmp_path / f"out-{seed}")],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1] != b""
    assert contents(tmp_path / "out-1") == contents(tmp_path / "out-2")
