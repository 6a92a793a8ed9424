"""Resolving a source: its files in order, with their attributes before they are read."""

import gzip
import os
import pickle
import random
import uuid
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.errors import SourceError
from nanotok_ray.recipe import SourceRecipe
from nanotok_ray.sources import ResolvedSource, read_piece, resolve
from nanotok_ray.sources.stored import check_unchanged
from nanotok_ray.storage import Folder, InputFile, RemoteInput


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path) -> Folder:
    """An empty folder on each kind of storage."""
    if request.param == "local":
        return Folder(str(tmp_path))
    return Folder(f"memory:///{uuid.uuid4().hex}")


def resolve_in(folder: Folder, *paths: str, **fields: object) -> ResolvedSource:
    values = {"name": "web", "kind": "text"} | fields
    return resolve(SourceRecipe(paths=tuple(f"{folder.url}/{path}" for path in paths), **values))


def parquet(texts: list[str], *, rows: int = 2) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"text": texts}), sink, row_group_size=rows)
    return sink.getvalue().to_pybytes()


def write_all(folder: Folder, *names: str, data: bytes = b"") -> None:
    for name in names:
        folder.write_whole(name, data)


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
    write_all(folder, "p/x.parquet", data=parquet(["a"]))

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
    write_all(folder, "a.parquet", data=parquet(["a"]))
    with pytest.raises(SourceError) as caught:
        resolve_in(folder, "")
    for part in ["'web' mixes the formats", "b.jsonl)", "a.parquet)", "source for each format"]:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "data", "fields", "message"),
    [
        ("a.parquet", b"", {}, r"a\.parquet is not a readable parquet file"),
        ("a.parquet", b"PAR1 but not really", {}, r"a\.parquet is not a readable parquet file"),
        ("a.parquet", parquet(["a"]), {"column": "body"}, r"no column 'body'; .* 'text'"),
        ("a.parquet.gz", b"", {}, r"a\.parquet\.gz is a compressed parquet file"),
        ("a.parquet", parquet(["a"]), {"kind": "chat"}, r"no dialect of chat .* 'text'; set"),
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


def test_the_arguments_of_a_worker_can_be_pickled(folder):
    write_all(folder, "a.parquet", data=parquet(["a", "b", "c"]))
    resolved = resolve_in(folder, "a.parquet")
    assert pickle.loads(pickle.dumps(resolved)) == resolved
    piece = resolved.files[0].piece(1, 2)
    assert pickle.loads(pickle.dumps(piece)) == piece


KINDS = {
    "a.parquet": (None, parquet(["one", "two"]), parquet(["one", "six"])),
    "a.jsonl": (None, b'{"text": "one"}\n', b'{"text": "two"}\n'),
    "a.jsonl.gz": (None, gzip.compress(b"{}", mtime=0), gzip.compress(b"[]", mtime=0)),
    "a.txt": ("document", b"one", b"two"),
}


def all_of(folder: Folder, name: str, form: str | None, **options):
    source = SourceRecipe(name="web", kind="text", paths=(folder.join(name),), format=form)
    (file,) = resolve(source).files
    piece = file.piece(0, len(file.layout) or file.size)
    return read_piece(piece, kind="text", column=source.column, **options)


@pytest.mark.parametrize("name", KINDS)
def test_a_replaced_file_of_the_same_size_is_refused(folder, name):
    form, planned, changed = KINDS[name]
    assert len(planned) == len(changed)
    folder.write_whole(name, planned)
    reader = all_of(folder, name, form)
    folder.write_whole(name, changed)
    with pytest.raises(SourceError, match=r"changed .* time \d+, \d+ was planned; run again"):
        list(reader)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "a.txt"])  # read at once
def test_a_file_that_changes_while_it_is_read_is_refused(folder, name, monkeypatch):
    form, content, _ = KINDS[name]
    folder.write_whole(name, content)
    reader = all_of(folder, name, form, batch_documents=1)
    own = RemoteInput.entry

    def entry(file, *, again=False):
        if again:
            folder.write_whole(name, content)
        return own(file, again=again)

    monkeypatch.setattr(RemoteInput, "entry", entry)
    with pytest.raises(SourceError, match="changed since the plan was made"):  # noqa: PT012
        for _ in reader:
            if not folder.url.startswith("memory"):
                os.utime(folder.join(name), ns=(1, 1))


def test_a_footer_other_than_planned_is_refused(folder):
    folder.write_whole("a.parquet", parquet(["one", "two"]))
    (file,) = resolve_in(folder, "a.parquet").files
    piece = replace(file.piece(0, 1), footer_sha256="0" * 64)
    with pytest.raises(SourceError, match=r"a\.parquet changed .* footer .* run again"):
        list(read_piece(piece, kind="text", column="text"))


def test_the_etag_identifies_a_file_or_else_its_time(folder):
    folder.write_whole("a.jsonl", b"{}\n")
    (file,) = resolve_in(folder, "a.jsonl").files
    known = InputFile(path="a", size=3, etag="x", mtime_ns=5)
    check_unchanged(replace(file.piece(0, 3), etag="x", mtime_ns=6), known)
    check_unchanged(replace(file.piece(0, 3), etag=None, mtime_ns=None), known)
    for wrong in ({"etag": "y", "mtime_ns": 5}, {"etag": None, "mtime_ns": 6}, {"size": 4}):
        with pytest.raises(SourceError, match="changed since the plan was made"):
            check_unchanged(replace(file.piece(0, 3), **{"etag": "x", **wrong}), known)
