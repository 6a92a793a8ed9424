"""`nanotok tokenizer warm`: the table it writes, what it covers, and what it refuses."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nanotok_ray import SpanCounts, Tokenizer, _core
from nanotok_ray.cli import main
from nanotok_ray.cli.main import parser
from nanotok_ray.documents.batch import Documents
from nanotok_ray.tokenizer import open_span_table
from nanotok_ray.tokenizer.warming import warm
from tests.cli.test_cli_train_files import write
from tests.support.small_corpus import texts

DOCUMENTS = [text for text in texts(150, seed=5) if text.strip()]
OTHERS = texts(60, seed=6)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Save a tokenizer without a span table and give its folder."""
    monkeypatch.setattr("os.fsync", lambda _: None)  # no test cuts the power
    path = tmp_path / "tokenizer"
    Tokenizer.train_from_iterator(DOCUMENTS, 350).save(path)
    return path


def run(capsys, *arguments):
    """Return the exit code, the JSON line and what people read."""
    code = main(["tokenizer", "warm", *map(str, arguments)])
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    return code, json.loads(captured.out), captured.err


def counts_of(rows, **others):
    counts = SpanCounts(**others)
    counts.update(rows)
    return counts


def test_the_table_is_used_and_the_ids_are_the_same(folder, tmp_path, capsys):
    cold = Tokenizer.load(folder)
    code, values, told = run(capsys, folder, write(tmp_path / "c.jsonl", DOCUMENTS))
    own = Tokenizer.load(folder)
    assert code == 0
    assert (cold.span_table_size, own.span_table_size) == (0, values["num_spans"])
    assert own == cold
    assert [own.encode(text) for text in OTHERS] == [cold.encode(text) for text in OTHERS]
    assert values["num_distinct"] == counts_of(DOCUMENTS).num_distinct
    assert (values["status"], values["tokenizer_sha256"]) == ("done", own.sha256)
    assert f"span table  {values['num_spans']:,} spans of " in told
    assert "% of the corpus' spans, " in told


def test_it_is_the_table_that_write_span_table_makes(folder, tmp_path, capsys):
    run(capsys, folder, "--spans=40", write(tmp_path / "c.parquet", DOCUMENTS))
    own = (folder / "span_table.bin").read_bytes()
    Tokenizer.load(folder, span_table=False).write_span_table(folder, DOCUMENTS, max_spans=40)
    assert (folder / "span_table.bin").read_bytes() == own


def test_counts_do_as_well_as_texts(folder, tmp_path, capsys):
    counts_of(DOCUMENTS).save(tmp_path / "counts/web/a.arrow")
    (tmp_path / "counts/web/a.json").write_text("{}")
    _, told, _ = run(capsys, folder, write(tmp_path / "c.jsonl", DOCUMENTS))
    first = (folder / "span_table.bin").read_bytes()
    (folder / "span_table.bin").unlink()
    for path in (tmp_path / "counts", tmp_path / "counts/web/*.arrow"):
        code, values, _ = run(capsys, folder, path)
        assert (code, values | {"seconds": 0}) == (0, told | {"seconds": 0})
        assert (folder / "span_table.bin").read_bytes() == first


def test_a_table_that_is_there_is_replaced_also_a_damaged_one(folder, tmp_path, capsys):
    (folder / "span_table.bin").write_bytes(b"nothing")
    path = write(tmp_path / "c.jsonl", DOCUMENTS)
    assert run(capsys, folder, path, "--spans=1000")[0] == 0
    assert run(capsys, folder, path, "--spans=5")[1]["num_spans"] <= 5
    assert Tokenizer.load(folder).span_table_size <= 5


def with_bytes_backwards(own):
    """Return the tokenizer whose ids 0 to 255 are the bytes from the last on, as others number."""
    merges = [tuple(255 - id_ if id_ < 256 else id_ for id_ in pair) for pair in own.merges]
    order = bytes(range(255, -1, -1))
    return Tokenizer(replace(own.model, merges=tuple(merges), byte_order=order))


@pytest.mark.parametrize("arranged", [lambda own: own, with_bytes_backwards])
@pytest.mark.parametrize("vocab_size", [256, 300, 700])
def test_shares_are_those_of_the_spans_that_the_table_holds(tmp_path, vocab_size, arranged):
    """The core says of any text how many of its bytes the table holds."""
    long = ["a" * length for length in (15, 16, 255, 256, 300)]
    rows = [*DOCUMENTS, *long, "zqxjkvwpbm" * 2, "привет данные", "数据数据数据"]
    own = Tokenizer.train_from_iterator(DOCUMENTS, vocab_size, special_tokens=())
    own = arranged(own)
    own.save(tmp_path)
    run = counts_of(rows).run()
    for spans in (1, 30, 10_000):
        share = warm(own.model, run, tmp_path, spans=spans)
        table = open_span_table(tmp_path, sha256=own.sha256)
        encoder = _core.Encoder(
            own.pattern,
            own.model.merge_array,
            span_table=table,
            byte_order=own.model.core_byte_order,
        )
        documents = Documents.from_strings(rows)
        held = encoder.bytes_in_table(documents.data, documents.offsets)
        assert share.num_spans == len(table)
        assert share.byte_share == pytest.approx(held / documents.num_bytes)
        assert 0 < share.span_share <= 1
    assert share.num_distinct == len(np.unique(run[0]))
    assert share.num_spans < share.num_distinct


def test_bad_documents_count_towards_the_limit(folder, tmp_path, capsys):
    (tmp_path / "c.txt").write_bytes(b"good\n\xff\n")
    code, values, told = run(capsys, folder, tmp_path / "c.txt")
    assert (code, "1 of 2 documents" in values["error"]) == (3, True)
    assert "left out: " in told
    assert not (folder / "span_table.bin").exists()
    assert run(capsys, folder, tmp_path / "c.txt", "--max-quarantined-share=0.5")[0] == 0


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.pkl", "tokenizer.tiktoken"])
def test_a_file_is_taken_over_into_a_folder_with_its_table(folder, tmp_path, capsys, name):
    path, corpus = folder / name, write(tmp_path / "c.jsonl", DOCUMENTS)
    spec = f"{path}:nanochat" if name.endswith(".tiktoken") else path
    code, values, _ = run(capsys, spec, corpus)
    assert (code, "name a folder with --output" in values["error"]) == (2, True)
    before = sorted(folder.iterdir())
    code, values, told = run(capsys, spec, corpus, "--output", tmp_path / "own")
    own = Tokenizer.load(tmp_path / "own")
    assert (code, values["output"], sorted(folder.iterdir())) == (0, str(tmp_path / "own"), before)
    assert own.merges == Tokenizer.load(folder).merges
    assert own.sha256 == values["tokenizer_sha256"]
    assert own.span_table_size == values["num_spans"] > 0
    assert f"wrote       {tmp_path}/own\n" in told
    assert run(capsys, spec, corpus, "--output", tmp_path / "own")[0] == 0


def test_another_tokenizer_is_not_overwritten(folder, tmp_path, capsys):
    Tokenizer.train_from_iterator(DOCUMENTS, 300).save(tmp_path / "other")
    corpus = write(tmp_path / "c.jsonl", DOCUMENTS)
    for output, words in (("other", "holds another"), ("a.json", "lies in a folder")):
        code, values, _ = run(capsys, folder, corpus, "--output", tmp_path / output)
        assert (code, words in values["error"]) == (2, True)
    assert Tokenizer.load(tmp_path / "other").span_table_size == 0


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.pkl"])
def test_a_folder_of_others_gets_its_table(folder, tmp_path, capsys, name):
    (tmp_path / "theirs").mkdir()
    (folder / name).rename(tmp_path / "theirs" / name)
    assert run(capsys, tmp_path / "theirs", write(tmp_path / "c.jsonl", DOCUMENTS))[0] == 0
    assert {path.name for path in (tmp_path / "theirs").iterdir()} == {name, "span_table.bin"}
    own = Tokenizer.load(tmp_path / "theirs")
    assert own == Tokenizer.load(folder)
    assert own.span_table_size > 0


def test_what_cannot_be_is_refused_and_no_table_is_written(folder, tmp_path, capsys):
    path = write(tmp_path / "c.jsonl", DOCUMENTS)
    counts_of(DOCUMENTS, pattern="gpt4").save(tmp_path / "gpt4.arrow")
    counts_of([]).save(tmp_path / "empty.arrow")
    for arguments, words in (
        ([tmp_path / "nowhere", path], ["no tokenizer in", "nowhere"]),
        ([folder, tmp_path / "nowhere"], ["nowhere matches no file"]),
        ([folder, path, "--spans=0"], ["--spans is 0", "16,000,000"]),
        ([folder, path, "--threads=0"], ["threads is 0"]),
        ([folder, path, tmp_path / "empty.arrow"], ["empty.arrow is counts", "c.jsonl is none"]),
        ([folder, tmp_path / "gpt4.arrow"], ["gpt4.arrow was cut by", "texts"]),
        ([folder, tmp_path / "empty.arrow"], ["no span"]),
    ):
        code, values, told = run(capsys, *arguments)
        assert (code, values["status"]) == (2, "failed")
        assert all(word in values["error"] for word in words), values["error"]
        assert "Traceback" not in told
    assert not (folder / "span_table.bin").exists()


def test_examples_of_the_help_can_be_parsed(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["tokenizer", "warm", "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    examples = [line.split() for line in shown.splitlines() if line.startswith("  nanotok tok")]
    assert len(examples) == 5
    for words in examples:
        assert parser().parse_args(words[1:]).corpus
