"""Resolving a source: its files in order, with format and dialect, before they are read."""

import gzip
import json
import os
import random
import uuid
from dataclasses import replace

import pytest

from nanotok_ray.errors import CorruptOutputError, SourceError
from nanotok_ray.formats import SourceFile
from nanotok_ray.job.job_plan import decide
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources import (
    DocumentRules,
    Piece,
    changes,
    make_plan,
    overview,
    plan_from_json,
    plan_to_json,
    read_piece,
    resolve,
)
from nanotok_ray.sources.files import ResolvedSource
from nanotok_ray.sources.plan_changes import FileChange
from nanotok_ray.sources.stored import check_unchanged
from nanotok_ray.storage import Folder, InputFile, RemoteInput
from tests.support.read_pieces import compressed, json_lines, parquet_bytes
from tests.support.small_corpus import recipe, write_corpus

PARQUET = parquet_bytes({"text": ["a"]})


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path) -> Folder:
    """An empty folder on each kind of storage."""
    if request.param == "local":
        return Folder(str(tmp_path))
    return Folder(f"memory:///{uuid.uuid4().hex}")


def resolve_in(folder: Folder, *paths: str, **fields: object) -> ResolvedSource:
    values = {"name": "web", "kind": "text"} | fields
    return resolve(SourceRecipe(paths=tuple(f"{folder.url}/{path}" for path in paths), **values))


def write_all(folder: Folder, *names: str, data: bytes = b"") -> None:
    for name in names:
        folder.write_bytes(name, data)


def test_files_are_sorted_bytewise_by_their_path_below_the_root(folder):
    names = [f"{name}.jsonl" for name in ("a/z", "a", "B", "a-b", "é", "a/b/c", "\U0001f642")]
    shuffled = random.Random(1).sample(names, len(names))
    write_all(folder, *shuffled)
    resolved = resolve_in(folder, "")
    assert resolved.root == folder.url
    assert [file.path for file in resolved.files] == sorted(names, key=str.encode)
    assert [file.url for file in resolved.files] == [folder.join(f.path) for f in resolved.files]
    assert resolve_in(folder, *shuffled).files == resolved.files


@pytest.mark.parametrize(
    ("paths", "root", "expected"),
    [
        (["web/0/a.jsonl"], "web/0", ["a.jsonl"]),
        (["web/?/a.jsonl"], "web", ["0/a.jsonl", "1/a.jsonl"]),
        (["web/0/*.jsonl", "web/1/a.jsonl"], "web", ["0/a.jsonl", "0/b.jsonl", "1/a.jsonl"]),
        (["web/0", "wiki"], "", ["web/0/a.jsonl", "web/0/b.jsonl", "wiki/a.jsonl"]),
        (["web/0", "web/0/a.jsonl", "web/0/*"], "web/0", ["a.jsonl", "b.jsonl"]),
        (["web/0", "web/01"], "web", ["0/a.jsonl", "0/b.jsonl", "01/a.jsonl"]),
    ],
)
def test_the_root_is_the_deepest_common_folder_of_all_paths(folder, paths, root, expected):
    names = ("web/0/a", "web/0/b", "web/1/a", "web/01/a", "wiki/a")
    write_all(folder, *(f"{name}.jsonl" for name in names))
    resolved = resolve_in(folder, *paths)
    assert resolved.root == f"{folder.url}/{root}".rstrip("/")
    assert [file.path for file in resolved.files] == expected


def test_the_suffix_determines_format_and_compression(folder):
    suffixes = {"jsonl": None, "ndjson": None, "jsonl.gz": "gzip", "jsonl.zst": "zstd"}
    for suffix, compression in (suffixes | {"jsonl.zstd": "zstd"}).items():
        write_all(folder, f"a.{suffix}")
        (file,) = resolve_in(folder, f"a.{suffix}").files
        assert (file.format, file.compression) == ("jsonl", compression)
        assert (file.size, file.layout, file.footer_sha256) == (0, (), None)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.json", "a", "a.csv"])
def test_an_unknown_suffix_requires_a_format(folder, name):
    write_all(folder, name)
    with pytest.raises(SourceError, match=f"{name}.*set format") as caught:
        resolve_in(folder, name)
    assert '"lines" (one document per line)' in str(caught.value)
    assert '"document" (one per file)' in str(caught.value)
    with pytest.raises(SourceError, match=r'"jsonl" \(one document per line\) or "parquet"'):
        resolve_in(folder, name, kind="chat")
    compression = "gzip" if name.endswith(".gz") else None
    for form in ("lines", "document", "jsonl"):
        (file,) = resolve_in(folder, name, format=form).files
        assert (file.format, file.compression) == (form, compression)


def test_a_folder_contributes_the_files_of_its_format(folder):
    write_all(folder, "README.md", "b.jsonl.gz", "sub/a.jsonl", "_SUCCESS", "c.jsonl.tmp", "d.txt")
    write_all(folder, "p/x.parquet", data=PARQUET)

    def found(*paths, form):
        return [file.path for file in resolve_in(folder, *paths, format=form).files]

    assert found("", form="jsonl") == ["b.jsonl.gz", "sub/a.jsonl"]
    assert found("", form="parquet") == ["p/x.parquet"]
    assert found("sub", "p/x.parquet", form="lines") == ["p/x.parquet", "sub/a.jsonl"]
    everything = ["README.md", "b.jsonl.gz", "d.txt", "p/x.parquet", "sub/a.jsonl"]
    assert found("", form="document") == everything


def test_a_folder_without_files_of_the_format_is_named(folder):
    write_all(folder, "a/b.txt")
    with pytest.raises(SourceError, match=r"no file below .*/a ends in \.parquet, \.jsonl"):
        resolve_in(folder, "a")
    with pytest.raises(SourceError, match=r"ends in \.jsonl, \.ndjson"):
        resolve_in(folder, "a", format="jsonl")


def test_one_source_has_one_format(folder):
    write_all(folder, "b.jsonl", "c.jsonl.gz")
    write_all(folder, "a.parquet", data=PARQUET)
    with pytest.raises(SourceError) as caught:
        resolve_in(folder, "")
    for part in ["'web' mixes the formats", "b.jsonl)", "a.parquet)", "source for each format"]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "data", "fields", "message"),
    [
        ("a.parquet", b"", {}, r"a\.parquet is not a readable parquet file"),
        ("a.parquet", b"PAR1 but not really", {}, r"a\.parquet is not a readable parquet file"),
        ("a.parquet", PARQUET, {"column": "body"}, r"no column 'body'; .* 'text'"),
        ("a.parquet.gz", b"", {}, r"a\.parquet\.gz is a compressed parquet file"),
        ("a.parquet", PARQUET, {"kind": "chat"}, r"no dialect of chat .* 'text'; set"),
        ("b.jsonl", b"", {}, r"a\.parquet matches no file"),
    ],
    ids=range(6),
)
def test_an_unreadable_file_is_named(folder, name, data, fields, message):
    write_all(folder, name, data=data)
    path = name if name.startswith("a") else "a.parquet"
    with pytest.raises(SourceError, match=message):
        resolve_in(folder, path, **fields)


def test_paths_on_different_stores_are_two_sources(tmp_path):
    folders = [Folder(str(tmp_path)), Folder(f"memory:///{uuid.uuid4().hex}")]
    for folder in folders:
        write_all(folder, "a.jsonl")
    paths = tuple(folder.join("a.jsonl") for folder in folders)
    with pytest.raises(SourceError, match=r"different stores .* source for each"):
        resolve(SourceRecipe(name="web", kind="text", paths=paths))


KINDS = {
    "a.parquet": (
        None,
        parquet_bytes({"text": ["one", "two"]}),
        parquet_bytes({"text": ["one", "six"]}),
    ),
    "a.jsonl": (None, b'{"text": "one"}\n', b'{"text": "two"}\n'),
    "a.jsonl.gz": (None, gzip.compress(b"{}", mtime=0), gzip.compress(b"[]", mtime=0)),
    "a.txt": ("document", b"one", b"two"),
}


def all_of(folder: Folder, name: str, form: str | None, **options):
    source = SourceRecipe(name="web", kind="text", paths=(folder.join(name),), format=form)
    (file,) = resolve(source).files
    rules = DocumentRules(kind="text", column=source.column, **options)
    return read_piece(Piece.of(file), rules)


@pytest.mark.parametrize("name", KINDS)
def test_a_replaced_file_of_the_same_size_is_refused(folder, name):
    form, planned, changed = KINDS[name]
    assert len(planned) == len(changed)
    folder.write_bytes(name, planned)
    reader = all_of(folder, name, form)
    folder.write_bytes(name, changed)
    with pytest.raises(SourceError, match=r"changed .* time \d+, \d+ was planned; run again"):
        list(reader)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "a.txt"])  # read at once
def test_a_file_that_changes_while_it_is_read_is_refused(folder, name, monkeypatch):
    form, content, _ = KINDS[name]
    folder.write_bytes(name, content)
    reader = all_of(folder, name, form, batch_documents=1)
    own = RemoteInput.entry

    def entry(file, *, again=False):
        if again:
            folder.write_bytes(name, content)
        return own(file, again=again)

    monkeypatch.setattr(RemoteInput, "entry", entry)
    with pytest.raises(SourceError, match="changed since the plan was made"):  # noqa: PT012
        for _ in reader:
            if not folder.url.startswith("memory"):
                os.utime(folder.join(name), ns=(1, 1))


def test_a_footer_other_than_planned_is_refused(folder):
    folder.write_bytes("a.parquet", parquet_bytes({"text": ["one", "two"]}))
    (file,) = resolve_in(folder, "a.parquet").files
    piece = Piece(replace(file, footer_sha256="0" * 64), 0, 1)
    with pytest.raises(SourceError, match=r"a\.parquet changed .* footer .* run again"):
        list(read_piece(piece, DocumentRules(kind="text", column="text")))


def test_the_etag_identifies_a_file_or_else_its_time(folder):
    folder.write_bytes("a.jsonl", b"{}\n")
    (file,) = resolve_in(folder, "a.jsonl").files
    known = InputFile(path="a", size=3, etag="x", mtime_ns=5)
    check_unchanged(replace(file, size=3, etag="x", mtime_ns=6), known)
    check_unchanged(replace(file, size=3, etag=None, mtime_ns=None), known)
    for wrong in ({"etag": "y", "mtime_ns": 5}, {"etag": None, "mtime_ns": 6}, {"size": 4}):
        with pytest.raises(SourceError, match="changed since the plan was made"):
            check_unchanged(replace(file, **{"size": 3, "etag": "x", **wrong}), known)


SECOND = 1_764_169_200_000_000_000


@pytest.mark.parametrize(
    ("planned", "now", "is_same"),
    [
        (SECOND + 123_000_000, SECOND, True),  # a store that lists milliseconds
        (SECOND, SECOND + 123_000_000, True),
        (SECOND + 123_000_000, SECOND + 124_000_000, False),
        (SECOND + 123_000_000, SECOND + 1_000_000_000, False),
        (SECOND, SECOND - 1_000_000_000, False),
    ],
)
def test_times_of_different_resolution_are_compared_in_whole_seconds(planned, now, is_same):
    file = SourceFile(
        path="a.jsonl", url="s3://bucket/a.jsonl", size=3, format="jsonl", mtime_ns=planned
    )
    found = InputFile(path="s3://bucket/a.jsonl", size=3, etag="only of one request", mtime_ns=now)
    if is_same:
        check_unchanged(file, found)
        return
    with pytest.raises(SourceError, match=f"modification time {now}, {planned} was planned"):
        check_unchanged(file, found)


MESSAGES = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
TURNS = {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}
MATHS = {"question": "1 + 1?", "answer": "#### 2"}


def write(path, *values, start=b"", end=b"\n"):
    path.write_bytes(start + b"\n".join(json.dumps(each).encode() for each in values) + end)


def resolved(path, **fields):
    return resolve(SourceRecipe(name="talk", **{"kind": "chat", "paths": (str(path),)} | fields))


def dialects(found) -> dict[str, str | None]:
    return {file.path: file.dialect for file in found.files}


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "in")
    write(tmp_path / "in/chats/turns.jsonl", TURNS, TURNS)
    return tmp_path / "in"


def test_a_plan_states_the_dialect_of_each_file_and_their_number(corpus, tmp_path):
    job = recipe(corpus, tmp_path / "out")
    plan = make_plan(job)
    web, chats = plan.sources
    assert [file.dialect for file in web.files] == [None] * 3
    assert list(dialects(chats).values()) == ["messages"] * 2 + ["sharegpt"]
    assert [each.dialects for each in overview(plan)] == [{}, {"messages": 2, "sharegpt": 1}]
    reported = decide(job, command="prepare").text()
    assert " jsonl of messages (2 files) and sharegpt (1 file) in " in reported
    assert " parquet in " in reported
    assert plan_from_json(plan_to_json(plan)) == replace(plan, notes=())
    sources = json.loads(plan_to_json(plan))["sources"]
    files = [file for source in sources for file in source["files"]]
    assert [file.get("dialect") for file in files] == [None] * 3 + ["messages"] * 2 + ["sharegpt"]
    assert ["dialect" in file for file in files] == [False] * 3 + [True] * 3


def test_another_dialect_of_a_file_changes_its_slices(corpus, tmp_path):
    before = make_plan(recipe(corpus, tmp_path / "out"))
    after = make_plan(recipe(corpus, tmp_path / "out", "source.chats.dialect=messages"))
    (changed,) = changes(before, after)
    assert changed.changed == (FileChange("turns.jsonl", "dialect sharegpt -> messages"),)
    assert {each.key for each in before.slices()} != {each.key for each in after.slices()}


def test_a_plan_with_an_impossible_dialect_is_refused(corpus, tmp_path):
    plan = plan_to_json(make_plan(recipe(corpus, tmp_path / "out")))
    for source, dialect in ((0, "messages"), (1, "text"), (1, "nonsense"), (1, 3)):
        values = json.loads(plan)
        values["sources"][source]["files"][0]["dialect"] = dialect
        with pytest.raises(CorruptOutputError, match=r"plan\.json.*dialect"):
            plan_from_json(json.dumps(values).encode())


@pytest.mark.parametrize(
    ("value", "kind", "reported"),
    [
        ({"a": 1, "b": 2}, "chat", "an object with the keys 'a', 'b': no dialect of chat"),
        (MATHS, "vision", "an object with the keys 'question', 'answer': no dialect of vision"),
        ({}, "chat", r"an object with the keys \(none\)"),
        (dict.fromkeys("abcdefg"), "chat", "an object with .* 'd', 'e': no dialect"),
        (3, "chat", "a number"),
        ("hi", "chat", "a string"),
        (None, "chat", "null"),
        (True, "chat", "a boolean"),
    ],
    ids=str,
)
def test_a_first_document_of_an_unknown_dialect_is_refused(tmp_path, value, kind, reported):
    write(tmp_path / "a.jsonl", value, {"messages": []})
    message = rf"a\.jsonl: its first document is {reported}.*set dialect"
    with pytest.raises(SourceError, match=message):
        resolved(tmp_path / "a.jsonl", kind=kind)
    found = resolved(tmp_path / "a.jsonl", kind=kind, dialect="messages")
    assert (dialects(found), found.notes) == ({"a.jsonl": "messages"}, ())


def test_the_first_valid_json_line_determines_the_dialect(tmp_path):
    bom = b"\xef\xbb\xbf"
    write(tmp_path / "a.jsonl", MATHS, start=bom)
    write(tmp_path / "b.jsonl", MATHS, start=b"\r\n{broken\n\xff\n" + b"[" * 100_000 + b"\n")
    write(tmp_path / "c.jsonl", MATHS, end=b"")
    write(tmp_path / "d.jsonl", MATHS | {"more": "x" * 200_000})
    write(tmp_path / "e.jsonl", MATHS | {"more": int("9" * 4000)})
    found = resolved(tmp_path)
    assert (set(dialects(found).values()), found.notes) == ({"gsm8k"}, ())


def test_a_file_without_documents_is_read_as_messages_with_a_note(tmp_path):
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "blank.jsonl").write_bytes(b" \r\n\n\t")
    found = resolved(tmp_path)
    assert (set(dialects(found).values()), found.notes) == ({"messages"}, ())
    (tmp_path / "broken.jsonl").write_bytes(b"{\n" * 99)
    write(tmp_path / "long.jsonl", MATHS | {"more": "x" * (1 << 20)}, MATHS)
    found = resolved(tmp_path)
    assert set(dialects(found).values()) == {"messages"}
    (note,) = found.notes
    assert "at the start of broken.jsonl, long.jsonl is JSON" in note
    assert "taken to be 'messages'; set dialect" in note


@pytest.mark.parametrize(("codec", "suffix"), [("gzip", "gz"), ("zstd", "zst")])
def test_the_start_of_a_compressed_file_is_decoded(tmp_path, codec, suffix):
    rng = random.Random(1)
    lines = json_lines([MATHS, *(rng.randbytes(2000).hex() for _ in range(99))])
    stored = compressed(lines, codec)
    assert len(stored) > 1 << 16
    (tmp_path / f"whole.jsonl.{suffix}").write_bytes(stored)
    (tmp_path / f"cut.jsonl.{suffix}").write_bytes(stored[: len(stored) // 2])
    found = resolved(tmp_path)
    assert (list(dialects(found).values()), found.notes) == (["gsm8k"] * 2, ())
