"""Quarantine entries as lines of JSON."""

import hashlib
import json
import pickle
import tracemalloc
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import QuarantineLimitError
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.sources import (
    Quarantined,
    QuarantineEntry,
    check_limits,
    entry_of,
    write_quarantine,
)
from nanotok_ray.storage import Folder


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


entries = st.lists(
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


def test_the_kind_of_a_reason_is_the_text_before_the_colon():
    assert entry().kind == "invalid UTF-8"
    assert entry(reason="dropped").kind == "dropped"


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


@given(entries)
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


def test_a_quarantine_file_is_published_with_its_size_and_hash(tmp_path):
    folder = Folder(str(tmp_path))
    written = [entry(row=row) for row in range(3)]
    size, sha256 = write_quarantine(folder, packed(written), name="web/train/a.jsonl")
    stored = folder.read_bytes("web/train/a.jsonl")
    assert stored == b"".join(packed(written).blocks())
    assert (size, sha256) == (len(stored), hashlib.sha256(stored).hexdigest())


@pytest.mark.parametrize(
    ("quarantined", "limits"),
    [
        ({}, LimitsRecipe()),
        ({"invalid JSON": 1}, LimitsRecipe()),
        ({"dropped": 900, "invalid JSON": 1}, LimitsRecipe()),
        ({"tail": 1}, LimitsRecipe(max_tails=1)),
        ({"invalid JSON": 500, "field is null": 500}, LimitsRecipe(max_quarantined_share=1.0)),
        ({"dropped": 900, "skipped": 9, "x": 1}, LimitsRecipe(max_quarantined=1)),
    ],
    ids=str,
)
def test_a_result_within_the_limits_passes(quarantined, limits):
    check_limits(documents=1000, quarantined=quarantined, limits=limits, where="/out/quarantine")


@pytest.mark.parametrize(
    ("quarantined", "limits", "message"),
    [
        ({"invalid JSON": 1, "field is null": 1}, LimitsRecipe(), r"2 of 1,000 .* 0\.001: inv"),
        ({"tail": 1}, LimitsRecipe(max_quarantined_share=1), r"^1 file is .*max_tails allows 0\)"),
        ({"tail": 2}, LimitsRecipe(max_tails=2), r"2 of 1,000 .*tail \(2\)"),
        ({"dropped": 9, "x": 1}, LimitsRecipe(max_quarantined_share=0.0), r"1 of 1,000"),
        ({"x": 1}, LimitsRecipe(max_quarantined=0), r"1 of 1,000 .*max_quarantined = 0: x \(1\)"),
    ],
    ids=str,
)
def test_a_result_beyond_the_limits_is_refused(quarantined, limits, message):
    with pytest.raises(QuarantineLimitError, match=message):
        check_limits(documents=1000, quarantined=quarantined, limits=limits, where="/out/q")
