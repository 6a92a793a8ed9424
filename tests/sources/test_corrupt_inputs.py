"""Corrupted input of each kind by the command line: entries, totals, exit codes, kept documents."""

import gzip
import json
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.cli import main
from nanotok_ray.loader import open_shards
from nanotok_ray.tokenizer import Tokenizer

RECIPE = """
[[source]]
name = "own"
kind = "{kind}"
paths = ["{paths}"]
split = "train"
count = true

[tokenizer]
vocab_size = 300

[output]
path = "{out}"

[limits]
slice_bytes = 4000
max_document_bytes = 3000
"""
GOOD = [f"good text {number}" for number in range(12)]
RAISED = ("--set", "limits.max_quarantined_share=1.0", "--set", "limits.max_tails=9")


def json_lines(texts):
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def damaged_page():
    """Return a parquet file of four row groups of three rows with a damaged page in the third."""
    sink = pa.BufferOutputStream()
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(pa.table({"text": GOOD}), sink, row_group_size=3, **options)
    data = sink.getvalue().to_pybytes()
    assert data.count(b"good text 7") >= 1
    return data.replace(b"good text 7", b"gooD text 7", 1)


def chat(*roles):
    return json.dumps([{"role": role, "content": "x"} for role in roles]).encode() + b"\n"


@dataclass(frozen=True)
class Case:
    """A broken file and its expected report."""

    name: str
    data: bytes
    kept: list[str]
    """Its documents in the shards; empty texts for conversations."""
    reasons: dict[str, int]
    entry: dict[str, object] = field(default_factory=dict)
    """Expected values of the first entry."""
    kind: str = "text"


FIRST = json_lines(GOOD[:2])
NOISE = "".join(chr(97 + number * number % 23) for number in range(1500))
MANY = [f"{number} {NOISE[number:] + NOISE[:number]}" for number in range(400)]
CUT = gzip.compress(json_lines(MANY), mtime=0)[:-20]
AT_3 = {"row": 2, "position": len(FIRST)}

CASES = {
    "broken lines of JSON": Case(
        "a.jsonl",
        FIRST + b'{"text": "a\n[1]\n' + json_lines(GOOD[2:]),
        GOOD,
        {"invalid JSON": 1, "not an object": 1},
        AT_3 | {"bytes": 11},
    ),
    "a gzip that is cut": Case("a.jsonl.gz", CUT, MANY, {"tail": 1}),
    "a page of parquet that is damaged": Case(
        *("a.parquet", damaged_page(), GOOD[:6] + GOOD[9:], {"tail": 1}),
        {"row": 6, "position": 6, "hash64": None},
    ),
    "wrong roles": Case(
        "a.jsonl",
        chat("user", "assistant") + chat("user", "user") + chat("assistant") + chat("user"),
        [""] * 2,
        {
            "Message N is from assistant but should be from user": 1,
            "Message N is from user but should be from assistant": 1,
        },
        {"row": 1, "position": len(chat("user", "assistant"))},
        kind="chat",
    ),
    "a bomb that is one line": Case(
        "a.jsonl.gz",
        gzip.compress(json_lines(GOOD) + b"0" * 3_000_000, mtime=0),
        GOOD,
        {"too large": 1},
        {"row": 12, "position": len(json_lines(GOOD)), "bytes": 3_000_000, "hash64": None},
    ),
}


@pytest.fixture
def job(tmp_path, in_process, capsys):
    """Return a function that runs a case with options: (exit code, JSON)."""
    (tmp_path / "in").mkdir()

    def run(case, *options):
        values = {"paths": tmp_path / "in", "out": tmp_path / "out"}
        recipe = tmp_path / "recipe.toml"
        recipe.write_text(RECIPE.format(kind=case.kind, **values))
        code = main(["prepare", str(recipe), *options])
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return run


def beside(case, folder):
    """Write a good file of the same format after the broken one, and return its documents."""
    suffix = case.name.partition(".")[2].split(".")[0]
    path = folder / f"b.{suffix}"
    if case.kind == "chat":
        path.write_bytes(chat("user", "assistant"))
        return [""]
    if suffix == "parquet":
        pq.write_table(pa.table({"text": ["beside"]}), path)
    else:
        path.write_bytes(json_lines(["beside"]))
    return ["beside"]


def entries(out):
    return [
        json.loads(line)
        for path in sorted((out / "quarantine").rglob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_corrupt_input_is_quarantined_and_named_and_changes_the_exit_code(job, tmp_path, case):
    (tmp_path / "in" / case.name).write_bytes(case.data)
    good = beside(case, tmp_path / "in")
    code, reported = job(case)
    assert (code, reported["status"]) == (3, "failed")
    assert (
        all(reason in reported["error"] for reason in case.reasons)
        or "max_tails" in reported["error"]
    )
    assert not (tmp_path / "out/manifest.json").exists()

    code, reported = job(case, *RAISED)
    assert code == 0, reported
    assert reported["quarantined"] == case.reasons
    bad = sum(case.reasons.values())
    is_cut = case.data is CUT  # its last documents are missing, whose bytes the stream lacks
    kept = case.kept[: reported["documents"]["out"] - 1] if is_cut else case.kept
    assert len(kept) > 0.8 * len(case.kept)
    right = kept + good
    assert reported["documents"] == {"in": len(right) + bad, "out": len(right), "quarantined": bad}
    assert reported["bytes"]["in"] == reported["bytes"]["out"] + reported["bytes"]["quarantined"]
    found = entries(tmp_path / "out")
    assert len(found) == bad
    assert {(each["source"], each["file"]) for each in found} == {("own", case.name)}
    assert case.entry.items() <= found[0].items()
    assert sum(each["bytes"] for each in found) == reported["bytes"]["quarantined"]
    shards = open_shards(str(tmp_path / "out"))
    if case.kind == "chat":
        assert len(shards) == len(right)
    else:
        tokenizer = Tokenizer.load(tmp_path / "out/tokenizer")
        assert [tokenizer.decode(ids[1:]) for ids in shards] == right
    assert main(["verify", str(tmp_path / "out"), "--deep"]) == 0
