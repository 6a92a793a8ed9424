"""The report page: its content compared with the output, for any output."""

import json
import math
import re
import shutil
import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanotok_ray.api import prepare, train
from nanotok_ray.cli import main
from nanotok_ray.errors import QuarantineLimitError
from nanotok_ray.formats import REPORT_PAGE_NAME, ROW
from nanotok_ray.job.events import Activity
from nanotok_ray.job.journal import read_journal
from nanotok_ray.loader import open_shards
from nanotok_ray.report import corpus
from nanotok_ray.report.charts import MAX_TICKS, MAX_TIME_TICKS, linear_axis, log_axis, time_axis
from nanotok_ray.report.page import report_page, write_report
from nanotok_ray.report.run import slowest
from nanotok_ray.report.timeline import bars_of, busy_seconds
from nanotok_ray.storage import Folder
from tests.support.executors import InProcess, in_place_of_ray
from tests.support.finished_output import HEADER_BYTES, publish_index
from tests.support.machine_speed import scaled
from tests.support.made_journal import START, Run, demo_run, end, head, write_journal
from tests.support.pages import ReadPage
from tests.support.small_corpus import recipe, write_corpus, write_parquet

FAILED_PART = "could not be made"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished output with a journal, and five bad lines among its chats."""
    root = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch, in_place_of_ray(InProcess()):
        patch.setattr("os.fsync", lambda _: None)
        write_corpus(root / "in")
        with (root / "in/chats/0.jsonl").open("a") as file:
            file.write("{nothing\n" * 5)
        prepare(recipe(root / "in", root / "out", "limits.max_quarantined_share=0.5"))
    write_journal(root / "out", demo_run(40), parts=3)
    return root / "out"


@pytest.fixture
def job(tmp_path, in_process):
    """The recipe of a job that has not run; its output is `tmp_path / "out"`."""
    write_corpus(tmp_path / "in")
    return recipe(tmp_path / "in", tmp_path / "out")


@pytest.fixture(scope="module")
def page(finished):
    return page_of(finished)


@pytest.fixture
def out(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "out")
    return tmp_path / "out"


def page_of(out, work=None) -> ReadPage:
    page = ReadPage(report_page(Folder(str(out)), work))
    assert FAILED_PART not in page.page
    return page


def manifest_of(out):
    return json.loads((out / "manifest.json").read_text())


def test_the_header_states_what_ran_on_what_and_how_it_ended(page):
    events = demo_run(40)
    for word in ("jobs/recipes/demo.toml", "2026-09-21 14:13:20 UTC", "02000000", "head-0"):
        assert word in page.text
    assert page.figures["CPUs"] == "8"
    assert page.figures["nodes"] == "2"
    assert f"took {events[-1]['seconds']:.2f} s" in page.text
    assert ("span", {"class": "badge good"}) in page.attributes
    assert '[output]\npath = "build/demo/out"' in page.text


def test_key_figures_and_sources_equal_those_of_the_shards(finished, page):
    totals = manifest_of(finished)["totals"]
    documents = tokens = 0
    for source, split in (("web", "train"), ("web", "val"), ("chats", "train")):
        name, shards = f"{source}/{split}", open_shards(str(finished), split=split, source=source)
        row = next(row for row in page.rows if row[0] == name)
        count = sum(len(ids) for ids in shards)
        ratio = totals[name]["text_bytes"] / count
        assert (row[2], row[3], row[5]) == (f"{ratio:.3f}", f"{len(shards):,}", f"{count:,}")
        documents, tokens = documents + len(shards), tokens + count
    assert page.figures["documents"] == f"{documents:,}"
    assert page.row("all", "")[5] == f"{tokens:,}"
    assert page.figures["vocabulary"] == "350"


def test_lengths_of_documents_equal_those_of_the_shards(finished, page):
    splits = [open_shards(str(finished), split=split, source="web") for split in ("train", "val")]
    lengths = np.concatenate([[len(ids) for ids in shards] for shards in splits])
    row = next(row for row in page.rows if row[0] == "web" and len(row) == 8)
    middle = np.quantile(lengths, 0.5)
    expected = (f"{len(lengths):,}", f"{middle:,.0f}", f"{lengths.max():,}")
    assert (row[1], row[4], row[-1]) == expected
    assert "All documents of train and val." in page.text
    bars = [title for _, title in page.shapes if re.search(r" documents?, ", title)]
    shown = sum(int(title.split(": ")[1].split()[0].replace(",", "")) for title in bars)
    assert shown == manifest_of(finished)["totals"]["all"]["documents"]["out"]


def test_stages_slices_and_failures_equal_those_of_the_journal(page):
    events = demo_run(40)
    slices = [each for each in events if each["event"] == "slice"]
    attempts = [each for each in events if each["event"] == "attempt"]
    assert attempts
    ends = {each["name"]: each["seconds"] for each in events if each["event"] == "stage end"}
    for stage in ("count", "tokenize"):
        own = [each for each in slices if each["stage"] == stage]
        rate = sum(each["num_bytes"] for each in own) / ends[stage] / 1e6
        row = page.row(stage, "")
        assert (row[2], row[4], row[5]) == (f"{ends[stage]:.2f} s", f"{rate:.1f} MB/s", "40")
        bars = [title for _, title in page.shapes if title.startswith(f"{stage}: ")]
        assert len(bars) == len(own)
        for each in own:
            name = each["name"].removeprefix(stage).strip()
            assert any(f": {name}, " in title for title in bars)
    marks = [kind for kind, title in page.shapes if title.startswith("failed attempt after")]
    assert marks == ["x2"] * len(attempts)
    assert "x1" not in {kind for kind, _ in page.shapes}  # no slice has failed in the end
    again = [kind for kind, _ in page.shapes if kind.endswith(" again")]
    assert len(again) == sum(each["attempts"] > 1 for each in slices)
    assert "failed attempt" in page.text
    assert "2 files were added since the plan was frozen" in page.text


def test_the_slowest_slices_took_longest_for_their_size(finished, page):
    slices = read_journal(Folder(str(finished))).slices
    usual = {
        stage: float(np.median([s.seconds / s.num_bytes for s in slices if s.stage == stage]))
        for stage in ("count", "tokenize")
    }
    by_hand = sorted(slices, key=lambda each: -each.seconds / each.num_bytes / usual[each.stage])
    found = slowest(slices)
    assert [own.name for _, own in found] == [own.name for own in by_hand[:10]]
    assert found[0][0] > 3
    row = page.row(by_hand[0].name.partition(" ")[2], by_hand[0].stage)
    assert row[6] == f"{found[0][0]:.2f}\u00d7"


def test_the_vocabulary_and_its_curve_equal_those_of_the_training_report(finished, page):
    report = json.loads((finished / "tokenizer/report.json").read_text())
    last = report["curve"][-1]
    assert page.row(f"{last['merges']:,}", f"{last['vocab_size']:,}")[2] == f"{last['tokens']:,}"
    title = f"{last['merges']:,} merges: {last['bytes_per_token']:.3f} bytes per token"
    assert any(reported.startswith(title) for _, reported in page.shapes)
    assert page.figures["merges"] == f"{len(report['merges']['count']):,}"
    assert page.row("1", "··" if report["merges"]["token"][0] == "  " else "")  # two spaces first


def test_tokens_of_several_words_are_shown_and_the_growth_ends_before_them(tmp_path, job):
    key = "tokenizer.superword={from = 320, max_words = 3}"
    prepare(recipe(tmp_path / "in", tmp_path / "out", key, "tokenizer.vocab_size=1200"))
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    page = page_of(tmp_path / "out")
    assert page.figures["tokens of several words"] == "from 320 ids on, at most 3 words"
    tokens = [token for token in report["merges"]["token"] if re.search(r"\S +\S", token)]
    share = f"{len(tokens) / (len(report['merges']['token']) + 256):.1%} of the vocabulary"
    assert page.figures["share of tokens of several words"] == share
    assert tokens
    first, last = report["superwords"]["first_merges"], report["curve"][-1]
    assert first == last["merges"] < len(report["merges"]["token"])
    grown = f"{last['bytes_per_token']:.3f} bytes per token after {first} merges"
    assert grown in page.page
    assert "Ends where tokens of several words begin." in page.text


def test_quarantined_documents_are_counted_first_and_listed_with_their_place(finished, page):
    documents = manifest_of(finished)["totals"]["all"]["documents"]
    numbers = f"{documents['out']:,} of {documents['in']:,} documents were written"
    assert numbers in page.text
    assert f"{documents['quarantined']:,} were quarantined" in page.text
    row = next(row for row in page.rows if row[0] == "chats/train" and "JSON" in row[1])
    assert row[-1] == "5"
    assert "0.jsonl, byte " in row[2]
    files = (finished / "quarantine").rglob("*.jsonl")
    entries = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    assert row[3] in {entry["reason"] for entry in entries}


def test_an_output_elsewhere_has_the_same_page_and_leaves_no_copies(
    finished, page, tmp_path, monkeypatch
):
    monkeypatch.setenv("NANOTOK_CACHE_DIR", str(tmp_path / "copies"))
    monkeypatch.setattr(corpus, "MAX_REMOTE_READ", corpus.MAX_READ)
    here, there = Folder(str(finished)), Folder("memory://report-page")
    for name in here.list():
        there.write_bytes(name, here.read_bytes(name))
    assert page.page == report_page(there).replace(there.url, here.url)
    assert not (tmp_path / "copies").exists()


def test_masks_equal_those_of_the_shards(finished, page):
    shards = open_shards(str(finished), source="chats")
    masks = np.concatenate([shards.mask(number) for number in range(len(shards))])
    row = next(row for row in page.rows if row[0] == "chats/train" and len(row) == 6)
    assert row[2:5] == [f"{masks.mean():.1%}", f"{masks.sum():,}", f"{len(masks):,}"]
    by_role = {row[1]: row for row in page.rows if row[0] == "chats" and len(row) == 5}
    assert sum(int(row[4].replace(",", "")) for row in by_role.values()) == len(masks)
    assert by_role["user"][3] == "0.0%"
    assert by_role["python"][3] == "100.0%"
    assert by_role["<|bos|>"][4] == f"{len(shards):,}"


def test_examples_are_documents_of_the_output(finished, page):
    shards = open_shards(str(finished), source="web")
    lengths = [len(ids) for ids in shards]
    number = next(number for number, length in enumerate(lengths) if length >= 100)
    reported = [int(own["data-i"]) for _, own in page.attributes if "data-i" in own]
    first = shards[number][:300].tolist()
    assert reported[: len(first)] == first
    assert len(reported) <= 600


def test_the_same_files_yield_the_same_page(out, tmp_path, capsysbinary):
    first = report_page(Folder(str(out)))
    size = write_report(Folder(str(out)))
    written = (out / REPORT_PAGE_NAME).read_bytes()
    assert written == first.encode()
    assert len(written) == size
    (out / REPORT_PAGE_NAME).write_text("old")  # the report does not depend on itself
    assert main(["report", str(out)]) == 0
    assert (out / REPORT_PAGE_NAME).read_bytes() == written
    assert main(["report", str(out), "--output", str(tmp_path / "own.html")]) == 0
    assert (tmp_path / "own.html").read_bytes() == written
    capsysbinary.readouterr()
    assert main(["report", str(out), "--output", "-"]) == 0
    assert capsysbinary.readouterr().out == written


def test_a_page_contains_no_script_and_references_nothing(page):
    assert not {"script", "link", "img", "iframe", "object", "form", "base"} & set(page.tags)
    policy = {"http-equiv": "Content-Security-Policy"}
    assert any(policy.items() <= own.items() for tag, own in page.attributes if tag == "meta")
    for tag, own in page.attributes:
        assert not any(name.startswith("on") or name == "src" for name in own)
        assert own.get("href", "#").startswith("#")
        assert tag != "svg" or own.get("role") == "img"
        assert tag != "th" or own.get("scope") == "col"
    assert "url(" not in page.page
    assert "@import" not in page.page
    assert page.tags.count("svg") == page.tags.count("desc") == 5
    names = [own["id"] for _, own in page.attributes if "id" in own]
    assert len(names) == len(set(names))
    assert {own["href"][1:] for tag, own in page.attributes if tag == "a"} <= set(names)


HOSTILE = (
    "</script><script>alert(1)</script>\"'><b onclick=x>\x00\x07\u202eabc\u2028\ud800</style><!--"
)


def test_hostile_names_reasons_and_texts_remain_text(out):
    events = demo_run(3)
    for event in events:
        for name in ("name", "text", "worker", "cause", "stage", "command", "host", "recipe"):
            if name in event:
                event[name] = f"{event[name]}{HOSTILE}"
    events[-1] |= {"status": "failed", "error": HOSTILE * 100}
    write_journal(out, events, run=2)
    manifest = manifest_of(out)
    for own in manifest["totals"].values():
        own["quarantined"] = {HOSTILE: 3}
    (out / "manifest.json").write_text(json.dumps(manifest))
    clean = page_of(out)
    assert not {"script", "b", "style"} & set(clean.tags[clean.tags.index("body") :])
    assert clean.page.count("</style>") == 1
    for character in "\x00\x07\u202e\u2028\ud800":
        assert character not in clean.page
    assert "U+202E" in clean.text
    assert "alert(1)" in clean.text


def test_a_damaged_part_is_reported_in_its_place_and_the_others_stay(out):
    report = json.loads((out / "tokenizer/report.json").read_text())
    report["merges"] = {"count": "none"}
    (out / "tokenizer/report.json").write_text(json.dumps(report))
    (out / "run/summary.json").write_text("[1")
    page = ReadPage(report_page(Folder(str(out))))
    assert page.page.count(FAILED_PART) == 1
    assert "run/summary.json" in page.text
    assert page.figures["documents"]
    assert page.row("all", "")


def test_a_failed_run_shows_its_error_first(out):
    (out / "manifest.json").unlink()
    (out / "run/summary.json").unlink()
    events = demo_run(10)
    broken = next(each for each in events if each["event"] == "slice")
    broken |= {"error": "SourceError: the file is gone", "num_bytes": 0}
    last = end(START + 9, "failed", "SliceError: 1 of 10 failed")
    write_journal(out, [*events[:-1], last], run=2)
    page, name = page_of(out), broken["name"].partition(" ")[2]
    assert page.text.index("SliceError: 1 of 10 failed") < page.text.index("Stages")
    assert "There is no manifest" in page.text
    assert ("span", {"class": "badge bad"}) in page.attributes
    assert "SourceError: the file is gone" in page.row("count", name)[3]
    assert any(kind == "x1" and name in title for kind, title in page.shapes)
    assert "these are the entries so far" in page.text
    assert page.figures["vocabulary"] == "350"


def test_an_unfinished_run_with_a_lost_segment_is_reported(out):
    write_journal(out, demo_run(20)[:-1], run=2)
    assert "not finished" in page_of(out).text  # despite the manifest
    (out / "manifest.json").unlink()
    write_journal(out, demo_run(20)[:-12], run=2, parts=4)
    (out / "run/journal/000002-000001.jsonl").unlink()
    page = page_of(out)
    assert "not finished" in page.text
    assert "last update after" in page.text
    assert "1 segments of the journal are missing" in page.text
    assert "did not end" in page.row("tokenize", "")[2]


def test_a_run_without_work_shows_the_previous_one(out):
    run = Run()
    run.plain("verify", 7.25)
    write_journal(out, [*run.events, end(run.now, "done")], run=2)
    page = page_of(out)
    assert "those of run 1" in page.text
    assert page.row("tokenize", "")[5] == "40"
    assert page.row("verify", "")[2] == "7.25 s"
    assert sum(row[0] == "verify" for row in page.rows) == 1


def test_an_output_without_a_journal_has_the_times_of_its_summary(out):
    shutil.rmtree(out / "run/journal")
    page = page_of(out)
    stages = json.loads((out / "run/summary.json").read_text())["stages"]
    assert page.row("tokenize", "")[2] == f"{stages['tokenize']['seconds']:.2f} s"
    assert "No journal of a run is here" in page.text
    assert "Timeline" not in page.text


def test_a_tokenizer_alone_is_reported(job, tmp_path):
    assert "There is no output here" in page_of(tmp_path / "out").text
    train(job)
    write_journal(tmp_path / "out", [head(command="nanotok train"), end(START + 3)])
    page = page_of(tmp_path / "out")
    assert "The tokenizer is there." in page.text
    assert "done" in page.text
    assert page.figures["vocabulary"] == "350"
    assert "Growth of the vocabulary" in page.text
    assert "Sources" not in page.text


def test_an_output_without_chats_and_val_has_no_masks(tmp_path, job):
    only = recipe(tmp_path / "in", tmp_path / "out", "source.web.split=train")
    text = tuple(each for each in only.sources if each.name == "web")
    prepare(only.model_copy(update={"sources": text}))
    page = page_of(tmp_path / "out")
    assert "Masks" not in page.text
    assert page.row("web/train", "")


def test_a_job_writes_the_page_at_its_end_and_again_only_if_it_is_missing(tmp_path, job):
    page = tmp_path / "out" / REPORT_PAGE_NAME
    prepare(job)
    for words in (FAILED_PART, "not finished", "last update"):
        assert words not in page.read_text()
    page.write_text("old")
    assert prepare(job).values["status"] == "unchanged"
    assert page.read_text() == "old"

    def stop(event):
        if isinstance(event, Activity) and event.text == "writing the report page":
            raise KeyboardInterrupt

    (tmp_path / "out/manifest.json").unlink()
    with pytest.raises(KeyboardInterrupt):
        prepare(job, on_event=stop)
    assert not page.exists()
    assert prepare(job).values["status"] == "unchanged"
    documents = manifest_of(tmp_path / "out")["totals"]["all"]["documents"]["out"]
    assert (
        f"All {documents:,} documents were written, their files checked, and " in page.read_text()
    )


def test_a_job_succeeds_without_the_page(tmp_path, job):
    (tmp_path / "out" / REPORT_PAGE_NAME).mkdir(parents=True)  # no file can replace it
    notes = []
    summary = prepare(job, on_event=lambda event: notes.append(getattr(event, "text", "")))
    assert summary.values["status"] == "done"
    [note] = [note for note in notes if "the report page was not written" in note]
    assert "IsADirectoryError" in note
    assert "nanotok report" in note


def test_a_job_that_fails_while_counting_shows_the_quarantine(tmp_path, job):
    write_parquet(tmp_path / "in/text/shard_00001.parquet", [*["good"] * 30, *[None] * 20])
    with pytest.raises(QuarantineLimitError):
        prepare(job)
    written = (tmp_path / "out" / REPORT_PAGE_NAME).read_text()
    assert '<span class="badge bad">failed</span>' in written
    assert "documents were quarantined" in written
    rows = [row for row in page_of(tmp_path / "out").rows if row[0] == "web/train"]
    assert not rows  # a folder that only the journal names is not read
    page = page_of(tmp_path / "out", Folder(str(tmp_path / "out-work")))
    (row,) = [row for row in page.rows if row[0] == "web/train"]
    assert row[1:3] == ["field is null", "shard_00001.parquet, row 31"]
    assert row[-1] == "20"
    assert f"{tmp_path}/out-work/counts" in page.text
    paths = f'source.web.paths=["{tmp_path}/in/text/shard_00000.parquet"]'
    share = "limits.max_quarantined_share=1.0"
    prepare(recipe(tmp_path / "in", tmp_path / "out", paths, share))
    assert "No document was quarantined." in page_of(tmp_path / "out").text


@pytest.mark.parametrize(("workers", "hosts", "lanes"), [(64, 8, 8), (3000, 100, 48)])
def test_many_slices_have_a_small_page(tmp_path, workers, hosts, lanes):
    slices = 3000 if workers > 1000 else 20_000
    write_journal(tmp_path, demo_run(slices, workers=workers, hosts=hosts), parts=4)
    start = time.process_time()
    page = page_of(tmp_path)
    assert time.process_time() - start < scaled(10)
    assert len(page.page) < 2_000_000
    assert "the picture is binned" in page.text
    assert f"{2 * slices:,} slices on" in page.text
    busy = [title for _, title in page.shapes if "% busy" in title]
    assert len({title.split(":")[0] for title in busy}) == lanes


def test_bins_contain_all_the_work(tmp_path):
    write_journal(tmp_path, demo_run(3000, workers=12, hosts=3))
    journal = read_journal(Folder(str(tmp_path)))
    bars, width = bars_of(journal)
    workers = sorted({bar.slice_.worker for bar in bars})
    busy = busy_seconds(bars, [workers[:5], workers[5:]], ["count", "tokenize"], width)
    total = sum(bar.ended - bar.began for bar in bars)
    assert math.isclose(busy.sum(), total, rel_tol=1e-9)
    assert math.isclose(total, sum(each.seconds for each in journal.slices), rel_tol=1e-6)


def test_a_page_of_many_shards_takes_seconds(out):
    """200,000 rows of shards.idx, which repeat those of the existing files."""
    count, data = 200_000, (out / "shards.idx").read_bytes()
    rows = np.frombuffer(data, ROW, int.from_bytes(data[16:24], "little"), HEADER_BYTES)
    strings = data[HEADER_BYTES + rows.nbytes :]
    many = rows[np.arange(count) * len(rows) // count]
    header = data[:16] + count.to_bytes(8, "little") + len(strings).to_bytes(8, "little")
    publish_index(out, header + many.tobytes() + strings)
    manifest = manifest_of(out)
    manifest["totals"]["web/train"]["quarantined"] = {"never seen": 1}
    (out / "manifest.json").write_text(json.dumps(manifest))
    start = time.process_time()
    page = page_of(out)
    assert time.process_time() - start < scaled(20)  # 4 s on a quiet machine
    assert "A sample: " in page.text


numbers = st.floats(min_value=1e-3, max_value=1e9)


@given(value=numbers, low=st.sampled_from([0.0, 1.0]))
@example(value=0.0, low=0.0)
def test_a_linear_axis_ends_at_a_round_tick_that_is_at_least_the_value(value, low):
    axis = linear_axis(low + value, low=low)
    ticks = [*axis.ticks]
    assert len(ticks) <= MAX_TICKS
    assert ticks == sorted(set(ticks))
    assert (ticks[0], ticks[-1]) == (axis.low, axis.high) == (low, max(ticks))
    assert axis.high >= (low + value) * (1 - 1e-6)
    assert value == 0 or axis.high - low <= 2.5 * value
    assert [axis.position(at) for at in (low - 1, low, axis.high, 2e9)] == [0, 0, 1000, 1000]


@given(seconds=numbers)
def test_ticks_of_times_are_in_order_and_within_the_axis(seconds):
    axis = time_axis(seconds, name="")
    ticks = [*axis.ticks]
    assert 1 <= len(ticks) <= MAX_TIME_TICKS
    assert ticks == sorted(set(ticks))
    assert all(0 <= tick <= seconds for tick in ticks)


@given(high=st.floats(min_value=2, max_value=1e12))
def test_ticks_of_logarithmic_axes_are_1_2_or_5_of_a_decade(high):
    axis = log_axis(high, name="")
    assert 2 <= len(axis.ticks) <= MAX_TICKS
    for tick in axis.ticks:
        leading = tick / 10 ** math.floor(math.log10(tick) + 1e-9)
        assert min(abs(leading - each) for each in (1, 2, 5)) < 1e-6
        assert 0 <= axis.position(tick) <= 1000


def test_the_start_is_that_of_the_run_even_if_its_head_is_rewritten(out):
    events = demo_run(10)
    write_journal(out, [events[0], *events[1:9], head(at=START + 5), *events[9:]], run=2)
    assert "started 2026-09-21 14:13:20 UTC" in page_of(out).text
    write_journal(out, [head(at=START + 5), *events[1:-1]], run=3)
    assert "started 2026-09-21 14:13:20 UTC" in page_of(out).text
