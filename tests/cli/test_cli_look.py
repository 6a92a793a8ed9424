"""`nanotok inspect` and `nanotok pack`."""

import json
import re
import sys

import numpy as np
import pytest

from nanotok_ray.cli import inspect as look
from nanotok_ray.cli import main
from nanotok_ray.cli.inspect import MAX_DOCUMENTS
from nanotok_ray.loader import Loader, NanochatLoader, Shards, open_shards, preview
from nanotok_ray.tokenizer import Tokenizer
from tests.support.made_output import MadeSource, made_output
from tests.support.pages import ShownPage
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
    trained = int(shards.mask(3).sum())
    assert f"{trained} ({trained / len(shards[3]):.1%}) trained on" in shown


def test_documents_are_printed_in_the_requested_order_those_with_an_id_first(inspect, monkeypatch):
    monkeypatch.setattr(Shards, "find", lambda _, name: {"a": [3], "b": [1, 2]}[name])
    flags = ["--doc-id", "b", "--doc-id", "a", "--doc", "5", "--doc", "-1", "--doc", "0-2"]
    code, shown, _ = inspect(*flags, "--text")
    numbers = [int(number) for number in re.findall(r"^document (\d+) of 110", shown, re.MULTILINE)]
    assert (code, numbers) == (0, [1, 2, 3, 5, 109, 0, 1, 2])
    assert f"\n\n<|bos|>{texts(40, seed=0)[0]}" in shown


def test_color_shows_the_mask_and_each_turn_and_tool_call_starts_a_line(inspect, out):
    shards = open_shards(str(out), source="chats")
    for number in range(4):
        flags = ("--doc", str(number), "--color", "always", "--ids")
        _, shown, _ = inspect("--source", "chats", *flags)
        pairs = re.findall("\x1b\\[9([12])m(?:[^\x1b]*)\x1b\\[0m\\|\x1b\\[90m\\((\\d+)\\)", shown)
        assert [int(own) for _, own in pairs] == shards[number].tolist()
        assert [int(color == "2") for color, _ in pairs] == shards.mask(number).tolist()
        body = uncolored(shown.split("\n\n", 1)[1])
        opens = ("user_start", "assistant_start", "python_start", "output_start")
        for name in opens:
            count = body.count(f"<|{name}|>")
            assert len(re.findall(rf"^<\|{name}\|>", body, re.MULTILINE)) == count
        assert body.count("<|user_start|>") in (1, 2)
        assert shown.splitlines()[-1] == "\x1b[92mtrained on\x1b[0m \x1b[91mnot trained on\x1b[0m"


@pytest.mark.parametrize("flags", [(), ("--color", "always")], ids=["plain", "color"])
def test_an_image_is_one_box_on_the_terminal_and_on_a_page(inspect, with_images, flags):
    _, shown, _ = inspect("--source", "chats", "--doc", "0", *flags)
    body = uncolored(shown)
    assert "[image 1: 3 tokens]" in body
    assert "[image 2: 1 token]" in body
    assert ", 2 (4 tokens) images" in body
    assert ("\x1b[95mimage\x1b[0m" in shown) == bool(flags)
    page = ShownPage(inspect("--source", "chats", "--ids", "--html", "-", *flags)[1])
    boxes = [box.text for box in page.tokens if "g" in box.kinds]
    assert boxes == ["image 1 3 tokens", "image 2 1 token"]
    assert "checked" in dict(page.attributes)["input"]


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
    assert f"{out}, split train of source chats" in page.reported
    code, shown, reported = inspect(*flags, "-")
    assert (code, shown.encode(), reported) == (0, path.read_bytes(), "")


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


def test_a_long_document_is_cut_unless_everything_is_requested(inspect, monkeypatch):
    whole = inspect("--source", "chats", "--ids", "--all")[1]
    monkeypatch.setattr(look, "TERMINAL_TOKENS", 5)
    _, shown, _ = inspect("--source", "chats", "--ids")
    count = int(re.search(r"(\d+) tokens, ", shown)[1])
    assert shown.endswith(f"... {count - 5:,} more tokens; --all shows them\n")
    assert len(re.findall(r"\(\d+\)", shown.splitlines()[3])) == 5
    assert "more tokens" not in whole
    monkeypatch.setattr(look, "MAX_TOKENS", 5)
    assert "not shown" in inspect("--source", "chats", "--html", "-")[1]
    assert "not shown" not in inspect("--source", "chats", "--html", "-", "--all")[1]


def test_at_most_a_thousand_documents_are_shown(inspect):
    code, shown, reported = inspect(*["--doc", "0-9"] * 101)
    assert (code, shown) == (2, "")
    assert f"more than {MAX_DOCUMENTS} documents at once; show fewer at a time" in reported


@pytest.fixture
def pack(out, run):
    """Return a function that plans packings of the output, all of them if none is named."""

    def preview_of(*arguments, folder=out):
        packing = [] if "--packing" in arguments else ["--packing", "all"]
        return run("inspect", folder, *packing, *arguments)

    return preview_of


def read_report(out, **settings):
    """Read every batch of an epoch, and return the report."""
    loader = Loader(open_shards(str(out)), batch_size=3, epochs=1, **settings)
    assert sum(len(batch.inputs) for batch in loader) == loader.report().rows
    return loader.report().to_dict()


@pytest.mark.parametrize("shuffle", [None, "document", "block"])
@pytest.mark.parametrize("packing", ["best-fit", "windows", "conversations"])
def test_a_packing_plan_equals_the_report_of_a_loader_that_read_everything(
    out, pack, packing, shuffle
):
    order = [] if shuffle is None else ["--shuffle", shuffle, "--seed", 7]
    code, reported, _ = pack(
        "--length", "64,100", "--packing", packing, "--group-documents", 30, *order
    )
    assert (code, reported["status"]) == (0, "done")
    assert [plan["length"] for plan in reported["plans"]] == [64, 100]
    for plan in reported["plans"]:
        settings = {"packing": packing, "shuffle": shuffle, "seed": 7 if shuffle else 0}
        report = read_report(out, length=plan["length"], group_documents=30, **settings)
        assert report.items() <= plan.items()
        assert plan["kept"] == report["tokens"] / reported["tokens"]
        assert plan["groups"] > 1


def test_rows_of_nanochat_are_planned_until_the_second_epoch(out, pack, monkeypatch):
    monkeypatch.setattr(preview, "BUFFER", 10)
    settings = ("--length", 40, "--packing", "nanochat", "--source", "web")
    plan = pack(*settings)[1]["plans"][0]
    shards = open_shards(str(out), source="web")
    loader = NanochatLoader(shards, batch_size=1, length=40, buffer_size=10)
    while loader.next_batch().epoch == 0:
        pass
    assert loader.report().to_dict().items() <= plan.items()
    assert 0 < plan["kept"] < 1


def test_a_packing_that_is_impossible_is_reported_beside_the_others(pack):
    code, reported, shown = pack("--length", "50,80")
    problems = {plan["packing"]: plan.get("problem") for plan in reported["plans"]}
    assert code == 0
    assert [name for name, problem in problems.items() if problem] == ["nanochat"]
    assert shown.count(problems["nanochat"]) == 1
    assert problems["nanochat"].endswith("reads only text; choose them with --source web")
    assert [line.split()[1] for line in shown.splitlines()[3:9]] == [
        *("best-fit", "windows", "conversations") * 2
    ]


@pytest.mark.parametrize(
    ("source", "arguments", "words"),
    [
        ("out", "--packing nanochat --source web", "fills a buffer of 1,000 documents"),
        ("out", "--packing nanochat --shuffle block", "omit the weights and the shuffling"),
        ("mixed", "--weights wob=1", "the sources are web, code"),
        ("mixed", "--tokens 100", "--weights"),
        ("mixed", "--split val", "nothing to pack"),
        (
            "mixed",
            "--packing conversations --too-long drop --length 20 --weights web=1",
            "none made a row",
        ),
    ],
)
def test_an_impossible_packing_alone_is_an_error(request, pack, source, arguments, words):
    folder = request.getfixturevalue(source)
    code, reported, _ = pack(*arguments.split(), folder=folder)
    assert (code, reported["status"], words in reported["error"]) == (2, "failed", True)
    assert "nanochat" not in reported["error"] or source == "out"


def test_the_table_equals_the_json_and_is_absent_if_only_json_is_asked_for(pack):
    asked = ("--length", 64, "--packing", "conversations", "--source", "chats")
    _, reported, shown = pack(*asked)
    code, _, text = pack("--json", *asked)
    assert (code, text) == (0, "")
    plan = reported["plans"][0]
    head, row = shown.splitlines()[2:]
    assert head.split() == [
        *("length", "packing", "rows", "tokens", "kept", "used", "cropped", "cut", "dropped"),
    ]
    assert row.split() == [
        *("64", "conversations", f"{plan['rows']:,}", f"{plan['tokens']:,}"),
        *(f"{plan['kept']:.1%}", f"{plan['utilisation']:.1%}", f"{plan['cropped_tokens']:,}"),
        *(f"{plan['cut_documents']:,}", f"{plan['dropped_documents']:,}"),
    ]
    assert f"{reported['documents']:,} documents, {reported['tokens']:,} tokens" in shown


@pytest.fixture
def mixed(tmp_path):
    """Write an output of two sources with 10,000 tokens each."""
    sources = [MadeSource(name=name, shards=[[[1] * 50] * 200]) for name in ("web", "code")]
    made_output(tmp_path / "mixed", *sources)
    return tmp_path / "mixed"


MIXED = ("--weights", "web=0.9,code=0.1", "--packing", "best-fit,windows,conversations")


@pytest.mark.parametrize("group", [7, 100, 4096])
def test_weights_plan_all_available_tokens(mixed, pack, group):
    lengths = (49, 64, 700)
    code, reported, _ = pack(
        "--length", ",".join(map(str, lengths)), "--group-documents", group, *MIXED, folder=mixed
    )
    assert (code, reported["tokens"], len(reported["plans"])) == (0, 20_000, 9)
    for plan in reported["plans"]:
        assert (plan["documents"], plan["tokens"], plan["kept"]) == (400, 20_000, 1.0)
        cells = plan["length"] + (plan["packing"] != "windows")
        assert plan["rows"] * cells == plan["tokens"] + plan["padding"]
        assert plan["sources"] == {
            "web": {"weight": 0.9, "documents": 360, "tokens": 18_000, "share": 0.9, "epochs": 1.8},
            "code": {"weight": 0.1, "documents": 40, "tokens": 2_000, "share": 0.1, "epochs": 0.2},
        }


def test_weights_plan_the_requested_number_of_tokens(mixed, pack):
    code, reported, shown = pack("--length", 49, "--tokens", 60_025, *MIXED, folder=mixed)
    assert code == 0
    for plan in reported["plans"]:
        assert (plan["documents"], plan["tokens"]) == (1201, 60_050)  # up to the end of a document
        assert plan["sources"]["web"]["epochs"] == pytest.approx(5.4, abs=0.01)
    head, *rows = (line.split() for line in shown.splitlines()[-3:])
    assert head == ["source", "weight", "documents", "tokens", "share", "epochs"]
    assert rows == [
        ["web", "0.9", "1,081", "54,050", "90.0%", "5.41"],
        ["code", "0.1", "120", "6,000", "10.0%", "0.60"],
    ]


def test_a_weighted_plan_equals_a_loader_that_ends_at_a_group(mixed, pack):
    asked = ("--length", 60, "--group-documents", 80, "--tokens", 80 * 50 * 6)
    plans = pack(*asked, *MIXED, "--shuffle", "document", folder=mixed)[1]["plans"]
    for plan in plans:
        loader = Loader(
            open_shards(str(mixed)),
            batch_size=1,
            length=60,
            packing=plan["packing"],
            shuffle="document",
            weights={"web": 0.9, "code": 0.1},
            group_documents=80,
        )
        assert loader.skip_batches(plan["rows"]) == plan["rows"]
        assert loader.report().to_dict().items() <= plan.items()


CONTROL = "\x1b]52;c;YQ==\x07 \x1b[2J \x9b31m \u202e \r"


def test_control_characters_of_a_document_reach_pipes_but_no_terminal(
    tmp_path, in_process, capsys, monkeypatch
):
    lines = [json.dumps({"text": f"{number} {CONTROL}\ta\nb"}) for number in range(20)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    out = str(tmp_path / "out")
    assert main(["prepare", str(tmp_path / "a.jsonl"), "--output", out, "--vocab-size", "270"]) == 0

    def decoded():
        capsys.readouterr()
        assert main(["inspect", out, "--doc", "1", "--text"]) == 0
        return capsys.readouterr().out.split("\n\n", 1)[1]

    assert decoded() == f"<|bos|>1 {CONTROL}\ta\nb\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    escaped = r"\x1b]52;c;YQ==\x07 \x1b[2J \x9b31m \u202e \r"
    assert decoded() == f"<|bos|>1 {escaped}\ta\nb\n"
    assert main(["inspect", out, "--doc", "1"]) == 0
    assert "\x1b]" not in capsys.readouterr().out
