"""`nanotok tokenizer train`: refused inputs, and reports of bad documents."""

import json
import re

from tests.cli.test_cli_train_files import DOCUMENTS, LINES, run, write


def goal(tmp_path, *more):
    return ["--vocab-size=300", "--output", tmp_path / "own.tiktoken", *more]


def write_bad(path, *, good, bad):
    lines = [json.dumps({"text": f"text {number}"}).encode() for number in range(good)]
    lines[1:1] = [b'{"text": "broken', b'{"text": "\xff"}', b'{"other": 1}'][:bad]
    path.write_bytes(b"\n".join(lines))
    return path


def test_bad_documents_below_the_limit_are_listed_and_the_rest_is_learned(tmp_path, capsys):
    path = write_bad(tmp_path / "c.jsonl", good=3000, bad=3)
    code, values, reported = run(capsys, *goal(tmp_path), path)
    assert (code, values["documents"], values["texts"]) == (0, 3003, 3000)
    assert sum(values["quarantined"].values()) == 3
    assert "note: 3 of 3,003 documents were skipped: " in reported
    for place in ("2: invalid JSON: ", "3: invalid UTF-8: ", "4: field is missing: 'text'"):
        assert f"note: skipped: {path}, line {place}" in reported


def test_more_than_a_thousandth_bad_exits_3_and_writes_nothing(tmp_path, capsys):
    path = write_bad(tmp_path / "c.jsonl", good=2000, bad=3)
    code, values, reported = run(capsys, *goal(tmp_path), path)
    assert (code, values["status"]) == (3, "failed")
    assert "3 of 2,003 documents were quarantined" in values["error"]
    assert "max_quarantined_share = 0.001" in values["error"]
    assert f"skipped: {path}, line 2: " in reported
    assert f"the first is {path}, line 2: invalid JSON: " in values["error"]
    assert not (tmp_path / "own.tiktoken").exists()
    assert run(capsys, *goal(tmp_path, "--max-quarantined-share=0.01"), path)[0] == 0


def test_only_the_first_bad_documents_are_listed(tmp_path, capsys):
    (tmp_path / "c.txt").write_bytes(b"\xff\n" * 50 + b"good\n")
    flags = goal(tmp_path, "--max-quarantined-share=1")
    code, values, reported = run(capsys, *flags, tmp_path / "c.txt")
    assert (code, values["texts"], sum(values["quarantined"].values())) == (0, 1, 50)
    assert reported.count(f"skipped: {tmp_path}/c.txt, line ") == 20
    assert "skipped: and 30 more" in reported


def test_a_truncated_file_exits_3_unless_allowed(tmp_path, capsys):
    path = write(tmp_path / "c.txt.gz", LINES * 50)
    path.write_bytes(path.read_bytes()[:-2000])
    code, values, reported = run(capsys, *goal(tmp_path), path)
    assert code == 3
    (line,) = re.findall(rf"skipped: {path} after line ([\d,]+): tail: ", reported)
    assert values["error"].startswith(
        "1 file is truncated or damaged (limits.max_tails allows 0): "
    )
    assert f"{path} after line {line}. Replace it, or raise the limit" in values["error"]
    flags = goal(tmp_path, "--max-tails=1", "--max-quarantined-share=0.1")
    code, values, _ = run(capsys, *flags, path)
    assert (code, values["quarantined"]) == (0, {"tail": 1})


def test_a_document_that_cannot_be_split_is_excluded_alone(tmp_path, capsys):
    path = write(tmp_path / "c.jsonl", ["ok", " " * 1_500_000 + "x", "fine"])
    flags = goal(tmp_path, "--max-quarantined-share=0.5", r"--pattern=(a)\1|\s+(?!\S)|\s+")
    code, values, reported = run(capsys, *flags, path)
    assert (code, values["texts"], values["text_bytes"]) == (0, 2, 6)
    assert values["quarantined"] == {"cannot be split": 1}
    assert f"skipped: {path}, line 2: cannot be split: at byte 0: the regex engine ran" in reported


def test_all_unusable_files_are_listed_before_counting_starts(tmp_path, capsys):
    good = write(tmp_path / "good.jsonl", DOCUMENTS)
    for number in range(7):
        (tmp_path / f"bad{number}.parquet").write_bytes(b"no parquet")
    write(tmp_path / "other.parquet", DOCUMENTS, field="body")
    (tmp_path / "notes.md").write_text("text")
    paths = [good, tmp_path / "*.parquet", tmp_path / "notes.md", tmp_path / "nowhere"]
    code, values, reported = run(capsys, *goal(tmp_path), *paths)
    assert code == 2
    assert "10 inputs cannot be used" in values["error"]
    named = [f"bad{number}.parquet" for number in range(7)]
    for name in (*named, "other.parquet", "notes.md", "nowhere"):
        assert f"{tmp_path}/{name}" in values["error"]
    assert "count:" not in reported


def test_toml_files_are_text_if_requested(tmp_path, capsys):
    for number, text in enumerate(DOCUMENTS[:9]):
        (tmp_path / f"{number}.toml").write_text(text, encoding="utf-8")
    paths = sorted(tmp_path.glob("*.toml"))
    code, values, _ = run(capsys, *goal(tmp_path, "--input-format=document"), *paths)
    assert (code, values["texts"]) == (0, 9)


def test_folders_of_several_formats_or_of_none_are_refused(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/readme.md").write_text("text")
    code, values, _ = run(capsys, *goal(tmp_path), tmp_path / "in")
    assert (code, "no file below" in values["error"]) == (2, True)
    write(tmp_path / "in/a.txt", LINES)
    write(tmp_path / "in/b.jsonl", DOCUMENTS)
    code, values, _ = run(capsys, *goal(tmp_path), tmp_path / "in")
    assert (code, "several formats (jsonl, lines)" in values["error"]) == (2, True)
    code, values, _ = run(capsys, *goal(tmp_path, "--input-format=jsonl"), tmp_path / "in")
    assert (code, values["files"]) == (0, 1)
