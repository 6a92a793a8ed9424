"""docs/recipes.md: the effect of changing a key agrees with the keys of the results."""

from dataclasses import dataclass

import pytest

from nanotok_ray.job.counting import training_of
from nanotok_ray.job.tokenize import shard_settings
from nanotok_ray.recipe import SPECIAL_TOKENS, parse_recipe
from nanotok_ray.shards.settings import shard_key
from nanotok_ray.sources import make_plan
from nanotok_ray.tokenizer import Tokenizer
from tests.docs.test_docs_recipes import CELLS, rows
from tests.support.doc_commands import CHATML, RECIPE, make_folder

PAGES = """
[[source]]
name = "pages"
kind = "vision"
paths = ["/data/ocr/*.parquet"]
count = true

[[source]]
name = "talks"
kind = "chat"
paths = ["/data/tools/*.jsonl"]
template = "/data/talks.jinja"
"""
TEMPLATES = {
    "talks": CHATML,
    "other": f"{CHATML}!",
    "blocks": "{% generation %}{{ messages }}{% endgeneration %}",
}
BASE = (
    "source.chats.count=true",
    'tokenizer.extra_special_tokens=["preset:seed", "preset:nano-deepseek-ocr"]',
    "limits.max_tokens=100",
)

CHANGES = {
    "source.exclude": ["source.web.exclude=0.parquet"],
    "source.format": ["source.code.format=lines", 'source.code.column=""'],
    "source.column": ["source.code.column=content"],
    "source.id_column": ["source.code.id_column=content"],
    "source.split": ["source.web.split=share:0.5"],
    "source.val_files": ["source.web.split=files", 'source.web.val_files=["0.parquet"]'],
    "source.count": ["source.code.count=false"],
    "source.weight": ["source.web.weight=2.5"],
    "source.prepend": ["source.web.prepend=[]"],
    "source.transform": ["source.code.transform=/data/edits.py:same"],
    "source.columns": ['source.code.columns=["other"]'],
    "source.depends": ['source.code.depends=["words.txt"]'],
    "source.version": ['source.code.version="2"'],
    "source.dedup": ["source.web.dedup=exact"],
    "source.fim_rate": ["source.web.fim_rate=0.5"],
    "source.fim_spm_rate": ["source.web.fim_spm_rate=0.25"],
    "source.fim_tokens": ['source.web.fim_tokens=["<pre>", "<mid>", "<suf>"]'],
    "source.append": ['source.web.append=["<|bos|>"]'],
    "source.special_text": ['source.web.special_text="recognise"'],
    "source.dialect": ["source.chats.dialect=customjson"],
    "source.template": ["source.talks.template=/data/other.jinja"],
    "source.training_template": ["source.talks.training_template=/data/blocks.jinja"],
    "source.template_args": ["source.talks.template_args={enable_thinking = false}"],
    "source.template_date": ['source.talks.template_date="2026-01-31"'],
    "source.tools": ["source.talks.tools=tools"],
    "source.train_on": ["source.talks.train_on=last"],
    "source.untrained": ["source.talks.untrained=tool_calls"],
    "source.image_token": ["source.pages.image_token=<|image|>"],
    "source.image_tokens": ["source.pages.image_tokens=3"],
    "source.grounding": ["source.pages.grounding=true"],
    "source.train_prompt": ["source.pages.train_prompt=false"],
    "tokenizer.superword": ["tokenizer.superword={from = 300}"],
    "learner.cpus": ["learner.memory=1GiB", "learner.cpus=2"],
    "learner.label": ["learner.memory=1GiB", "learner.label=a=b"],
}
CHANGED = [
    *("tokenizer.vocab_size=500", "tokenizer.pattern=gpt4", "tokenizer.gaps=error"),
    *("tokenizer.min_pair_count=2", "tokenizer.max_token_bytes=8", "tokenizer.min_count=2"),
    "tokenizer.also=[300]",
    *("output.layouts=llmc", "output.allow_removed=true", "output.replace=true"),
    "output.unsafe_store=true",
    *("limits.slice_bytes=2KiB", "limits.max_shard_tokens=1000", "limits.max_tokens=50"),
    *("limits.too_long=drop", "limits.untrainable=drop", "limits.doc_cap=100"),
    *("limits.max_chars=1000", "limits.max_document_bytes=1MiB", "limits.slice_deadline=7"),
    *("limits.max_quarantined_share=0.5", "limits.max_quarantined=7", "limits.max_tails=7"),
    *("limits.max_skipped_slices=7", "learner.memory=1GiB"),
]
CHANGES |= {change.partition("=")[0]: [change] for change in CHANGED}
BEFORE = {
    "source.columns": ["source.code.transform=/data/edits.py:same"],
    "source.depends": ["source.code.transform=/data/edits.py:same"],
    "source.version": ["source.code.transform=copy:copy", 'source.code.version="1"'],
    "source.fim_spm_rate": ["source.web.fim_rate=0.5"],
    "source.fim_tokens": ["source.web.fim_rate=0.5"],
}
"""Values of other keys, without which a key cannot be changed."""
ANOTHER_PLACE_OR_TOKENIZER = {
    *("source.name", "source.kind", "source.paths", "output.path", "output.work"),
    *("tokenizer.special_tokens", "tokenizer.extra_special_tokens", "tokenizer.extend"),
    *("tokenizer.path", "tokenizer.base", "tokenizer.add"),
}
"""Keys whose change selects another source, folder or tokenizer."""


@dataclass(frozen=True)
class Keys:
    """The results of a recipe, by the keys of all results."""

    counts: frozenset
    tokenizer: str
    shards: frozenset


@pytest.fixture(scope="module")
def keys_of(tmp_path_factory):
    root = tmp_path_factory.mktemp("keys")
    make_folder(root)
    for name, template in TEMPLATES.items():
        (root / f"data/{name}.jinja").write_text(template, "utf-8")
    (root / "data/edits.py").write_text("def same(batch):\n    return batch\n")
    (root / "data/words.txt").write_text("a word\n")
    tokenizer = Tokenizer.train_from_iterator(
        ["a text"], 300, special_tokens=[*SPECIAL_TOKENS, "<image>", "<|image|>", *GROUNDING, *FIM]
    )

    def keys(*overrides):
        text, *changes = (
            each.replace("/data", f"{root}/data") for each in (RECIPE + PAGES, *BASE, *overrides)
        )
        recipe = parse_recipe(text, overrides=changes)
        plan = make_plan(recipe)
        training = training_of(recipe, plan)
        settings = {each.name: shard_settings(recipe, each, tokenizer) for each in recipe.sources}
        return Keys(
            frozenset(training.settings_of(each).key(each) for each in training.slices),
            training.key,
            frozenset(shard_key(each, settings[each.source]) for each in plan.slices()),
        )

    return keys


FIM = ("<pre>", "<mid>", "<suf>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>")
GROUNDING = ("<|grounding|>", "<|ref|>", "<|/ref|>", "<|det|>", "<|/det|>")


def test_every_key_has_a_change_here_or_needs_none():
    named = {f"{title.strip('[]')}.{key}" for title, key, _ in CELLS}
    assert named == {*CHANGES, *ANOTHER_PLACE_OR_TOKENIZER}


@pytest.mark.parametrize("key", CHANGES)
def test_a_change_repeats_the_stages_on_the_page(key, keys_of):
    table, _, name = key.partition(".")
    own = rows(next(title for title, _, _ in CELLS if title.strip("[]") == table))
    reported = own[name][-1]
    reported = own["split"][-1] if reported == "as `split`" else reported
    first = BEFORE.get(key, ())
    before, after = keys_of(*first), keys_of(*first, *CHANGES[key])
    if "with duplicates" in reported:  # known only later
        assert after == before
        return
    counts = "counts" in reported and "slice that is cut" not in reported  # known only later
    assert (after.counts != before.counts) == counts
    assert (after.tokenizer != before.tokenizer) == (counts or "tokenizer" in reported)
    assert (after.shards != before.shards) == ("shards" in reported)
    if "all counts" in reported:
        assert not after.counts & before.counts
    if "all shards" in reported or "all counts and shards" in reported:
        assert not after.shards & before.shards
