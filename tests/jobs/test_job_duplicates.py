"""Duplicate documents: whole jobs against a plain set of texts, and files that are damaged."""

import json
import random
import shutil
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.api import prepare
from nanotok_ray.cli import main
from nanotok_ray.documents import Documents
from nanotok_ray.errors import CorruptOutputError, NanotokError, SourceError
from nanotok_ray.formats import ShardRecord, load, read_manifest
from nanotok_ray.job import duplicates as stages
from nanotok_ray.job.planning import plan_job
from nanotok_ray.job.work import hash_work, part_work, tokenize_work
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.shards import verify_output
from nanotok_ray.shards.check.record import account_problems
from nanotok_ray.shards.garbage import find_garbage
from nanotok_ray.sources import (
    DUPLICATE,
    HashRange,
    SliceReading,
    find_duplicates,
    hash_slice,
    write_lists,
)
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess, Replacing, in_place_of_ray, shuffled
from tests.support.run_job import run
from tests.support.small_corpus import contents, conversations

RECIPE = """
tokenizer.vocab_size = 300
output = {path = "ROOT/out", work = "ROOT/work"}
limits.slice_bytes = 3000

[[source]]
name = "web"
kind = "text"
paths = ["ROOT/[ab].jsonl"]
split = "share:0.2"
dedup = "RULE"

[[source]]
name = "chats"
kind = "chat"
paths = ["ROOT/c.jsonl"]
dedup = "RULE"

[[source]]
name = "more"
kind = "text"
paths = ["ROOT/d.jsonl"]
split = "train"
dedup = "RULE"

[[source]]
name = "kept"
kind = "text"
paths = ["ROOT/d.jsonl"]
split = "train"
count = false
"""


def texts(seed, count):
    rng = random.Random(seed)
    words = ["one", "two", "Three", "caf\u00e9", "cafe\u0301", ""]
    return [
        rng.choice([" ", "  ", "\n"]).join(rng.choices(words, k=rng.randrange(1, 4)))
        for _ in range(count)
    ]


@pytest.fixture
def corpus(tmp_path, in_process):
    """Write texts with many duplicates within and between files; return their folder."""
    for name, seed in (("a", 1), ("d", 2)):
        lines = [json.dumps({"text": text}) + "\n" for text in texts(seed, 300)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    chats = [{"messages": messages} for messages in conversations(30, seed=2)] * 2
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chats))
    return tmp_path


def recipe(corpus, rule="exact"):
    return parse_recipe(RECIPE.replace("ROOT", str(corpus)).replace("RULE", rule))


def normalized(text):
    """Return a text in NFC and lower case, with single spaces, by Python."""
    composed = unicodedata.normalize("NFC", text)
    return " ".join("".join(char.lower() for char in composed).split())


SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2003\u200a\u2028\u2029\u202f\u205f\u3000"
LETTERS = "aB\u00c9e\u0301\u0323\u0130\u03a3\u0391\ud55c\u1112\u1161\U0001f642\u200b"


@given(texts=st.lists(st.text(alphabet=SPACES + LETTERS), max_size=5))
def test_documents_are_folded_as_in_python(texts):
    given_texts = Documents.from_strings(texts)
    data, offsets = _core.fold_documents(given_texts.data, given_texts.offsets)
    folded = [text.decode() for text in Documents(data=data, offsets=offsets)]
    assert folded == [normalized(text) for text in texts]


def documents(corpus, source, split):
    shards = open_shards(str(corpus / "out"), split=split, source=source)
    tokenizer = Tokenizer.load(str(corpus / "out/tokenizer"))
    return [tokenizer.decode(shards[at].tolist()[1:]) for at in range(len(shards))]


def first_ones(names, key):
    """Return the texts of files without those of which an earlier one has an equal key."""
    seen, kept = set(), {}
    for name in names:
        path_texts = {"a": texts(1, 300), "d": texts(2, 300)}[name]
        kept[name] = []
        for text in path_texts:
            if key(text) not in seen:
                seen.add(key(text))
                kept[name].append(text)
    return kept


@pytest.mark.parametrize(
    ("rule", "key"), [("exact", lambda text: text), ("exact-normalized", normalized)]
)
def test_the_first_of_equal_documents_stays(corpus, rule, key):
    summary = prepare(recipe(corpus, rule))
    kept = first_ones("ad", key)
    web = [*documents(corpus, "web", "train"), *documents(corpus, "web", "val")]
    assert sorted(web) == sorted(kept["a"])
    assert documents(corpus, "more", "train") == kept["d"]
    assert documents(corpus, "kept", "train") == texts(2, 300)
    totals = read_manifest(Folder(str(corpus / "out"))).totals
    assert totals["chats/train"].dropped == {"duplicate": 30}
    lost = 600 - len(kept["a"]) - len(kept["d"])
    assert summary.values["dropped"] == {"duplicate": lost + 30}
    assert verify_output(Folder(str(corpus / "out")), depth="full").passed
    repeated = run(recipe(corpus, rule))
    assert (repeated.summary.values["status"], repeated.stages) == ("unchanged", {})


def test_a_slice_of_several_files_leaves_out_the_same_documents(corpus):
    lines = (corpus / "a.jsonl").read_text().splitlines(keepends=True)
    for name, part in (("a", lines[:170]), ("b", lines[170:])):
        (corpus / f"{name}.jsonl").write_text("".join(part))
    text = RECIPE.replace("ROOT", str(corpus)).replace("RULE", "exact")
    job = parse_recipe(text.replace("slice_bytes = 3000", "slice_bytes = 4000000"))
    prepare(job)
    hashed = [*(corpus / "work/hashes/web").glob("*.hashes")]
    assert len(hashed) == 1
    web = [*documents(corpus, "web", "train"), *documents(corpus, "web", "val")]
    assert sorted(web) == sorted(first_ones("ad", lambda text: text)["a"])
    assert verify_output(Folder(str(corpus / "out")), depth="full").passed


def test_any_order_and_a_resumed_job_give_the_same_bytes(corpus):
    out = corpus / "out"
    prepare(recipe(corpus))
    expected = contents(out)

    def anew():
        shutil.rmtree(out)
        shutil.rmtree(corpus / "work")

    anew()
    with in_place_of_ray(InProcess(order=shuffled(4))):
        prepare(recipe(corpus))
    assert contents(out) == expected
    for work in (hash_work, part_work, tokenize_work):
        anew()
        left = iter([True])

        def stopped(argument, *, work=work, left=left):
            if work is part_work or not next(left, False):
                raise SourceError("stopped")
            return work(argument)

        with in_place_of_ray(Replacing({work: stopped})), pytest.raises(NanotokError):
            prepare(recipe(corpus))
        assert prepare(recipe(corpus)).values["status"] == "done"
        assert contents(out) == expected


def test_an_added_file_changes_only_the_lists_that_it_must(corpus):
    prepare(recipe(corpus))
    before = {path.name for path in (corpus / "out/quarantine/duplicates").iterdir()}
    added = [*texts(1, 20), "only here", "only here"]
    lines = [json.dumps({"text": text}) + "\n" for text in added]
    (corpus / "b.jsonl").write_text("".join(lines))
    ran = run(recipe(corpus))
    names = {path.name for path in (corpus / "out/quarantine/duplicates").iterdir()}
    assert len(names - before) == 1  # that of the added file
    assert ran.stages["tokenize"][0] <= 2  # its train and val slices
    assert "only here" in {
        *documents(corpus, "web", "train"),
        *documents(corpus, "web", "val"),
    }


def test_an_added_file_takes_the_place_of_later_ones(corpus):
    first = (corpus / "a.jsonl").rename(corpus / "b.jsonl")
    prepare(recipe(corpus))
    (corpus / "a.jsonl").write_text(first.read_text())
    prepare(recipe(corpus))
    web = [*documents(corpus, "web", "train"), *documents(corpus, "web", "val")]
    assert sorted(web) == sorted(first_ones("ad", lambda text: text)["a"])
    assert verify_output(Folder(str(corpus / "out")), depth="full").passed


def test_another_limit_finds_the_duplicates_anew(corpus):
    prepare(recipe(corpus))
    lines = [json.dumps({"text": text}) for text in texts(1, 300)]
    limit = sorted(map(len, lines))[200]
    overrides = [f"limits.max_document_bytes={limit}", "limits.max_quarantined_share=1.0"]
    text = RECIPE.replace("ROOT", str(corpus)).replace("RULE", "exact")
    prepare(parse_recipe(text, overrides=overrides))
    short = [text for text, line in zip(texts(1, 300), lines, strict=True) if len(line) <= limit]
    web = [*documents(corpus, "web", "train"), *documents(corpus, "web", "val")]
    assert sorted(web) == sorted(set(short))
    assert verify_output(Folder(str(corpus / "out")), depth="full").passed


def test_a_record_with_another_number_of_dropped_rows_is_a_problem(corpus):
    prepare(recipe(corpus))
    slices = plan_job(recipe(corpus)).plan.slices(split="train")
    slice_ = [each for each in slices if each.kind == "chat"][-1]
    (path,) = (corpus / "out/records").rglob(f"{slice_.stem}-{slice_.number:05d}-*.json")
    record = load(ShardRecord, path.read_bytes(), name=path.name)
    reading = SliceReading(slice_)
    assert list(reading) == []
    assert list(account_problems(record, reading)) == []
    (problem,) = account_problems(replace(record, dropped={}), reading)
    assert "dropped rows" in problem


def test_a_plan_says_that_duplicates_are_not_known(corpus):
    assert any("duplicates" in note for note in plan_job(recipe(corpus)).notes)
    prepare(recipe(corpus))
    plan = plan_job(recipe(corpus))
    assert not any("duplicates" in note for note in plan.notes)
    assert plan.todo["tokenize"] == []


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_damaged_files_are_noticed(corpus):
    out = Folder(str(corpus / "out"))
    prepare(recipe(corpus))
    [one, *_] = sorted((corpus / "out/quarantine/duplicates").iterdir())
    flip(one)
    assert any("list of duplicates" in problem for problem in verify_output(out).problems)
    one.unlink()
    prepare(recipe(corpus))  # makes the list anew
    assert verify_output(out, depth="full").passed
    shutil.rmtree(corpus / "out")
    (part,) = (corpus / "work/duplicates").rglob("*.duplicates")
    flip(part)
    with pytest.raises(CorruptOutputError, match="damaged"):
        prepare(recipe(corpus))
    shutil.rmtree(corpus / "work/duplicates")
    flip(next((corpus / "work/hashes").rglob("*.hashes")))
    with pytest.raises(NanotokError, match="damaged"):
        prepare(recipe(corpus))


def test_a_damaged_file_is_made_anew_after_it_was_removed(corpus):
    prepare(recipe(corpus))
    expected = contents(corpus / "out")
    shutil.rmtree(corpus / "out")
    shutil.rmtree(corpus / "work/duplicates")
    damaged = min((corpus / "work/hashes").rglob("*.hashes"))
    flip(damaged)
    with pytest.raises(NanotokError, match=f"{damaged.name} is damaged"):
        prepare(recipe(corpus))
    damaged.unlink()
    prepare(recipe(corpus))
    assert contents(corpus / "out") == expected


def test_counts_are_not_removed_before_duplicates_are_known(corpus):
    path = corpus / "r.toml"
    path.write_text(RECIPE.replace("ROOT", str(corpus)).replace("RULE", "exact"))
    prepare(recipe(corpus))
    assert main(["cache", "rm", str(path)]) == 0
    assert run(recipe(corpus)).stages == {}
    (corpus / "b.jsonl").write_text('{"text": "one"}\n')
    assert main(["cache", "rm", str(path)]) != 0


def test_lists_that_no_slice_names_are_garbage(corpus):
    prepare(recipe(corpus))
    out = Folder(str(corpus / "out"))
    assert not find_garbage(out).files
    out.write_bytes(f"quarantine/duplicates/{'0' * 32}.u32", b"")
    assert list(find_garbage(out).files) == [f"quarantine/duplicates/{'0' * 32}.u32"]


class Reading:
    """A reading of given documents."""

    def __init__(self, documents, number):
        self.slice = type("Slice", (), {"source": "web", "split": "train", "number": number})
        self.documents = documents

    def __iter__(self):
        for start in range(0, len(self.documents), 3):
            yield 0, type("Batch", (), {"documents": self.documents[start : start + 3]})


@settings(deadline=None)
@given(
    slices=st.lists(st.lists(st.sampled_from([b"a", b"b", b"c", b"d", b"", b"ab"])), max_size=6),
    num_parts=st.sampled_from([1, 2, 8, 256]),
)
def test_lists_are_those_of_a_plain_loop(tmp_path_factory, slices, num_parts):
    folder = Folder(str(tmp_path_factory.mktemp("hashes")))
    records = [
        hash_slice(
            Reading(documents, at), rule="exact", folder=folder, name=f"{at}.hashes", key="0" * 64
        )
        for at, documents in enumerate(slices)
    ]
    parts = [
        find_duplicates(
            [HashRange.of(one, part=part, num_parts=num_parts) for one in records], folder
        )
        for part in range(num_parts)
    ]
    lists = list(write_lists(parts, num_slices=len(slices), folder=folder))
    seen = set()
    for documents, dropped in zip(slices, lists, strict=True):
        expected = []
        for at, document in enumerate(documents):
            expected += [at] if document in seen else []
            seen.add(document)
        read = [] if dropped is None else np.frombuffer(folder.read_bytes(dropped.name), "<u4")
        assert [*read] == expected
    assert sum(map(len, parts)) == sum(map(len, slices)) - len(seen)
    assert all(part.dtype == DUPLICATE for part in parts)


def test_the_number_of_parts_grows_with_the_documents(corpus, monkeypatch):
    prepare(recipe(corpus))
    expected = contents(corpus / "out")
    shutil.rmtree(corpus / "out")
    shutil.rmtree(corpus / "work")
    monkeypatch.setattr(stages, "_PART_DOCUMENTS", 50)
    prepare(recipe(corpus))
    assert len([*(corpus / "work/duplicates").rglob("*.duplicates")]) == 16
    assert contents(corpus / "out") == expected
