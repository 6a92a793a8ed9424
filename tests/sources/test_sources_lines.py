"""Reading line files and whole documents: every document once, for any division of files."""

import gzip
import hashlib
import json
import os
import tracemalloc
import uuid
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.sources import DocumentRules, read_piece
from nanotok_ray.sources import lines as line_blocks
from nanotok_ray.sources.batch import MAX_BATCH_BYTES
from nanotok_ray.storage import Folder, StoreRetryPolicy
from tests.support.read_pieces import ReadPiece, compressed, is_tail, piece_of
from tests.support.retry_policy import use_retry_policy

TEXTS = DocumentRules(kind="text", column="text")


BOM = b"\xef\xbb\xbf"


def line_of(text: object, **fields: object) -> bytes:
    return json.dumps({"text": text, **fields}).encode() + b"\n"


def test_documents_have_position_and_number_and_blank_lines_are_counted(tmp_path):
    path = tmp_path / "a"
    lines = [
        line_of("one"),
        b"\n",
        b"  \t\r\n",
        b"oops\n",
        line_of("two\n")[:-1] + b"\r\n",
        b"\r\n",
    ]
    path.write_bytes(b"".join(lines) + line_of("three")[:-1])
    result = ReadPiece(piece_of(path))
    assert result.documents == [b"one", b"two\n", b"three"]
    starts = np.cumsum([0, *map(len, lines)]).tolist()
    assert result.positions == [starts[0], starts[4], starts[6]]
    assert result.numbers == [0, 2, 3]
    assert result.blank == 3
    (bad,) = result.bad
    assert (bad.number, bad.position, bad.num_bytes) == (1, starts[3], 4)
    assert bad.hash64 == _core.hash64(b"oops")
    assert bad.reason == "invalid JSON: Expecting value (char 0)"
    assert result.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert result.num_bytes == path.stat().st_size


def test_the_text_of_a_line_is_its_utf8(tmp_path):
    expected = {
        rb'{"text": "\u00e9\ud83d\ude42"}': "é🙂",
        rb'{"text": "a\ud83db"}': "a\ufffdb",
        rb'{"text": "\udc00\ud800"}': "\ufffd\ufffd",
        rb'{"text": "1", "text": "2"}': "2",
        rb'{"text": "", "n": NaN, "m": -Infinity}': "",
        b'{"n": ' + b"9" * 5000 + b', "text": "x"}': "x",
        '  {"text": "\u2028\x85\\u000b"} '.encode(): "\u2028\x85\x0b",
        b'{"text": "a\\u0000b"}': "a\0b",
    }
    (tmp_path / "a").write_bytes(b"\n".join(expected))
    result = ReadPiece(piece_of(tmp_path / "a"))
    assert result.documents == [text.encode() for text in expected.values()]
    assert result.bad == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "a', "invalid JSON: Unterminated string"),
        (b'{"text": "a"} x', "invalid JSON: Extra data (char 14)"),
        (b'{"text": "a\tb"}', "invalid JSON: Invalid control character"),
        (b'{"text": "a\rb"}', "invalid JSON"),
        (b"[" * 100_000, "invalid JSON: nested too deeply"),
        (b'{"text": "a\xff"}', "invalid UTF-8: at byte 11"),
        (b'{"text": "\xed\xa0\x80"}', "invalid UTF-8: at byte 10"),
        (b'{"a": 1, "text": null}', "field is null: 'text'"),
        (b'{"text": 3}', "field is not a string: 'text' is a number"),
        (b'{"text": 1e3}', "field is not a string: 'text' is a number"),
        (b'{"text": true}', "field is not a string: 'text' is a boolean"),
        (b'{"text": ["a"]}', "field is not a string: 'text' is an array"),
        (b'{"text": {}}', "field is not a string: 'text' is an object"),
        (b'{"Text": "a"}', "field is missing: 'text'"),
        (b"[]", "not an object: an array"),
        (b'"a"', "not an object: a string"),
        (b"null", "not an object: null"),
        (b"17", "not an object: a number"),
        (b"\0", "invalid JSON"),
        (BOM + b'{"text": "a"}', "invalid JSON"),
    ],
    ids=range(20),
)
def test_a_bad_line_is_quarantined_with_a_reason_and_the_next_is_read(tmp_path, line, reason):
    (tmp_path / "a").write_bytes(line_of("before") + line + b"\r\n" + line_of("after"))
    result = ReadPiece(piece_of(tmp_path / "a"))
    assert result.documents == [b"before", b"after"]
    assert result.numbers == [0, 2]
    (bad,) = result.bad
    assert bad.reason.startswith(reason)
    assert bad.hash64 == _core.hash64(line)
    assert (bad.number, bad.position, bad.num_bytes) == (1, len(line_of("before")), len(line))
    assert not is_tail(bad)


@pytest.mark.parametrize("kind", ["chat", "vision"])
def test_a_conversation_is_its_unchanged_line(tmp_path, kind):
    lines = [b'{"messages": [ ]}', b'[{"role":"user"}]', b"  {}", '["é"]'.encode(), b"{", b"3"]
    (tmp_path / "a").write_bytes(BOM + b"\r\n".join([*lines, b" \t", b'["\xff"]', b'"a"']))
    result = ReadPiece(piece_of(tmp_path / "a"), kind=kind, column="")
    assert result.documents == [*lines, b'"a"']
    assert [each.reason for each in result.bad] == ["invalid UTF-8: at byte 2"]
    assert (result.numbers, result.blank) == ([0, 1, 2, 3, 4, 5, 7], 1)


def test_a_conversation_with_an_id_is_parsed(tmp_path):
    good = [b'{"messages": [ ]}', b'[{"role":"user"}]', b"  {}", '["é"]'.encode()]
    (tmp_path / "a").write_bytes(BOM + b"\r\n".join([*good, b"{", b"3", b'"a"', b'["\xff"]']))
    result = ReadPiece(piece_of(tmp_path / "a"), kind="chat", column="", id_column="id")
    assert result.documents == good
    reasons = [each.reason.partition(":")[0] for each in result.bad]
    assert reasons == ["invalid JSON", *["not an object or array"] * 2, "invalid UTF-8"]


chat_lines = st.lists(
    st.sampled_from(
        [b"", b"\r", b" ", b"\t \r", b"\x0b", b"[]", b"{}", '["é"]'.encode(), b"  [1]", b"[" * 40]
    ).flatmap(lambda line: st.sampled_from([line, line + b"\r", b'{"messages": []}', b'"\xff"'])),
    max_size=14,
)


@given(lines=chat_lines, ending=st.sampled_from([b"", b"\n", b"\r\n"]), most=st.integers(9, 60))
def test_conversations_read_in_blocks_equal_those_parsed_one_by_one(
    tmp_path_factory, lines, ending, most
):
    path = tmp_path_factory.mktemp("chat") / "a"
    path.write_bytes(b"\n".join(lines) + ending)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "BLOCK_BYTES", 8)  # nearly all lines are in later blocks
        options = {"kind": "chat", "column": "", "max_document_bytes": most}
        fast = ReadPiece(piece_of(path), **options)
        slow = ReadPiece(piece_of(path), id_column="id", **options)
    no_json = [bad for bad in slow.bad if bad.reason.startswith("invalid JSON")]
    kept = dict(zip(slow.numbers, zip(slow.positions, slow.documents, strict=True), strict=True))
    found = dict(zip(fast.numbers, zip(fast.positions, fast.documents, strict=True), strict=True))
    assert {number: found.pop(number) for number in kept} == kept
    assert {n: at for n, (at, _) in found.items()} == {bad.number: bad.position for bad in no_json}
    assert fast.bad == [bad for bad in slow.bad if bad not in no_json]
    assert (fast.blank, fast.sha256) == (slow.blank, slow.sha256)


def test_a_plain_line_is_a_document_and_only_an_empty_one_is_blank(tmp_path):
    (tmp_path / "a").write_bytes(BOM + b"one\r\n\n \n\r\r\n\xff\nx\ry\x0bz\x85\n" + "é".encode())
    result = ReadPiece(piece_of(tmp_path / "a", form="lines"))
    assert result.documents == [b"one", b" ", b"\r", "é".encode()]
    assert [each.reason for each in result.bad] == [
        "invalid UTF-8: at byte 0",
        "invalid UTF-8: at byte 5",
    ]
    assert result.blank == 1
    assert result.numbers == [0, 1, 2, 5]


lines = st.lists(
    st.sampled_from(
        [b"", b"\r", b" ", b"a", "é".encode(), "🙂🙂".encode(), b"\xff", BOM, b"\0", b"x" * 40]
    ).flatmap(lambda line: st.sampled_from([line, line + b"\r", line_of("t")[:-1]])),
    max_size=12,
)


@given(lines=lines, ending=st.sampled_from([b"", b"\n", b"\r\n", b"\n\n"]), data=st.data())
@pytest.mark.parametrize("form", ["lines", "jsonl"])
def test_byte_ranges_cut_anywhere_yield_the_documents_of_the_whole_file(
    tmp_path_factory, form, lines, ending, data
):
    content = b"\n".join(lines) + ending
    path, size = tmp_path_factory.mktemp("cut") / "a", len(content)
    path.write_bytes(content)
    cuts = data.draw(st.lists(st.integers(0, size), max_size=6))
    whole = ReadPiece(piece_of(path, form=form))
    bounds = sorted({0, *cuts, size}) if size else [0, 0]
    pieces = [
        ReadPiece(piece_of(path, form=form, start=start, stop=stop), batch_documents=2)
        for start, stop in pairwise(bounds)
    ]
    assert list(chain.from_iterable(each.documents for each in pieces)) == whole.documents
    assert list(chain.from_iterable(each.positions for each in pieces)) == whole.positions
    assert sum(each.blank for each in pieces) == whole.blank
    assert sum(each.num_bytes for each in pieces) == whole.num_bytes == size
    found = [(bad.position, bad.reason) for each in pieces for bad in each.bad]
    assert found == [(bad.position, bad.reason) for bad in whole.bad]
    for each in pieces:
        numbers = sorted(each.numbers + [bad.number for bad in each.bad])
        assert numbers == list(range(len(numbers)))


def test_a_line_longer_than_blocks_and_ranges_belongs_to_the_first(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"a\n" + b"x" * 3_000_000 + b"\nb\n")
    size = path.stat().st_size
    texts = []
    for start in range(0, size, 500_000):
        piece = piece_of(path, form="lines", start=start, stop=min(size, start + 500_000))
        texts.append([len(each) for each in ReadPiece(piece).documents])
    assert texts == [[1, 3_000_000], [], [], [], [], [], [1]]


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_an_empty_file_has_no_documents(tmp_path, compression):
    for content in (b"", compressed(b"", compression)):
        (tmp_path / "a").write_bytes(content)
        for form in ("lines", "jsonl"):
            result = ReadPiece(piece_of(tmp_path / "a", form=form, compression=compression))
            assert result.batches == []
            assert result.num_bytes == len(content)
            assert result.sha256 == hashlib.sha256(content).hexdigest()


def test_a_batch_ends_at_its_limit_of_documents_or_bytes(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"a\n" * 10 + (b"x" * (MAX_BATCH_BYTES // 2) + b"\n") * 3)
    result = ReadPiece(piece_of(path, form="lines"), batch_documents=4)
    assert [len(batch.documents) for batch in result.batches] == [4, 4, 4, 1]
    assert all(batch.documents.num_bytes <= 1.6 * MAX_BATCH_BYTES for batch in result.batches)


def test_a_file_that_shrank_or_vanished_since_the_plan_is_named(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"a\nb\n")
    with pytest.raises(SourceError, match=r"/a changed .* 4 bytes, 9 were planned"):
        ReadPiece(piece_of(path, form="lines", stop=9))
    with pytest.raises(SourceError, match=r"cannot read .*/b: No such file"):
        ReadPiece(piece_of(tmp_path / "b", form="lines", stop=9))
    for compression in ("gzip", "zstd"):
        path.write_bytes(compressed(b"a\nb\n", compression))
        with pytest.raises(SourceError, match="3 were planned"):
            ReadPiece(piece_of(path, compression=compression, form="lines", stop=3))


@pytest.mark.parametrize("compression", ["gzip", "zstd"])
class TestCompressed:
    def test_all_members_are_read_as_one_file(self, tmp_path, compression):
        parts = [BOM + line_of("one") + b'{"text": "tw', b"", b'o"}\r\n\n', line_of("three")[:-1]]
        path = tmp_path / "a"
        path.write_bytes(b"".join(compressed(part, compression) for part in parts))
        result = ReadPiece(piece_of(path, compression=compression))
        assert result.documents == [b"one", b"two", b"three"]
        assert result.positions[1] == len(BOM + line_of("one"))
        assert (result.bad, result.blank) == ([], 1)
        assert result.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert result.num_bytes == path.stat().st_size

    @pytest.mark.parametrize("cut", [1, 100, 5_000, 300_000])
    def test_a_truncated_file_yields_its_good_lines_and_a_tail(self, tmp_path, compression, cut):
        texts, path = noise(20_000), tmp_path / "a"
        content = compressed(b"".join(map(line_of, texts)), compression)[:-cut]
        path.write_bytes(content)
        result = ReadPiece(piece_of(path, compression=compression))
        good = len(result.documents)
        assert result.documents == [text.encode() for text in texts[:good]]
        lost = len(b"".join(map(line_of, texts[good:])))
        assert lost < 4 * cut + 400_000
        (tail,) = result.bad
        assert is_tail(tail)
        assert tail.reason.startswith(f"tail: {compression} stream is broken (")
        assert tail.position == sum(len(line_of(text)) for text in texts[:good])
        assert tail.number == good
        assert tail.hash64 is None
        assert 0 < tail.num_bytes <= 65536
        assert f"stored bytes {len(content) - tail.num_bytes} to {len(content)}" in tail.reason
        assert result.sha256 == hashlib.sha256(content).hexdigest()

    def test_damage_in_the_middle_ends_in_a_tail(self, tmp_path, compression):
        texts, path = noise(20_000), tmp_path / "a"
        content = bytearray(compressed(b"".join(map(line_of, texts)), compression))
        middle = len(content) // 2
        content[middle : middle + 3000] = b"\xff" * 3000
        path.write_bytes(content)
        result = ReadPiece(piece_of(path, compression=compression))
        assert is_tail(result.bad[-1])
        assert sum(is_tail(bad) for bad in result.bad) == 1
        assert result.documents[:5_000] == [text.encode() for text in texts[:5_000]]
        assert result.sha256 == hashlib.sha256(content).hexdigest()

    @pytest.mark.parametrize("content", [b"not compressed at all\n", b"\x1f\x8b", b"\x28"])
    def test_a_file_that_is_not_compressed_is_one_tail(self, tmp_path, compression, content):
        (tmp_path / "a").write_bytes(content)
        result = ReadPiece(piece_of(tmp_path / "a", compression=compression, form="lines"))
        assert result.documents == []
        (tail,) = result.bad
        assert is_tail(tail)
        assert (tail.number, tail.position, tail.num_bytes) == (0, 0, len(content))

    def test_bytes_after_the_last_member_are_a_tail(self, tmp_path, compression):
        (tmp_path / "a").write_bytes(compressed(b"a\nb\n", compression) + b"garbage")
        result = ReadPiece(piece_of(tmp_path / "a", compression=compression, form="lines"))
        assert result.documents == [b"a", b"b"]
        assert [is_tail(bad) for bad in result.bad] == [True]
        assert result.bad[0].position == 4

    def test_a_document_is_the_decoded_file(self, tmp_path, compression):
        text = "é\r\n\n" * 100_000
        path = tmp_path / "a"
        path.write_bytes(compressed(BOM + text.encode(), compression))
        result = ReadPiece(piece_of(path, form="document", compression=compression))
        assert result.documents == [BOM + text.encode()]
        assert result.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        path.write_bytes(path.read_bytes()[:-1])
        broken = ReadPiece(piece_of(path, form="document", compression=compression))
        assert broken.documents == []
        (tail,) = broken.bad
        assert is_tail(tail)
        assert (tail.position, tail.num_bytes) == (0, path.stat().st_size)

    def test_a_small_file_with_large_decoded_content_is_read_in_batches(
        self, tmp_path, compression
    ):
        path = tmp_path / "a"
        path.write_bytes(compressed(b"a" * 99 + b"\n", compression) * 20_000)
        result = ReadPiece(piece_of(path, form="lines", compression=compression))
        assert [len(batch.documents) for batch in result.batches] == [1024] * 19 + [544]


LIMIT = 10
AT_LIMIT = [b"a" * 10, "é".encode() * 5]


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_a_line_over_the_limit_is_quarantined_and_the_next_is_read(tmp_path, compression, ending):
    path = tmp_path / "a"
    long = [b"b" * 11, b"c" * 16, b"d" * 700_000]
    content = BOM + ending.join([AT_LIMIT[0], *long, b"", AT_LIMIT[1], b"e" * 40])
    path.write_bytes(compressed(content, compression))
    piece = piece_of(path, form="lines", compression=compression)
    result = ReadPiece(piece, max_document_bytes=LIMIT)
    assert result.documents == AT_LIMIT
    assert result.numbers == [0, 4]
    expected = zip((1, 2, 3, 5), [*long, b"e" * 40], strict=True)
    assert [(bad.number, bad.num_bytes, bad.position, bad.hash64) for bad in result.bad] == [
        (number, len(line), content.index(line), None) for number, line in expected
    ]
    assert result.bad[0].reason == "too large: 11 bytes, limits.max_document_bytes = 10"
    assert result.blank == 1
    assert result.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_truncated_long_line_is_part_of_the_tail(tmp_path):
    path, stored = tmp_path / "a", compressed(b"a\n" + b"b" * 3_000_000, "gzip")
    path.write_bytes(stored[:-100])
    result = ReadPiece(piece_of(path, form="lines", compression="gzip"), max_document_bytes=LIMIT)
    assert result.documents == [b"a"]
    assert [(is_tail(bad), bad.position) for bad in result.bad] == [(True, 2)]


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize(("size", "is_bad"), [(LIMIT, False), (LIMIT + 1, True), (10**6, True)])
def test_a_document_over_the_limit_is_quarantined(tmp_path, compression, size, is_bad):
    path, content = tmp_path / "a", b"a" * size
    path.write_bytes(compressed(content, compression))
    piece = piece_of(path, form="document", compression=compression)
    result = ReadPiece(piece, max_document_bytes=LIMIT)
    assert result.documents == ([] if is_bad else [content])
    assert [bad.reason.partition(":")[0] for bad in result.bad] == ["too large"] * is_bad
    assert [bad.num_bytes for bad in result.bad] == [path.stat().st_size] * is_bad
    assert result.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("form", ["lines", "jsonl", "document"])
def test_an_endless_line_uses_memory_up_to_the_limit(tmp_path, form):
    path = tmp_path / "a"
    path.write_bytes(compressed(b"a" * (200 << 20), "gzip"))
    piece = piece_of(path, form=form, compression="gzip")
    tracemalloc.start()
    result = ReadPiece(piece, max_document_bytes=1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [bad.reason.partition(":")[0] for bad in result.bad] == ["too large"]
    assert peak < 8 << 20


def test_a_long_document_is_held_once_and_its_json_line_is_released(tmp_path):
    size = 32 << 20
    (tmp_path / "a").write_bytes("é".encode() * (size // 2) + b"\n")
    (tmp_path / "b").write_bytes(line_of("é" + "a" * size))
    for name, form in (("a", "lines"), ("a", "document"), ("b", "jsonl")):
        tracemalloc.start()
        reader = read_piece(piece_of(tmp_path / name, form=form), TEXTS)
        for batch in reader:
            held, peak = tracemalloc.get_traced_memory()
            assert size <= batch.documents.num_bytes <= size + 2
        tracemalloc.stop()
        assert held < 1.3 * size
        assert peak < 1.5 * size or form == "jsonl"


def noise(count: int) -> list[str]:
    """Return texts that are hardly compressible."""
    generator = np.random.default_rng(7)
    return [generator.bytes(20 + number % 50).decode("latin-1") for number in range(count)]


@given(content=st.binary(max_size=60), cut=st.integers(0, 60))
@example(content=b"", cut=0)
def test_any_bytes_are_documents_or_accounted_for(tmp_path_factory, content, cut):
    path = tmp_path_factory.mktemp("any") / "a"
    path.write_bytes(gzip.compress(content + b"\n", mtime=0)[:cut])
    for form in ("jsonl", "lines", "document"):
        for compression in (None, "gzip", "zstd"):
            result = ReadPiece(piece_of(path, form=form, compression=compression))
            assert result.num_bytes == path.stat().st_size
            assert all(document.decode().encode() == document for document in result.documents)
            assert result.documents or result.bad or result.blank or result.num_bytes == 0


@pytest.mark.parametrize("content", [b"", b"a\r\n\nb", BOM + b"x", b"\n" * 3, b"ab\xffc"])
def test_a_document_is_the_unchanged_file(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    result = ReadPiece(piece_of(tmp_path / "a", form="document"))
    assert (result.num_bytes, result.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    if content.isascii() or content.startswith(BOM):
        assert (result.documents, result.positions, result.numbers) == ([content], [0], [0])
        assert result.bad == []
    else:
        assert result.documents == []
        (bad,) = result.bad
        assert (bad.reason, bad.num_bytes, bad.number) == ("invalid UTF-8: at byte 2", 4, 0)


@pytest.mark.parametrize("compression", [None, "gzip", "zstd"])
def test_a_temporary_storage_failure_is_no_damage(monkeypatch, compression):
    from fsspec.implementations.memory import MemoryFile  # noqa: PLC0415

    data = compressed(b"".join(map(line_of, noise(2_000))), compression)
    folder = Folder(f"memory:///{uuid.uuid4().hex}")
    folder.write_bytes("a", data)

    def fail(*_):
        raise TimeoutError

    monkeypatch.setattr(MemoryFile, "read", fail)
    policy = StoreRetryPolicy(first_wait=0)
    with use_retry_policy(policy), pytest.raises(TransientIOError, match="try again"):
        ReadPiece(piece_of(folder.join("a"), compression=compression, stop=len(data)))


def test_a_disk_error_is_no_damage(tmp_path, monkeypatch):
    from nanotok_ray.sources import stored  # noqa: PLC0415

    path = tmp_path / "a"
    path.write_bytes(compressed(b"a\n", "gzip"))

    def fail(_self, _size):
        raise OSError(5, os.strerror(5))

    monkeypatch.setattr(stored.StoredFile, "read", fail)
    with pytest.raises(OSError, match="Input/output error"):
        ReadPiece(piece_of(path, compression="gzip", form="lines"))
