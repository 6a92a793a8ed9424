"""Keys, JSON files and shards.idx."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    ShardRow,
    from_json,
    key_of,
    pack_shards_index,
    to_json,
    unpack_shards_index,
)

NUMBERS = st.integers(0, 2**63)
ROWS = st.builds(
    ShardRow,
    source=st.sampled_from(["web", "chats"]),
    split=st.sampled_from(["train", "val"]),
    name=st.from_regex(r"[a-z]{1,9}/(train|val)/[a-z0-9-]{1,30}", fullmatch=True),
    item_bytes=st.sampled_from([2, 4]),
    first_document=NUMBERS,
    documents=NUMBERS,
    tokens=NUMBERS,
    bin_bytes=NUMBERS,
    idx_bytes=NUMBERS,
    mask_bytes=NUMBERS,
    ids_bytes=NUMBERS,
    images_bytes=NUMBERS,
    record_sha256=st.binary(min_size=32, max_size=32).map(bytes.hex),
)


@given(st.lists(ROWS, max_size=20))
def test_shards_idx_returns_its_rows(rows):
    index = unpack_shards_index(pack_shards_index(rows, sources=["web", "chats"]))
    assert len(index.rows) == len(rows)
    for number, row in enumerate(rows):
        entry = index.rows[number]
        assert index.name(number) == row.name
        assert ["web", "chats"][entry["source"]] == row.source
        assert ["train", "val"][entry["split"]] == row.split
        assert entry["record_sha256"].tobytes().hex() == row.record_sha256
        for name in ("item_bytes", "first_document", "documents", "tokens", "mask_bytes"):
            assert entry[name] == getattr(row, name)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"X" + data[1:],
     lambda data: data[:20]],
    ids=["cut", "longer", "other magic", "header only in part"],
)  # fmt: skip
def test_a_damaged_shards_idx_is_refused(damage):
    with pytest.raises(CorruptOutputError, match=r"shards\.idx"):
        unpack_shards_index(damage(pack_shards_index([], sources=[])))


def test_json_does_not_depend_on_the_order_of_keys():
    assert to_json({"b": [1], "a": "ü"}) == to_json({"a": "ü", "b": [1]})
    assert key_of({"b": 1, "a": None}) == key_of({"a": None, "b": 1})
    assert key_of({"a": 1}) != key_of({"a": "1"})


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"format": "nanotok-plan 2"}'])
def test_another_format_is_refused_with_the_file_name(data):
    with pytest.raises(CorruptOutputError, match=r"plan\.json"):
        from_json(data, name="plan.json", expected_format="nanotok-plan 1")
