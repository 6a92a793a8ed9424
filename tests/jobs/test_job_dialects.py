"""Jobs over conversations and images; the demo's corpus."""

import ast
import json
import sysconfig
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import demo_corpus
from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.chat import compose, message_texts, segments_of
from nanotok_ray.dialects import Dialect
from nanotok_ray.errors import QuarantineLimitError, RecipeError
from nanotok_ray.job.planning import plan_job
from nanotok_ray.job.tokenize import check_special_tokens
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import GROUNDING, parse_recipe
from nanotok_ray.report.page import report_page
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import rewrite
from tests.support.run_job import run
from tests.support.small_corpus import contents, texts, write_parquet

FORGED = "<|bos|> <|assistant_end|> <image> <|det|>"
SAID = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": f"hi {FORGED}"},
    {"role": "assistant", "content": f"hello {FORGED}"},
]
PAIR = ["a", "b"]
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
    "alpaca": [
        {"instruction": "i", "input": FORGED, "output": "o", "system": "s", "history": [PAIR]},
        {"instruction": "i", "input": None, "output": FORGED, "system": None, "history": []},
    ],
}
VISION = {
    "prompt-response": [
        {"prompt": "<image> and <image>", "response": FORGED, "image_token_counts": [3, 2]},
        {"prompt": "no image", "response": "<|ref|>x<|/ref|>"},
    ],
    "text": [{"text": "<image>\nOCR.text<|assistant_end|>", "image_token_counts": [4]}],
    "messages": [{"messages": [{"role": "user", "content": "<image>"}, SAID[2]]}],
}
ROWS = {"chat": CHATS, "vision": VISION}
NAMES = {"chat": "chats", "vision": "pages"}


def write(path: Path, rows: list[object], form: str) -> None:
    """Write rows as lines, or as a table if all of them are objects with the same keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist([_table_row(row) for row in rows]), path)


def _table_row(row):
    return row if isinstance(row, dict) else {"messages": row}


def job(root: Path, kind: str, rows: list[object], *overrides: str, form: str = "jsonl"):
    """Write some texts, and rows as a source of a kind; return the recipe of a job with both."""
    name = NAMES[kind]
    write_parquet(root / "text/a.parquet", texts(30, seed=1))
    write(root / f"{name}/a.{form}", rows, form)
    text = f"""
    [[source]]
    name = "web"
    kind = "text"
    paths = ["{root}/text"]
    split = "train"
    [[source]]
    name = "{name}"
    kind = "{kind}"
    paths = ["{root}/{name}"]
    [tokenizer]
    vocab_size = 400
    [output]
    path = "{root}/out"
    """
    return parse_recipe(text, overrides=overrides)


def quarantined(root: Path):
    [path] = (root / "out/quarantine").rglob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


CASES = [("chat", name, False) for name in CHATS]
CASES += [("vision", name, grounding) for name in VISION for grounding in (False, True)]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize(("kind", "dialect", "grounding"), CASES)
def test_documents_of_every_dialect_equal_the_plain_reading(
    tmp_path, form, kind, dialect, grounding
):
    rows, name, own = ROWS[kind][dialect], NAMES[kind], Dialect(kind=kind, name=dialect)
    more = [f"source.{name}.count=true"]
    if kind == "vision":
        marks = GROUNDING if grounding else ()
        own = replace(own, image_token="<image>", grounding=marks, train_prompt=False)
        more.append(f"source.{name}.grounding={str(grounding).lower()}")
        more += [f"source.{name}.train_prompt=false", 'tokenizer.extend=["preset:seed"]']
    result = prepare(job(tmp_path, kind, rows, *more, form=form))
    assert result.values["quarantined"] == {}
    out = str(tmp_path / "out")
    tokenizer, shards = Tokenizer.load(f"{out}/tokenizer"), open_shards(out, source=name)
    documents = [json.dumps(row).encode() for row in rows]
    expected = [
        compose(tokenizer.encode, tokenizer.encode_special, segments_of(document, own))
        for document in documents
    ]
    assert [ids.tolist() for ids in shards] == [each.ids for each in expected]
    for number, each in enumerate(expected):
        assert shards.mask(number).tolist() == each.mask
        images = shards.images(number)
        places = [[start, end, place] for place, (start, end) in enumerate(each.images)]
        assert images is None if kind == "chat" else images.tolist() == places
    sizes = [end - start for each in expected for start, end in each.images]
    assert result.values["roles"].get("image", 0) == sum(sizes)
    encoded = [text for document in documents for text in message_texts(document, own)]
    counted = json.loads(Path(out, "tokenizer/report.json").read_text())["sources"][name]
    assert counted["texts"] == len(encoded)
    assert counted["text_bytes"] == sum(len(text.encode()) for text in encoded)
    assert verify_output(Folder(out), depth="masks").problems == []
    assert verify_output(Folder(out), depth="full").problems == []


def test_documents_too_long_or_without_trainable_tokens_are_kept_or_dropped_and_listed(
    tmp_path, in_process
):
    rows = [SAID, SAID[:2], [*SAID, *SAID[1:] * 40]]
    summary = prepare(job(tmp_path, "chat", rows, "limits.max_tokens=400"))
    own, text = summary.values["sources"]["chats/train"], summary.text()
    share = f"{own['trainable_tokens'] / own['tokens']:.1%}"
    assert f" bytes per token, {share} trained on\n" in text
    assert f"trained on  {own['trainable_tokens']:,} of {own['tokens']:,} tokens of" in text
    assert "too long    1 document of more than 400 tokens: kept whole\n" in text
    assert "untrainable 1 document without a token to train on: kept; " in text
    totals = json.loads((tmp_path / "out/manifest.json").read_text())["totals"]["chats/train"]
    spelled = 4 + 2 + 41 * 4  # <image> and <|det|> are not special tokens here
    assert totals["special_text"] == spelled
    assert totals["special_tokens"]["<|bos|>"] == summary.values["roles"]["bos"] == 3
    assert sum(totals["roles"].values()) == totals["tokens"]
    rules = ("limits.max_tokens=400", "limits.too_long=drop", "limits.untrainable=drop")
    summary = prepare(job(tmp_path, "chat", rows, *rules))
    assert "too long    1 document of more than 400 tokens: dropped\n" in summary.text()
    assert "untrainable 1 document without a token to train on: dropped\n" in summary.text()
    values = summary.values
    assert values["quarantined"] == {"dropped": 2}
    assert (values["over_max_tokens"], values["without_trainable_token"]) == (1, 1)
    first, second = quarantined(tmp_path)
    assert (first["row"], second["row"]) == (1, 2)
    assert first["reason"].startswith("dropped: no token to train on")
    assert second["reason"].startswith("dropped: ")
    assert second["reason"].endswith(" tokens, limits.max_tokens = 400")


def thinking(number, **more):
    said = {"role": "assistant", "content": "b", "reasoning_content": f"r{number}"}
    return {"messages": [{"role": "user", "content": "a"}, said], **more}


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_text_that_is_not_rendered_is_counted_noted_and_verified(tmp_path, in_process, form):
    rows = [thinking(number, ticket=f"t{number}", source="web") for number in range(3)]
    rows.append(thinking(3, ticket="t3", source="web") | {"tools": "f"})
    rows[:3] = [row | {"tools": None} for row in rows[:3]]
    options = ("source.chats.id_column=ticket", "limits.slice_bytes=1")
    ran = run(job(tmp_path, "chat", rows, *options, form=form))
    expected = {"reasoning_content": 4} | ({"tools": 1} if form == "jsonl" else {})
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    totals = manifest["totals"]
    assert totals["all"]["unused_text"] == totals["chats/train"]["unused_text"] == expected
    assert "unused_text" not in totals["web/train"]
    records = {
        path: json.loads(path.read_text()).get("unused_text", {})
        for path in (tmp_path / "out/records/tokenize/chats").rglob("*.json")
    }
    assert sum(each.get("reasoning_content", 0) for each in records.values()) == 4
    assert ran.summary.values["unused_text"] == expected
    more = ", 'tools' (1 value)" if form == "jsonl" else ""
    sentence = f"'reasoning_content' (4 values){more} is not rendered"
    assert f"{sentence}\n" in ran.summary.text()
    assert any(f"{sentence}: write it into the contents" in note for note in ran.notes)
    page = report_page(Folder(str(tmp_path / "out")))
    assert "Text that is not rendered, by key" in page
    assert "reasoning_content" in page
    out = tmp_path / "out"
    for depth in ("masks", "full"):
        assert verify_output(Folder(str(out)), depth=depth).problems == []
    name = next(path.name for path, counted in records.items() if counted)
    more = b'"reasoning_content": 9'
    rewrite(out, f"records/**/{name}", lambda data: data.replace(more[:-1], more))
    problems = verify_output(Folder(str(out)), depth="masks").problems
    assert any("values of 'reasoning_content' that are not rendered" in each for each in problems)


def test_an_output_without_unused_text_has_no_count_of_it(tmp_path, in_process):
    ran = run(job(tmp_path, "chat", [{"messages": SAID, "id": "7", "source": "x"}] * 3))
    assert "unused_text" not in ran.summary.values
    assert "is not rendered" not in ran.summary.text() + "".join(ran.notes)
    files = [*(tmp_path / "out").rglob("*.json")]
    assert not any("unused_text" in path.read_text() for path in files)


def test_records_of_versions_that_did_not_count_unused_text_are_verified(tmp_path, in_process):
    prepare(job(tmp_path, "chat", [thinking(1), thinking(2)]))
    out = tmp_path / "out"

    def without(data):
        values = json.loads(data)
        assert values.pop("unused_text") == {"reasoning_content": 2}
        return json.dumps(values).encode()

    rewrite(out, "records/tokenize/chats/train/*.json", without)
    assert "unused_text" not in (out / "manifest.json").read_text()
    for depth in ("masks", "full"):
        assert verify_output(Folder(str(out)), depth=depth).problems == []


def test_only_written_documents_and_a_bounded_number_of_keys_are_counted(tmp_path, in_process):
    rows = [thinking(n, **{f"key{n:02}\n{'x' * 99}": "a"}) for n in range(40)]
    rows += [thinking(40), [{"role": "tool", "content": "bad", "note": "a"}]]
    rows[-2]["messages"][0]["content"] = "too long " * 99
    rules = ("limits.max_tokens=200", "limits.too_long=drop", "limits.max_quarantined_share=0.5")
    values = prepare(job(tmp_path, "chat", rows, *rules)).values
    unused = values["unused_text"]
    assert (unused["reasoning_content"], len(unused)) == (40, 33)
    assert unused["(other keys)"] == 40 - 31
    assert all(len(key) < 50 and key.isprintable() for key in unused)
    assert verify_output(Folder(str(tmp_path / "out")), depth="masks").problems == []


def test_an_image_is_never_cut(tmp_path, in_process):
    rows = [
        {"prompt": "x <image>", "response": "y", "image_token_counts": [50]},
        {"prompt": "<image>", "response": "y " * 90, "image_token_counts": [3]},
    ]
    rules = ("limits.max_tokens=20", "limits.too_long=cut", 'tokenizer.extend=["preset:seed"]')
    summary = prepare(job(tmp_path, "vision", rows, *rules))
    reported = "2 documents of more than 20 tokens: 1 cut, 1 dropped: a cut would take an image"
    assert reported in summary.text()
    assert "images      1, 3 tokens\n" in summary.text()
    values = summary.values
    assert values["quarantined"] == {"dropped": 1}
    assert (values["over_max_tokens"], values["truncated"], values["images"]) == (2, 1, 1)
    shards = open_shards(str(tmp_path / "out"), source="pages")
    assert [len(ids) for ids in shards] == [20]
    assert shards.images(0).tolist() == [[1, 4, 0]]
    assert verify_output(Folder(str(tmp_path / "out")), depth="masks").problems == []


def test_a_tokenizer_without_image_tokens_is_refused(tmp_path, in_process):
    wrong = job(tmp_path, "vision", VISION["text"])
    for command in (prepare, plan_job):
        with pytest.raises(RecipeError, match=r"none of the special tokens <image>, <\|image\|>"):
            command(wrong)
    assert not (tmp_path / "out").exists()  # found before learning
    train(wrong)
    with pytest.raises(RecipeError, match="none of the special tokens"):
        tokenize(wrong)


def test_turns_of_vision_documents_require_the_special_tokens_of_chats(tmp_path):
    few = 'tokenizer.special_tokens=["<|bos|>", "<|assistant_end|>", "<image>"]'
    check_special_tokens(job(tmp_path, "vision", [], few), None)
    talks = job(tmp_path, "vision", [], few, "source.pages.dialect=messages")
    with pytest.raises(RecipeError, match=r"'pages' is of kind vision.* with <\|user_start\|>"):
        check_special_tokens(talks, None)


def test_the_first_refused_document_is_named_with_its_dialect(tmp_path, in_process):
    reported = (
        r"\(9\); the first is source 'chats', a.jsonl, line \d+, read as prompt-response: not an .*"
        r"; see .*/out/quarantine/chats/train/a-00000-[0-9a-f]{16}\.jsonl, correct"
    )
    with pytest.raises(QuarantineLimitError, match=reported):
        prepare(job(tmp_path, "chat", [*CHATS["prompt-response"], *[SAID] * 9]))


def test_masks_of_a_parquet_with_an_id_column_are_verified(tmp_path, in_process):
    rows = [{"id": str(number), "messages": SAID} for number in range(3)]
    prepare(job(tmp_path, "chat", rows, "source.chats.id_column=id", form="parquet"))
    result = verify_output(Folder(str(tmp_path / "out")), depth="masks")
    assert (result.problems, result.sampled) == ([], 3)


SHAPES = '''"""Shapes of things."""

def area(side):
    """Area of a square.

    >>> side = 3
    >>> area(side)
    9
    >>> area("x")
    Traceback (most recent call last):
      ...
    TypeError: not a number
    """
'''


@pytest.fixture
def library(tmp_path):
    """A library of two modules, a foreign package, a test, and test data."""
    files = {
        "shapes.py": SHAPES,
        "pack/__init__.py": 'class C:\n    "A class."\n',
        "test/test_pack.py": 'examples = """\n>>> 1 + 1\n2\n"""\n',
        "test/test_plain.py": '"""Nothing to run."""\n',
        "test/bad_syntax.py": ">>> def (\n",
        "site-packages/other.py": '"""Not ours."""\n',
    }
    for name, text in files.items():
        path = tmp_path / "library" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "library" / "latin.py").write_bytes(b"# caf\xe9\n")
    return tmp_path / "library"


def texts_of(folder):
    return [text for path in sorted(folder.iterdir()) for text in pq.read_table(path)["text"]]


def test_modules_docstrings_and_examples_become_documents_and_conversations(library):
    corpus = demo_corpus.collect(library)
    assert corpus.code == ['class C:\n    "A class."\n', SHAPES]
    docs = corpus.docs
    assert docs[:2] == ["pack.C\n\nA class.", "shapes\n\nShapes of things."]
    assert docs[2].startswith("shapes.area\n\nArea of a square.")
    assert len(docs) == 3
    first, second = (messages[0]["content"] for messages in corpus.doctests)
    assert first.startswith("The documentation of shapes.area says: Area of a square.\n\n")
    assert first.endswith("What does this give?\n\nside = 3\narea(side)")
    assert second == "The documentation of test.test_pack has examples. What does 1 + 1 give?"
    messages = corpus.doctests[0]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    assert messages[1]["content"] == [
        {"type": "text", "text": "Let me run it."},
        {"type": "python", "text": "side = 3\narea(side)"},
        {"type": "python_output", "text": "9"},
        {"type": "text", "text": "It gives 9"},
    ]
    assert messages[3]["content"][3]["text"] == "It raises TypeError: not a number"


@pytest.mark.parametrize("docstring", ["No example", ">>> x = 1", ">>>broken\n"])
def test_a_docstring_without_output_is_no_conversation(docstring):
    assert demo_corpus.conversation("m", docstring) == []


def test_a_lone_surrogate_is_replaced_because_files_cannot_contain_it():
    text = '"\\ud800!"'
    module = demo_corpus.Module(name="m", text=text, tree=ast.parse(text), is_test=False)
    assert demo_corpus.docstrings(module) == [("m", "?!")]


def test_files_contain_the_corpus_and_are_reproducible(library, tmp_path):
    corpus = demo_corpus.collect(library)
    first = tmp_path / "first"
    for name in ("first", "second"):
        demo_corpus.write_corpus(corpus, out_dir=tmp_path / name)
    assert contents(first) == contents(tmp_path / "second")
    files = ["code/shard_00000.parquet", "docs/shard_00000.parquet", "doctests/chats_00000.jsonl"]
    assert list(contents(first)) == files
    assert [text.as_py() for text in texts_of(first / "code")] == corpus.code
    lines = (first / "doctests" / "chats_00000.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == corpus.doctests


def test_a_smaller_corpus_leaves_no_file_of_the_larger_one(tmp_path):
    demo_corpus.write_parquet(["x"] * 3, folder=tmp_path, documents_per_shard=1)
    demo_corpus.write_parquet(["x"], folder=tmp_path, documents_per_shard=1)
    assert [path.name for path in tmp_path.iterdir()] == ["shard_00000.parquet"]


def test_the_command_writes_a_part_of_the_real_library(tmp_path, capsys):
    library = Path(sysconfig.get_path("stdlib")) / "json"
    demo_corpus.main([str(tmp_path), "--library", str(library)])
    assert len(texts_of(tmp_path / "code")) == len(list(library.glob("*.py")))
    assert "doctests: 2 conversations" in capsys.readouterr().out
