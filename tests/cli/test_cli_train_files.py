"""`nanotok tokenizer train`: reading, learning, writing, and output."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer as HuggingFaceTokenizer

from nanotok_ray import SpanCounts, Tokenizer
from nanotok_ray.cli import main
from nanotok_ray.counts import PATTERNS, count_corpus
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.sources import ReadingRules, SliceReading, find_named
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import to_tiktoken_file
from tests.support.learned import rustbpes_tokens
from tests.support.small_corpus import texts, write_parquet

FEWER = settings(max_examples=settings().max_examples // 4)  # each example opens files
DOCUMENTS = [text for text in texts(120, seed=3) if text.strip()]
LINES = [line for text in DOCUMENTS for line in text.split("\n") if line.strip()]


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)  # no test simulates a power failure


def run(capsys, *arguments):
    """Return the exit code, the JSON line and the text."""
    code = main(["tokenizer", "train", *map(str, arguments)])
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    return code, json.loads(captured.out), captured.err


def write(path, rows, *, field="text"):
    """Write texts in the format of a path's suffix."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table({field: rows}), path, row_group_size=16)
        return path
    lines = rows if ".txt" in path.name else [json.dumps({field: row}) for row in rows]
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def tokens_of(path):
    return list(load_tiktoken_bpe(str(path)))


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("corpus.txt", LINES),
        ("corpus.txt.gz", LINES),
        ("corpus.jsonl", DOCUMENTS),
        ("corpus.jsonl.gz", DOCUMENTS),
        ("corpus.parquet", DOCUMENTS),
    ],
)
def test_every_format_yields_the_merges_of_rustbpe(tmp_path, capsys, name, rows):
    path, out = write(tmp_path / name, rows), tmp_path / "own.tiktoken"
    code, values, _ = run(capsys, "--vocab-size", 360, "--output", out, path)
    assert (code, values["vocab_size"], values["documents"]) == (0, 360, len(rows))
    assert tokens_of(out) == rustbpes_tokens(rows, 104)


def test_files_of_several_formats_are_summed_and_each_counts_once(tmp_path, capsys):
    third = len(DOCUMENTS) // 3
    (tmp_path / "in").mkdir()
    paths = [
        write(tmp_path / "in/a.parquet", DOCUMENTS[:third], field="body"),
        write(tmp_path / "in/b.parquet", DOCUMENTS[third : 2 * third], field="body"),
        write(tmp_path / "in/c.jsonl", DOCUMENTS[2 * third :], field="body"),
    ]
    out = tmp_path / "own.tiktoken"
    flags = ["--vocab-size", 360, "--output", out, "--column", "body", "--cpus", 3]
    code, values, _ = run(capsys, *flags, *paths, tmp_path / "in/*.parquet", paths[0])
    assert (code, values["files"], values["texts"]) == (0, 3, len(DOCUMENTS))
    assert tokens_of(out) == rustbpes_tokens(DOCUMENTS, 104)


def test_a_folder_holds_the_tokenizer_learned_in_memory_and_a_report(tmp_path, capsys):
    path, out = write(tmp_path / "c.jsonl", DOCUMENTS), tmp_path / "tokenizer"
    flags = ["--vocab-size", 350, "--also", "300,280", "--output", f"{out}/"]
    code, values, reported = run(capsys, *flags, path)
    assert code == 0
    expected = Tokenizer.train_from_iterator(DOCUMENTS, 350)
    assert Tokenizer.load(out) == expected
    assert list(expected.special_tokens) == list(SPECIAL_TOKENS)
    assert Tokenizer.load(f"{out}-300") == expected.truncated(300)
    assert Tokenizer.load(f"{out}-280") == expected.truncated(280)
    report = json.loads((out / "report.json").read_text())
    assert (report["documents"], report["quarantined"]) == (len(DOCUMENTS), {})
    assert {name: report[name] for name in ("texts", "spans", "stop_reason")} == {
        name: values[name] for name in ("texts", "spans", "stop_reason")
    }
    assert (values["status"], values["tokenizer_sha256"]) == ("done", expected.sha256)
    assert set(values["seconds"]) == {"count", "learn"}
    for words in ("reading     1 file", "count: 1 slice", "learn: 85 merges", f"wrote       {out}"):
        assert words in reported


@pytest.mark.parametrize("suffix", [".json", ".txt"])
def test_other_files_alone_store_special_tokens(tmp_path, capsys, suffix):
    path, out = write(tmp_path / "c.jsonl", DOCUMENTS), tmp_path / f"own{suffix}"
    flags = ["--vocab-size", 350, "--output", out, "--also=300"]
    flags += ["--special-token=<a>", "--special-token=<b>"]
    code, values, _ = run(capsys, *flags, path)
    assert (code, values["wrote"]) == (0, [str(out), f"{tmp_path}/own-300{suffix}"])
    expected = Tokenizer.train_from_iterator(DOCUMENTS, 350, special_tokens=["<a>", "<b>"])
    expected.save(tmp_path / "folder")
    name = {".json": "tokenizer.json", ".txt": "tokenizer.txt"}[suffix]
    assert out.read_bytes() == (tmp_path / "folder" / name).read_bytes()
    if suffix == ".json":
        peer = HuggingFaceTokenizer.from_file(str(out))
        peer.encode_special_tokens = True
        assert peer.encode(DOCUMENTS[0]).ids == expected.encode(DOCUMENTS[0])


def test_every_flag_has_its_effect(tmp_path, capsys):
    path, out = write(tmp_path / "c.jsonl", ["abcdef " * 9, "xy xy"]), tmp_path / "t"
    flags = ["--pattern=r50k", "--vocab-size=999", "--min-pair-count=3", "--max-token-bytes=4"]
    code, values, reported = run(capsys, *flags, "--output", out, path, "--no-special-tokens")
    own = Tokenizer.load(out)
    assert code == 0
    assert (own.pattern, own.special_tokens) == (PATTERNS["r50k"], {})
    assert max(map(len, own.model.tokens)) == 4
    assert b"xy" not in own.model.tokens
    assert (values["min_pair_count"], values["max_token_bytes"]) == (3, 4)
    assert "ids of the 999 asked for" in reported


def test_store_urls_work_for_inputs_and_outputs(capsys):
    source = Folder("memory://train-files/in")
    for number in range(3):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in DOCUMENTS[number::3])
        source.write_whole(f"{number}.jsonl", lines.encode())
    for output in ("memory://train-files/own.tiktoken", "memory://train-files/folder"):
        flags = ["--vocab-size=300", "--output", output, "memory://train-files/in/*.jsonl"]
        code, values, _ = run(capsys, *flags, "memory://train-files/in")
        assert (code, values["files"], values["texts"]) == (0, 3, len(DOCUMENTS))
    data = Folder("memory://train-files").read_bytes("own.tiktoken")
    own = Tokenizer.train_from_iterator(DOCUMENTS, 300, special_tokens=())
    assert data.count(b"\n") == 300
    assert data == to_tiktoken_file(own.model)
    expected = Tokenizer.train_from_iterator(DOCUMENTS, 300)
    assert Tokenizer.load("memory://train-files/folder") == expected


def test_an_exception_in_a_listener_stops_counting(tmp_path, monkeypatch):
    write(tmp_path / "a.jsonl", DOCUMENTS[:3])
    slices = find_named([str(tmp_path)], ReadingRules()).slices * 500
    read = []

    original = SliceReading.__iter__

    def iterate(reading):
        read.append(reading.slice)
        return original(reading)

    def refuse(done, num_bytes):
        raise KeyboardInterrupt

    monkeypatch.setattr(SliceReading, "__iter__", iterate)
    with pytest.raises(KeyboardInterrupt):
        count_corpus(slices, pattern="gpt4", threads=1, on_slice=refuse)
    assert 1 <= len(read) < 500


def test_a_file_url_and_a_relative_output_work(tmp_path, capsys, monkeypatch):
    path = write(tmp_path / "c d.jsonl", DOCUMENTS)
    monkeypatch.chdir(tmp_path)
    flags = ["--vocab-size=300", "--output=own.tiktoken", path.as_uri()]
    assert run(capsys, *flags)[0] == 0
    assert tokens_of("own.tiktoken") == rustbpes_tokens(DOCUMENTS, 44)


def test_an_equal_tokenizer_is_no_conflict_and_another_requires_force(tmp_path, capsys):
    path = write(tmp_path / "c.jsonl", DOCUMENTS)
    for out in (tmp_path / "own.tiktoken", tmp_path / "folder"):
        assert run(capsys, "--vocab-size=300", "--output", out, path)[0] == 0
        _, same, reported = run(capsys, "--vocab-size=300", "--output", out, path)
        assert (same["status"], f"note: {out} already exists" in reported) == ("done", True)
        state = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
        code, values, _ = run(capsys, "--vocab-size=310", "--output", out, path)
        assert (code, "--force" in values["error"]) == (2, True)
        assert state == {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
        code, values, reported = run(capsys, "--vocab-size=310", "--output", out, "--force", path)
        assert (code, values["vocab_size"], "already exists" in reported) == (0, 310, False)
    assert len(tokens_of(tmp_path / "own.tiktoken")) == 310
    assert Tokenizer.load(tmp_path / "folder").get_vocab_size() == 310


def test_an_existing_smaller_size_prevents_all_writes(tmp_path, capsys):
    path = write(tmp_path / "c.jsonl", DOCUMENTS)
    (tmp_path / "own-280.tiktoken").write_text("mine")
    flags = ["--vocab-size=300", "--also=280", "--output", tmp_path / "own.tiktoken"]
    code, values, _ = run(capsys, *flags, path)
    assert (code, "own-280.tiktoken" in values["error"]) == (2, True)
    assert (tmp_path / "own-280.tiktoken").read_text() == "mine"
    assert not (tmp_path / "own.tiktoken").exists()


@FEWER
@given(
    rows=st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=40), max_size=30),
    files=st.integers(1, 4),
    threads=st.integers(1, 3),
)
def test_counts_depend_only_on_the_texts(tmp_path_factory, rows, files, threads):
    folder = tmp_path_factory.mktemp("in")
    for number in range(files):
        write(folder / f"{number}.jsonl", rows[number::files])
    write_parquet(folder / "x/rest.parquet", rows, row_group_size=2)
    named = find_named([f"{folder}/*.jsonl", f"{folder}/x"], ReadingRules())
    seen = []
    found = count_corpus(
        named.slices, pattern="gpt4", threads=threads, on_slice=lambda *done: seen.append(done)
    )
    plain = SpanCounts("gpt4")
    plain.update([*rows, *rows])
    assert found.counts.most_common() == plain.most_common()
    assert found.counts.origin == plain.origin
    assert (found.documents, found.quarantined) == (2 * len(rows), {})
    assert [done for done, _ in seen] == [*range(1, len(named.slices) + 1)]
    assert seen[-1][1] == sum(each.num_bytes for each in named.slices)
