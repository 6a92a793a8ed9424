"""Whole jobs over conversations and vision documents of every dialect, from lines and parquet."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.chat import compose, message_texts, segments_of
from nanotok_ray.dialects import Dialect
from nanotok_ray.errors import QuarantineLimitError, RecipeError
from nanotok_ray.job import check_special_tokens, count_work, plan_job, training_of
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import GROUNDING, parse_recipe
from nanotok_ray.shards import verify_output
from nanotok_ray.sources import make_plan
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import texts, write_parquet

FORGED = "<|bos|> <|assistant_end|> <image> <|det|>"
SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": f"hi {FORGED}"},
    {"role": "assistant", "content": f"hello {FORGED}"},
]
TOOL = {"name": "python", "arguments": '{"code": "1+1"}'}
CALLED = [
    {"role": "user", "content": "1+1?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": TOOL}]},
    {"role": "tool", "tool_call_id": "a", "content": "2"},
    {"role": "assistant", "content": "It is 2."},
]
CHATS = {
    "messages": [SAID, {"messages": SAID, "id": 7}, CALLED],
    "sharegpt": [
        {"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}
    ],
    "gsm8k": [{"question": f"q {FORGED}", "answer": "x <<2*3=6>>6\n#### 6"}],
    "prompt-response": [{"prompt": "p", "response": FORGED}, {"prompt": "", "response": ""}],
}
VISION = {
    "prompt-response": [
        {"prompt": "<image> and <image>", "response": FORGED, "image_token_counts": [3, 2]},
        {"prompt": "no image", "response": "<|ref|>x<|/ref|>"},
    ],
    "text": [{"text": "<image>\nOCR.text<|assistant_end|>", "image_token_counts": [4]}],
    "messages": [{"messages": [{"role": "user", "content": "<image>"}, SAID[2]]}],
}
FORMS = ("jsonl", "parquet")


def write(path: Path, rows: list[object], form: str) -> None:
    """Write rows as lines, or as a table if all of them are objects with the same keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist([_table_row(row) for row in rows]), path)


def _table_row(row):
    return row if isinstance(row, dict) else {"messages": row}


def settings(source: str, *more: str) -> str:
    return "\n".join([f'[[source]]\nname = "{source}"', *more])


def job(root: Path, sources: list[str], *overrides: str):
    """Return the recipe of a job with some texts and these sources."""
    write_parquet(root / "text/a.parquet", texts(30, seed=1))
    text = settings("web", 'kind = "text"', f'paths = ["{root}/text"]', 'split = "train"')
    rest = f'[tokenizer]\nvocab_size = 400\n[output]\npath = "{root}/out"'
    return parse_recipe("\n".join([text, *sources, rest]), overrides=overrides)


def rendered(tokenizer: Tokenizer, rows: list[object], dialect: Dialect):
    """Return the result of the reference implementation for rows."""
    return [
        compose(
            tokenizer.encode,
            tokenizer.encode_special,
            segments_of(json.dumps(row).encode(), dialect),
        )
        for row in rows
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dialect", CHATS)
def test_conversations_of_every_dialect_equal_the_plain_reading(
    tmp_path, in_process, form, dialect
):
    rows = CHATS[dialect]
    write(tmp_path / f"chats/a.{form}", rows, form)
    source = settings("chats", 'kind = "chat"', f'paths = ["{tmp_path}/chats"]')
    result = prepare(job(tmp_path, [source]))
    assert result.values["quarantined"] == {}
    out = str(tmp_path / "out")
    tokenizer = Tokenizer.load(f"{out}/tokenizer")
    shards = open_shards(out, source="chats")
    expected = rendered(tokenizer, rows, Dialect(kind="chat", name=dialect))
    assert [ids.tolist() for ids in shards] == [each.ids for each in expected]
    masks = [shards.mask(n).tolist() for n in range(len(shards))]
    assert masks == [each.mask for each in expected]
    assert shards.images(0) is None
    assert verify_output(Folder(out), masks=True).problems == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dialect", VISION)
@pytest.mark.parametrize("grounding", [False, True])
def test_vision_documents_of_every_dialect_equal_the_plain_reading(
    tmp_path, in_process, form, dialect, grounding
):
    rows = VISION[dialect]
    write(tmp_path / f"pages/a.{form}", rows, form)
    source = settings(
        "pages",
        'kind = "vision"',
        f'paths = ["{tmp_path}/pages"]',
        f"grounding = {str(grounding).lower()}",
        "train_prompt = false",
    )
    result = prepare(job(tmp_path, [source], 'tokenizer.extend=["preset:seed"]'))
    assert result.values["quarantined"] == {}
    out = str(tmp_path / "out")
    tokenizer = Tokenizer.load(f"{out}/tokenizer")
    own = Dialect(
        kind="vision",
        name=dialect,
        image_token="<image>",
        grounding=GROUNDING if grounding else (),
        train_prompt=False,
    )
    expected = rendered(tokenizer, rows, own)
    shards = open_shards(out, source="pages")
    assert [ids.tolist() for ids in shards] == [each.ids for each in expected]
    for number, each in enumerate(expected):
        assert shards.mask(number).tolist() == each.mask
        places = [(start, end, place) for place, (start, end) in enumerate(each.images)]
        assert [tuple(row) for row in shards.images(number).tolist()] == places
    image = tokenizer.encode_special("<image>")
    written = sum(int(np.count_nonzero(ids == image)) for ids in shards)
    assert result.values["roles"].get("image", 0) == written
    assert verify_output(Folder(out), masks=True).problems == []
    assert verify_output(Folder(out), deep=True).problems == []


@pytest.mark.parametrize("grounding", [False, True])
def test_the_counted_text_is_the_encoded_text(tmp_path, grounding):
    rows = VISION["prompt-response"]
    write(tmp_path / "pages/a.jsonl", rows, "jsonl")
    source = settings(
        "pages",
        'kind = "vision"',
        f'paths = ["{tmp_path}/pages"]',
        f"grounding = {str(grounding).lower()}",
        "count = true",
    )
    recipe = job(tmp_path, [source], f"output.work={tmp_path}/work")
    training = training_of(recipe, make_plan(recipe))
    (work,) = (training.work(each) for each in training.slices if each.source == "pages")
    count_work(work)
    record = json.loads((tmp_path / f"work/{work.name}.json").read_text())
    dialect = Dialect(
        kind="vision",
        name="prompt-response",
        image_token="<image>",
        grounding=GROUNDING if grounding else (),
    )
    own = [text for row in rows for text in message_texts(json.dumps(row).encode(), dialect)]
    assert record["texts"] == len(own)
    assert record["text_bytes"] == sum(len(text.encode()) for text in own)


def test_documents_too_long_or_without_trainable_tokens_are_dropped_and_listed(
    tmp_path, in_process
):
    rows = [SAID, SAID[:2], [*SAID, *SAID[1:] * 40]]
    write(tmp_path / "chats/a.jsonl", rows, "jsonl")
    source = settings("chats", 'kind = "chat"', f'paths = ["{tmp_path}/chats"]')
    rules = ("limits.max_tokens=400", "limits.too_long=drop", "limits.untrainable=drop")
    summary = prepare(job(tmp_path, [source], *rules))
    assert "too long    1 document of more than 400 tokens: dropped\n" in summary.text()
    assert "untrainable 1 document without a token to train on: dropped\n" in summary.text()
    values = summary.values
    assert values["quarantined"] == {"dropped": 2}
    assert (values["over_max_tokens"], values["without_trainable_token"]) == (1, 1)
    [path] = (tmp_path / "out/quarantine/chats/train").glob("*.jsonl")
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["row"] for entry in entries] == [1, 2]
    assert entries[0]["reason"].startswith("dropped: no token to train on")
    assert entries[1]["reason"].startswith("dropped: ")
    assert entries[1]["reason"].endswith(" tokens, limits.max_tokens = 400")


def test_an_image_is_never_cut(tmp_path, in_process):
    rows = [
        {"prompt": "x <image>", "response": "y", "image_token_counts": [50]},
        {"prompt": "<image>", "response": "y " * 90, "image_token_counts": [3]},
    ]
    write(tmp_path / "pages/a.jsonl", rows, "jsonl")
    source = settings("pages", 'kind = "vision"', f'paths = ["{tmp_path}/pages"]')
    rules = ("limits.max_tokens=20", "limits.too_long=cut", 'tokenizer.extend=["preset:seed"]')
    summary = prepare(job(tmp_path, [source], *rules))
    reported = "2 documents of more than 20 tokens: 1 cut, 1 dropped: a cut would take an image"
    assert reported in summary.text()
    assert "images      1, 3 tokens\n" in summary.text()
    values = summary.values
    assert values["quarantined"] == {"dropped": 1}
    assert (values["over_max_tokens"], values["truncated"], values["images"]) == (2, 1, 1)
    shards = open_shards(str(tmp_path / "out"), source="pages")
    assert [len(ids) for ids in shards] == [20]
    assert shards.images(0).tolist() == [[1, 4, 0]]
    assert verify_output(Folder(str(tmp_path / "out")), masks=True).problems == []


def test_spelled_out_special_tokens_are_counted_and_remain_text(tmp_path, in_process):
    write(tmp_path / "chats/a.jsonl", [SAID, SAID], "jsonl")
    source = settings("chats", 'kind = "chat"', f'paths = ["{tmp_path}/chats"]')
    plain = job(tmp_path, [source])
    values = prepare(plain).values
    totals = json.loads((tmp_path / "out/manifest.json").read_text())["totals"]["chats/train"]
    assert totals["special_text"] == 2 * 2 * 2  # <image> and <|det|> are not special tokens here
    assert totals["special_tokens"]["<|bos|>"] == totals["special_tokens"]["<|user_end|>"] == 2
    assert values["roles"]["bos"] == 2
    assert sum(totals["roles"].values()) == totals["tokens"]


def test_the_summary_reports_what_is_trained_on(tmp_path, in_process):
    write(tmp_path / "chats/a.jsonl", [SAID[:2], [*SAID, *SAID[1:] * 40]], "jsonl")
    source = settings("chats", 'kind = "chat"', f'paths = ["{tmp_path}/chats"]')
    summary = prepare(job(tmp_path, [source], "limits.max_tokens=400"))
    own = summary.values["sources"]["chats/train"]
    share = f"{own['trainable_tokens'] / own['tokens']:.1%}"
    text = summary.text()
    assert f" bytes per token, {share} trained on\n" in text
    assert f"trained on  {own['trainable_tokens']:,} of {own['tokens']:,} tokens of" in text
    assert "too long    1 document of more than 400 tokens: kept whole\n" in text
    assert "untrainable 1 document without a token to train on: kept; " in text


def test_a_tokenizer_without_image_tokens_is_refused(tmp_path, in_process):
    write(tmp_path / "pages/a.jsonl", VISION["text"], "jsonl")
    source = settings("pages", 'kind = "vision"', f'paths = ["{tmp_path}/pages"]')
    wrong = job(tmp_path, [source])
    for command in (prepare, plan_job):
        with pytest.raises(RecipeError, match=r"none of the special tokens <image>, <\|image\|>"):
            command(wrong)
    assert not (tmp_path / "out").exists()  # found before learning
    train(wrong)
    with pytest.raises(RecipeError, match="none of the special tokens"):
        tokenize(wrong)


def test_turns_of_vision_documents_require_the_special_tokens_of_chats(tmp_path):
    source = settings("pages", 'kind = "vision"', f'paths = ["{tmp_path}/pages"]')
    few = 'tokenizer.special_tokens=["<|bos|>", "<|assistant_end|>", "<image>"]'
    check_special_tokens(job(tmp_path, [source], few))
    talks = settings(
        "talks", 'kind = "vision"', 'dialect = "messages"', f'paths = ["{tmp_path}/a"]'
    )
    with pytest.raises(RecipeError, match=r"'talks' is of kind vision.* with <\|user_start\|>"):
        check_special_tokens(job(tmp_path, [source, talks], few))


def test_the_first_refused_document_is_named_with_its_dialect(tmp_path, in_process):
    write(tmp_path / "chats/a.jsonl", [*CHATS["prompt-response"], *[SAID] * 9], "jsonl")
    source = settings("chats", 'kind = "chat"', f'paths = ["{tmp_path}/chats"]')
    reported = (
        r"\(9\); the first is source 'chats', a.jsonl, line \d+, read as prompt-response: not an .*"
        r"; see .*/out/quarantine/chats/train/a-00000-[0-9a-f]{16}\.jsonl, correct"
    )
    with pytest.raises(QuarantineLimitError, match=reported):
        prepare(job(tmp_path, [source]))


def test_masks_of_a_parquet_with_an_id_column_are_verified(tmp_path, in_process):
    rows = [{"id": str(number), "messages": SAID} for number in range(3)]
    write(tmp_path / "chats/a.parquet", rows, "parquet")
    source = settings("chats", 'kind = "chat"', f'paths = ["{tmp_path}/chats"]', 'id_column = "id"')
    prepare(job(tmp_path, [source]))
    result = verify_output(Folder(str(tmp_path / "out")), masks=True)
    assert (result.problems, result.sampled) == ([], 3)
