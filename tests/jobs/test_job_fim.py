"""Whole jobs with texts that are rearranged for filling in the middle."""

import json
import re
from dataclasses import replace

import pytest

from nanotok_ray.api import export, prepare, verify
from nanotok_ray.errors import RecipeError
from nanotok_ray.formats import FimSettings, ShardRecord, load, read_manifest
from nanotok_ray.job.job_plan import decide
from nanotok_ray.job.local import LocalExecutor
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import SPECIAL_TOKENS, parse_recipe
from nanotok_ray.shards import expected_records, read_record, write_record
from nanotok_ray.shards.check import check_slice, record_problems, work_of
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import open_tokenizer
from tests.jobs.test_job_engines import FILES, file_of
from tests.shards.test_fim import NAMES, RULE, Token, plain_ids
from tests.support.executors import InProcess, backwards, in_place_of_ray
from tests.support.run_job import run
from tests.support.small_corpus import conversations, texts, write_parquet

RECIPE = """
output = {path = "OUT", work = "ROOT/work"}
limits.slice_bytes = 3000

[tokenizer]
vocab_size = 350
extend = ["<fim_prefix>", "<fim_middle>", "<fim_suffix>"]

[[source]]
name = "code"
kind = "text"
paths = ["ROOT/code.jsonl"]
split = "share:0.2"
id_column = "n"

[[source]]
name = "other"
kind = "text"
paths = ["ROOT/other.parquet"]
split = "train"

[[source]]
name = "chats"
kind = "chat"
paths = ["ROOT/chats.jsonl"]
"""
HALF = "source.code.fim_rate=0.5"


@pytest.fixture
def corpus(tmp_path, in_process):
    """Write two files of texts and one of conversations; return their folder."""
    made = ["", "x", *texts(150, seed=1), "", "x"]
    lines = [json.dumps({"text": text, "n": number}) for number, text in enumerate(made)]
    (tmp_path / "code.jsonl").write_text("\n".join(lines))
    write_parquet(tmp_path / "other.parquet", texts(30, seed=2))
    chats = map(json.dumps, conversations(9, seed=3))
    (tmp_path / "chats.jsonl").write_text("\n".join(chats))
    return tmp_path


def job_of(corpus, name, *overrides):
    text = RECIPE.replace("ROOT", str(corpus)).replace("OUT", f"{corpus}/{name}")
    return parse_recipe(text, overrides=overrides)


def test_documents_of_train_are_those_of_the_page_and_others_are_plain(corpus):
    summary = run(job_of(corpus, "out", HALF)).summary
    out = corpus / "out"
    tokenizer = open_tokenizer(out)
    source = [json.loads(line)["text"] for line in (corpus / "code.jsonl").read_text().splitlines()]
    counted = {"psm": 0, "spm": 0}
    for split in ("train", "val"):
        shards = open_shards(out, source="code", split=split)
        for number in range(len(shards)):
            text = source[int(shards.document_id(number))]
            fim = FimSettings(rate=0.5 if split == "train" else 0, spm_rate=0.5, tokens=NAMES)
            own = plain_ids(text, fim, before=["<|bos|>"], tokenizer=tokenizer)
            assert shards[number].tolist() == own
            parts = RULE(text, fim.rate, 0.5, *map(Token, NAMES))
            if len(parts) > 1:
                counted["spm" if isinstance(parts[1], Token) else "psm"] += 1
    values = summary.values
    assert values["fim"] == counted
    assert min(counted.values()) > 20
    assert values["special_tokens"]["<fim_middle>"] == sum(counted.values())
    totals = read_manifest(Folder(str(out))).totals
    assert totals["code/train"].fim == counted
    assert [totals[name].fim for name in ("code/val", "other/train", "chats/train")] == [{}] * 3
    assert (
        f"rearranged  {sum(counted.values())} documents to fill in the middle, " in summary.text()
    )
    page = (out / "run/report.html").read_text("utf-8")
    assert "Documents rearranged to fill in the middle" in page
    assert verify(str(out), deep=True).passed
    assert export(str(out), "megatron", folder=corpus / "megatron").export.documents > 100


def ids_of(out):
    """Return the bytes of all ids, by source and split."""
    found = {}
    for path in sorted(out.glob("*/*/*.bin")):
        place = path.relative_to(out).parts[:2]
        found[place] = found.get(place, b"") + path.read_bytes()
    assert len(found) == 4
    return found


def forms_of(out):
    totals = read_manifest(Folder(str(out))).totals
    return {name: each.fim for name, each in totals.items()}


def test_slices_workers_and_order_change_no_document(corpus):
    halves = [HALF, "source.other.fim_rate=0.5"]
    run(job_of(corpus, "first", *halves))
    expected = ids_of(corpus / "first")
    with in_place_of_ray(InProcess(order=backwards)):
        prepare(job_of(corpus, "second", *halves, "limits.slice_bytes=1000"))
    prepare(job_of(corpus, "third", *halves, "limits.slice_bytes=1GiB"), executor=LocalExecutor())
    for name in ("second", "third"):
        assert ids_of(corpus / name) == expected
        assert forms_of(corpus / name) == forms_of(corpus / "first")
        assert verify(str(corpus / name), deep=True).passed


def test_a_changed_rate_makes_only_the_train_shards_of_its_source_anew(corpus):
    train = sum(
        each.split == "train" and each.source == "code"
        for each in make_plan(job_of(corpus, "plan")).slices()
    )
    stages = run(job_of(corpus, "out")).stages
    number = sum(stages["tokenize"])
    for change in ([HALF], [HALF, "source.code.fim_spm_rate=0.25"]):
        stages = run(job_of(corpus, "out", *change)).stages
        assert "count" not in stages
        assert stages["tokenize"] == (train, number - train)
    assert run(job_of(corpus, "out", *change)).stages == {}
    stages = run(job_of(corpus, "out", "source.code.fim_rate=0")).stages
    assert stages["tokenize"] == (0, number)  # those of the first job
    assert read_manifest(Folder(f"{corpus}/out")).totals["all"].fim == {}


def test_wrong_numbers_in_a_record_are_found(corpus):
    job = job_of(corpus, "out", HALF)
    run(job)
    out, plan = Folder(f"{corpus}/out"), make_plan(job)
    tokenizer = open_tokenizer(f"{corpus}/out")
    expected = next(expected_records(plan, read_manifest(out).settings))
    record = load(ShardRecord, out.read_bytes(expected.record_name), name="record")
    for forms, depth, problem in (
        (record.fim, "full", None),
        ({"psm": 0, "spm": sum(record.fim.values())}, "full", "are rearranged for filling in the"),
        ({}, "full", "are rearranged for filling in the middle, it says {}"),
    ):
        changed = replace(record, fim=forms)
        write_record(out, expected.record_name, changed)
        read = read_record(out, expected.record_name, ShardRecord)
        found = check_slice(
            replace(work_of(out, expected, read, model=tokenizer.model), depth=depth)
        )
        assert len(found.problems) == (problem is not None)
        assert problem is None or problem in found.problems[0]
    many = replace(record, fim={"psm": record.documents.out + 1})
    problems = record_problems(many, item_bytes=2, slice_=expected.slice)
    assert any("documents rearranged of" in problem for problem in problems)


@pytest.mark.parametrize("rule", ["text", "recognise"])
@pytest.mark.parametrize("kind", FILES)
def test_every_engine_encodes_the_parts_and_is_verified(corpus, tmp_path, kind, rule):
    path = file_of(tmp_path / "tokenizer", kind)
    text = RECIPE.replace("ROOT", str(corpus)).replace("OUT", f"{corpus}/out")
    text = text.replace("vocab_size = 350", f'path = "{path}"')
    extend = [*SPECIAL_TOKENS, *NAMES]
    job = parse_recipe(
        text,
        overrides=[
            f"tokenizer.extend={json.dumps(extend)}",
            "source.code.fim_rate=1",
            f'source.code.special_text="{rule}"',
        ],
    )
    values = run(job).summary.values
    totals = read_manifest(Folder(f"{corpus}/out")).totals["code/train"]
    assert sum(totals.fim.values()) == totals.documents.out
    assert values["proof"]["encoded_again"] == values["proof"]["documents"] > 0
    assert verify(f"{corpus}/out", deep=True).passed


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["source.chats.fim_rate=0.5"], "fim_rate = 0.5 is for texts, not for a chat source"),
        (["source.code.fim_rate=1.5"], "fim_rate = 1.5 is not a share; use a number from 0 to 1"),
        (["source.code.fim_spm_rate=0.1"], "fim_spm_rate = 0.1 is for filling in the middle, and"),
        (["source.code.fim_tokens=a"], r"fim_tokens = \['a'\]; name the special tokens of the pre"),
        ([HALF, 'source.code.fim_tokens=["a", "b", "a"]'], "fim_tokens holds 'a' twice"),
        ([HALF, "source.code.split=val"], "fim_rate = 0.5, but split = 'val', and documents for"),
        (
            [HALF, "tokenizer.extend=[]"],
            r"fim_rate = 0.5 needs special tokens .* none are known among .* `extend = \[\"<fim_",
        ),
        (
            [HALF, 'source.code.fim_tokens=["<fim_prefix>", "<mid>", "<fim_suffix>"]'],
            r"fim_tokens has '<mid>', which is not among .* line `extend = \[\"<mid>\"\]`",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_job(corpus, overrides, message):
    with pytest.raises(RecipeError, match=re.compile(message)):
        decide(job_of(corpus, "out", *overrides))
    assert not (corpus / "out/records").exists()
