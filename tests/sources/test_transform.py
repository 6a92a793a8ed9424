"""What functions make of the documents of a piece, against a plain loop over rows."""

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray.errors import SourceError
from nanotok_ray.formats import CodeFile, Transform, sha256_of
from nanotok_ray.sources import transform
from tests.support.read_pieces import ReadPiece, piece_of

CODE = """
from nanotok_ray.filters import chain, drop, per_document
import pyarrow as pa
import pyarrow.compute as pc

@per_document
def edit(text, **columns):
    if text.startswith("none"):
        return None
    if text.startswith("drop"):
        return drop(text[4:])
    if text.startswith("raise"):
        raise ValueError(text)
    if text.startswith("list"):
        return [f"{n}{text}" for n in range(len(text) - 4)]
    return "".join([text.upper(), *(f"/{name}={value}" for name, value in columns.items())])

def same(batch):
    return batch

def filtered(batch):
    return batch.filter(pc.less(batch["score"], 3))

def two_stages(batch):
    return chain(edit, filtered_by_length)(batch)

def filtered_by_length(batch):
    return batch.filter(pc.less(pc.utf8_length(batch.column(1)), 6))

def counted(batch):
    rows = batch.num_rows
    return batch.set_column(1, batch.schema.names[1], pa.array([f"{rows}"] * rows))

calls = []
def other(batch):
    calls.append(0)
    return batch.set_column(1, batch.schema.names[1], pa.array([str(len(calls))] * len(batch)))

not_a_function = 3
def wrong_type(batch):
    return batch.to_pylist()
def without_row(batch):
    return batch.select([1])
def null_rows(batch):
    return batch.set_column(0, "source_row", pa.array([0, None] + [1] * (len(batch) - 2)))
def out_of_order(batch):
    return batch.take(list(range(len(batch)))[::-1])
def large(batch):
    return batch.set_column(1, "text", pa.array(["x" * 50] * len(batch)))
@per_document
def surrogate(text):
    return "\\ud800"
@per_document
def number(text):
    return 3
@per_document
def turned(row):
    row["messages"][0]["content"] = row["messages"][0]["content"] + row.get("tail", "")
    return row
@per_document
def split_turns(row):
    return [{"messages": row["messages"][:2]}, row["messages"]]
"""


def code(function, *columns):
    file = CodeFile(name="edits.py", sha256=sha256_of(CODE.encode()), text=CODE)
    return Transform(module="edits", function=function, columns=columns, files=(file,))


def plain(text, **columns):
    """Return the documents of a row, the reason why it has none, or the error."""
    if text.startswith("none"):
        return [], "removed", None
    if text.startswith("drop"):
        return [], text[4:].partition(":")[0].strip() or "removed", None
    if text.startswith("raise"):
        return [], None, f"the function raised ValueError: {text}"
    if text.startswith("list"):
        documents = [f"{n}{text}" for n in range(len(text) - 4)]
        return documents, None if documents else "removed", None
    edited = "".join([text.upper(), *(f"/{name}={value}" for name, value in columns.items())])
    return [edited], None, None


def read(path, function, *columns, **options):
    form = options.pop("form", path.suffix[1:])
    return ReadPiece(
        piece_of(path, form=form, dialect=options.pop("dialect", None)),
        transform=code(function, *columns),
        columns=columns,
        **options,
    )


def dropped(piece):
    return dict(sum((Counter(batch.dropped) for batch in piece.batches), Counter()))


TEXT = st.builds(
    str.__add__,
    st.sampled_from(["", "none", "drop", "drop", "raise", "list", "list"]),
    st.text(alphabet="ab:é\U0001f642 ", max_size=4),
).filter(lambda text: text.strip() == text and text)


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(TEXT, st.integers(0, 9)), min_size=1, max_size=30),
    file=st.tuples(st.sampled_from(["jsonl", "parquet", "lines"]), st.booleans()),
    batch_documents=st.tuples(st.integers(1, 40), st.sampled_from([1, 20, 1 << 21])),
    group_rows=st.integers(1, 12),
)
def test_documents_are_those_of_a_plain_loop(
    tmp_path_factory, rows, file, batch_documents, group_rows
):
    (form, with_column), (batch_documents, call_bytes) = file, batch_documents
    path = tmp_path_factory.mktemp("rows") / f"a.{form}"
    columns = ("score",) if with_column and form != "lines" else ()
    if form == "parquet":
        table = pa.table({"text": [row[0] for row in rows], "score": [row[1] for row in rows]})
        pq.write_table(table, path, row_group_size=group_rows)
    elif form == "jsonl":
        path.write_text("".join(f"{json.dumps({'text': t, 'score': n})}\n" for t, n in rows))
    else:
        path.write_text("".join(f"{text}\n" for text, _ in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transform, "CALL_BYTES", call_bytes)
        piece = read(
            path,
            "edit",
            *columns,
            form=form,
            column="" if form == "lines" else "text",
            batch_documents=batch_documents,
        )
    expected, reasons, errors, numbers, shift = [], Counter(), [], [], 0
    for row, (text, score) in enumerate(rows):
        if form == "parquet" and row % group_rows == 0:
            shift = 0  # numbers are unique within a row group
        documents, reason, error = plain(text, **({"score": score} if columns else {}))
        expected += documents
        reasons.update([] if reason is None else [reason])
        errors += [] if error is None else [(row + shift, error)]
        numbers += [row + shift + nth for nth in range(len(documents))]
        shift += max(0, len(documents) - 1)
    assert [document.decode() for document in piece.documents] == expected
    assert dropped(piece) == reasons
    assert [(bad.number, bad.reason) for bad in piece.bad] == errors
    assert piece.numbers == numbers


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def rows(tmp_path):
    texts = ["one", "none", "list12", "droptoo old: 7", "raised", "longer text", "x"]
    return write_rows(
        tmp_path / "a.jsonl", [{"text": text, "score": at} for at, text in enumerate(texts)]
    )


def test_a_function_that_returns_its_batch_changes_nothing(rows):
    assert read(rows, "same").documents == ReadPiece(piece_of(rows)).documents
    assert read(rows, "same", "score").documents == ReadPiece(piece_of(rows)).documents


def test_a_row_that_a_batch_lacks_is_counted_as_removed(rows):
    piece = read(rows, "filtered", "score")
    assert (len(piece.documents), dropped(piece)) == (3, {"removed": 4})


def test_a_chain_keeps_the_rows_and_reasons_of_its_functions(rows):
    piece = read(rows, "two_stages")
    assert [text.decode() for text in piece.documents] == ["ONE", "X"]
    assert dropped(piece) == {"removed": 3, "too old": 1}
    assert [bad.number for bad in piece.bad] == [4]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("wrong_type", "list, not a pyarrow.RecordBatch"),
        ("without_row", "'source_row'"),
        ("out_of_order", "in order"),
        ("null_rows", "in order"),
        ("counted", "something else for row"),
        ("other", "something else for row 0"),
        ("missing", "has no attribute 'missing'"),
        ("not_a_function", "is int"),
    ],
)
def test_a_function_that_is_not_as_it_must_be_ends_the_slice(rows, function, words):
    with pytest.raises(SourceError, match=words):
        read(rows, function)


def test_results_have_the_limits_of_documents(rows):
    large = read(rows, "large", max_document_bytes=40)
    assert large.documents == []
    assert {bad.reason for bad in large.bad} == {
        "too large: 50 bytes, limits.max_document_bytes = 40"
    }
    for function in ("surrogate", "number"):
        piece = read(rows, function)
        assert (piece.documents, len(piece.bad)) == ([], 7)
        assert piece.bad[0].reason.startswith("the function raised ")


def test_blank_lines_are_counted_and_ids_follow_their_documents(tmp_path):
    texts = ["one", "none", "list12", "raised", "x"]
    rows = [json.dumps({"text": text, "id": at}) for at, text in enumerate(texts)]
    (tmp_path / "a.jsonl").write_text("\n\n".join(rows))
    piece = read(tmp_path / "a.jsonl", "edit", id_column="id")
    ids = [one.decode() for batch in piece.batches for one in batch.document_ids]
    assert (piece.blank, ids) == (4, ["0", "2", "2", "4"])
    assert [bad.id for bad in piece.bad] == ["3"]


def test_a_line_without_text_is_quarantined_before_the_function(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [{"score": 1}, {"text": "a", "score": None}])
    piece = read(path, "edit", "score")
    assert piece.documents == [b"A/score=None"]
    assert [(bad.number, bad.reason) for bad in piece.bad] == [(0, "field is missing: 'text'")]


def test_fields_of_several_types_and_half_of_a_pair_are_json_text(tmp_path):
    scores = [1, "two", None, [3]]
    path = write_rows(tmp_path / "a.jsonl", [{"text": "a", "score": score} for score in scores])
    expected = [b"A/score=1", b'A/score="two"', b"A/score=None", b"A/score=[3]"]
    assert read(path, "edit", "score").documents == expected
    path.write_text('{"text": "a", "score": "\\ud800"}\n')
    assert read(path, "edit", "score").documents == [b'A/score="\\ud800"']


def test_conversations_are_values_of_json(tmp_path):
    messages = [{"role": "user", "content": "é"}, {"role": "assistant", "content": "b"}]
    path = write_rows(tmp_path / "a.jsonl", [{"messages": messages, "tail": "!"}])
    piece = read(path, "turned", kind="chat", column="", dialect="messages")
    assert [json.loads(document) for document in piece.documents] == [
        {"messages": [{"role": "user", "content": "é!"}, messages[1]], "tail": "!"}
    ]
    two = read(path, "split_turns", kind="chat", column="", dialect="messages")
    assert [json.loads(document) for document in two.documents] == [
        {"messages": messages},
        messages,
    ]


def test_other_columns_of_parquet_have_their_types(tmp_path):
    path = tmp_path / "a.parquet"
    nested = [{"score": 1, "kind": "x"}, {"score": 7, "kind": None}]
    pq.write_table(pa.table({"text": ["a", "b"], "meta": nested}), path)
    assert read(path, "edit", "meta").documents == [
        b"A/meta={'score': 1, 'kind': 'x'}",
        b"B/meta={'score': 7, 'kind': None}",
    ]
    assert read(path, "edit", "meta.score").documents == [b"A/meta.score=1", b"B/meta.score=7"]


def test_files_of_a_function_are_read_at_import_and_leave_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = """
from pathlib import Path

suffix = Path(__file__).with_name("words.txt").read_text()

def late(batch):
    import helpers_of_late.ends
    texts = [f"{text}{suffix}{helpers_of_late.ends.END}" for text in batch[1].to_pylist()]
    return batch.set_column(1, "text", texts)
"""
    texts = {
        "late_imports.py": code,
        "words.txt": " and words",
        "helpers_of_late/__init__.py": "",
        "helpers_of_late/ends.py": "END = '!'",
    }
    files = tuple(
        CodeFile(name=name, sha256=sha256_of(text.encode()), text=text)
        for name, text in texts.items()
    )
    function = transform.load_function(
        Transform(module="late_imports", function="late", files=files)
    )
    batch = pa.record_batch({"source_row": [0], "text": ["one"]})
    assert function(batch)["text"].to_pylist() == ["one and words!"]
    assert list(tmp_path.iterdir()) == []
