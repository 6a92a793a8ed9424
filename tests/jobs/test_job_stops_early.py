"""A stage ends early if so many documents were bad that the limits cannot be kept."""

import re
from pathlib import Path

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.errors import QuarantineLimitError
from nanotok_ray.job import SliceEnded, StageStarted, give_up_after
from nanotok_ray.recipe import LimitsRecipe
from nanotok_ray.sources import make_plan
from tests.support.small_corpus import contents, recipe, write_corpus, write_parquet


def refused(job):
    """Run a job that is refused; return the error and the events."""
    events = []
    with pytest.raises(QuarantineLimitError) as caught:
        prepare(job, on_event=events.append)
    return str(caught.value), events


def test_counting_stops_within_a_slice_and_lists_what_was_read(corpus, tmp_path):
    write_parquet(corpus / "text/shard_00001.parquet", [None] * 30_000, row_group_size=30_000)
    out = tmp_path / "out"
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


def test_counting_stops_after_many_slices_that_are_entirely_bad(corpus, tmp_path):
    path = corpus / "text/lines.jsonl"
    path.write_text('{"body": "a"}\n' * 40_000)
    (corpus / "text/zero.jsonl").write_text('{"text": "good"}\n')
    job = recipe(
        *(corpus, tmp_path / "out", f'source.web.paths=["{corpus}/text/*.jsonl"]'),
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


def test_tokenizing_stops_within_a_slice(corpus, tmp_path):
    prepare(recipe(corpus, tmp_path / "first"))
    path, good = corpus / "chats/9.jsonl", corpus / "chats/0.jsonl"
    path.write_text('{"messages": []}\n' * 15_000)
    job = recipe(
        *(corpus, tmp_path / "out", f"tokenizer.path={tmp_path}/first/tokenizer"),
        *("limits.slice_bytes=1000000", f'source.chats.paths=["{path}", "{good}"]'),
    )
    reported, _ = refused(job)
    assert reported.startswith(
        "tokenize stopped early: all 10,240 documents that were read of 1 slice"
    )
    place = "source 'chats', 9.jsonl, line 1, read as messages: the conversation has no messages"
    assert place in reported
    (listed,) = (tmp_path / "out/quarantine/chats/train").iterdir()
    assert str(listed) in reported
    assert len(listed.read_text().splitlines()) == 10_240
    assert not list((tmp_path / "out/records").rglob("9-*.json"))


def test_inputs_within_the_limits_are_never_stopped_and_have_the_same_bytes(corpus, tmp_path):
    write_parquet(corpus / "text/shard_00001.parquet", [None] * 12_000, row_group_size=12_000)
    allowing = ("limits.max_quarantined_share=0.998", "limits.max_quarantined=12000")
    prepare(recipe(corpus, tmp_path / "out", *allowing))
    prepare(recipe(corpus, tmp_path / "other", "limits.max_quarantined_share=1.0"))
    assert contents(tmp_path / "out") == contents(tmp_path / "other")
    listed = (tmp_path / "out/quarantine").rglob("*.jsonl")
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
