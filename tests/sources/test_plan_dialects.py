"""Planning detects the dialect of each file of conversations, and stores it in the plan."""

import json
import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.errors import CorruptOutputError, SourceError
from nanotok_ray.job.decide import decide
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources import changes, make_plan, overview, plan_from_json, plan_to_json, resolve
from tests.support.small_corpus import recipe, write_corpus

MESSAGES = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
TURNS = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}
MATHS = {"question": "1 + 1?", "answer": "#### 2"}


def write(path, *values, start=b"", end=b"\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(start + b"\n".join(json.dumps(each).encode() for each in values) + end)


def resolved(path, **fields):
    return resolve(SourceRecipe(name="talk", **{"kind": "chat", "paths": (str(path),)} | fields))


def dialects(found) -> dict[str, str | None]:
    return {file.path: file.dialect for file in found.files}


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "in")
    write(tmp_path / "in/chats/turns.jsonl", TURNS, TURNS)
    return tmp_path / "in"


def test_a_plan_states_the_dialect_of_each_file_and_their_number(corpus, tmp_path):
    job = recipe(corpus, tmp_path / "out")
    plan = make_plan(job)
    web, chats = plan.sources
    assert [file.dialect for file in web.files] == [None] * 3
    assert list(dialects(chats).values()) == ["messages"] * 2 + ["sharegpt"]
    assert [each["dialects"] for each in overview(plan)] == [{}, {"messages": 2, "sharegpt": 1}]
    reported = decide(job, command="prepare").text()
    assert " jsonl of messages (2 files) and sharegpt (1 file) in " in reported
    assert " parquet in " in reported
    assert plan_from_json(plan_to_json(plan)) == replace(plan, notes=())
    sources = json.loads(plan_to_json(plan))["sources"]
    files = [file for source in sources for file in source["files"]]
    assert [file.get("dialect") for file in files] == [None] * 3 + ["messages"] * 2 + ["sharegpt"]
    assert ["dialect" in file for file in files] == [False] * 3 + [True] * 3


def test_another_dialect_of_a_file_changes_its_slices(corpus, tmp_path):
    before = make_plan(recipe(corpus, tmp_path / "out"))
    after = make_plan(recipe(corpus, tmp_path / "out", "source.chats.dialect=messages"))
    (changed,) = changes(before, after)
    assert dict(changed.reasons) == {"turns.jsonl": "dialect sharegpt -> messages"}
    assert {each.key for each in before.slices()} != {each.key for each in after.slices()}


def test_a_plan_with_an_impossible_dialect_is_refused(corpus, tmp_path):
    plan = plan_to_json(make_plan(recipe(corpus, tmp_path / "out")))
    for source, dialect in ((0, "messages"), (1, "text"), (1, "nonsense"), (1, 3)):
        values = json.loads(plan)
        values["sources"][source]["files"][0]["dialect"] = dialect
        with pytest.raises(CorruptOutputError, match=r"plan\.json.*does not belong to its kind"):
            plan_from_json(json.dumps(values).encode())


@pytest.mark.parametrize(
    ("value", "kind", "reported"),
    [
        ({"a": 1, "b": 2}, "chat", "an object with the keys 'a', 'b': no dialect of chat"),
        (MATHS, "vision", "an object with the keys 'question', 'answer': no dialect of vision"),
        ({}, "chat", r"an object with the keys \(none\)"),
        (dict.fromkeys("abcdefg"), "chat", "an object with .* 'd', 'e' and 2 more: no dialect"),
        (3, "chat", "a number"),
        ("hi", "chat", "a string"),
        (None, "chat", "null"),
        (True, "chat", "a boolean"),
    ],
    ids=str,
)
def test_a_first_document_of_an_unknown_dialect_is_refused(tmp_path, value, kind, reported):
    write(tmp_path / "a.jsonl", value, {"messages": []})
    message = rf"a\.jsonl: its first document is {reported}.*set dialect"
    with pytest.raises(SourceError, match=message):
        resolved(tmp_path / "a.jsonl", kind=kind)
    assert resolved(tmp_path / "a.jsonl", kind=kind, dialect="messages").notes == ()


def test_the_dialect_of_the_recipe_applies_to_all_files(tmp_path):
    write(tmp_path / "a.jsonl", MESSAGES)
    write(tmp_path / "b.jsonl", {"a": 1})
    (tmp_path / "c.jsonl").write_bytes(b"")
    found = resolved(tmp_path, dialect="customjson")
    assert set(dialects(found).values()) == {"customjson"}


def test_the_first_valid_json_line_determines_the_dialect(tmp_path):
    bom = b"\xef\xbb\xbf"
    write(tmp_path / "a.jsonl", MATHS, start=bom)
    write(tmp_path / "b.jsonl", MATHS, start=b"\r\n{broken\n\xff\n" + b"[" * 100_000 + b"\n")
    write(tmp_path / "c.jsonl", MATHS, end=b"")
    write(tmp_path / "d.jsonl", MATHS | {"more": "x" * 200_000})
    write(tmp_path / "e.jsonl", MATHS | {"more": int("9" * 4000)})
    found = resolved(tmp_path)
    assert (set(dialects(found).values()), found.notes) == ({"gsm8k"}, ())


def test_a_file_without_documents_is_read_as_messages_with_a_note(tmp_path):
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "blank.jsonl").write_bytes(b" \r\n\n\t")
    found = resolved(tmp_path)
    assert (set(dialects(found).values()), found.notes) == ({"messages"}, ())
    (tmp_path / "broken.jsonl").write_bytes(b"{\n" * 99)
    write(tmp_path / "long.jsonl", MATHS | {"more": "x" * (1 << 20)}, MATHS)
    found = resolved(tmp_path)
    assert set(dialects(found).values()) == {"messages"}
    (note,) = found.notes
    assert "at the start of broken.jsonl, long.jsonl is JSON" in note
    assert "taken to be 'messages'; set dialect" in note


@pytest.mark.parametrize(("codec", "suffix"), [("gzip", "gz"), ("zstd", "zst")])
def test_the_start_of_a_compressed_file_is_decoded(tmp_path, codec, suffix):
    rng = random.Random(1)
    lines = [json.dumps(MATHS), *(json.dumps(rng.randbytes(2000).hex()) for _ in range(99))]
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write("\n".join(lines).encode())
    stored = sink.getvalue().to_pybytes()
    assert len(stored) > 1 << 16
    (tmp_path / f"whole.jsonl.{suffix}").write_bytes(stored)
    (tmp_path / f"cut.jsonl.{suffix}").write_bytes(stored[: len(stored) // 2])
    found = resolved(tmp_path)
    assert (list(dialects(found).values()), found.notes) == (["gsm8k"] * 2, ())


def test_a_column_of_the_wrong_type_for_a_dialect_is_refused_first(tmp_path):
    pq.write_table(pa.table({"messages": ["[]"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"question": ["a"], "answer": ["b"]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet: column 'messages' is of type string"):
        resolved(tmp_path)
    (tmp_path / "a.parquet").unlink()
    assert dialects(resolved(tmp_path)) == {"b.parquet": "gsm8k"}
    with pytest.raises(SourceError, match=r"b\.parquet: .*'sharegpt' need the columns 'conver"):
        resolved(tmp_path, dialect="sharegpt")
