"""Reading a slice: numbers of documents that were read, returned and quarantined."""

import json

from nanotok_ray.sources import SliceReading
from tests.support.small_corpus import plan_of


def slices_of(folder, **source):
    return list(plan_of(folder, **source).slices())


def test_returned_and_quarantined_bytes_sum_to_the_input(tmp_path):
    lines = [b'{"text": "\\u00e9a"}', b"oops", b'{"text": "bcd"}', b"x" * 500, b'{"text": "ef"}']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    (each,) = slices_of(tmp_path)
    reading = SliceReading(each, max_document_bytes=100)
    for piece, batch in reading:
        assert list(batch.documents) == ["éa".encode(), b"bcd", b"ef"]
        reading.quarantine(piece, batch, 1, reason="cannot be split: at byte 1")
    assert reading.documents_in == 5
    assert reading.bytes_in == 3 + 4 + 3 + 500 + 2
    assert reading.bytes_quarantined == 4 + 500 + 3
    assert [entry.bytes for entry in reading.quarantined] == [4, 500, 3]
    assert reading.reasons == {"cannot be split": 1, "invalid JSON": 1, "too large": 1}


def test_a_tail_counts_its_stored_bytes(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(b"\x1f\x8b no gzip at all")
    (each,) = slices_of(tmp_path)
    reading = SliceReading(each)
    assert list(reading) == []
    assert (reading.bytes_in, reading.bytes_quarantined) == (17, 17)


def test_with_a_share_every_byte_is_in_one_split(tmp_path):
    texts = [f"text {number}" for number in range(200)]
    lines = [json.dumps({"text": text}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "oops"]))
    train, val = (SliceReading(each) for each in slices_of(tmp_path, split="share:0.3"))
    given = [[text for _, batch in each for text in batch.documents] for each in (train, val)]
    assert sorted(given[0] + given[1]) == sorted(text.encode() for text in texts)
    assert 0 < val.documents_in < 200
    assert val.bytes_in == sum(map(len, given[1]))
    assert (train.bytes_quarantined, val.bytes_quarantined) == (4, 0)
    assert train.bytes_in + val.bytes_in == sum(map(len, texts)) + 4


def test_a_share_that_rounds_to_all_takes_all(tmp_path):
    (tmp_path / "a").write_text("".join(f"{number}\n" for number in range(99)))
    slices = slices_of(tmp_path, split=f"share:0.{'9' * 40}", format="lines")
    train, val = (SliceReading(each) for each in slices)
    assert [len(batch.documents) for _, batch in train] == []
    assert sum(len(batch.documents) for _, batch in val) == 99


def test_the_documents_of_a_share_stay_in_their_split_when_files_are_added(tmp_path):
    def val_texts():
        slices = slices_of(tmp_path, split="share:0.3", format="lines")
        val = [each for each in slices if each.split == "val"]
        return {text for each in val for _, batch in SliceReading(each) for text in batch.documents}

    def write(name):
        (tmp_path / name).write_text("".join(f"{name} {number}\n" for number in range(100)))

    write("b")
    before = val_texts()
    write("a")
    write("c")
    after = val_texts()
    assert {text for text in after if text.startswith(b"b")} == before
    assert {text[:1] for text in after} == {b"a", b"b", b"c"}
