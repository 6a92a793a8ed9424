"""Planning opens all inputs, and names all unreadable ones."""

import gzip
import importlib

import pyarrow as pa
import pytest

from nanotok_ray.api import prepare
from nanotok_ray.errors import SourceError, TransientIOError
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import read_start
from tests.support.small_corpus import recipe, write_corpus

LOOK = importlib.import_module("nanotok_ray.sources.look")  # also the name of a function


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "in")
    return tmp_path / "in"


def test_up_to_five_unreadable_files_are_named(corpus, tmp_path):
    for number in range(7):
        (corpus / f"text/bad{number}.parquet").write_bytes(b"PAR1 and no footer")
    with pytest.raises(SourceError) as caught:
        make_plan(recipe(corpus, tmp_path / "out"))
    reported = str(caught.value)
    assert "source 'web': 7 of 10 files cannot be used" in reported
    for number in range(5):
        assert f"bad{number}.parquet is not a readable parquet file" in reported
    assert "bad5" not in reported
    assert reported.endswith("and 2 more")


def test_a_single_bad_file_is_reported_in_one_line_with_the_cause(corpus, tmp_path):
    with pytest.raises(SourceError, match="3 of 3 files"):
        make_plan(recipe(corpus, tmp_path / "out", "source.web.column=body"))
    (corpus / "text/bad.parquet").write_bytes(b"")
    with pytest.raises(
        SourceError, match=rf"^{corpus}/text/bad\.parquet is not a readable parquet"
    ):
        make_plan(recipe(corpus, tmp_path / "out"))


def refusing(error):
    """Return a `read_start` that fails for files called refused.jsonl, like missing permissions."""

    def read(url, length):
        if url.endswith("refused.jsonl"):
            raise error
        return read_start(url, length)

    return read


def test_a_job_refuses_a_file_without_permission_before_it_starts(
    corpus, tmp_path, monkeypatch, in_process
):
    (corpus / "chats/refused.jsonl").write_text("[]\n")
    refused = PermissionError(13, "Permission denied")
    monkeypatch.setattr(LOOK, "read_start", refusing(refused))
    with pytest.raises(SourceError, match=r"cannot read .*/refused\.jsonl: Permission denied"):
        prepare(recipe(corpus, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out-work").exists()


def test_a_temporary_storage_failure_is_not_an_unreadable_file(corpus, tmp_path, monkeypatch):
    (corpus / "chats/refused.jsonl").write_text("[]\n")
    failing = refusing(TransientIOError("cannot read refused.jsonl for now"))
    monkeypatch.setattr(LOOK, "read_start", failing)
    with pytest.raises(TransientIOError, match="for now"):
        make_plan(recipe(corpus, tmp_path / "out"))


def test_a_file_with_a_wrong_compression_suffix_gets_a_note(corpus, tmp_path, in_process):
    line = b'[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]\n'
    (corpus / "chats/right.jsonl.gz").write_bytes(gzip.compress(line))
    (corpus / "chats/empty.jsonl.gz").write_bytes(b"")
    skipped = bytes.fromhex("502a4d18 00000000")  # a frame that readers skip can come first
    stored = skipped + pa.compress(line, codec="zstd", asbytes=True)
    (corpus / "chats/right.jsonl.zst").write_bytes(stored)
    assert make_plan(recipe(corpus, tmp_path / "out")).notes == ()
    (corpus / "chats/wrong.jsonl.gz").write_bytes(line)
    (corpus / "chats/wrong.jsonl.zst").write_bytes(gzip.compress(line))
    job = recipe(corpus, tmp_path / "out", "limits.max_tails=2", "limits.max_quarantined_share=1.0")
    (note,) = make_plan(job).notes
    assert "wrong.jsonl.gz is not gzip (it begins b'[{\"r')" in note
    assert "wrong.jsonl.zst is not zstd" in note
    assert "right" not in note
    assert "empty" not in note
    assert sum(prepare(job).values["quarantined"].values()) == 2
