"""Verification against the source."""

import json
import os
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.api import prepare
from nanotok_ray.documents import Documents
from nanotok_ray.formats import DocumentBatch
from nanotok_ray.loader import open_shards
from nanotok_ray.shards import verify_output
from nanotok_ray.shards.check.document import DocumentCheck
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import rewrite
from tests.support.small_corpus import (
    conversations,
    recipe,
    shard_settings,
    texts,
    write_parquet,
)

TOLERANT = ("limits.max_quarantined_share=1.0", "limits.max_tails=9")


def made(corpus, out, *overrides):
    prepare(recipe(corpus, out, *TOLERANT, *overrides))
    return out


def deep(out):
    return verify_output(Folder(str(out)), depth="full")


@pytest.mark.parametrize("depth", ["sample", "masks", "full"])
def test_documents_in_shards_are_checked_without_encoder_and_renderer(
    corpus, tmp_path, monkeypatch, depth
):
    out = made(corpus, tmp_path / "out")

    def fail(*_, **__):
        raise AssertionError("the check calls what it checks")

    for name in ("encode", "encode_batch", "encode_documents", "batch_renderer"):
        monkeypatch.setattr(Tokenizer, name, fail)
    result = verify_output(Folder(str(out)), depth=depth)
    assert result.passed
    assert result.sampled >= 30


def test_a_deep_check_repeats_splits_special_tokens_cuts_and_bad_rows(corpus, tmp_path):
    write_parquet(corpus / "text/shard_00001.parquet", ["a", None, "", "b" * 400, None, "c"])
    with (corpus / "chats/1.jsonl").open("a", encoding="utf-8") as file:
        file.write('{broken\n\n["not", "messages"]\n')
    result = deep(
        made(
            corpus,
            tmp_path / "out",
            'source.web.split="share:0.3"',
            'source.web.append=["<|user_end|>", "<|user_start|>"]',
            "limits.max_shard_tokens=500",
            "limits.max_tokens=20",
        )
    )
    assert not result.problems
    assert result.documents == result.sampled == 40 + 4 + 40 + 30
    assert result.shards > result.slices


def test_one_wrong_id_is_detected_and_its_document_named(corpus, tmp_path):
    out = made(corpus, tmp_path / "out")
    pattern = "web/train/*-00001-000-*.bin"
    path = rewrite(out, pattern, lambda data: data[:200] + b"\0\0" + data[202:])
    [problem] = deep(out).problems
    assert path.stem in problem
    assert "is not row" in problem
    assert "shard_0000" in problem


def test_copied_sources_with_other_times_are_accepted(corpus, tmp_path):
    out = made(corpus, tmp_path / "out")
    for path in corpus.rglob("*.*"):
        os.utime(path, ns=(1, 1))
    assert deep(out).passed
    assert verify_output(Folder(str(out))).passed


def test_a_reworded_quarantine_entry_is_detected(corpus, tmp_path):
    write_parquet(corpus / "text/shard_00000.parquet", ["a", None])
    out = made(corpus, tmp_path / "out")
    path = rewrite(out, "quarantine/web/train/*", lambda data: data.replace(b'"row":1', b'"row":0'))
    [problem] = deep(out).problems
    assert path.name in problem


@pytest.fixture
def named(corpus, tmp_path):
    """Return an output of sources with ids: parquet split by share, and jsonl; some rows bad."""
    for number in range(3):
        rows = [None, *texts(30, seed=number), "x" * 3000]
        names = [None if row % 7 == 3 else f"{number}/é{row}" for row in range(len(rows))]
        table = pa.table({"text": pa.array(rows, pa.string()), "url": names})
        pq.write_table(table, corpus / f"text/shard_{number:05d}.parquet", row_group_size=8)
    made_ = conversations(20, seed=2)
    lines = [json.dumps({"messages": each, "n": row}) for row, each in enumerate(made_)]
    (corpus / "chats/1.jsonl").write_text("\n".join([*lines, '{"n": "bad"}', "{broken"]))
    return made(
        corpus,
        tmp_path / "out",
        'source.web.split="share:0.3"',
        'source.web.id_column="url"',
        'source.chats.id_column="n"',
        "limits.max_document_bytes=2500",
        "limits.max_shard_tokens=400",
    )


def test_the_ids_of_documents_equal_those_of_their_rows(named):
    result = deep(named)
    assert not result.problems
    assert result.documents == result.sampled == 90 + 35
    assert verify_output(Folder(str(named))).passed
    shards = [open_shards(str(named), split, "web") for split in ("train", "val")]
    every = [(own, number) for own in shards for number in range(len(own))]
    names = {f"{number}/é{row}" for number in range(3) for row in range(1, 31) if row % 7 != 3}
    found = Counter(own.document_id(number) for own, number in every)
    assert found == {None: 3 * 4} | dict.fromkeys(names, 1)
    known = [(own, own.document_id(number), number) for own, number in every]
    assert all(own.find(name) == [number] for own, name, number in known if name is not None)
    assert sum(len(own.find(name)) for own in shards for name in names) == len(names) == 78
    chats = open_shards(str(named), "train", "chats")
    found = [chats.document_id(number) for number in range(len(chats))]
    assert found == [None] * 15 + [str(number) for number in range(20)]
    assert (chats.find("7"), chats.find("20"), chats.find("")) == ([22], [], [])
    (entry,) = [
        json.loads(line)
        for path in named.glob("quarantine/chats/train/*")
        for line in path.read_text().splitlines()
        if '"bad"' in line
    ]
    assert entry["id"] == "bad"


@pytest.mark.parametrize("source", ["web", "chats"])
def test_an_id_of_another_row_is_detected(named, source):
    path = rewrite(named, f"{source}/train/*1-*-000-*.ids", lambda data: data[:-1] + b"~")
    assert verify_output(Folder(str(named))).passed
    [problem] = deep(named).problems
    assert path.name in problem
    assert "is not that of row" in problem


def test_changed_and_missing_files_of_ids_are_detected(named):
    first, second, *_ = sorted(named.glob("web/train/*.ids"))
    first.write_bytes(first.read_bytes()[:-1] + b"~")
    second.unlink()
    found = verify_output(Folder(str(named))).problems
    assert len(found) == 2
    assert any(first.name in problem and "sha256" in problem for problem in found)
    assert any(second.name in problem and "missing" in problem for problem in found)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(texts(50, seed=1), vocab_size=300)


def check_of(tokenizer, prepend, append=()):
    """Return the check of texts between special tokens."""
    settings = shard_settings(tokenizer, prepend=prepend, append=append)
    return DocumentCheck(kind="text", settings=settings, tokenizer=tokenizer)


def differing(check, documents, rows):
    ids = np.array([number for row in rows for number in row], dtype=np.uint16)
    written = DocumentBatch(ids=ids, positions=np.cumsum([0, *map(len, rows)]))
    return check.differing_texts(Documents.from_strings(documents), written).tolist()


@pytest.mark.parametrize(
    ("before", "after"), [((), ()), (("<|bos|>",), ()), (("<|bos|>",) * 2, ("<|user_end|>",))]
)
def test_one_changed_id_names_its_document(tokenizer, before, after):
    check = check_of(tokenizer, before, after)
    first, last = (list(map(tokenizer.encode_special, names)) for names in (before, after))
    documents = ["", *texts(20, seed=2), "", "x"]
    rows = [[*first, *tokenizer.encode(text), *last] for text in documents]
    assert differing(check, documents, rows) == []
    rng = random.Random(3)
    for _ in range(50):
        number = rng.choice([place for place, row in enumerate(rows) if row])
        place = rng.randrange(len(rows[number]))
        new = rng.choice([own for own in range(300) if own != rows[number][place]])
        changed = [*rows[number][:place], new, *rows[number][place + 1 :]]
        assert differing(check, documents, [*rows[:number], changed, *rows[number + 1 :]]) == [
            number
        ]


def test_wrong_lengths_and_special_tokens_for_spelled_out_names_are_detected(tokenizer):
    bos = tokenizer.get_bos_token_id()
    assert tokenizer.decode([bos]) == "<|bos|>"
    assert differing(check_of(tokenizer, ()), ["a", "<|bos|>"], [[*b"a"], [bos]]) == [1]
    check = check_of(tokenizer, ("<|bos|>",))
    assert differing(check, ["", ""], [[bos], []]) == [1]
    assert differing(check, ["a", "b"], [[bos, *b"a"], [bos, *b"bb"]]) == [1]
