"""`nanotok train` on files, and the commands for count files."""

import gzip
import json
import re
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer as HuggingFaceTokenizer

from nanotok_ray import SpanCounts, Tokenizer
from nanotok_ray.counts import PATTERNS, count_corpus
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.sources import ReadingRules, SliceReading, find_named
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import to_tiktoken_file
from tests.support.learned import rustbpes_tokens
from tests.support.small_corpus import contents, texts, write_parquet

FEWER = settings(max_examples=settings().max_examples // 4)  # each example opens files
DOCUMENTS = [text for text in texts(120, seed=3) if text.strip()]
LINES = [line for text in DOCUMENTS for line in text.split("\n") if line.strip()]


@pytest.fixture
def train(run, in_process):
    return partial(run, "tokenizer", "train")


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


@pytest.mark.parametrize("name", ["txt", "txt.gz", "jsonl", "jsonl.gz", "parquet"])
def test_every_format_yields_the_merges_of_rustbpe(tmp_path, train, name):
    rows = LINES if "txt" in name else DOCUMENTS
    path, out = write(tmp_path / f"corpus.{name}", rows), tmp_path / "own.tiktoken"
    code, values, _ = train("--vocab-size", 360, "--output", out, path)
    assert (code, values["vocab_size"], values["documents"]) == (0, 360, len(rows))
    assert tokens_of(out) == rustbpes_tokens(rows, 104)


def test_files_of_several_formats_are_summed_and_each_counts_once(tmp_path, train):
    third = len(DOCUMENTS) // 3
    (tmp_path / "in").mkdir()
    paths = [
        write(tmp_path / "in/a.parquet", DOCUMENTS[:third], field="body"),
        write(tmp_path / "in/b.parquet", DOCUMENTS[third : 2 * third], field="body"),
        write(tmp_path / "in/c.jsonl", DOCUMENTS[2 * third :], field="body"),
    ]
    out = tmp_path / "own.tiktoken"
    flags = ["--vocab-size", 360, "--output", out, "--column", "body", "--cpus", 3]
    code, values, _ = train(*flags, *paths, tmp_path / "in/*.parquet", paths[0])
    assert (code, values["files"], values["texts"]) == (0, 3, len(DOCUMENTS))
    assert tokens_of(out) == rustbpes_tokens(DOCUMENTS, 104)


def test_a_folder_holds_the_tokenizer_learned_in_memory_and_a_report(tmp_path, train):
    path, out = write(tmp_path / "c.jsonl", DOCUMENTS), tmp_path / "tokenizer"
    flags = ["--vocab-size", 350, "--also", "300,280", "--output", f"{out}/"]
    code, values, reported = train(*flags, path)
    assert code == 0
    expected = Tokenizer.train_from_iterator(DOCUMENTS, 350)
    assert Tokenizer.load(out) == expected
    assert list(expected.special_tokens) == list(SPECIAL_TOKENS)
    assert Tokenizer.load(f"{out}-300") == expected.truncated(300)
    assert Tokenizer.load(f"{out}-280") == expected.truncated(280)
    report = json.loads((out / "report.json").read_text())
    assert (report["documents"], report["quarantined"]) == (len(DOCUMENTS), {})
    assert all(report[name] == values[name] for name in ("texts", "spans", "stop_reason"))
    assert (values["status"], values["tokenizer_sha256"]) == ("done", expected.sha256)
    assert set(values["seconds"]) == {"count", "learn"}
    for words in ("reading     1 file", "count: 1 slice", "learn: 85 merges", f"wrote       {out}"):
        assert words in reported


@pytest.mark.parametrize("suffix", [".json", ".txt"])
def test_other_files_alone_store_special_tokens(tmp_path, train, suffix):
    path, out = write(tmp_path / "c.jsonl", DOCUMENTS), tmp_path / f"own{suffix}"
    flags = ["--vocab-size", 350, "--output", out, "--also=300"]
    flags += ["--special-token", "<a>", "--special-token", "<b>"]
    code, values, _ = train(*flags, path)
    assert (code, values["wrote"]) == (0, [str(out), f"{tmp_path}/own-300{suffix}"])
    expected = Tokenizer.train_from_iterator(DOCUMENTS, 350, special_tokens=["<a>", "<b>"])
    expected.save(tmp_path / "folder")
    name = {".json": "tokenizer.json", ".txt": "tokenizer.txt"}[suffix]
    assert out.read_bytes() == (tmp_path / "folder" / name).read_bytes()
    if suffix == ".json":
        peer = HuggingFaceTokenizer.from_file(str(out))
        peer.encode_special_tokens = True
        assert peer.encode(DOCUMENTS[0]).ids == expected.encode(DOCUMENTS[0])


def test_every_flag_has_its_effect(tmp_path, train):
    path, out = write(tmp_path / "c.jsonl", ["abcdef " * 9, "xy xy"]), tmp_path / "t"
    flags = ["--pattern=r50k", "--vocab-size=999", "--min-pair-count=3", "--max-token-bytes=4"]
    code, values, reported = train(*flags, "--output", out, path, "--no-special-tokens")
    own = Tokenizer.load(out)
    assert code == 0
    assert (own.pattern, own.special_tokens) == (PATTERNS["r50k"], {})
    assert max(map(len, own.model.tokens)) == 4
    assert b"xy" not in own.model.tokens
    assert (values["min_pair_count"], values["max_token_bytes"]) == (3, 4)
    assert "ids of the 999 asked for" in reported


def test_store_urls_work_for_inputs_and_outputs(train):
    source = Folder("memory://train-files/in")
    for number in range(3):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in DOCUMENTS[number::3])
        source.write_bytes(f"{number}.jsonl", lines.encode())
    for output in ("memory://train-files/own.tiktoken", "memory://train-files/folder"):
        flags = ["--vocab-size=300", "--output", output, "memory://train-files/in/*.jsonl"]
        code, values, _ = train(*flags, "memory://train-files/in")
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

    def refuse(done, num_bytes):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        SliceReading, "__iter__", lambda own: (read.append(own.slice), original(own))[1]
    )
    with pytest.raises(KeyboardInterrupt):
        count_corpus(slices, pattern="gpt4", threads=1, on_slice=refuse)
    assert 1 <= len(read) < 500


def test_an_equal_tokenizer_is_no_conflict_and_another_requires_force(tmp_path, train):
    path = write(tmp_path / "c.jsonl", DOCUMENTS)
    for out in (tmp_path / "own.tiktoken", tmp_path / "folder"):
        assert train("--vocab-size=300", "--output", out, path)[0] == 0
        _, same, reported = train("--vocab-size=300", "--output", out, path)
        assert (same["status"], f"note: {out} already exists" in reported) == ("done", True)
        before = contents(tmp_path)
        code, values, _ = train("--vocab-size=310", "--output", out, path)
        assert (code, "--force" in values["error"]) == (2, True)
        assert contents(tmp_path) == before
        code, values, reported = train("--vocab-size=310", "--output", out, "--force", path)
        assert (code, values["vocab_size"], "already exists" in reported) == (0, 310, False)
    assert len(tokens_of(tmp_path / "own.tiktoken")) == 310
    assert Tokenizer.load(tmp_path / "folder").get_vocab_size() == 310


def test_an_existing_smaller_size_prevents_all_writes(tmp_path, train):
    path = write(tmp_path / "c.jsonl", DOCUMENTS)
    (tmp_path / "own-280.tiktoken").write_text("mine")
    flags = ["--vocab-size=300", "--also=280", "--output", tmp_path / "own.tiktoken"]
    code, values, _ = train(*flags, path)
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


def goal(tmp_path, *more):
    return ["--vocab-size=300", "--output", tmp_path / "own.tiktoken", *more]


def write_bad(path, *, good, bad):
    lines = [json.dumps({"text": f"text {number}"}).encode() for number in range(good)]
    lines[1:1] = [b'{"text": "broken', b'{"text": "\xff"}', b'{"other": 1}'][:bad]
    path.write_bytes(b"\n".join(lines))
    return path


def test_bad_documents_below_the_limit_are_listed_and_the_rest_is_learned(tmp_path, train):
    path = write_bad(tmp_path / "c.jsonl", good=3000, bad=3)
    code, values, reported = train(*goal(tmp_path), path)
    assert (code, values["documents"], values["texts"]) == (0, 3003, 3000)
    assert sum(values["quarantined"].values()) == 3
    assert "note: skipped 3 of 3,003 documents: " in reported
    for place in ("2: invalid JSON: ", "3: invalid UTF-8: ", "4: field is missing: 'text'"):
        assert f"note: skipped: {path}, line {place}" in reported


def test_more_than_a_thousandth_bad_exits_3_and_writes_nothing(tmp_path, train):
    path = write_bad(tmp_path / "c.jsonl", good=2000, bad=3)
    code, values, reported = train(*goal(tmp_path), path)
    assert (code, values["status"]) == (3, "failed")
    assert f"skipped: {path}, line 2: " in reported
    first = f"the first is {path}, line 2: invalid JSON: "
    for words in ("3 of 2,003 documents were quarantined", "max_quarantined_share = 0.001", first):
        assert words in values["error"]
    assert not (tmp_path / "own.tiktoken").exists()
    assert train(*goal(tmp_path, "--max-quarantined-share=0.01"), path)[0] == 0


def test_only_the_first_bad_documents_are_listed(tmp_path, train):
    (tmp_path / "c.txt").write_bytes(b"\xff\n" * 50 + b"good\n")
    flags = goal(tmp_path, "--max-quarantined-share=1")
    code, values, reported = train(*flags, tmp_path / "c.txt")
    assert (code, values["texts"], sum(values["quarantined"].values())) == (0, 1, 50)
    assert reported.count(f"skipped: {tmp_path}/c.txt, line ") == 20
    assert "skipped: and 30 more" in reported


def test_a_truncated_file_may_be_allowed(tmp_path, train):
    path = write(tmp_path / "c.txt.gz", LINES * 50)
    path.write_bytes(path.read_bytes()[:-2000])
    flags = goal(tmp_path, "--max-tails=1", "--max-quarantined-share=0.1")
    code, values, reported = train(*flags, path)
    assert (code, values["quarantined"]) == (0, {"tail": 1})
    assert re.search(rf"skipped: {path} after line [\d,]+: tail: ", reported)


def test_a_document_that_cannot_be_split_is_excluded_alone(tmp_path, train):
    path = write(tmp_path / "c.jsonl", ["ok", " " * 1_500_000 + "x", "fine"])
    flags = goal(tmp_path, "--max-quarantined-share=0.5", r"--pattern=(a)\1|\s+(?!\S)|\s+")
    code, values, reported = train(*flags, path)
    assert (code, values["texts"], values["text_bytes"]) == (0, 2, 6)
    assert values["quarantined"] == {"cannot be split": 1}
    assert f"skipped: {path}, line 2: cannot be split: at byte 0: the regex engine ran" in reported


def test_all_unusable_files_are_listed_before_counting_starts(tmp_path, train):
    good = write(tmp_path / "good.jsonl", DOCUMENTS)
    for number in range(7):
        (tmp_path / f"bad{number}.parquet").write_bytes(b"no parquet")
    pq.write_table(pa.table({"number": [1, 2]}), tmp_path / "other.parquet")
    (tmp_path / "notes.md").write_text("text")
    paths = [good, tmp_path / "*.parquet", tmp_path / "notes.md", tmp_path / "nowhere"]
    code, values, reported = train(*goal(tmp_path), *paths)
    assert code == 2
    assert "10 inputs cannot be used" in values["error"]
    named = [f"bad{number}.parquet" for number in range(7)]
    for name in (*named, "other.parquet", "notes.md", "nowhere"):
        assert f"{tmp_path}/{name}" in values["error"]
    assert "count:" not in reported


def test_a_format_chooses_the_files_of_a_folder_and_may_make_toml_files_text(tmp_path, train):
    write(tmp_path / "in.txt", LINES)
    write(tmp_path / "in.jsonl", DOCUMENTS)
    code, values, _ = train(*goal(tmp_path, "--input-format=jsonl"), tmp_path)
    assert (code, values["files"]) == (0, 1)
    for number, text in enumerate(DOCUMENTS[:9]):
        (tmp_path / f"{number}.toml").write_text(text, encoding="utf-8")
    paths = sorted(tmp_path.glob("*.toml"))
    code, values, _ = train(*goal(tmp_path, "--force", "--input-format=document"), *paths)
    assert (code, values["texts"]) == (0, 9)


@pytest.fixture
def job(job, tmp_path, run):
    """Return the path of a recipe that was run, and its work folder."""
    assert run("train", job[0])[0] == 0
    return job[0], tmp_path / "out-work"


@pytest.fixture
def cache(succeed):
    """Return a function that runs `nanotok cache rm` and returns its JSON line and its text."""
    return partial(succeed, "cache", "rm")


@pytest.fixture
def counted(succeed):
    """Return a function that runs `nanotok train` again and returns the number of new slices."""

    def train(path, *overrides):
        _, shown = succeed("train", path, *overrides)
        return int(re.search(r"^count(?: \(1 of \d\))?: (\d+) slice", shown, re.MULTILINE)[1])

    return train


def change_one(tmp_path):
    """Change one file, so that its slices have other keys."""
    write_parquet(tmp_path / "in/text/shard_00001.parquet", texts(40, seed=11))


def test_all_counts_of_a_run_are_in_use(job, cache, tmp_path):
    path, work = job
    values, shown = cache(path, "--dry-run")
    kept = values["kept"]
    assert (kept["slices"], kept["texts"], values["removed"]["slices"]) == (10, 80, 0)
    assert kept["text_bytes"] == sum(len(t.encode()) for n in (0, 1) for t in texts(40, seed=n))
    assert kept["bytes"] == sum(p.stat().st_size for p in work.rglob("*") if p.is_file())
    assert kept["distinct_spans"] > 0
    assert "kept        10 slices, 80 texts" in shown
    values, shown = cache(path, "--dry-run", "--set", f"output.work={tmp_path}/none")
    assert (values["files"], "kept        0 slices" in shown) == ([], True)


def test_counts_of_changed_inputs_and_other_caps_are_stale_and_only_they_are_removed(
    job, cache, counted, tmp_path
):
    path, work = job
    old = set(contents(work))
    change_one(tmp_path)
    values, _ = cache(path, "--dry-run")
    assert values["removed"]["slices"] == 5
    assert all("shard_00001" in name for name in values["files"])
    counted(path, "--doc-cap", "40")  # same folder: ten more counts, all stale
    assert counted(path) == 5
    before = contents(work)
    planned, shown = cache(path, "--dry-run")
    assert contents(work) == before
    assert (planned["status"], planned["removed"]["slices"]) == ("planned", 15)
    assert "would free  15 slices" in shown
    values, shown = cache(path)
    assert (values["status"], values["kept"]["slices"]) == ("removed", 10)
    assert values["removed"] == planned["removed"]
    assert "removed     15 slices" in shown
    left = contents(work)
    assert set(left) == set(before) - set(values["files"])
    assert all(before[name] == data for name, data in left.items())
    assert len(set(left) & old) == 10  # five sets of two files
    assert cache(path, "--dry-run")[0]["files"] == []
    assert counted(path, "--vocab-size", "300") == 0


def test_removed_counts_are_computed_again(job, cache, counted, tmp_path):
    path, work = job
    (work / "merged").mkdir()
    (work / "merged/part.arrow").write_bytes(b"12")
    (work / "counts/web/.x.tmp").write_bytes(b"1")
    shard = tmp_path / "in/text/shard_00001.parquet"
    shard.write_bytes(b"")  # a plan is impossible, and not needed
    values, _ = cache(path, "--all")
    assert values["removed"]["slices"] == 10
    assert {p.name for p in work.rglob("*") if p.is_file()} == {"part.arrow", ".x.tmp"}
    change_one(tmp_path)
    assert counted(path) > 0


def test_without_a_plan_no_counts_are_stale(job, run, tmp_path):
    path, work = job
    (tmp_path / "in/text/shard_00001.parquet").write_bytes(b"")
    before = contents(work)
    for more in ([], ["--set", "source.web.split=val"]):
        code, values, _ = run("cache", "rm", path, *more)
        assert (code, values["status"]) == (2, "failed")
    assert contents(work) == before


def test_the_slice_that_max_chars_cuts_is_in_use_with_those_before_it(job, run, cache, tmp_path):
    path, _ = job
    other = ["--set", f"output.work={tmp_path}/cut", "--set", "limits.max_chars=4000"]
    assert run("train", path, *other)[0] == 0
    work = tmp_path / "cut"
    assert cache(path, "--dry-run", *other)[0]["files"] == []
    names = {p.name for p in work.rglob("*.arrow")}
    assert run("train", path, *other[:3], "limits.max_chars=4001")[0] == 0  # another cut
    removed = cache(path, *other)[0]
    assert removed["removed"]["slices"] == 1
    assert {p.name for p in work.rglob("*.arrow")} == names
    # Counts of whole slices serve any max_chars; those of the cut slice are stale without it.
    assert cache(path, "--dry-run", *other[:2])[0]["removed"]["slices"] == 1
    first = min(work.rglob("*-00000-*.json"))
    first.unlink()
    after = cache(path, "--dry-run", *other)[0]
    assert (after["kept"]["without_record"], after["removed"]["slices"]) == (1, 1)
