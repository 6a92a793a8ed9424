"""parquet: ids, masks, document ids and images as columns for `datasets` and TRL."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports import Corpus, Target, Unit, parse_layout, read_corpus, units_of
from nanotok_ray.formats import DocumentBatch, OutputFacts
from nanotok_ray.storage import Folder
from tests.support.made_output import (
    BOS,
    MadeSource,
    export_here,
    exported_documents,
    made_output,
    mask_of,
    works_of,
)
from tests.support.vision_shards import VisionShards, documents_with_images

LAYOUT = parse_layout("parquet")
LABELS = parse_layout("parquet:mask_column=labels")
TEXT = MadeSource(name="web", shards=[[[BOS, 5, 6], [], [BOS]], [[BOS, 9]], []])
CHAT = MadeSource(name="chat", kind="chat", shards=[[[BOS, 1, 2, 3, 4], [BOS, 8]]])


def table(folder: Folder, source: str, shard: int = 0) -> pa.Table:
    name = f"{source}/train/part-{shard:05d}-000-{'0' * 16}.parquet"
    return pq.read_table(io.BytesIO(folder.read_bytes(name)))


def test_a_shard_without_tokens_has_the_columns_of_its_source(tmp_path, folder):
    source = MadeSource(name="chat", kind="chat", shards=[[], [[BOS, 1]], [[], []]])
    export_here(made_output(tmp_path / "out", source), LAYOUT, folder)
    tables = [table(folder, "chat", number) for number in range(3)]
    assert tables[0].schema.equals(tables[1].schema)
    assert tables[2].to_pylist() == [{"input_ids": [], "assistant_masks": []}] * 2


def test_mask_columns_can_be_renamed(tmp_path, folder):
    out = made_output(tmp_path / "out", CHAT, TEXT)
    export_here(out, parse_layout("parquet:mask_column=completion_mask"), folder)
    masks = [mask_of(own).tolist() for own in CHAT.shards[0]]
    assert table(folder, "chat").column("completion_mask").to_pylist() == masks
    assert table(folder, "web").column_names == ["input_ids"]
    labels = Folder(str(tmp_path / "labels"))
    export_here(out, LABELS, labels)
    rows = table(labels, "chat")
    assert rows.schema.field("labels").type.value_type == pa.int32()
    assert rows.column("labels").to_pylist() == [[-100, 1, 2, -100, 4], [-100, 8]]


def test_document_ids_are_a_column(tmp_path, folder):
    texts = ["", "a,b\n", "é"]
    source = MadeSource(
        name="web", shards=[[[BOS]] * 3], with_document_ids=True, document_ids=texts
    )
    export_here(made_output(tmp_path / "out", source), LAYOUT, folder)
    rows = table(folder, "web")
    assert rows.schema.field("id").type == pa.string()
    assert rows.column("id").to_pylist() == [None, "a,b\n", "é"]


def vision_unit(tmp_path):
    """Return a unit with images, and the content of its documents."""
    made = VisionShards(tmp_path, documents_with_images(12), max_shard_tokens=10**6)
    made.publish()
    corpus, shards = read_corpus(made.out)
    (unit,) = units_of(corpus, shards)
    return unit, made


def test_images_are_spans(tmp_path, folder):
    unit, made = vision_unit(tmp_path)
    LAYOUT.write(replace(unit, batch_bytes=100), Target(folder))
    rows = pq.read_table(io.BytesIO(folder.read_bytes(f"{unit.name}.parquet")))
    spans = rows.column("image_spans").to_pylist()
    assert spans == [
        [{"start": start, "end": end} for start, end in own.images] for own in made.composed
    ]
    assert sum(map(len, spans)) > 12
    assert rows.column("input_ids").to_pylist() == [list(own.ids) for own in made.composed]
    assert rows.column_names == ["input_ids", "assistant_masks", "image_spans"]  # none `images`


def test_metadata_and_compression_are_written(tmp_path, folder):
    export_here(made_output(tmp_path / "out", TEXT), LAYOUT, folder)
    name = f"web/train/part-00000-000-{'0' * 16}.parquet"
    file = pq.ParquetFile(io.BytesIO(folder.read_bytes(name)))
    own = {key: file.schema_arrow.metadata[key] for key in (b"layout", b"tokenizer_sha256")}
    assert own == {b"layout": b"parquet 1", b"tokenizer_sha256": b"0" * 64}
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_ids_that_do_not_fit_are_refused():
    facts = OutputFacts(
        sources=(),
        kinds={},
        tokenizer_sha256="0" * 64,
        special_tokens={},
        item_bytes=4,
        num_ids=2**31 + 1,
        settings={},
    )
    corpus = Corpus(out=Folder("nowhere"), facts=facts, manifest_sha256="0" * 64)
    with pytest.raises(ExportError, match=r"2,147,483,648 do not fit.*2,147,483,647"):
        LAYOUT.check(corpus)


def test_the_highest_id_that_fits_is_unchanged(tmp_path, folder):
    source = MadeSource(name="web", shards=[[[2**31 - 1, 0]]])
    export_here(made_output(tmp_path / "out", source, item_bytes=4), LAYOUT, folder)
    assert table(folder, "web").column("input_ids").to_pylist() == [[2**31 - 1, 0]]


def test_a_document_longer_than_a_list_is_refused(tmp_path, folder, monkeypatch):
    huge = DocumentBatch(ids=np.zeros(0, np.uint16), positions=np.array([0, 2**31]))
    work, *_ = works_of(made_output(tmp_path / "out", TEXT), LAYOUT, folder)
    monkeypatch.setattr(Unit, "batches", lambda _: iter([huge]))
    with pytest.raises(ExportError, match=r"2,147,483,648 ids.*max_document_bytes"):
        LAYOUT.write(work.unit, Target(folder))
    assert folder.list() == []


def replaced(folder: Folder, column: str, values: list) -> None:
    """Write the chats' file again with another column."""
    rows = table(folder, "chat")
    place = rows.column_names.index(column)
    data = io.BytesIO()
    field = rows.schema.field(column)
    pq.write_table(rows.set_column(place, field, [pa.array(values, field.type)]), data)
    folder.write_bytes(f"chat/train/part-00000-000-{'0' * 16}.parquet", data.getvalue())


@pytest.mark.parametrize(
    ("layout", "column", "values", "why"),
    [
        (LAYOUT, "assistant_masks", [[0, 1], [1]], "not one for each id"),
        (LABELS, "labels", [[-100, 1, 7, -100, 4], [-100, 8]], "neither -100 nor the id"),
    ],
    ids=["masks", "labels"],
)
def test_contradictory_masks_are_detected(layout, column, *, values, why, tmp_path, folder):
    (each,) = export_here(made_output(tmp_path / "out", CHAT), layout, folder)
    replaced(folder, column, values)
    with pytest.raises(CorruptOutputError, match=why):
        list(layout.read(each, folder))


def test_other_files_are_detected(tmp_path, folder):
    (each,) = export_here(made_output(tmp_path / "out", CHAT), LAYOUT, folder)
    with pytest.raises(CorruptOutputError, match="other columns"):
        list(LABELS.read(each, folder))
    (name,) = each.names(".parquet")
    Path(folder.local_path(name) or "").write_bytes(b"PAR1")
    with pytest.raises(CorruptOutputError, match="not a Parquet file"):
        list(LAYOUT.read(each, folder))


DOCUMENTS = st.lists(st.lists(st.integers(0, 65535), max_size=6), max_size=8)


@settings(max_examples=25)
@given(
    documents=st.tuples(DOCUMENTS, DOCUMENTS),
    batch=st.integers(1, 40),
    item_bytes=st.sampled_from([2, 4]),
    column=st.sampled_from(["assistant_masks", "completion_mask", "labels"]),
)
def test_any_documents_can_be_read_back(documents, batch, item_bytes, column, tmp_path_factory):
    text, chats = documents
    sources = [
        MadeSource(name="text", shards=[text], with_document_ids=True),
        MadeSource(name="chat", kind="chat", shards=[chats]),
    ]
    root, layout = tmp_path_factory.mktemp("rows"), parse_layout(f"parquet:mask_column={column}")
    out = made_output(root / "out", *sources, item_bytes=item_bytes)
    folder = Folder(str(root / "export"))
    exported = export_here(out, layout, folder, batch_bytes=batch)
    wanted = [(own, None) for own in text]
    wanted += [(own, mask_of(own).tolist()) for own in chats]
    assert exported_documents(exported, folder, layout) == wanted
    assert table(folder, "text").column("input_ids").to_pylist() == text
