"""The work of a worker on a slice: files are read back before the record is written."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from nanotok_ray.errors import SampleCheckError, TransientIOError
from nanotok_ray.job import TokenizeWork, tokenize_work
from nanotok_ray.shards import ShardWriter
from nanotok_ray.sources import SliceReading, make_plan
from nanotok_ray.storage import LocalStore
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import recipe, shard_settings, texts, write_corpus


@pytest.fixture
def work(tmp_path):
    write_corpus(tmp_path / "in")
    out, folder = str(tmp_path / "out"), str(tmp_path / "out/tokenizer")
    tokenizer = Tokenizer.train_from_iterator(texts(40, seed=0), vocab_size=320)
    tokenizer.save(folder)
    plan = make_plan(recipe(tmp_path / "in", out))
    settings = shard_settings(tokenizer)
    return TokenizeWork(slice=next(plan.slices()), settings=settings, out=out, tokenizer=folder)


def records(tmp_path):
    return [json.loads(path.read_bytes()) for path in tmp_path.glob("out/records/**/*.json")]


@pytest.mark.parametrize("suffix", [".bin", ".idx"])
def test_files_that_read_back_differently_get_no_record_and_another_attempt(
    work, tmp_path, monkeypatch, suffix
):
    right = LocalStore.create

    @contextmanager
    def lose_a_bit(self, name):
        with right(self, name) as file:
            yield file
        path = self.path(name)
        if name.endswith(suffix) and path.exists():
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "create", lose_a_bit)
        with pytest.raises(TransientIOError, match="reads back otherwise"):
            tokenize_work(work)
    assert records(tmp_path) == []
    tokenize_work(work)
    assert len(records(tmp_path)) == 1


def test_a_slice_that_lost_a_document_gets_no_record(work, tmp_path, monkeypatch):
    right = ShardWriter.write

    def lose_the_first(self, documents):
        cut = {
            name: getattr(documents, name)[1:] for name in ("lengths", "sizes", "rows", "selected")
        }
        right(self, replace(documents, ids=documents.ids[documents.lengths[0] :], **cut))

    monkeypatch.setattr(ShardWriter, "write", lose_the_first)
    with pytest.raises(SampleCheckError, match=r"record \w{16}: \d+ documents in, \d+ out.*a bug"):
        tokenize_work(work)
    assert records(tmp_path) == []


@pytest.mark.parametrize("what", ["bytes_in", "documents_in"])
def test_a_loss_between_reading_and_writing_fails_a_slice(work, tmp_path, monkeypatch, what):
    def one_more(self, name):
        found = object.__getattribute__(self, name)
        return found + 1 if name == what else found

    monkeypatch.setattr(SliceReading, "__getattribute__", one_more)
    reported = "bytes of documents in" if what == "bytes_in" else r"\d documents in"
    with pytest.raises(SampleCheckError, match=reported):
        tokenize_work(work)
    assert records(tmp_path) == []
