"""A remote tokenizer's span table is copied once a node, whole, and replaced when it is not."""

import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from nanotok_ray.errors import TokenizerError, TransientIOError
from nanotok_ray.storage import Folder, local_copy
from nanotok_ray.storage.node_copy import cache_folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import texts

NAME = "span_table.bin"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NANOTOK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def remote(tmp_path, cache):
    """Return the URL of a remote folder with a tokenizer and its table."""
    url = f"memory:/{tmp_path}/tokenizer"
    tokenizer = Tokenizer.train_from_iterator(texts(30, seed=1), vocab_size=330)
    tokenizer.save(url)
    tokenizer.write_span_table(url, texts(30, seed=1))
    return url


@pytest.fixture
def fetched(monkeypatch):
    """Return the list of tables that are read whole."""
    urls = []
    read_bytes = Folder.read_bytes

    def note(folder, name):
        if name == NAME:
            urls.append(folder.join(name))
        return read_bytes(folder, name)

    monkeypatch.setattr(Folder, "read_bytes", note)
    return urls


def test_a_remote_table_is_copied_once_and_then_mapped(remote, cache, fetched):
    first, second = Tokenizer.load(remote), Tokenizer.load(remote)
    assert first.span_table_size == second.span_table_size > 0
    assert fetched == [f"{remote}/{NAME}"]
    [copy] = cache.iterdir()
    assert copy.read_bytes() == Folder(remote).read_bytes(NAME)


def test_another_table_gets_another_name(remote, cache):
    before = Tokenizer.load(remote)
    before.write_span_table(remote, ["quite other words"])
    after = Tokenizer.load(remote)
    assert after.span_table_size != before.span_table_size
    assert len(list(cache.iterdir())) == 2


def test_a_copy_that_was_cut_or_changed_is_made_again(remote, cache, fetched):
    size = Tokenizer.load(remote).span_table_size
    [copy] = cache.iterdir()
    data = copy.read_bytes()
    for damaged in (data[:-1], data[:-1] + bytes([data[-1] ^ 1])):
        copy.unlink()
        copy.write_bytes(damaged)
        assert Tokenizer.load(remote).span_table_size == size
        assert copy.read_bytes() == data
    assert len(fetched) == 3


def test_a_remote_table_that_is_damaged_is_refused_by_its_own_name(remote):
    data = Folder(remote).read_bytes(NAME)
    Folder(remote).write_whole(NAME, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(TokenizerError, match=f"{remote}/{NAME} cannot be used"):
        Tokenizer.load(remote)


def test_a_server_that_knows_no_ranges_will_do(remote, cache, monkeypatch):
    cat_file = MemoryFileSystem.cat_file

    def whole(system, path, start=None, end=None):
        return cat_file(system, path)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", whole)
    assert len(Folder(remote).read_start(NAME, 128)) == 128
    assert Tokenizer.load(remote).span_table_size > 0


def test_a_remote_folder_without_a_table_copies_nothing(remote, cache, fetched):
    Folder(remote).remove(NAME)
    assert Tokenizer.load(remote).span_table_size == 0
    assert not fetched


def test_saving_a_remote_tokenizer_removes_the_table_of_another(remote):
    Tokenizer.train_from_iterator(texts(30, seed=1), vocab_size=331).save(remote, overwrite=True)
    assert not Folder(remote).exists(NAME)


@pytest.mark.parametrize("disk_can_lock", [True, False])
def test_all_who_copy_at_once_end_well(remote, cache, fetched, monkeypatch, disk_can_lock):
    def refuse(*_):
        raise OSError("no locks here")

    if not disk_can_lock:
        monkeypatch.setattr(fcntl, "flock", refuse)
    together = Barrier(8)

    def load(_):
        together.wait()
        return Path(local_copy(Folder(remote), NAME, head_bytes=128)).read_bytes()

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(load, range(8)))
    assert len(fetched) == 1 if disk_can_lock else 1 <= len(fetched) <= 8
    assert len(list(cache.iterdir())) == 1
    assert found == {Folder(remote).read_bytes(NAME)}


@pytest.mark.parametrize("change", ["other head", "shorter"])
def test_a_file_replaced_while_it_is_copied_leaves_no_copy(remote, cache, monkeypatch, change):
    data = Folder(remote).read_bytes(NAME)

    read_bytes = Folder.read_bytes

    def replaced(folder, name):
        if name == NAME:
            changed = b"X" + data[1:] if change == "other head" else data[:-1]
            folder.write_whole(name, changed)
        return read_bytes(folder, name)

    monkeypatch.setattr(Folder, "read_bytes", replaced)
    with pytest.raises(TransientIOError, match="replaced"):
        Tokenizer.load(remote)
    assert not list(cache.iterdir())


def test_a_cache_that_cannot_be_written_gives_way_to_the_temporary_files(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("NANOTOK_CACHE_DIR", str(tmp_path / "file/below"))
    assert cache_folder().parent == tmp_path / "tmp"
    monkeypatch.delenv("NANOTOK_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg/nanotok_ray"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home/.cache/nanotok_ray"


def test_without_any_place_for_a_copy_the_tokenizer_works_and_says_so(
    remote, tmp_path, monkeypatch, caplog
):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    monkeypatch.setenv("NANOTOK_CACHE_DIR", str(tmp_path / "file/below"))
    assert Tokenizer.load(remote).span_table_size == 0
    assert f"working without {remote}/{NAME}" in caplog.text
