"""`nanotok inspect`: documents on a terminal and as a page."""

import re

import numpy as np
import pytest

from nanotok_ray.cli import inspect as look
from nanotok_ray.cli import main
from nanotok_ray.cli.inspect import MAX_DOCUMENTS
from nanotok_ray.loader import Shards, open_shards
from nanotok_ray.tokenizer import Tokenizer
from tests.support.shown_page import ShownPage
from tests.support.small_corpus import texts


@pytest.fixture(scope="module")
def tokenizer(out):
    return Tokenizer.load(out / "tokenizer")


@pytest.fixture
def inspect(out, capsys):
    """Run the command on the output; return its exit code, stdout and stderr."""

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


def test_plain_tokens_joined_equal_the_document(inspect, out, tokenizer):
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


def test_documents_are_printed_in_the_requested_order_those_with_an_id_first(inspect, monkeypatch):
    monkeypatch.setattr(Shards, "find", lambda _, name: {"a": [3], "b": [1, 2]}[name])
    flags = ["--doc-id", "b", "--doc-id", "a", "--doc", "5", "--doc", "-1", "--doc", "0-2"]
    code, shown, _ = inspect(*flags, "--text")
    numbers = [int(number) for number in re.findall(r"^document (\d+) of 110", shown, re.MULTILINE)]
    assert (code, numbers) == (0, [1, 2, 3, 5, 109, 0, 1, 2])
    assert f"\n\n<|bos|>{texts(40, seed=0)[0]}" in shown


def test_with_color_each_turn_and_tool_call_starts_a_line(inspect):
    for number in range(4):
        _, shown, _ = inspect("--source", "chats", "--doc", str(number), "--color", "always")
        body = uncolored(shown.split("\n\n", 1)[1])
        opens = ("user_start", "assistant_start", "python_start", "output_start")
        for name in opens:
            count = body.count(f"<|{name}|>")
            assert len(re.findall(rf"^<\|{name}\|>", body, re.MULTILINE)) == count
        assert body.count("<|user_start|>") in (1, 2)
        assert shown.splitlines()[-1] == "\x1b[92mtrained on\x1b[0m \x1b[91mnot trained on\x1b[0m"


def test_color_shows_the_mask(inspect, out, tokenizer):
    shards = open_shards(str(out), source="chats")
    _, shown, _ = inspect("--source", "chats", "--doc", "1", "--color", "always", "--ids")
    pairs = re.findall("\x1b\\[9([12])m(?:[^\x1b]*)\x1b\\[0m\\|\x1b\\[90m\\((\\d+)\\)", shown)
    assert [int(number) for _, number in pairs] == shards[1].tolist()
    assert [int(color == "2") for color, _ in pairs] == shards.mask(1).tolist()


@pytest.mark.parametrize("flags", [(), ("--color", "always")], ids=["plain", "color"])
def test_an_image_is_one_box(inspect, with_images, flags):
    _, shown, _ = inspect("--source", "chats", "--doc", "0", *flags)
    body = uncolored(shown)
    assert "[image 1: 3 tokens]" in body
    assert "[image 2: 1 token]" in body
    assert ", 4 tokens of 2 images" in body
    assert ("\x1b[95mimage\x1b[0m" in shown) == bool(flags)


def test_a_document_cannot_control_the_terminal(inspect, monkeypatch):
    ids = np.frombuffer(b"a\x1b[31m\x07\xe6\x95\xb0\xe6b\n", dtype=np.uint8).astype(np.uint16)
    monkeypatch.setattr(Shards, "__getitem__", lambda *_: ids)
    monkeypatch.setattr(Shards, "mask", lambda *_: None)
    for flags in ((), ("--color", "always")):
        _, shown, _ = inspect("--doc", "0", *flags)
        body = uncolored(shown)
        assert "\x1b" not in body
        assert "\x07" not in body
        assert body.split("\n\n", 1)[1].replace("|", "").startswith(r"a\x1b[31m\x07\xe6\x95数")


def test_a_page_contains_the_requested_documents_also_on_stdout(inspect, out, tmp_path):
    shards = open_shards(str(out), source="chats")
    path = tmp_path / "page.html"
    flags = ["--source", "chats", "--doc", "0-2", "--html"]
    code, shown, reported = inspect(*flags, str(path))
    assert (code, shown) == (0, "")
    assert f"3 documents, {path.stat().st_size:,} bytes: {path}" in reported
    page = ShownPage(path.read_text(encoding="utf-8"))
    assert page.ids == [number for document in range(3) for number in shards[document].tolist()]
    trained = [int("y" in token.kinds) for token in page.tokens]
    assert trained == [flag for document in range(3) for flag in shards.mask(document).tolist()]
    assert f"{out}, split train, source chats" in page.reported
    code, shown, reported = inspect(*flags, "-")
    assert (code, shown.encode(), reported) == (0, path.read_bytes(), "")


def test_a_page_shows_images_and_ids(inspect, with_images):
    _, shown, _ = inspect("--source", "chats", "--ids", "--html", "-")
    page = ShownPage(shown)
    assert [box.text for box in page.tokens if "g" in box.kinds] == [
        "image 1 3 tokens",
        "image 2 1 token",
    ]
    assert "checked" in dict(page.attributes)["input"]


def test_a_page_is_cut_unless_everything_is_requested(inspect, monkeypatch):
    monkeypatch.setattr(look, "MAX_TOKENS", 5)
    assert "not shown" in inspect("--source", "chats", "--html", "-")[1]
    assert "not shown" not in inspect("--source", "chats", "--html", "-", "--all")[1]


@pytest.mark.parametrize("found", [True, False], ids=["a browser", "none"])
def test_a_page_opens_in_a_browser_or_its_path_is_printed(inspect, monkeypatch, tmp_path, found):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: (opened.append(url), found)[1])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, _, reported = inspect("--open")
    (path,) = tmp_path.glob("nanotok-inspect-*.html")
    assert (code, opened) == (0, [path.as_uri()])
    assert str(path) in reported
    assert ("no browser was found" in reported) == (not found)
    assert ShownPage(path.read_text(encoding="utf-8")).tokens


def test_an_unknown_id_exits_4(inspect, monkeypatch):
    monkeypatch.setattr(Shards, "__getitem__", lambda *_: np.array([9999], dtype=np.uint16))
    monkeypatch.setattr(Shards, "mask", lambda *_: None)
    for flags in ([], ["--html", "-"]):
        code, _, reported = inspect(*flags)
        assert code == 4
        assert "id 9999 at position 0 is no token" in reported


def test_a_terminal_shows_the_first_tokens_of_a_long_document(inspect, monkeypatch):
    whole = inspect("--source", "chats", "--ids", "--all")[1]
    monkeypatch.setattr(look, "TERMINAL_TOKENS", 5)
    _, shown, _ = inspect("--source", "chats", "--ids")
    count = int(re.search(r"(\d+) tokens, ", shown)[1])
    assert shown.endswith(f"... {count - 5:,} more tokens; --all shows them\n")
    assert shown.count("(") == 5 + whole.splitlines()[0].count("(")
    assert "more tokens" not in whole


def test_at_most_a_thousand_documents_are_shown(inspect):
    code, shown, reported = inspect(*["--doc", "0-9"] * 101)
    assert (code, shown) == (2, "")
    assert f"more than {MAX_DOCUMENTS} documents at once; show fewer at a time" in reported
