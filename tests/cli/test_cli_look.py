"""`nanotok inspect`: documents on a terminal and as a page."""

import gzip
import json
import re

import numpy as np
import pytest

from nanotok_ray.cli import inspect as look
from nanotok_ray.cli import inspected, main
from nanotok_ray.cli.inspect import MAX_DOCUMENTS
from nanotok_ray.loader import Shards, open_shards
from nanotok_ray.recipe.special_tokens import GROUNDING, SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer
from tests.support.finished_output import finished_output
from tests.support.shown_page import ShownPage


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return finished_output(tmp_path_factory.mktemp("look"))


@pytest.fixture(scope="module")
def tokenizer(out):
    return Tokenizer.load(out / "tokenizer")


@pytest.fixture
def inspect(out, capsys):
    """Run the command on the output; give its exit code, stdout and stderr."""

    def run(*arguments):
        code = main(["inspect", str(out), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def with_images(monkeypatch):
    """Make tokens 1 to 4 of every document an image, and the token after them another."""
    images = np.array([[1, 4, 0], [4, 5, 1]], dtype=np.int32)
    monkeypatch.setattr(Shards, "images", lambda *_: images, raising=False)


def uncolored(text):
    return re.sub("\x1b\\[[0-9;]*m", "", text)


def test_plain_tokens_joined_are_the_document(inspect, out, tokenizer):
    shards = open_shards(str(out), source="chats")
    code, shown, _ = inspect("--source", "chats", "--doc", "3", "--ids")
    assert code == 0
    ids = [int(number) for number in re.findall(r"\((\d+)\)(?:\]\])?(?:\||$)", shown)]
    assert ids == shards[3].tolist()
    assert shown.count("[[") == shown.count("]]") > 0
    heading = shown.splitlines()[0]
    name, place = shards.shard_of(3)
    assert heading == f"document 3 of {len(shards)}, document {place} of {name}"
    special = set(tokenizer.special_tokens.values())
    size = len(tokenizer.decode_bytes([number for number in ids if number not in special]))
    assert f"{len(ids)} tokens, {size} bytes, " in shown
    assert f"{int(shards.mask(3).sum())} tokens under mask 1" in shown


def test_in_colour_each_turn_and_tool_call_starts_a_line(inspect):
    for number in range(4):
        _, shown, _ = inspect("--source", "chats", "--doc", str(number), "--color", "always")
        body = uncolored(shown.split("\n\n", 1)[1])
        opens = ("user_start", "assistant_start", "python_start", "output_start")
        for name in opens:
            count = body.count(f"<|{name}|>")
            assert len(re.findall(rf"^<\|{name}\|>", body, re.MULTILINE)) == count
        assert body.count("<|user_start|>") in (1, 2)
        assert shown.splitlines()[-1] == "\x1b[92mtrained on\x1b[0m \x1b[91mnot trained on\x1b[0m"


def test_colour_says_the_mask(inspect, out, tokenizer):
    shards = open_shards(str(out), source="chats")
    _, shown, _ = inspect("--source", "chats", "--doc", "1", "--color", "always", "--ids")
    pairs = re.findall("\x1b\\[9([12])m(?:[^\x1b]*)\x1b\\[0m\\|\x1b\\[90m\\((\\d+)\\)", shown)
    assert [int(number) for _, number in pairs] == shards[1].tolist()
    assert [int(colour == "2") for colour, _ in pairs] == shards.mask(1).tolist()


@pytest.mark.parametrize("flags", [(), ("--color", "always")], ids=["plain", "colour"])
def test_an_image_is_one_box(inspect, with_images, flags):
    _, shown, _ = inspect("--source", "chats", "--doc", "0", *flags)
    body = uncolored(shown)
    assert "[image 1: 3 tokens]" in body
    assert "[image 2: 1 token]" in body
    assert ", 4 tokens of 2 images" in body
    assert ("\x1b[95mimage\x1b[0m" in shown) == bool(flags)


def test_a_document_cannot_steer_the_terminal(inspect, monkeypatch):
    ids = np.frombuffer(b"a\x1b[31m\x07\xe6\x95\xb0\xe6b\n", dtype=np.uint8).astype(np.uint16)
    monkeypatch.setattr(Shards, "__getitem__", lambda *_: ids)
    monkeypatch.setattr(Shards, "mask", lambda *_: None)
    for flags in ((), ("--color", "always")):
        _, shown, _ = inspect("--doc", "0", *flags)
        body = uncolored(shown)
        assert "\x1b" not in body
        assert "\x07" not in body
        assert body.split("\n\n", 1)[1].replace("|", "").startswith(r"a\x1b[31m\x07\xe6\x95数")


def test_several_documents_follow_each_other_in_the_order_asked_for(inspect):
    _, shown, _ = inspect("--doc", "5", "--doc", "-1", "--doc", "0-2")
    numbers = [int(number) for number in re.findall(r"^document (\d+) of 110", shown, re.MULTILINE)]
    assert numbers == [5, 109, 0, 1, 2]


def test_a_page_holds_the_documents_asked_for(inspect, out, tmp_path):
    shards = open_shards(str(out), source="chats")
    path = tmp_path / "page.html"
    code, shown, told = inspect("--source", "chats", "--doc", "0-2", "--html", str(path))
    assert (code, shown) == (0, "")
    assert f"3 documents, {path.stat().st_size:,} bytes: {path}" in told
    page = ShownPage(path.read_text(encoding="utf-8"))
    assert page.ids == [number for document in range(3) for number in shards[document].tolist()]
    flags = [int("y" in token.kinds) for token in page.tokens]
    assert flags == [flag for document in range(3) for flag in shards.mask(document).tolist()]
    assert f"{out}, split train, source chats" in page.told


def test_a_page_goes_to_stdout_as_the_same_bytes(inspect, tmp_path):
    path = tmp_path / "page.html"
    inspect("--doc", "7", "--html", str(path))
    code, shown, told = inspect("--doc", "7", "--html", "-")
    assert (code, told) == (0, "")
    assert shown.encode() == path.read_bytes()


def test_a_page_shows_images_and_ids(inspect, with_images):
    _, shown, _ = inspect("--source", "chats", "--ids", "--html", "-")
    page = ShownPage(shown)
    assert [box.text for box in page.tokens if "g" in box.kinds] == [
        "image 1 3 tokens",
        "image 2 1 token",
    ]
    assert "checked" in dict(page.attributes)["input"]


def test_a_page_is_cut_unless_all_is_asked_for(inspect, monkeypatch):
    monkeypatch.setattr(look, "MAX_TOKENS", 5)
    assert "not shown" in inspect("--source", "chats", "--html", "-")[1]
    assert "not shown" not in inspect("--source", "chats", "--html", "-", "--all")[1]


@pytest.mark.parametrize("found", [True, False], ids=["a browser", "none"])
def test_a_page_is_opened_in_a_browser_or_says_where_it_lies(inspect, monkeypatch, tmp_path, found):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: (opened.append(url), found)[1])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, _, told = inspect("--open")
    (path,) = tmp_path.glob("nanotok-inspect-*.html")
    assert (code, opened) == (0, [path.as_uri()])
    assert str(path) in told
    assert ("no browser was found" in told) == (not found)
    assert ShownPage(path.read_text(encoding="utf-8")).tokens


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--doc", "110"], ["--doc 110", "there are 110 documents in split train"]),
        (["--doc", "0-110"], ["--doc 0-110", "there are 110"]),
        (["--doc", "-111"], ["--doc -111", "there are 110"]),
        (["--doc", "7-3"], ["--doc 7-3", "swap"]),
        (["--source", "chats", "--doc", "30"], ["30 documents in split train of source chats"]),
        (["--source", "wab"], ["there are web, chats"]),
        (["--open", "--text"], ["--open", "--text"]),
        (["--open", "--html", "-"], ["--html -", "name a file"]),
        (["--all"], ["--all", "add --html FILE"]),
        (["--doc", "0-9"] * 101, [f"more than {MAX_DOCUMENTS} documents"]),
    ],
    ids=lambda value: " ".join(value)[:20],
)
def test_wrong_arguments_exit_2_and_say_what_to_do(inspect, arguments, words):
    code, shown, told = inspect(*arguments)
    assert (code, shown) == (2, "")
    assert all(word in told for word in words)


@pytest.mark.parametrize("number", ["x", "1-", "0-9-", "1.5", "", "9" * 30])
def test_what_is_no_number_of_a_document_is_refused_by_name(out, capsys, number):
    with pytest.raises(SystemExit) as caught:
        main(["inspect", str(out), "--doc", number])
    assert caught.value.code == 2
    assert f"{number!r} is no document" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_exits_5(inspect, tmp_path):
    code, _, told = inspect("--html", str(tmp_path / "none" / "page.html"))
    assert code == 5
    assert "No such file" in told


def test_an_id_that_is_no_token_exits_4(inspect, monkeypatch):
    monkeypatch.setattr(Shards, "__getitem__", lambda *_: np.array([9999], dtype=np.uint16))
    monkeypatch.setattr(Shards, "mask", lambda *_: None)
    for flags in ([], ["--html", "-"]):
        code, _, told = inspect(*flags)
        assert code == 4
        assert "id 9999 at position 0 is no token" in told


GSM8K = {"question": "1+1?", "answer": "It is <<1+1=2>>2.\n#### 2"}
SCAN = {"prompt": "<image>read <image>", "response": "data", "image_token_counts": [5, 2]}


@pytest.fixture
def look_at(tmp_path, capsys):
    """Write lines to a file and a tokenizer with images, run the command on them."""
    names = [*SPECIAL_TOKENS, "<image>", *GROUNDING]
    tokenizer = Tokenizer.train_from_iterator(["1+1=2 data"], 273, special_tokens=names)
    tokenizer.save(tmp_path / "tokenizer")

    def run(data, *arguments, name="in.jsonl", folder="tokenizer"):
        (tmp_path / name).write_bytes(data)
        place = ["--file", str(tmp_path / name), "--tokenizer", str(tmp_path / folder)]
        code = main(["inspect", *place, *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    run.tokenizer = tokenizer
    return run


def json_lines(*values):
    return "\n".join(map(json.dumps, values)).encode()


def test_a_line_of_a_file_is_rendered_before_there_is_a_job(look_at):
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    data = b"\xef\xbb\xbf" + json_lines(messages) + b"\n\n" + json_lines({"messages": messages})
    for number, line in ((0, 1), (1, 3)):
        code, shown, _ = look_at(data, "--doc", str(number), "--html", "-")
        page = ShownPage(shown)
        ids, mask = look_at.tokenizer.render_conversation({"messages": messages})
        assert (code, page.ids) == (0, ids)
        assert [int("y" in token.kinds) for token in page.tokens] == mask
        assert f"line {line} of " in page.told
    assert "document 1 of 2" in page.told


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_the_dialect_is_seen_from_the_first_line_or_named(look_at, name):
    data = json_lines(GSM8K, GSM8K)
    data = gzip.compress(data) if name.endswith(".gz") else data
    for flags in ((), ("--dialect", "gsm8k")):
        _, shown, _ = look_at(data, *flags, "--doc", "-1", name=name)
        assert "|<|python_start|>|1|+|1|<|python_end|>]]|<|output_start|>|2|" in shown


def test_a_vision_line_shows_its_images(look_at):
    _, shown, _ = look_at(json_lines(SCAN), "--kind", "vision")
    assert "[image 1: 5 tokens]|[[r|e|a|d| ]]|[image 2: 2 tokens]|[[" in shown
    _, shown, _ = look_at(json_lines(SCAN), "--kind", "vision", "--no-train-prompt")
    assert "[image 1: 5 tokens]|r|e|a|d| |[image 2: 2 tokens]|[[" in shown
    bare = json_lines({"prompt": "<image>", "response": "d"})
    _, shown, _ = look_at(bare, "--kind", "vision", "--image-tokens", "9")
    assert "[image 1: 9 tokens]" in shown
    grounded = json_lines({"prompt": "<|grounding|>", "response": "d"})
    spelled = [look_at(grounded, "--kind", "vision", *flags)[1] for flags in ([], ["--grounding"])]
    assert ["<|grounding|>" in shown for shown in spelled] == [False, True]


@pytest.mark.parametrize(
    ("data", "arguments", "words"),
    [
        (b"", [], ["no dialect of kind chat", "--dialect"]),
        (b"[]", ["--doc", "1"], ["--doc 1: there are 1 documents"]),
        (b"[]", [], ["line 1: ", "no messages"]),
        (b"{", [], ["in.jsonl, line 1: ", "invalid JSON"]),
        (b"\n{", ["--dialect", "messages"], ["in.jsonl, line 2: ", "invalid JSON"]),
        (b'{"a": 1}', [], ["no dialect of kind chat", "sharegpt"]),
        (b"[]", ["--dialect", "shareg"], ["'shareg'", "sharegpt"]),
        (b"[]", ["--source", "web"], ["--source web", "leave it out"]),
        (json_lines(SCAN | {"prompt": "x"}), ["--kind", "vision"], ["line 1: 0 <image> place"]),
    ],
    ids=lambda value: None if isinstance(value, bytes) else " ".join(value)[:20] or "none",
)
def test_a_file_that_cannot_be_shown_exits_2_and_says_why(look_at, data, arguments, words):
    code, shown, told = look_at(data, *arguments)
    assert (code, shown) == (2, "")
    assert all(word in told for word in words)


def test_broken_and_large_files_and_missing_tokenizers_are_refused(
    look_at, out, tmp_path, capsys, monkeypatch
):
    code, _, told = look_at(gzip.compress(b"[]" * 99)[:-9], name="in.jsonl.gz")
    assert (code, "cannot be read" in told) == (2, True)
    code, _, told = look_at(b"PAR1\x15\x04", name="in.parquet")
    assert (code, "in.parquet is parquet" in told) == (2, True)
    assert look_at(b"[]", folder="none")[0] == 2
    plain = str(out / "tokenizer")
    code, _, told = look_at(json_lines(SCAN), "--kind", "vision", folder=plain)
    assert (code, "no token for images (<image>" in told) == (2, True)
    monkeypatch.setattr(inspected, "MAX_BYTES", 9)
    code, _, told = look_at(b"[       ]\n")
    assert (code, "more than 9 bytes" in told) == (2, True)
    for arguments, words in (
        ([], "DIR, an output, or --file FILE"),
        ([str(out), "--file", "x"], "DIR, an output, or --file FILE"),
        (["--file", "x"], "add --tokenizer FOLDER"),
        (["--file", str(tmp_path / "none"), "--tokenizer", plain], "there is no such file"),
    ):
        assert main(["inspect", *arguments]) == 2
        assert words in capsys.readouterr().err
