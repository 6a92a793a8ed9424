"""Corrupt inputs, and the quarantine."""

import gzip
import json
import pickle
import tracemalloc
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.cli import main
from nanotok_ray.errors import QuarantineLimitError
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.sources import (
    Quarantined,
    QuarantineEntry,
    check_limits,
    entry_of,
)
from nanotok_ray.tokenizer import Tokenizer
from tests.support.read_pieces import json_lines, parquet_bytes

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


def text_lines(texts):
    return json_lines({"text": text} for text in texts)


def damaged_page():
    """Return a parquet file of four row groups of three rows with a damaged page in the third."""
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    data = parquet_bytes({"text": GOOD}, row_group_size=3, **options)
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
    lost_rows: int | None = None
    """Rows of damaged row groups; None: the field is absent."""


FIRST = text_lines(GOOD[:2])
NOISE = "".join(chr(97 + number * number % 23) for number in range(1500))
MANY = [f"{number} {NOISE[number:] + NOISE[:number]}" for number in range(400)]
CUT = gzip.compress(text_lines(MANY), mtime=0)[:-20]
AT_3 = {"row": 2, "position": len(FIRST)}

CASES = {
    "broken lines of JSON": Case(
        "a.jsonl",
        FIRST + b'{"text": "a\n[1]\n' + text_lines(GOOD[2:]),
        GOOD,
        {"invalid JSON": 1, "not an object": 1},
        AT_3 | {"bytes": 11},
    ),
    "a gzip that is cut": Case("a.jsonl.gz", CUT, MANY, {"tail": 1}),
    "a page of parquet that is damaged": Case(
        *("a.parquet", damaged_page(), GOOD[:6] + GOOD[9:], {"tail": 1}),
        {"row": 6, "position": 6, "hash64": None},
        lost_rows=3,
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
        gzip.compress(text_lines(GOOD) + b"0" * 3_000_000, mtime=0),
        GOOD,
        {"too large": 1},
        {"row": 12, "position": len(text_lines(GOOD)), "bytes": 3_000_000, "hash64": None},
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
        path.write_bytes(parquet_bytes({"text": ["beside"]}))
    else:
        path.write_bytes(text_lines(["beside"]))
    return ["beside"]


def entries_of(out):
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
    assert reported.get("lost_rows") == case.lost_rows
    bad = sum(case.reasons.values())
    is_cut = case.data is CUT  # its last documents are missing, whose bytes the stream lacks
    kept = case.kept[: reported["documents"]["out"] - 1] if is_cut else case.kept
    assert len(kept) > 0.8 * len(case.kept)
    right = kept + good
    assert reported["documents"] == {"in": len(right) + bad, "out": len(right), "quarantined": bad}
    assert reported["bytes"]["in"] == reported["bytes"]["out"] + reported["bytes"]["quarantined"]
    found = entries_of(tmp_path / "out")
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


def entry(**fields: object) -> QuarantineEntry:
    values = {
        "source": "web",
        "file": "a/b.jsonl",
        "row": 3,
        "position": 170,
        "reason": "invalid UTF-8: at byte 4",
        "hash64": "00ff00ff00ff00ff",
        "bytes": 25,
        "id": "doc-1",
    }
    return QuarantineEntry(**(values | fields))


def packed(entries: list[QuarantineEntry]) -> Quarantined:
    made = Quarantined()
    for each in entries:
        made.add(each)
    return made


ENTRIES = st.lists(
    st.builds(
        entry,
        file=st.text(),
        row=st.integers(0, 2**63),
        position=st.integers(0, 2**63),
        reason=st.text(),
        hash64=st.none() | st.integers(0, 2**64 - 1).map("{:016x}".format),
        bytes=st.integers(0, 2**63),
        id=st.none() | st.text(),
    ),
    max_size=5,
)


def test_an_entry_is_one_line_with_sorted_keys():
    assert b"".join(packed([entry(reason="a\nb")]).blocks()) == (
        b'{"bytes":25,"file":"a/b.jsonl","hash64":"00ff00ff00ff00ff","id":"doc-1","position":170,'
        b'"reason":"a\\nb","row":3,"source":"web"}\n'
    )


def test_reasons_with_document_text_have_few_kinds():
    # A record, the manifest and the summary contain every kind.
    said = ["x", "a: b, got c", "7", "but should be", "\n", "'"]
    reasons = [
        text
        for number in range(9)
        for speaker in said
        for text in (
            f"Message {number} is from {speaker} but should be from user",
            f"Message {number} has role {speaker} but should be user",
            f"message {number} is a string, not an object",
            f"{number} <image> placeholders but {number + 1} image_token_counts",
            f"image token count must be an int >= 1, got {speaker}",
            f"the images have {number}000001 tokens together: at most",
        )
    ]
    kinds = packed([entry(reason=reason) for reason in reasons]).reasons
    assert len(kinds) == 6
    assert kinds["Message N is from another but should be from user"] == 9 * len(said)


@given(ENTRIES)
def test_entries_are_preserved_by_file_and_pickle(written):
    data = b"".join(packed(written).blocks())
    assert data.count(b"\n") == len(written)
    assert [entry_of(line) for line in data.splitlines()] == written
    assert list(packed(written)) == written
    assert pickle.loads(pickle.dumps(written)) == written


def test_the_entries_of_an_entirely_bad_slice_use_few_bytes():
    tracemalloc.start()
    try:
        quarantined = Quarantined()
        for row in range(50_000):
            quarantined.add(entry(row=row, position=9 * row, reason=f"invalid UTF-8: at {row % 7}"))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 50_000 * 40  # an entry takes 500 bytes as a value, 150 as a line
    assert len(quarantined) == 50_000
    assert quarantined.reasons == {"invalid UTF-8": 50_000}
    assert [each.row for each in quarantined] == list(range(50_000))


WRONG = [
    *({"source": 1}, {"file": None}, {"reason": ["x"]}, {"row": "3"}, {"row": True}),
    *({"position": -1}, {"bytes": 1.5}, {"bytes": 2**64}, {"hash64": 7}, {"id": 7}),
    {"hash64": "../../etc/passwd"},
]


def test_a_line_that_is_not_an_entry_is_refused():
    lines = [b"{", b"[]", b"3", b"{}", b'{"file": 1, "other": 2}', b"\xff"]
    lines += [json.dumps(asdict(entry()) | wrong).encode() for wrong in WRONG]
    assert [entry_of(line) for line in lines] == [None] * len(lines)


@pytest.mark.parametrize(
    ("quarantined", "limits", "message"),
    [
        ({}, LimitsRecipe(), None),
        ({"invalid JSON": 1}, LimitsRecipe(), None),
        ({"dropped": 900, "invalid JSON": 1}, LimitsRecipe(), None),
        ({"tail": 1}, LimitsRecipe(max_tails=1), None),
        ({"no JSON": 500, "null": 500}, LimitsRecipe(max_quarantined_share=1.0), None),
        ({"dropped": 900, "skipped": 9, "x": 1}, LimitsRecipe(max_quarantined=1), None),
        ({"invalid JSON": 1, "field is null": 1}, LimitsRecipe(), r"2 of 1,000 .* 0\.001: inv"),
        ({"tail": 1}, LimitsRecipe(max_quarantined_share=1), r"^1 file is .*max_tails allows 0\)"),
        ({"tail": 2}, LimitsRecipe(max_tails=2), r"2 of 1,000 .*tail \(2\)"),
        ({"dropped": 9, "x": 1}, LimitsRecipe(max_quarantined_share=0.0), r"1 of 1,000"),
        ({"x": 1}, LimitsRecipe(max_quarantined=0), r"1 of 1,000 .*max_quarantined = 0: x \(1\)"),
    ],
    ids=str,
)
def test_only_a_result_beyond_the_limits_is_refused(quarantined, limits, message):
    refused = pytest.raises(QuarantineLimitError, match=message) if message else nullcontext()
    with refused:
        check_limits(documents=1000, quarantined=quarantined, limits=limits, where="/out/q")
