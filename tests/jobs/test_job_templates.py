"""Whole jobs over conversations that a chat template renders, and everything after a job."""

import json
import multiprocessing
import os
import signal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer as Peer

from nanotok_ray.api import export, prepare, verify, verify_export
from nanotok_ray.errors import QuarantineLimitError, RecipeError
from nanotok_ray.job.work import tokenize_work
from nanotok_ray.loader import Loader, open_shards
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import open_tokenizer
from tests.support.executors import InProcess, Replacing, in_place_of_ray
from tests.support.huggingface_chat import encode_chat
from tests.support.own_templates import (
    CHATML_BLOCKS,
    CONVERSATIONS,
    HEADERS,
    ROLES,
    SEARCH,
    tokenizer_file,
    write_tokenizer,
)
from tests.support.run_job import run
from tests.support.small_corpus import contents

KNOWN = [CONVERSATIONS[name] for name in ("one turn", "two turns", "reasoning", "spaces")]
CALLED = CONVERSATIONS["calls"]
LOOKUP = {"type": "function", "function": {"name": "lookup", "description": "é", "parameters": {}}}
RECIPE = """
[[source]]
name = "lines"
kind = "chat"
paths = ["{root}/lines"]
tools = "tools"
[[source]]
name = "table"
kind = "chat"
paths = ["{root}/table"]
tools = "tools"
[[source]]
name = "gpt"
kind = "chat"
paths = ["{root}/gpt"]
tools = "functions"
[tokenizer]
path = "{root}/tokenizer"
[limits]
slice_bytes = 700
[output]
path = "{out}"
work = "{out}-work"
"""


def numbered(messages, number):
    """Return a conversation with another text."""
    first, *others = messages
    return [{**first, "content": f"{first['content']} {number}"}, *others]


def conversations():
    """Return the conversations of each source as the template gets them: messages and tools."""
    made = [numbered(KNOWN[n % len(KNOWN)], n) for n in range(16)]
    lines = [(one, [None, [SEARCH], [SEARCH, LOOKUP]][n % 3]) for n, one in enumerate(made)]
    table = [([part(one) for one in numbered(KNOWN[0], n)], [SEARCH]) for n in range(12)]
    gpt = [(numbered(CALLED, n), [LOOKUP] if n % 2 else None) for n in range(8)]
    return {"lines": lines, "table": table, "gpt": gpt}


def part(message):
    return {"role": message["role"], "content": message["content"]}


def sharegpt(messages, tools):
    """Return a row of sharegpt with calls, in the style of LLaMA-Factory."""
    speakers = {"user": "human", "assistant": "gpt", "tool": "observation"}
    turns = [
        {"from": "function_call", "value": json.dumps(one["tool_calls"][0]["function"])}
        if one.get("tool_calls")
        else {"from": speakers[one["role"]], "value": one["content"]}
        for one in messages
    ]
    return {"conversations": turns, "functions": json.dumps(tools) if tools else ""}


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")


def write_rows(root):
    """Write the sources: tools are JSON text or arrays, a list of structs, and JSON text."""
    made = conversations()
    for number in range(2):
        rows = [
            {"messages": messages, "tools": json.dumps(tools) if number else tools}
            for messages, tools in made["lines"][8 * number : 8 * number + 8]
        ]
        write_lines(root / f"lines/{number}.jsonl", rows)
    (root / "table").mkdir()
    rows = [{"messages": messages, "tools": tools} for messages, tools in made["table"]]
    pq.write_table(pa.Table.from_pylist(rows), root / "table/a.parquet", row_group_size=4)
    write_lines(root / "gpt/a.jsonl", [sharegpt(*one) for one in made["gpt"]])


@pytest.fixture
def root(tmp_path, in_process):
    write_tokenizer(tmp_path / "in/tokenizer")
    write_rows(tmp_path / "in")
    return tmp_path / "in"


def job(root, out, *overrides):
    return parse_recipe(RECIPE.format(root=root, out=out), overrides=overrides)


def expected(messages, tools, *, peer, template=CHATML_BLOCKS):
    """Return ids and mask by jinja2 and `tokenizers`."""
    kept = [{key: one for key, one in each.items() if one is not None} for each in messages]
    for each in kept:
        if "reasoning" in each:
            each["reasoning_content"] = each["reasoning"]
    return encode_chat(peer, template, kept, tools=tools, **ROLES)


def documents(out, source):
    """Return ids and mask of every document."""
    shards = open_shards(str(out), source=source)
    return [(shards[n].tolist(), shards.mask(n).tolist()) for n in range(len(shards))]


@pytest.fixture
def peer():
    return Peer.from_str(tokenizer_file())


def test_a_whole_job_has_the_ids_and_masks_of_the_template_and_is_verified(root, out, peer):
    summary, _, _ = run(job(root, out))
    assert summary.values["quarantined"] == {}
    for source, rows in conversations().items():
        assert documents(out, source) == [expected(*row, peer=peer) for row in rows], source
    for options in ({"masks": True}, {"deep": True}):
        verification = verify(str(out), **options)
        assert verification.passed
        assert verification.documents == 36
    before = contents(out)
    again, stages, _ = run(job(root, out))
    assert (again.values["status"], stages) == ("unchanged", {})
    assert contents(out) == before


def test_loaders_and_exports_have_the_masks(root, out, tmp_path):
    run(job(root, out))
    native = {source: documents(out, source) for source in conversations()}
    layouts = {"olmo": "olmo:end_token=<|pad|>"}
    for name in ("parquet", "olmo", "megatron", "raw", "datatrove"):
        folder = tmp_path / name
        export(str(out), layouts.get(name, name), folder=folder)
        report, problems = verify_export(Folder(str(folder)), Folder(str(out)))
        assert problems == [], report
    paths = sorted((tmp_path / "parquet/table/train").glob("*.parquet"))
    read = [row for path in paths for row in pq.read_table(path).to_pylist()]
    assert [(row["input_ids"], row["assistant_masks"]) for row in read] == native["table"]
    labels = export(str(out), "parquet:mask_column=labels", folder=tmp_path / "labels")
    assert labels.export.documents == 36
    for source, rows in native.items():
        shards = open_shards(str(out), source=source)
        loader = Loader(shards, batch_size=2, length=400, packing="conversations", epochs=1)
        trained = sum(int((batch.targets >= 0).sum()) for batch in loader)
        assert trained == sum(sum(mask[1:]) for _, mask in rows)


@pytest.mark.parametrize("rule", ["cut", "drop", "keep"])
def test_long_conversations_keep_their_masks(root, out, peer, rule):
    limit = 60
    rules = ("limits.max_quarantined_share=1", f"limits.max_tokens={limit}")
    run(job(root, out, *rules, f"limits.too_long={rule}"))
    for source, rows in conversations().items():
        wanted = [expected(*row, peer=peer) for row in rows]
        assert any(len(ids) > limit for ids, _ in wanted)
        if rule == "cut":
            wanted = [(ids[:limit], mask[:limit]) for ids, mask in wanted]
        elif rule == "drop":
            wanted = [one for one in wanted if len(one[0]) <= limit]
        assert documents(out, source) == wanted
    assert verify(str(out), masks=True).passed


BAD = [
    (
        {"messages": [{"role": "critic", "content": "no"}]},
        "refused by the chat template: TemplateError: Unknown role: critic",
    ),
    ({"messages": []}, "the conversation has no messages"),
    ({"messages": [{"content": "no"}]}, "message 0 has no 'role'"),
    ({"messages": KNOWN[0], "tools": "{"}, "invalid JSON"),
    ({"messages": KNOWN[0], "tools": {"a": 1}}, "field is not an array: 'tools' is an object"),
    ({"messages": CONVERSATIONS["spelled"]}, "special token in a message: '<|im_end|>'"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "message 0 has a part of type 'image_url'",
    ),
]


def test_bad_conversations_are_quarantined_with_the_reason(root, out):
    write_lines(root / "lines/2.jsonl", [row for row, _ in BAD])
    with pytest.raises(QuarantineLimitError):
        run(job(root, out))
    run(job(root, out, "limits.max_quarantined_share=0.5"))
    listed = [
        json.loads(line)
        for path in (out / "quarantine").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    reasons = [one["reason"] for one in sorted(listed, key=lambda one: one["row"])]
    assert len(reasons) == len(BAD)
    for reason, (_, wanted) in zip(reasons, BAD, strict=True):
        assert wanted in reason
    assert verify(str(out), masks=True).passed
    assert len(documents(out, "lines")) == 16


THOUGHT = [
    {"role": "user", "content": "a <tool_call>"},
    {"role": "assistant", "content": "<think>so</think>b"},
]


@pytest.mark.parametrize("composes", [False, True])
def test_messages_can_spell_added_tokens_that_are_not_special(root, out, composes):
    """The core encodes with one of the tokenizers, and its library with the other."""
    write_tokenizer(root / "tokenizer", composes=composes)
    write_lines(root / "lines/0.jsonl", [{"messages": THOUGHT}] * 2)
    peer = Peer.from_str(tokenizer_file(composes=composes))
    summary, _, _ = run(job(root, out))
    assert summary.values["quarantined"] == {}
    ids, mask = documents(out, "lines")[0]
    assert (ids, mask) == expected(THOUGHT, None, peer=peer)
    assert [ids.count(peer.token_to_id(name)) for name in ("<think>", "<tool_call>")] == [1, 1]
    for options in ({"masks": True}, {"deep": True}):
        assert verify(str(out), **options).passed
    assert run(job(root, out)).summary.values["status"] == "unchanged"


def test_names_of_special_tokens_in_messages_follow_the_rule_of_the_source(root, out, peer):
    write_lines(root / "lines/0.jsonl", [{"messages": CONVERSATIONS["spelled"]}] * 2)
    name = peer.token_to_id("<|im_end|>")
    counts = {}
    for rule in ("text", "recognise"):
        run(job(root, out, f"source.lines.special_text={rule}"))
        ids, mask = documents(out, "lines")[0]
        counts[rule] = ids.count(name)
        assert open_tokenizer(out).decode(ids).count("<|im_end|>") == 3
        if rule == "recognise":
            assert (ids, mask) == expected(CONVERSATIONS["spelled"], None, peer=peer)
        for options in ({"masks": True}, {"deep": True}):
            assert verify(str(out), **options).passed
    assert counts == {"text": 2, "recognise": 3}


@pytest.mark.parametrize("untrained", ["[]", '["tool_calls"]'])
def test_text_beside_the_messages_is_counted_and_verified(root, out, untrained):
    """With untrained calls, the plain implementation renders."""
    rows = [
        {"messages": messages, "tools": tools, "note": "a" * n, "id": "7", "parts": [{"x": "y"}]}
        for n, (messages, tools) in enumerate(conversations()["lines"][:4])
    ]
    write_lines(root / "lines/0.jsonl", rows)
    write_lines(root / "lines/1.jsonl", [{"messages": KNOWN[0], "tools": None, "id": "note"}])
    summary, _, _ = run(job(root, out, f"source.lines.untrained={untrained}"))
    assert summary.values["unused_text"] == {"note": 3, "parts": 4}
    assert verify(str(out), masks=True).passed
    batch = open_tokenizer(root / "tokenizer").render_batch([json.dumps(rows[1])])
    assert batch.unused_keys == ("tools", "note", "parts")


@pytest.mark.parametrize("untrained", ["[]", '["tool_calls"]'])
def test_an_id_column_is_kept(root, out, untrained):
    rows = [{"messages": KNOWN[0], "ticket": f"t{n}", "tools": [SEARCH]} for n in range(3)]
    write_lines(root / "lines/0.jsonl", rows[:2])
    write_lines(root / "lines/1.jsonl", rows[2:])
    options = ("source.lines.id_column=ticket", f"source.lines.untrained={untrained}")
    summary, _, _ = run(job(root, out, *options))
    assert "unused_text" not in summary.values
    shards = open_shards(str(out), source="lines")
    assert [shards.document_id(n) for n in range(3)] == ["t0", "t1", "t2"]
    assert verify(str(out), deep=True).passed


def records(out, source):
    """Return the names of the records of a source."""
    return {path.name for path in (out / "records/tokenize" / source).rglob("*.json")}


def test_a_changed_template_redoes_only_the_shards_of_its_source(root, out, tmp_path, peer):
    path = tmp_path / "own.jinja"
    path.write_text(CHATML_BLOCKS)
    options = (f"source.table.template={path}",)
    run(job(root, out, *options))
    slices = len(records(out, "table"))
    path.write_text(HEADERS)
    dated = ('source.table.template_date="2026-01-31"',)
    _, stages, _ = run(job(root, out, *options, *dated))
    assert stages["tokenize"] == (slices, sum(len(records(out, n)) for n in ("lines", "gpt")))
    wanted = [
        expected(messages, tools, peer=peer, template=HEADERS)[0]
        for messages, tools in conversations()["table"]
    ]
    assert [ids for ids, _ in documents(out, "table")] == wanted
    assert verify(str(out), masks=True).passed
    fresh = tmp_path / "fresh"
    run(job(root, fresh, *options, *dated))
    assert documents(fresh, "table") == documents(out, "table")
    _, stages, _ = run(job(root, out, *options, *dated, "source.table.train_on=last"))
    assert stages["tokenize"][0] == slices


@pytest.mark.parametrize("composes", [False, True])
def test_a_changed_template_of_the_tokenizer_redoes_the_shards(root, out, composes, tmp_path):
    write_tokenizer(root / "tokenizer", composes=composes)
    run(job(root, out))
    (root / "tokenizer/chat_template.jinja").write_text("{# Another. #}" + CHATML_BLOCKS)
    slices = sum(len(records(out, source)) for source in conversations())
    _, stages, _ = run(job(root, out))
    assert stages["tokenize"] == (slices, 0)
    assert verify(str(out), masks=True).passed
    run(job(root, tmp_path / "fresh"))
    assert contents(out / "tokenizer") == contents(tmp_path / "fresh/tokenizer")


def test_a_template_that_the_job_cannot_use_is_refused_before_it_starts(root, out, tmp_path):
    path = tmp_path / "bad.jinja"
    for text, message in (
        ("{% if %}", "line 1 of the template"),
        ("{{ strftime_now('%Y') }}", "set template_date"),
    ):
        path.write_text(text)
        with pytest.raises(RecipeError, match=message):
            run(job(root, out, f"source.gpt.template={path}"))
    with pytest.raises(RecipeError, match="no chat template is named 'rag'"):
        run(job(root, out, "source.gpt.template=rag"))
    assert not (out / "gpt").exists()


def test_a_tokenizer_that_changes_the_text_has_masks_by_the_offsets_of_its_library(root, out):
    write_tokenizer(root / "tokenizer", composes=True)
    messages = [
        {"role": "user", "content": "e\u0301 or a\u030a?"},
        {"role": "assistant", "content": "cafe\u0301 \u212b"},
    ]
    write_lines(root / "lines/2.jsonl", [{"messages": messages}] * 3)
    peer = Peer.from_str(tokenizer_file(composes=True))
    run(job(root, out))
    found = documents(out, "lines")[-3:]
    wanted = expected(messages, None, peer=peer)
    assert found == [wanted] * 3
    trained = [number for number, flag in zip(*wanted, strict=True) if flag]
    assert open_tokenizer(out).decode(trained) == "caf\u00e9 \u00c5<|im_end|>\n"
    for options in ({"masks": True}, {"deep": True}):
        assert verify(str(out), **options).passed


def kill_after(number):
    """Return the work of a slice that kills its process once this number of slices is written."""
    done = []

    def work(argument):
        if len(done) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        result = tokenize_work(argument)
        done.append(argument)
        return result

    return work


def run_and_die(recipe, number):
    with in_place_of_ray(Replacing({tokenize_work: kill_after(number)}, InProcess())):
        prepare(recipe)


@pytest.mark.parametrize("number", [1, 4])
def test_a_killed_job_is_resumed_with_the_same_bytes(root, out, tmp_path, number):
    run(job(root, tmp_path / "whole"))
    process = multiprocessing.get_context("spawn").Process(
        target=run_and_die, args=(job(root, out), number)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not (out / "manifest.json").exists()
    kept = sum(len(records(out, source)) for source in conversations())
    _, stages, _ = run(job(root, out))
    assert kept >= number
    assert stages["tokenize"][1] == kept
    assert contents(out) == contents(tmp_path / "whole")
