"""Jobs that cannot do everything: bad input, a full disk, skipped slices."""

import errno
import gzip
import json
import os
import random
import re
import shutil
import stat
import subprocess
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.api import prepare, train
from nanotok_ray.cli import main
from nanotok_ray.errors import QuarantineLimitError, SliceError, SourceError
from nanotok_ray.job.bad_documents import give_up_after
from nanotok_ray.job.events import SliceEnded, StageStarted
from nanotok_ray.job.work import count_work, tokenize_work
from nanotok_ray.recipe import LimitsRecipe, parse_recipe
from nanotok_ray.shards import quarantine_name, verify_output
from nanotok_ray.shards.settings import shard_key
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from tests.support.executors import Replacing, in_place_of_ray
from tests.support.run_job import run
from tests.support.s3_server import BUCKET, s3_behind_a_proxy
from tests.support.small_corpus import RECIPE, contents, recipe, write_corpus, write_parquet


def refused(job):
    """Run a job that is refused; return the error and the events."""
    events = []
    with pytest.raises(QuarantineLimitError) as caught:
        prepare(job, on_event=events.append)
    return str(caught.value), events


def test_counting_stops_within_a_slice_and_lists_what_was_read(corpus, out):
    write_parquet(corpus / "text/shard_00001.parquet", [None] * 30_000, row_group_size=30_000)
    reported, events = refused(recipe(corpus, out))
    pattern = (
        r"count stopped early: all ([\d,]+) documents that were read of 1 slice were quarantined, "
        r"more than limits\.max_quarantined_share = 0\.001 allows of the whole input; the first is "
        r"source 'web', shard_00001\.parquet, row 1: field is null: 'text'; see (\S+), correct"
    )
    number, listed = re.fullmatch(f"{pattern}.*", reported).groups()
    assert 10_000 <= int(number.replace(",", "")) < 12_000
    assert len(Path(listed).read_text().splitlines()) == int(number.replace(",", ""))
    assert not Path(listed.replace(".quarantine.jsonl", ".json")).exists()
    assert not any(isinstance(each, StageStarted) and each.stage == "learn" for each in events)
    write_parquet(corpus / "text/shard_00001.parquet", ["good"] * 40)
    assert prepare(recipe(corpus, out)).values["quarantined"] == {}


def test_counting_stops_after_many_slices_that_are_entirely_bad(corpus, out):
    path = corpus / "text/lines.jsonl"
    path.write_text('{"body": "a"}\n' * 40_000)
    (corpus / "text/zero.jsonl").write_text('{"text": "good"}\n')
    job = recipe(
        *(corpus, out, f'source.web.paths=["{corpus}/text/*.jsonl"]'),
        *("limits.slice_bytes=28000", "limits.max_quarantined=100"),
    )
    slices = [each for each in make_plan(job).slices(split="train") if each.source == "web"]
    reported, events = refused(job)
    assert re.match(
        r"count stopped early: all 10,000 documents that were read of 5 slices were quarantined, "
        r"more than limits\.max_quarantined_share = 0\.001 or limits\.max_quarantined = 100 allows",
        reported,
    )
    assert "source 'web', lines.jsonl, line " in reported
    assert len(slices) > 15
    assert sum(isinstance(each, SliceEnded) for each in events) == 4


def test_tokenizing_stops_within_a_slice(corpus, out, tmp_path):
    prepare(recipe(corpus, tmp_path / "first"))
    path, good = corpus / "chats/9.jsonl", corpus / "chats/0.jsonl"
    path.write_text('{"messages": []}\n' * 15_000)
    job = recipe(
        *(corpus, out, f"tokenizer.path={tmp_path}/first/tokenizer"),
        *("limits.slice_bytes=1000000", f'source.chats.paths=["{path}", "{good}"]'),
    )
    reported, _ = refused(job)
    assert reported.startswith(
        "tokenize stopped early: all 10,240 documents that were read of 1 slice"
    )
    place = "source 'chats', 9.jsonl, line 1, read as messages: the conversation has no messages"
    assert place in reported
    (listed,) = (out / "quarantine/chats/train").iterdir()
    assert str(listed) in reported
    assert len(listed.read_text().splitlines()) == 10_240
    assert not list((out / "records").rglob("9-*.json"))


def test_inputs_within_the_limits_are_never_stopped_and_have_the_same_bytes(corpus, out, tmp_path):
    write_parquet(corpus / "text/shard_00001.parquet", [None] * 12_000, row_group_size=12_000)
    allowing = ("limits.max_quarantined_share=0.998", "limits.max_quarantined=12000")
    prepare(recipe(corpus, out, *allowing))
    prepare(recipe(corpus, tmp_path / "other", "limits.max_quarantined_share=1.0"))
    assert contents(out) == contents(tmp_path / "other")
    listed = (out / "quarantine").rglob("*.jsonl")
    assert sum(len(path.read_text().splitlines()) for path in listed) == 12_000


def slices_of(root, path, *overrides):
    """Return the slices of a source with one file."""
    write_corpus(root / "in")
    job = recipe(root / "in", root / "out", f"source.web.paths={path}", *overrides)
    return [each for each in make_plan(job, with_sample=False).slices() if each.source == "web"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (LimitsRecipe(max_quarantined_share=1.0), None),
        (LimitsRecipe(max_quarantined_share=1.0, max_quarantined=5), 10_000),
        (LimitsRecipe(max_quarantined_share=1.0, max_quarantined=50_000), 50_001),
        (LimitsRecipe(), 10_000),
        (LimitsRecipe(max_quarantined_share=0.5), 100_001),
        (LimitsRecipe(max_quarantined_share=0.5, max_quarantined=70_000), 70_001),
    ],
    ids=str,
)
def test_enough_bad_documents_prove_that_the_limits_cannot_be_kept(tmp_path, limits, expected):
    path = tmp_path / "in/text/a.parquet"
    write_parquet(path, ["good"] * 100_000, row_group_size=50_000)
    assert give_up_after(limits, slices_of(tmp_path, path)) == expected


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9])
def test_short_documents_within_the_limits_are_accepted(tmp_path, share):
    """As many bad lines as the limit allows among good ones, far shorter than real documents."""
    good = 50_000
    bad = int(share * good / (1 - share))
    assert bad <= share * (good + bad)
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text":"{"x" * 52}"}}\n' * good + "x\n" * bad)
    slices = slices_of(tmp_path, path)
    assert give_up_after(LimitsRecipe(max_quarantined_share=share), slices) > bad


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_a_gigabyte_of_json_lines_stops_early_compressed_or_not(tmp_path, suffix):
    path = tmp_path / f"a.jsonl{suffix}"
    with path.open("wb") as file:
        file.truncate(10**9)  # no byte of it is read
    slices = slices_of(tmp_path, path, "limits.slice_bytes=256MiB")
    assert 10_000 <= give_up_after(LimitsRecipe(), slices) < 100_000


@pytest.fixture
def disk(monkeypatch):
    """Return a disk that is full after a number of bytes; small files such as leases still fit."""

    class Disk:
        free = 1 << 60

        def sync(self, descriptor):
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_size > 1000:
                if status.st_size > self.free:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self.free -= status.st_size

    disk = Disk()
    monkeypatch.setattr("os.fsync", disk.sync)
    return disk


@pytest.fixture
def path(corpus, tmp_path):
    """Write the recipe of the small corpus."""
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(root=corpus, out=tmp_path / "out"))
    return path


def test_a_job_with_a_full_disk_reports_one_line_and_resumes(corpus, path, tmp_path, disk, capsys):
    prepare(recipe(corpus, tmp_path / "whole"))
    written, stages = (1 << 60) - disk.free, set()
    for part in range(12):
        disk.free = written * part // 12
        capsys.readouterr()
        code = main(["prepare", str(path)])
        captured = capsys.readouterr()
        if code == 0:
            break
        line = captured.err.splitlines()[-1]
        assert code == 5
        assert line.startswith(f"nanotok: error: {tmp_path}/out")
        assert "its disk is full" in line
        assert "Traceback" not in captured.err
        assert json.loads(captured.out)["status"] == "failed"
        stages.add(Path(line.split()[2]).relative_to(tmp_path).parts[0:2])
    assert code == 0
    assert len(stages) > 2
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def planned(capsys, path, *arguments):
    capsys.readouterr()
    assert main(["plan", str(path), *arguments]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out)["estimate"]["space"], captured.err


def test_plan_and_doctor_compare_the_size_of_the_output_with_the_free_space(
    corpus, path, tmp_path, capsys, monkeypatch
):
    ([space], text) = planned(capsys, path)
    needed = space["needed"]
    assert space["folder"] == str(tmp_path / "out")
    assert space["free"] > needed > 0
    assert f"space       {tmp_path}/out: about " in text
    assert "only" not in text
    prepare(recipe(corpus, tmp_path / "whole"))
    shards = sum(file.stat().st_size for file in (tmp_path / "whole").glob("*/*/*.bin"))
    assert shards / 3 < needed < 5 * shards
    more = planned(capsys, path, "--set", 'output.layouts=["llmc"]')[0][0]
    assert more["needed"] > needed
    usage = shutil.disk_usage(tmp_path)
    for free, status in ((2 * needed, "ok"), (needed // 2, "warn"), (100, "warn")):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: usage._replace(free=free))
        main(["doctor", str(path)])
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "  space " in line]
        assert line.startswith(status)
        assert f"{tmp_path}/out: about " in line
    ([space], text) = planned(capsys, path)
    assert space["free"] == 100
    assert "only 100 bytes free; free some space or choose another folder" in text
    path.write_text(RECIPE.format(root=corpus, out=tmp_path / "whole"))
    assert planned(capsys, path)[0][0]["needed"] == 0


def test_a_full_temporary_folder_prevents_ray_with_one_line(out, tmp_path, capsys, monkeypatch):
    write_corpus(tmp_path / "in")
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(root=tmp_path / "in", out=out))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=5000))
    monkeypatch.setenv("RAY_TMPDIR", "/tmp/for-ray")
    assert main(["prepare", str(path)]) == 5
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert "/tmp/for-ray/ray needs at least 1.0 MB" in line
    assert "(5.0 kB free); free some space there, or set RAY_TMPDIR" in line


@pytest.mark.ray
@pytest.mark.usefixtures("shared_ray")
def test_workers_and_driver_handle_a_small_disk(tmp_path, capsys):
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(mount)]
    made = subprocess.run(command, check=False, capture_output=True)
    if made.returncode:
        pytest.skip("a small disk is made by mount, which only root may do")
    try:
        write_corpus(tmp_path / "in")
        path = tmp_path / "recipe.toml"
        path.write_text(RECIPE.format(root=tmp_path / "in", out=mount / "out"))
        assert main(["prepare", str(path)]) == 5
        error = capsys.readouterr().err
        assert "its disk is full" in error.splitlines()[-1]
        assert "Traceback" not in error
        subprocess.run(["mount", "-o", "remount,size=40m", str(mount)], check=True)
        assert main(["prepare", str(path)]) == 0
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_stricter_limit_is_compared_with_a_finished_output(corpus, out):
    with (corpus / "chats/0.jsonl").open("a") as file:
        file.write("{bad\n")
    prepare(recipe(corpus, out, "limits.max_quarantined_share=0.5"))
    with pytest.raises(QuarantineLimitError, match=r"limits\.max_quarantined = 0"):
        prepare(recipe(corpus, out, "limits.max_quarantined=0"))
    assert (out / "manifest.json").exists()


def test_a_limit_that_no_source_has_is_noted(corpus, out):
    job = recipe(corpus, out, "limits.max_tokens=4")
    assert not any("limits.max_tokens" in note for note in run(job).notes)
    text = parse_recipe(
        f'[[source]]\nname = "web"\nkind = "text"\npaths = ["{corpus}/text/*.parquet"]\n'
        f'[tokenizer]\nvocab_size = 300\n[output]\npath = "{out}-2"\n[limits]\nmax_tokens = 4\n'
    )
    assert any("limits.max_tokens = 4 has no effect" in note for note in run(text).notes)


def test_an_input_without_documents_is_an_error(corpus, out):
    empty = corpus / "empty"
    empty.mkdir()
    (empty / "a.jsonl").write_bytes(b"\n\n")
    with pytest.raises(SourceError, match="no text to learn a tokenizer from"):
        prepare(recipe(corpus, out, f"source.web.paths={empty}"))


def test_gaps_are_kept_and_reported_or_refused(corpus, out, tmp_path):
    rules = ("limits.max_quarantined_share=1.0", "tokenizer.pattern='[a-z]+'")
    assert prepare(recipe(corpus, out, *rules)).values["quarantined"] == {}
    report = json.loads((out / "tokenizer/report.json").read_text())
    assert report["gaps"] > 100
    strict = recipe(corpus, tmp_path / "strict", *rules, "tokenizer.gaps=error")
    quarantined = prepare(strict).values["quarantined"]
    assert quarantined["cannot be split"] > 100
    assert quarantined.keys() == {"cannot be split"}


def bad_lines():
    """Return lines of which the twenty-first is blank and the next two are bad."""
    lines = [json.dumps({"text": f"good {number}"}) for number in range(30)]
    lines[20:20] = ["", '{"other": 1}', "{"]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("name", "place", "row"),
    [
        ("a.jsonl", "line 22: field is missing: 'text'", 20),
        ("b.jsonl.gz", "line 22: field is missing: 'text'", 20),
        ("c.parquet", "row 10: field is null: 'text'", 9),
    ],
)
def test_counting_names_the_first_bad_document_and_the_file_that_lists_it(
    corpus, out, name, place, row
):
    path = corpus / "own" / name
    write_parquet(path, [*["good"] * 9, *[None] * 20, "good"])
    if ".jsonl" in name:
        path.write_bytes(gzip.compress(bad_lines()) if name.endswith("gz") else bad_lines())
    with pytest.raises(QuarantineLimitError) as caught:
        train(recipe(corpus, out, f"source.web.paths={path}"))
    reported = str(caught.value)
    assert f"the first is source 'web', {name}, {place}" in reported
    (listed,) = re.findall(r"; see (\S+\.quarantine\.jsonl), correct the input or raise", reported)
    assert json.loads(Path(listed).read_text().splitlines()[0])["row"] == row


@pytest.mark.parametrize("learned", [True, False])
def test_truncated_files_are_named_by_counting_and_by_tokenizing(corpus, out, tmp_path, learned):
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
        prepare(recipe(corpus, out, *job))
    reported = str(caught.value)
    assert reported.startswith("2 files are truncated or damaged (limits.max_tails allows 0): ")
    (line,) = re.findall(
        r"source 'web', cut\.jsonl\.gz after line (\d+) and 1 more\. Rep", reported
    )
    read = zlib.decompressobj(wbits=31).decompress(whole[: len(whole) * 2 // 3])
    assert int(line) == read.count(b"\n")
    (listed,) = re.findall(r"listed in (\S+)$", reported)
    assert json.loads(Path(listed).read_text())["file"] == "cut.jsonl.gz"


def test_a_damaged_row_group_is_reported_by_its_first_row(corpus, out):
    path = corpus / "text/shard_00001.parquet"
    table = pa.table({"text": [f"text {number}" for number in range(9)]})
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table, path, row_group_size=3, **options)
    path.write_bytes(path.read_bytes().replace(b"text 4", b"Text 4", 1))
    with pytest.raises(QuarantineLimitError, match=r"'web', shard_00001\.parquet from row 4\. Rep"):
        train(recipe(corpus, out))
    allowing = recipe(corpus, out, "limits.max_tails=1")
    with pytest.raises(QuarantineLimitError, match=r"from row 4: tail: rows 4 to 6 cannot be read"):
        train(allowing)


ALLOWED = "limits.max_skipped_slices=1"


def test_a_failed_slice_fails_the_job_or_is_skipped_by_option_counted_and_retried(
    corpus, out, tmp_path, breaking
):
    fix = breaking([count_work, tokenize_work], ("shard_00001", 0))
    with pytest.raises(SliceError, match="this one never works"):
        prepare(recipe(corpus, out))
    assert not (out / "manifest.json").exists()
    summary, _, notes = run(recipe(corpus, out, ALLOWED))
    assert summary.values["quarantined"] == {"skipped": 1}
    assert summary.values["documents"]["in"] == summary.values["documents"]["out"] + 1
    assert sum("this one never works" in note for note in notes) == 2
    report = json.loads((out / "tokenizer/report.json").read_text())
    [name] = report["skipped_slices"]
    assert "shard_00001-00000" in name
    [listed] = list((out / "quarantine/web/train").iterdir())
    entry = json.loads(listed.read_text())
    assert (entry["file"], entry["reason"]) == ("shard_00001.parquet", "skipped: row groups 0 to 1")
    assert verify_output(Folder(str(out))).passed
    fix()
    summary, _, notes = run(recipe(corpus, out, ALLOWED))
    assert not any("never works" in note for note in notes)
    assert summary.values["quarantined"] == {}
    run(recipe(corpus, tmp_path / "whole", ALLOWED))
    assert contents(tmp_path / "whole").items() <= contents(out).items()


@pytest.mark.xdist_group("s3")
def test_files_of_a_failed_attempt_do_not_prevent_skipping_its_slice(corpus, tmp_path):
    def fail_after_quarantine(work):
        if (work.slice.stem, work.slice.number) != ("shard_00001", 0):
            return tokenize_work(work)
        name = quarantine_name(work.slice, shard_key(work.slice, work.settings))
        Folder(work.out).write_bytes(name, b"what the attempt found\n")
        raise SourceError("this one never works")

    local = f'output.work="{tmp_path}/work"'
    with s3_behind_a_proxy(), in_place_of_ray(Replacing({tokenize_work: fail_after_quarantine})):
        out = Folder(f"s3://{BUCKET}/out")
        summary, *_ = run(recipe(corpus, out.url, ALLOWED, local))
        [name] = out.list("quarantine/")
        listed = json.loads(out.read_bytes(name))
    assert summary.values["quarantined"] == {"skipped": 1}
    assert listed["reason"].startswith("skipped: ")


def test_slices_skipped_in_several_rounds_are_summed(corpus, tmp_path, breaking):
    breaking([count_work], ("shard_00000", 0), ("shard_00001", 0))
    limits = ["limits.max_chars=300", "limits.doc_cap=5", "limits.slice_bytes=1500"]
    with pytest.raises(SliceError, match="web/shard_00001-00000"):
        prepare(recipe(corpus, tmp_path / "one", ALLOWED, *limits))
    two = "limits.max_skipped_slices=2"
    summary, *_ = run(recipe(corpus, tmp_path / "two", two, *limits))
    assert len(summary.values["learned"]["skipped_slices"]) == 2


def test_a_slice_missing_only_in_the_shards_is_retried_with_the_same_tokenizer(
    corpus, out, breaking
):
    fix = breaking([tokenize_work], ("shard_00001", 0))
    first, *_ = run(recipe(corpus, out, ALLOWED))
    assert first.values["quarantined"] == {"skipped": 1}
    fix()
    second, *_ = run(recipe(corpus, out, ALLOWED))
    assert second.values["quarantined"] == {}
    assert second.values["tokenizer_sha256"] == first.values["tokenizer_sha256"]
    assert "count" not in second.values["stages"]
