"""Whole jobs with tokenizers that files of other tools define."""

import json

import numpy as np
import pytest
import tokenizers

from nanotok_ray.api import export, prepare, verify
from nanotok_ray.errors import RecipeError
from nanotok_ray.job.job_plan import decide
from nanotok_ray.job.planning import plan_job
from nanotok_ray.job.task import SharedLibrary
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.shards.check.document import check_tables
from nanotok_ray.tokenizer import engines, expected_tokenizer, open_tokenizer
from tests.support.executors import InProcess, in_place_of_ray
from tests.support.library_tokenizers import (
    byte_fallback,
    byte_level,
    sentence_piece,
    unigram,
    with_flags,
    word_piece,
)
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe

FILES = {
    "tokenizers": ("tokenizer.json", byte_fallback),
    "word_piece": ("tokenizer.json", word_piece),
    "unigram": ("tokenizer.json", unigram),
    "sentencepiece": ("any.name", sentence_piece),
    "core": ("tokenizer.json", byte_level),
}


def file_of(folder, kind):
    name, data = FILES[kind]
    folder.mkdir(exist_ok=True)
    data = data()
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return folder / name


def job_of(corpus, out, path, *overrides):
    return recipe(
        corpus,
        out,
        f'tokenizer.path="{path}"',
        f"tokenizer.extend={json.dumps([*SPECIAL_TOKENS])}",
        *overrides,
    )


@pytest.mark.parametrize("kind", FILES)
def test_a_whole_job_with_any_engine_is_verified_and_done(corpus, out, tmp_path, kind):
    path = file_of(tmp_path / "tokenizer", kind)
    job = job_of(corpus, out, path)
    planned = decide(job).values["tokenizer"]["engine"]
    summary, _, _ = run(job, prepare)
    own = open_tokenizer(out)
    engine = summary.values["engine"]
    assert engine == planned
    assert engine["name"] == own.model.description.engine
    assert (engine["version"] is None) == (engine["reason"] == "") == (kind == "core")
    assert engine["checked_with"] == ("sentencepiece" if kind == "sentencepiece" else "tokenizers")
    assert engine["file_sha256"] in (out / "tokenizer/tokenizer.txt").read_text()
    proof = summary.values["proof"]
    assert proof["encoded_again"] == proof["documents"] > 0
    verification = verify(str(out), deep=True)
    assert verification.passed
    assert verification.documents == summary.values["documents"]["out"]
    before = contents(out)
    summary, stages, _ = run(job, prepare)
    assert (summary.values["status"], stages) == ("unchanged", {})
    assert contents(out) == before
    shards = open_shards(str(out), source="web")
    assert shards.text(0) == own.decode(np.asarray(shards[0]))
    assert export(str(out), "megatron", folder=tmp_path / "megatron").export.documents


@pytest.mark.parametrize(
    ("kind", "rule"),
    [("word_piece", "text"), ("sentencepiece", "text"), ("core", "text"), ("core", "recognise")],
)
def test_every_node_must_have_the_library_that_encodes(corpus, out, tmp_path, kind, rule):
    opened, tasks = [], []

    def note(*, cpus, shared):
        opened.extend(shared)

    def keep(given):
        tasks.extend(given)
        return given

    path = file_of(tmp_path / "tokenizer", kind)
    if rule == "recognise":  # with a flag that only the library knows
        path.write_text(with_flags(path.read_text(), single_word=True))
    job = job_of(corpus, out, path, f'source.web.special_text="{rule}"')
    with in_place_of_ray(InProcess(order=keep, on_session=note)):
        prepare(job)
    tokenizer = open_tokenizer(out)
    assert (tokenizer.engine_version is None) == (kind == "core")
    version = tokenizer.engine_version or f"tokenizers {tokenizers.__version__}"
    required = set() if (kind, rule) == ("core", "text") else {SharedLibrary(version)}
    assert {item for item in opened if isinstance(item, SharedLibrary)} == required
    for task in tasks:
        own = {item for item in task.shared if isinstance(item, SharedLibrary)}
        assert own == (required if task.name.startswith("tokenize") else set())


def test_a_pattern_that_backtracks_without_end_is_refused_for_the_text_by_plan_and_run(
    corpus, out, tmp_path
):
    contents = json.loads(word_piece())
    pattern = {"Regex": "(a+)+$"}
    split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**contents, "pre_tokenizer": split}))
    lines = [json.dumps({"text": text}) + "\n" for text in ("one", "a" * 40 + "!", "two")]
    (corpus / "hostile.jsonl").write_text("".join(lines))
    web = (f'source.web.paths=["{corpus}/hostile.jsonl"]', 'source.web.split="train"')
    job = job_of(corpus, out, path, *web, "limits.max_quarantined_share=0.5")
    notes = []
    plan_job(job, on_event=lambda event: notes.append(getattr(event, "text", "")))
    reason = "by tokenizers: the tokenizer's pattern backtracks too often on this text (Onig: "
    [note] = [note for note in notes if "cannot be split" in note]
    assert note.startswith(f"source 'web': 'hostile.jsonl': a text cannot be split: {reason}")
    assert note.endswith("remove such texts, or use another pattern or tokenizer")
    summary, _, _ = run(job, prepare)
    assert summary.values["quarantined"] == {"cannot be split": 1}
    [entry] = (out / "quarantine/web/train").glob("*.jsonl")
    assert json.loads(entry.read_text())["reason"].startswith(f"cannot be split: {reason}")


def test_the_tokens_around_a_text_are_those_of_the_file_unless_the_recipe_sets_them(
    corpus, out, tmp_path
):
    path = file_of(tmp_path / "tokenizer", "word_piece")
    assert around_in(run(job_of(corpus, out, path), prepare)) == {"[CLS]", "[SEP]"}
    job = job_of(corpus, tmp_path / "set", path, 'source.web.append=["[PAD]"]')
    assert around_in(run(job, prepare)) == {"[CLS]", "[PAD]"}
    job = job_of(corpus, tmp_path / "wrong", path, 'source.web.append=["</s>"]')
    with pytest.raises(RecipeError, match="'</s>', which is not among the special tokens"):
        run(job, prepare)


def around_in(result):
    counts = result[0].values["special_tokens"]
    return {name for name in counts if name not in SPECIAL_TOKENS}


def test_a_text_can_spell_special_tokens_if_the_source_says_so(corpus, out, tmp_path):
    path = file_of(tmp_path / "tokenizer", "tokenizers")
    (corpus / "spelled.jsonl").write_text(json.dumps({"text": "a<s>b</s> c"}) + "\n")
    values = [
        run(
            recipe(
                corpus,
                tmp_path / rule,
                f'tokenizer.path="{path}"',
                f"tokenizer.extend={json.dumps([*SPECIAL_TOKENS])}",
                f'source.web.paths=["{corpus}/spelled.jsonl"]',
                'source.web.split="train"',
                "source.web.prepend=[]",
                f'source.web.special_text="{rule}"',
            ),
            prepare,
        )[0].values
        for rule in ("text", "recognise")
    ]
    text, recognized = values
    assert text["special_text"] - recognized["special_text"] == 2
    assert "<s>" not in text["special_tokens"]
    assert {name: recognized["special_tokens"][name] for name in ("<s>", "</s>")} == {
        "<s>": 1,
        "</s>": 1,
    }
    assert verify(str(tmp_path / "recognise"), deep=True).passed


class Engine(engines.SentencePieceEngine):
    """The library in another version, which gives other ids if `differs` is set."""

    differs = False

    @property
    def version(self):
        return "99.0"

    def _encoded(self, texts):
        rows = super()._encoded(texts)
        return [[*row[1:], *row[:1]] for row in rows] if self.differs else rows


@pytest.mark.parametrize("differs", [False, True])
def test_shards_of_another_version_are_kept_only_if_a_sample_has_the_same_ids(
    corpus, out, tmp_path, monkeypatch, differs
):
    path = file_of(tmp_path / "tokenizer", "sentencepiece")
    before, _, _ = run(job_of(corpus, out, path), prepare)
    monkeypatch.setattr(engines, "SentencePieceEngine", Engine)
    monkeypatch.setattr(Engine, "differs", differs)
    cached = (expected_tokenizer, check_tables)
    for function in cached:
        function.cache_clear()
    summary, stages, notes = run(job_of(corpus, out, path), prepare)
    for function in cached:
        function.cache_clear()
    [note] = [note for note in notes if "sentencepiece 99.0" in note]
    slices = before.values["slices"]
    assert ("tokenize" in stages) == differs
    assert note.startswith(f"{slices} slices encoded with sentencepiece 0.")
    assert ("kept, because" in note) != differs
    assert (summary.values["status"] == "done") == differs
