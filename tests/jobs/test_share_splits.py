"""Splits by share, weights, and `min_count`."""

import gzip
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.errors import SliceError, SourceError, TransientIOError
from nanotok_ray.formats import dump
from nanotok_ray.job.events import Advanced, SliceEnded, StageStarted
from nanotok_ray.job.journal import read_journal
from nanotok_ray.job.planning import plan_job
from nanotok_ray.job.tokenize import shard_settings
from nanotok_ray.job.work import tokenize_work
from nanotok_ray.recipe import SPECIAL_TOKENS, parse_recipe
from nanotok_ray.shards import ExpectedSlice, tokenize_slices, verify_output
from nanotok_ray.sources import SliceReading, make_plan, read_slices
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support import reference
from tests.support.executors import Twice, in_place_of_ray
from tests.support.learned import rustbpes_tokens
from tests.support.run_job import run
from tests.support.small_corpus import contents, conversations, plan_of, texts, write_parquet

RECIPE = """
source = [
    {{name = "web", kind = "text", paths = ["{root}/web/*"], split = "share:0.3", id_column = "n"}},
    {{name = "rows", kind = "text", paths = ["{root}/rows/*"], split = "share:0.3"}},
    {{name = "chats", kind = "chat", paths = ["{root}/chats/*"], split = "share:0.3"}},
]
tokenizer.vocab_size = 350
output = {{path = "{out}", work = "{out}-work", layouts = ["raw"]}}

[limits]
slice_bytes = 3000
max_tokens = 60
too_long = "drop"
max_shard_tokens = 400
max_document_bytes = 900
max_quarantined_share = 0.5
max_tails = 1
"""
SPLITS = ("train", "val")


def recipe(root, out, *overrides):
    return parse_recipe(RECIPE.format(root=root, out=out), overrides=overrides)


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture
def corpus(tmp_path, in_process):
    """Write four files of three kinds, one of them compressed, with invalid lines and rows."""
    root = tmp_path / "in"
    rows = [{"text": text, "n": f"u{n}"} for n, text in enumerate(texts(60, seed=1))]
    lines = [json.dumps(row).encode() for row in rows]
    lines[20:20] = [b"oops", b"", b'{"text": 3}', json.dumps({"text": "x" * 1000}).encode()]
    write(root / "web/a.jsonl.gz", gzip.compress(b"\n".join(lines), mtime=0))
    write_parquet(root / "rows/b.parquet", [None, *texts(80, seed=2)], row_group_size=9)
    for number in range(2):
        made = map(json.dumps, conversations(25, seed=number))
        write(root / f"chats/{number}.jsonl", "\n".join([*made, "[]"]).encode())
    return root


@pytest.fixture
def opened(monkeypatch):
    """Count how often each input is opened for reading documents."""
    from nanotok_ray.sources import parquet_pages, stored  # noqa: PLC0415 - patched

    counted = Counter()
    for module in (parquet_pages, stored):

        def count(url, *arguments, right=module.open_input, **options):
            counted[url.rpartition("/")[2]] += 1
            return right(url, *arguments, **options)

        monkeypatch.setattr(module, "open_input", count)
    return counted


def records_of(out):
    return [json.loads(path.read_bytes()) for path in out.glob("records/tokenize/**/*.json")]


def slices_of(job):
    return list(make_plan(job).slices())


def text_bytes(job):
    return sum(each.num_bytes for each in make_plan(job).slices(split="train"))


def run_and_count(job, command, opened):
    """Run a job; return its stages. `opened` then counts what was opened beside planning."""
    opened.clear()
    make_plan(job)
    for_plan = Counter(opened)
    opened.clear()
    stages = run(job, command).stages
    opened.subtract(for_plan)
    return stages


def test_every_byte_equals_that_of_two_passes_and_each_part_is_opened_once(
    corpus, tmp_path, opened
):
    job = recipe(corpus, tmp_path / "out", "output.layouts=[]")
    train(job)
    run_and_count(job, tokenize, opened)
    assert opened["a.jsonl.gz"] == 1
    assert opened["0.jsonl"] == opened["1.jsonl"] > 0
    assert opened["b.parquet"] > 1
    assert opened.total() == sum(len(each.pieces) for each in slices_of(job)) / len(SPLITS)
    assert verify_output(Folder(str(tmp_path / "out"))).passed
    tokenizer = Tokenizer.load(tmp_path / "out/tokenizer")
    apart = Folder(str(tmp_path / "apart"))
    for each in make_plan(job).slices():
        source = next(own for own in job.sources if own.name == each.source)
        settings = shard_settings(job, source, tokenizer)
        [record] = tokenize_slices([each], settings, tokenizer=tokenizer, out=apart)
        expected = ExpectedSlice(slice=each, settings=settings)
        apart.write_bytes(expected.record_name, dump(record))
    expected = contents(tmp_path / "apart")
    own = contents(tmp_path / "out")
    assert {name: own.get(name) for name in expected} == expected
    others = {name for name in own.keys() - expected.keys() if not name.startswith("tokenizer/")}
    assert not any(name.startswith(("web/", "rows/", "chats/", "quarantine/")) for name in others)
    found = records_of(tmp_path / "out")
    assert {row["slice"]["split"] for row in found if row["quarantined"]} == set(SPLITS)
    assert any(len(row["shards"]) > 1 for row in found)
    assert sum(row["other_split"] for row in found) > 100


@pytest.mark.parametrize("lost", SPLITS)
def test_only_the_missing_half_of_a_pair_is_written(corpus, tmp_path, opened, lost):
    job = recipe(corpus, tmp_path / "out")
    prepare(job)
    whole = contents(tmp_path / "out")
    for path in tmp_path.glob(f"out/records/tokenize/web/{lost}/*.json"):
        path.unlink()
    left = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/records/**/*.json")}
    assert run_and_count(job, prepare, opened)["tokenize"] == (1, len(slices_of(job)) - 1)
    assert opened["a.jsonl.gz"] == 1
    assert contents(tmp_path / "out") == whole
    assert {path: path.stat().st_mtime_ns for path in left} == left


def test_plan_and_events_count_the_text_once_and_all_slices(corpus, tmp_path):
    job = recipe(corpus, tmp_path / "out")
    slices, num_bytes = len(slices_of(job)), text_bytes(job)
    announced = plan_job(job, cpus=1, rate=1.0).values
    assert (announced["tokenize"]["todo"], announced["tokenize"]["bytes"]) == (slices, num_bytes)
    seconds = announced["estimate"]["stages"]["tokenize"]["seconds"]
    assert seconds == round(num_bytes / 1e6, 1)
    events = []
    prepare(job, on_event=events.append)
    own = [each for each in events if getattr(each, "stage", "") == "tokenize"]
    started = next(each for each in own if isinstance(each, StageStarted))
    assert (started.todo, started.num_bytes) == (slices, num_bytes)
    last = [each for each in own if isinstance(each, Advanced)][-1]
    assert (last.done, last.todo, last.failed) == (slices, slices, 0)
    ended = [each for each in own if isinstance(each, SliceEnded)]
    assert (len(ended), sum(each.slices for each in ended)) == (slices // 2, slices)
    assert sum(each.estimate for each in ended) == num_bytes
    stages = read_journal(Folder(str(tmp_path / "out"))).stages
    [tokenized] = [each for each in stages if each.name == "tokenize"]
    assert (tokenized.todo, tokenized.done, tokenized.failed) == (slices, slices, 0)


def test_a_failed_pair_is_two_slices(corpus, tmp_path, breaking):
    fix = breaking([tokenize_work], ("0", 0))
    one = ("limits.slice_bytes=9999", "limits.max_skipped_slices=1")
    with pytest.raises(SliceError, match=r"2 of 12 slices failed.*\n.*/train/0-.*/val/0-.*never"):
        prepare(recipe(corpus, tmp_path / "out", *one))
    job = recipe(corpus, tmp_path / "out", one[0], "limits.max_skipped_slices=2")
    assert prepare(job).values["quarantined"]["skipped"] == 2
    assert verify_output(Folder(str(tmp_path / "out"))).passed
    fix()
    assert "skipped" not in prepare(job).values["quarantined"]


def test_a_half_recorded_before_a_failure_is_kept(corpus, tmp_path, monkeypatch):
    right = Folder.write_bytes

    def lose_val(self, name, data, **options):
        if name.startswith("records/tokenize/web/val/") and b'"skipped"' not in data:
            raise TransientIOError("no room for this one")
        right(self, name, data, **options)

    job = recipe(corpus, tmp_path / "out", "limits.max_skipped_slices=2")
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write_bytes", lose_val)
        assert prepare(job).values["quarantined"]["skipped"] == 1
    skipped = [
        row["slice"] for row in records_of(tmp_path / "out") if row["quarantined"].get("skipped")
    ]
    assert [(each["source"], each["split"]) for each in skipped] == [("web", "val")]
    assert "skipped" not in prepare(job).values["quarantined"]


@pytest.mark.parametrize("ends", [1, 2])
def test_repeated_tasks_count_nothing_twice(corpus, tmp_path, ends):
    prepare(recipe(corpus, tmp_path / "one"))
    with in_place_of_ray(Twice(ends=ends)):
        prepare(recipe(corpus, tmp_path / "two"))
    for suffix in ("", "-work"):
        assert contents(tmp_path / f"two{suffix}") == contents(tmp_path / f"one{suffix}")


def read(slices):
    """Return the texts of each slice, read together, and the readings."""
    readings = [SliceReading(each) for each in slices]
    found = [[] for _ in slices]
    for which, _, batch in read_slices(readings):
        found[which] += batch.documents
    return found, readings


def parts(documents, share, root):
    """Write documents as two files; return the texts of train and val, read together and alone."""
    lines = [json.dumps({"text": text}) for text in documents]
    cut = len(lines) // 3
    for name, own in (("a", [*lines[:cut], "{}"]), ("b", ["", *lines[cut:]])):
        write(root / f"{name}.jsonl", "\n".join(own).encode())
    plan = plan_of(root, slice_bytes=200, split=f"share:{share}")
    together, alone = ([], []), ([], [])
    for pair in zip(plan.slices(split="train"), plan.slices(split="val"), strict=True):
        found, (train, val) = read(pair)
        assert train.read == val.read
        assert (train.other_split, val.other_split) == (len(found[1]), len(found[0]))
        assert not val.quarantined
        for which, each in enumerate(pair):
            together[which].extend(found[which])
            alone[which].extend(read([each])[0][0])
    assert together == alone
    return together


def is_part_in_order(part, whole):
    rest = iter(whole)
    return all(own in rest for own in part)


SHARES = st.integers(1, 999).map(lambda number: f"0.{number:03d}")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(st.lists(TEXTS, max_size=60), SHARES)
def test_train_and_val_contain_all_documents_in_order(tmp_path_factory, documents, share):
    train, val = parts(documents, share, tmp_path_factory.mktemp("in"))
    everything = [text.encode() for text in documents]
    assert Counter(train) + Counter(val) == Counter(everything)
    assert is_part_in_order(train, everything)
    assert is_part_in_order(val, everything)


NUM_MERGES = 350 - 256 - len(SPECIAL_TOKENS)

WEIGHED = """
source = [
    {{name = "a", kind = "text", paths = ["{root}/a"], split = "train"}},
    {{name = "b", kind = "text", paths = ["{root}/b"], split = "train"}},
]
tokenizer.vocab_size = 350
output = {{path = "{root}/out", work = "{root}/work"}}
limits.slice_bytes = 2500
"""

A = texts(60, seed=1)
B = [text.upper() for text in texts(25, seed=2)]


@pytest.fixture
def weighed(tmp_path, in_process):
    """Write one file of each of two sources."""
    write_parquet(tmp_path / "a/0.parquet", A)
    write_parquet(tmp_path / "b/0.parquet", B)
    return tmp_path


def learn(root, *overrides):
    """Run the job; return the tokenizer, the report, the stages and the notes."""
    _, stages, notes = run(parse_recipe(WEIGHED.format(root=root), overrides=overrides), train)
    report = json.loads((root / "out/tokenizer/report.json").read_text())
    return Tokenizer.load(root / "out/tokenizer"), report, stages, notes


@pytest.mark.parametrize(
    ("weights", "copies", "unit"),
    [
        (("1", "3"), (1, 3), 1),
        (("2", "1"), (2, 1), 1),
        (("1", "2.5"), (2, 5), 2),
        (("0.3", "1.1"), (3, 11), 10),
        (("4", "4"), (1, 1), 1),
    ],
)
def test_a_weight_multiplies_the_documents(weighed, weights, copies, unit):
    tokenizer, report, _, notes = learn(
        weighed, f"source.a.weight={weights[0]}", f"source.b.weight={weights[1]}"
    )
    documents = A * copies[0] + B * copies[1]
    assert list(tokenizer.model.tokens) == rustbpes_tokens(documents, NUM_MERGES)
    assert report["weight_unit"] == unit
    sources = report["sources"]
    assert [sources[name]["multiplier"] for name in "ab"] == list(copies)
    assert [sources[name]["weight"] for name in "ab"] == list(weights)
    assert [sources[name]["texts"] for name in "ab"] == [len(A), len(B)]
    assert [sources[name]["text_bytes"] for name in "ab"] == [
        sum(len(text.encode()) for text in own) for own in (A, B)
    ]
    spans = {name: sources[name]["spans"] for name in "ab"}
    assert report["spans"] == sum(spans.values()) == len(spans_of(A + B))
    has_weights = copies[0] != copies[1]
    assert report["differs_from_rustbpe"] == (["weight"] if has_weights else [])
    assert any("differ from those that rustbpe learns" in note for note in notes) == has_weights


def spans_of(documents):
    splitter = _core.Splitter(SPLIT_PATTERN)
    return [span for document in documents for span in splitter.split(document.encode())]


def test_a_share_of_a_source_without_text_is_refused(weighed):
    write_parquet(weighed / "b/0.parquet", [""])
    with pytest.raises(SourceError, match=r"source 'b' has weight = 'share:0\.5' and no text"):
        learn(weighed, "source.a.weight=share:0.5", "source.b.weight=share:0.5")


@pytest.mark.parametrize("least", [2, 5])
def test_min_pair_count_is_in_counts_of_weight_1(weighed, least):
    tokenizer, report, _, _ = learn(
        weighed,
        "source.b.weight=0.5",
        f"tokenizer.min_pair_count={least}",
        "tokenizer.vocab_size=5000",
    )
    counts = Counter(span for text in A * 2 + B for span in spans_of([text]))
    assert report["weight_unit"] == 2
    assert min(report["merges"]["count"]) >= 2 * least
    plain = reference.learn_merges(counts, num_merges=len(tokenizer.merges) + 1)
    assert plain[: len(tokenizer.merges)] == list(tokenizer.merges)
    assert report["stop_reason"] == "below min_pair_count"


@pytest.mark.parametrize("least", [2, 3, 8])
def test_min_count_excludes_exactly_the_spans_rare_in_all_slices_together(weighed, least):
    tokenizer, report, stages, notes = learn(
        weighed, f"tokenizer.min_count={least}", "source.b.weight=3"
    )
    assert stages["reduce"][0] > 2
    plain = Counter(spans_of(A + B))
    rare = {span: number for span, number in plain.items() if number < least}
    weighted = Counter(spans_of(A + B * 3))
    for span in rare:
        del weighted[span]
    assert reference.learn_merges(weighted, num_merges=NUM_MERGES) == list(tokenizer.merges)
    assert report["dropped"] == {
        "distinct_spans": len(rare),
        "spans": sum(rare.values()),
        "bytes": sum(len(span) * number for span, number in rare.items()),
    }
    assert report["min_count"] == least
    assert report["spans"] == sum(plain.values())
    assert report["distinct_spans"] == len(plain)
    assert report["differs_from_rustbpe"] == ["weight", "min_count"]
    assert any(f"min_count = {least} left out" in note for note in notes)
