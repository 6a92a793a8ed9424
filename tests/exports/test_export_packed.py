"""packed: rows of whole conversations, against a plain packer and `Loader`."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports import parse_layout, unit_problems
from nanotok_ray.loader.conversations import (
    ConversationLoader,
    ConversationSettings,
    best_fit_rows,
)
from nanotok_ray.storage import Folder
from tests.support.made_output import BOS, MadeSource, export_here, made_output, mask_of

COLUMNS = ["input_ids", "labels", "position_ids", "seq_lengths"]


def rows_of(folder: Folder, source: str, shard: int = 0) -> list[dict]:
    name = f"{source}/train/part-{shard:05d}-000-{'0' * 16}.parquet"
    table = pq.read_table(io.BytesIO(folder.read_bytes(name)))
    assert table.column_names == COLUMNS
    return table.to_pylist()


def chat_of(*lengths: int) -> MadeSource:
    documents = [[BOS, *range(1, length)] if length else [] for length in lengths]
    return MadeSource(name="chat", kind="chat", shards=[documents])


def plain_row(documents: list[tuple[list[int], list[int]]]) -> dict:
    row: dict = {name: [] for name in COLUMNS}
    for ids, mask in documents:
        labels = [token if own else -100 for token, own in zip(ids, mask, strict=True)]
        row["input_ids"] += ids
        row["labels"] += [-100, *labels[1:]]
        row["position_ids"] += range(len(ids))
        row["seq_lengths"].append(len(ids))
    return row


def plain_rows(documents, *, length, buffer_size):
    """Pack by searching the whole buffer for every place."""
    waiting, buffer, rows, row = list(documents), [], [], []
    while waiting or buffer:
        while waiting and len(buffer) < buffer_size:
            buffer.append(waiting.pop(0))
        room = length - sum(len(ids) for ids, _ in row)
        fitting = [one for one in buffer if len(one[0]) <= room]
        if fitting:
            best = max(len(ids) for ids, _ in fitting)
            (index, *_) = [n for n, one in enumerate(buffer) if len(one[0]) == best]
            row.append(buffer.pop(index))
        else:
            rows.append(row)
            row = []
    return [*rows, row] if row else rows


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(0, 14), max_size=40),
    length=st.integers(2, 12),
    buffer_size=st.integers(1, 6),
)
def test_rows_equal_those_of_a_plain_packer(lengths, length, buffer_size, tmp_path_factory):
    root = tmp_path_factory.mktemp("packed")
    folder, source = Folder(str(root / "export")), chat_of(*lengths)
    layout = parse_layout(f"packed:length={length},buffer_size={buffer_size}")
    (exported,) = export_here(made_output(root / "out", source), layout, folder, batch_bytes=40)
    (documents,) = source.shards
    pairs = [(ids, mask_of(ids).tolist()) for ids in documents]
    kept = [(ids, mask) for ids, mask in pairs if len(ids) <= length and any(mask)]
    expected = plain_rows(kept, length=length, buffer_size=buffer_size)
    assert rows_of(folder, "chat") == [plain_row(row) for row in expected]
    assert exported.record.documents == len(kept)
    assert exported.record.left_out == {
        reason: number
        for reason, number in {
            f"documents of more than {length} tokens": sum(len(ids) > length for ids, _ in pairs),
            "documents without a token to train on": sum(
                len(ids) <= length and not any(mask) for ids, mask in pairs
            ),
        }.items()
        if number
    }
    tokens = sum(len(ids) for ids, _ in kept)
    report = json.loads(folder.read_bytes("packing.json"))
    assert report["chat/train"] == {
        "rows": len(expected),
        "documents": len(kept),
        "tokens": tokens,
        "padding": length * len(expected) - tokens,
        "left_out_tokens": sum(map(len, documents)) - tokens,
    }


@settings(deadline=None)
@given(lengths=st.lists(st.integers(2, 12), min_size=30, max_size=60), length=st.integers(3, 16))
def test_rows_equal_those_of_the_loader_until_its_second_pass(lengths, length):
    conversations = [
        ([BOS, *range(n, n + size - 1)], mask_of(range(size)).tolist())
        for n, size in enumerate(lengths)
    ]
    kept = [one for one in conversations if len(one[0]) <= length]
    if len(kept) < 7:
        return
    rows = list(best_fit_rows(iter(kept), length=length, buffer_size=5))
    loader = ConversationLoader(
        conversations,
        ConversationSettings(batch_size=1, length=length - 1, buffer_size=5, too_long="drop"),
        pad=0,
    )
    placed = 0
    for row in rows:
        placed += len(row)
        if placed > len(kept) - 5:  # from here, the loader chooses from the second pass too
            break
        inputs, targets = loader.next_batch()
        ids = [token for own, _ in row for token in own]
        labels = plain_row(row)["labels"]
        padding = length - len(ids)
        assert inputs[0].tolist() == [*ids, *[0] * padding][:-1]
        expected = [-1 if label == -100 else label for label in labels]
        assert targets[0].tolist() == [*expected, *[-1] * padding][1:]


def test_documents_without_a_mask_are_trained_on_but_for_their_first_token(tmp_path, folder):
    source = MadeSource(name="web", shards=[[[BOS, 5, 6], [BOS, 7]]])
    export_here(made_output(tmp_path / "out", source), parse_layout("packed:length=5"), folder)
    (row,) = rows_of(folder, "web")
    assert row == {
        "input_ids": [BOS, 5, 6, BOS, 7],
        "labels": [-100, 5, 6, -100, 7],
        "position_ids": [0, 1, 2, 0, 1],
        "seq_lengths": [3, 2],
    }


def test_row_groups_have_about_four_million_tokens(tmp_path, folder, monkeypatch):
    monkeypatch.setattr("nanotok_ray.exports.packed._ROW_GROUP_TOKENS", 20)
    source = chat_of(*[7] * 9)
    export_here(made_output(tmp_path / "out", source), parse_layout("packed:length=8"), folder)
    (path,) = (tmp_path / "export").rglob("*.parquet")
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [3, 3, 3]
    assert (
        rows_of(folder, "chat")
        == [plain_row([([BOS, *range(1, 7)], mask_of(range(7)).tolist())])] * 9
    )


@pytest.mark.parametrize("column", COLUMNS)
def test_a_changed_value_is_detected(column, tmp_path, folder):
    layout = parse_layout("packed:length=9")
    out = made_output(tmp_path / "out", chat_of(3, 3, 3, 3, 3))
    (exported,) = export_here(out, layout, folder)
    (path,) = (tmp_path / "export").rglob("*.parquet")
    table = pq.read_table(path)
    values = table.column(column).to_pylist()
    values[-1][-1] += 1
    index = table.column_names.index(column)
    field = table.schema.field(column)
    pq.write_table(table.set_column(index, field, pa.array(values, field.type)), path)
    with pytest.raises(CorruptOutputError, match=path.name):
        list(layout.read(exported, folder))
    assert list(unit_problems(exported, layout, folder))


@pytest.mark.parametrize("option", ["length=1", "length=0", "buffer_size=0"])
def test_options_out_of_range_are_refused(option):
    with pytest.raises(ExportError, match=option.replace("=", " = ")):
        parse_layout(f"packed:{option}")
