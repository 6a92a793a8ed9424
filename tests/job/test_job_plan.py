"""Decisions: what a JobPlan announces is what the job does; max_chars."""

import json
import shutil
from collections import Counter
from contextlib import nullcontext

import pytest
import rustbpe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.errors import IncompleteOutputError, QuarantineLimitError
from nanotok_ray.job.events import Note, StageStarted
from nanotok_ray.job.executor import Runtime
from nanotok_ray.job.job_plan import decide
from nanotok_ray.job.journal import read_journal
from nanotok_ray.job.lease import lease_in_force
from nanotok_ray.job.pipeline import Start, run_job
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.executors import InProcess, in_place_of_ray
from tests.support.small_corpus import contents, recipe, texts, write_corpus, write_parquet

COMMANDS = {"prepare": prepare, "train": train, "tokenize": tokenize}
SETTINGS = (
    "tokenizer.also=[300]",
    'tokenizer.extend=["<|image|>"]',
    'output.layouts=["raw"]',
    "limits.doc_cap=50",
    "limits.max_tokens=40",
    "limits.max_chars=3000",
    "tokenizer.min_pair_count=3",
)

GROUPS = ("records", "counts", "tokenizer", "export", "web", "plan", "manifest", "shards")
"""Prefixes of names of files that belong together."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return a folder with a corpus and a finished output, with smaller tokenizers and exports.

    It is a copy: the output names its inputs by their paths in the adjacent folder `state`.
    """
    root = tmp_path_factory.mktemp("decide") / "state"
    write_corpus(root / "in")
    with pytest.MonkeyPatch.context() as patch, in_place_of_ray(InProcess()):
        patch.setattr("os.fsync", lambda _: None)
        prepare(job_of(root, SETTINGS[:3]))
        shutil.copytree(root, root.with_name("finished"))
        yield root.with_name("finished")


def job_of(root, overrides):
    return recipe(root / "in", root / "out", "limits.slice_bytes=9000", *overrides)


def removable(root):
    """Return the files that can be missing: all but the journal and the lease."""
    names = [f"out/{name}" for name in contents(root / "out", leave_out=("run",))]
    return sorted([*names, *(f"out-work/{name}" for name in contents(root / "out-work"))])


def damaged(finished, removed):
    """Restore corpus and output, including times of files, without some files."""
    root = finished.with_name("state")
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(finished, root)
    for name in removed:
        (root / name).unlink()
    return root


def done_by(command, job, **options):
    """Run a job; return its summary, the slices (or merges) of each stage, and its notes."""
    events = []
    summary = COMMANDS[command](job, on_event=events.append, **options)
    todo = Counter()
    for event in events:
        if isinstance(event, StageStarted):
            todo[event.stage] += event.todo
    return summary, todo, [event.text for event in events if isinstance(event, Note)]


@st.composite
def states(draw, finished):
    """Draw missing files, settings of the recipe, a new input, and a command."""
    names, groups = removable(finished), draw(st.sets(st.sampled_from(GROUPS)))
    of_groups = [name for name in names if any(f"/{group}" in f"/{name}" for group in groups)]
    removed = {name for name in of_groups if draw(st.booleans())}
    removed |= set(draw(st.lists(st.sampled_from(names), max_size=3)))
    overrides = draw(st.just(SETTINGS[:3]) | st.lists(st.sampled_from(SETTINGS), unique=True))
    return sorted(removed), overrides, draw(st.booleans()), draw(st.sampled_from([*COMMANDS]))


@given(data=st.data())
@settings(
    max_examples=max(10, settings.default.max_examples // 4),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_the_plan_announces_what_the_job_does(finished, data):
    removed, overrides, is_larger, command = data.draw(states(finished))
    root = damaged(finished, removed)
    if is_larger:
        write_parquet(root / "in/text/shard_00009.parquet", texts(20, seed=9))
    job, before = job_of(root, overrides), contents(root / "out")
    try:
        plan = decide(job, command)
    except IncompleteOutputError:
        with pytest.raises(IncompleteOutputError):
            COMMANDS[command](job)
        return
    assert contents(root / "out") == before
    summary, done, notes = done_by(command, job)
    assert (summary.values["status"] == "unchanged") == plan.is_done
    assert set(plan.notes) - set(notes) == set()
    check_training(plan, done)
    check_tokenizing(plan, done)
    after = contents(root / "out")
    assert not plan.is_done or (done, after) == (Counter(), before)
    if command == "prepare" and set(overrides) == set(SETTINGS[:3]) and not is_larger:
        assert after == contents(finished / "out")
    assert decide(job, command).is_done
    assert done_by(command, job)[0].values["status"] == "unchanged"


def check_training(plan, done):
    announced = plan.values
    counted = announced.get("count", {}).get("todo", 0)
    if plan.recipe.limits.max_chars is None:
        assert done["count"] == counted
    else:  # the first round is announced
        assert done["count"] >= counted
    assert ("learn" in done) == bool(announced.get("learn", {}).get("todo"))


def check_tokenizing(plan, done):
    announced = plan.values.get("tokenize", {}).get("todo", 0)
    if plan.tokenizing is not None:
        assert done["tokenize"] == announced
    else:  # the tokenizer can be the same as before
        assert done["tokenize"] <= announced
    if plan.output is not None:
        assert done["export"] == sum(len(exporting.todo) for exporting in plan.exports)


@pytest.mark.parametrize("fails", [False, True])
def test_the_page_is_written_under_the_lease_after_the_end_is_known(tmp_path, in_process, fails):
    write_corpus(tmp_path / "in")
    out, seen = Folder(str(tmp_path / "out")), []
    job = job_of(tmp_path, ["limits.max_quarantined=0"])
    if fails:
        (tmp_path / "in/chats/0.jsonl").write_text("no JSON\n")

    def note(folder, work):
        assert work.url == job.output.work
        seen.append((lease_in_force(folder).is_released, read_journal(folder).end.status))

    with pytest.raises(QuarantineLimitError) if fails else nullcontext():
        run_job(job, Start("prepare"), Runtime(InProcess()), write_page=note)
    assert seen == [(False, "failed" if fails else "done")]
    assert lease_in_force(out).is_released


TRAIN = [*texts(40, seed=0), *texts(40, seed=1)]
"""The documents of the train files in order."""


def upstream_documents(*, max_chars, doc_cap):
    """Return the documents of nanochat's iterator: capped, up to the one that exceeds the limit."""
    taken, total = [], 0
    for text in TRAIN:
        taken.append(text[:doc_cap])
        total += len(taken[-1])
        if total > max_chars:
            break
    return taken


def limits(max_chars, doc_cap):
    caps = [] if doc_cap is None else [f"limits.doc_cap={doc_cap}"]
    return [f"limits.max_chars={max_chars}", *caps]


@pytest.mark.parametrize("slice_bytes", [2500, 6000, 1_000_000])
@pytest.mark.parametrize("doc_cap", [None, 50])
@pytest.mark.parametrize("max_chars", [1, 700, 2000, 9000, 10**9])
def test_the_cut_equals_that_of_nanochat(tmp_path, in_process, max_chars, doc_cap, slice_bytes):
    write_corpus(tmp_path / "in")
    expected = upstream_documents(max_chars=max_chars, doc_cap=doc_cap)
    overrides = [f"limits.slice_bytes={slice_bytes}", *limits(max_chars, doc_cap)]
    assert counted(tmp_path, *overrides) == numbers_of(expected)
    peer = rustbpe.Tokenizer()
    peer.train_from_iterator(iter(expected), 341, pattern=SPLIT_PATTERN)
    ours = Tokenizer.load(tmp_path / "out/tokenizer").model.tokens
    assert list(ours) == [bytes(token) for token, _ in peer.get_mergeable_ranks()]


def rows_of_slices(tmp_path):
    """Return the number of documents of each slice of 1,000 bytes."""
    plan = make_plan(recipe(tmp_path / "in", tmp_path / "x", "limits.slice_bytes=1000"))
    return [
        sum(group.rows for group in piece.file.layout[piece.start : piece.stop])
        for each in plan.slices(split="train")
        if each.source == "web"
        for piece in each.pieces
    ]


def test_a_limit_that_a_slice_reaches_exactly_is_not_exceeded(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    reached = sum(rows_of_slices(tmp_path)[:3])
    limit = sum(map(len, TRAIN[:reached]))
    expected = upstream_documents(max_chars=limit, doc_cap=None)
    assert len(expected) > reached
    overrides = ["limits.slice_bytes=1000", f"limits.max_chars={limit}"]
    assert counted(tmp_path, *overrides) == numbers_of(expected)


def counted(tmp_path, *overrides):
    """Learn; return the numbers of documents and code points of the report."""
    train(recipe(tmp_path / "in", tmp_path / "out", *overrides))
    report = json.loads((tmp_path / "out/tokenizer/report.json").read_text())
    return report["texts"], report["code_points"]


def numbers_of(documents):
    return len(documents), sum(map(len, documents))


@pytest.mark.parametrize("doc_cap", [None, 50, 5])
def test_little_more_is_counted_than_needed(tmp_path, in_process, doc_cap):
    write_corpus(tmp_path / "in")
    limit = 3000 if doc_cap is None else 10 * doc_cap
    needed = len(upstream_documents(max_chars=limit, doc_cap=doc_cap))
    rows = rows_of_slices(tmp_path)
    reach = next(n for n in range(1, len(rows) + 1) if sum(rows[:n]) >= needed)
    counted(tmp_path, "limits.slice_bytes=1000", *limits(limit, doc_cap))
    names = {path.name.rsplit("-", 1)[0] for path in (tmp_path / "out-work").rglob("*.arrow")}
    assert reach <= len(names) <= reach + 1 < len(rows)
