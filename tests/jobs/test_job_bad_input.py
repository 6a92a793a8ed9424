"""Bad input: a clear error, or a quarantined document with file, position and reason."""

import gzip
import json
import random
import re
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.api import prepare, train
from nanotok_ray.errors import QuarantineLimitError, SourceError
from tests.support.small_corpus import recipe, write_parquet


def test_an_input_without_documents_is_an_error(corpus, tmp_path):
    empty = corpus / "empty"
    empty.mkdir()
    (empty / "a.jsonl").write_bytes(b"\n\n")
    with pytest.raises(SourceError, match="no documents in"):
        prepare(recipe(corpus, tmp_path / "out", f"source.web.paths={empty}"))


def test_gaps_are_kept_and_reported_or_refused(corpus, tmp_path):
    rules = ("limits.max_quarantined_share=1.0", "tokenizer.pattern='[a-z]+'")
    assert prepare(recipe(corpus, tmp_path / "out", *rules)).values["quarantined"] == {}
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    assert report["gaps"] > 100
    strict = recipe(corpus, tmp_path / "strict", *rules, "tokenizer.gaps=error")
    quarantined = prepare(strict).values["quarantined"]
    assert quarantined["cannot be split"] > 100
    assert quarantined.keys() == {"cannot be split"}


def test_counting_names_the_first_bad_document_and_the_file_that_lists_it(corpus, tmp_path):
    write_parquet(corpus / "text/shard_00001.parquet", [*["good"] * 9, *[None] * 20, "good"])
    with pytest.raises(QuarantineLimitError) as caught:
        train(recipe(corpus, tmp_path / "out"))
    reported = str(caught.value)
    assert (
        "the first is source 'web', shard_00001.parquet, row 10: field is null: 'text'" in reported
    )
    (listed,) = re.findall(r"; see (\S+\.quarantine\.jsonl), correct the input or raise", reported)
    assert json.loads(Path(listed).read_text().splitlines()[0])["row"] == 9


def test_lines_are_numbered_from_1_including_blank_lines(corpus, tmp_path):
    folder = corpus / "lines"
    folder.mkdir()
    lines = [json.dumps({"text": f"good {number}"}) for number in range(30)]
    lines[20:20] = ["", '{"other": 1}', "{"]
    for name, pack in (("a.jsonl", bytes), ("b.jsonl.gz", gzip.compress)):
        (folder / name).write_bytes(pack("\n".join(lines).encode()))
        with pytest.raises(QuarantineLimitError, match=rf"'web', {name}, line 22: field is miss"):
            train(recipe(corpus, tmp_path / name, f"source.web.paths={folder}/{name}"))


@pytest.mark.parametrize("learned", [True, False])
def test_truncated_files_are_named_by_counting_and_by_tokenizing(corpus, tmp_path, learned):
    folder = corpus / "lines"
    folder.mkdir()
    texts = ["".join(random.Random(number).choices("abcdefgh ", k=60)) for number in range(999)]
    data = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    whole = gzip.compress(data, mtime=0)
    for name in ("a.jsonl.gz", "cut.jsonl.gz", "other.jsonl.gz"):
        size = len(whole) if name.startswith("a") else len(whole) * 2 // 3
        (folder / name).write_bytes(whole[:size])
    (folder / "z.jsonl.gz").write_bytes(whole)
    job = ["source.web.split=train", f"source.web.paths={folder}", "limits.slice_bytes=100"]
    if learned:
        prepare(recipe(corpus, tmp_path / "first"))
        job.append(f"tokenizer.path={tmp_path}/first/tokenizer")
    with pytest.raises(QuarantineLimitError) as caught:
        prepare(recipe(corpus, tmp_path / "out", *job))
    reported = str(caught.value)
    assert reported.startswith("2 files are truncated or damaged (limits.max_tails allows 0): ")
    (line,) = re.findall(
        r"source 'web', cut\.jsonl\.gz after line (\d+) and 1 more\. Rep", reported
    )
    read = zlib.decompressobj(wbits=31).decompress(whole[: len(whole) * 2 // 3])
    assert int(line) == read.count(b"\n")
    (listed,) = re.findall(r"listed in (\S+)$", reported)
    assert json.loads(Path(listed).read_text())["file"] == "cut.jsonl.gz"


def test_a_damaged_row_group_is_reported_by_its_first_row(corpus, tmp_path):
    path = corpus / "text/shard_00001.parquet"
    table = pa.table({"text": [f"text {number}" for number in range(9)]})
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, path, row_group_size=3, **options)
    path.write_bytes(path.read_bytes().replace(b"text 4", b"Text 4", 1))
    with pytest.raises(QuarantineLimitError, match=r"'web', shard_00001\.parquet from row 4\. Rep"):
        train(recipe(corpus, tmp_path / "out"))
    allowing = recipe(corpus, tmp_path / "out", "limits.max_tails=1")
    with pytest.raises(QuarantineLimitError, match=r"from row 4: tail: rows 4 to 6 cannot be read"):
        train(allowing)
