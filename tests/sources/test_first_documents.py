"""A wrongly described source is refused because of its first documents, before a job runs."""

import gzip
import json
import uuid
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.cli import main
from nanotok_ray.errors import SourceError
from nanotok_ray.recipe import LimitsRecipe, SourceRecipe, parse_recipe
from nanotok_ray.sources import EarlierPlan, check_sample, make_plan, resolve
from nanotok_ray.storage import Folder, RemoteInput
from tests.support.executors import InProcess, in_place_of_ray
from tests.support.read_pieces import json_lines, parquet_bytes

RECIPE = """
[[source]]
name = "web"
kind = "{kind}"
paths = ["{path}"]
split = "train"
count = true
{more}

[tokenizer]
vocab_size = 300

[output]
path = "{out}"
"""
TEXTS = [{"text": f"hello world {n}", "id": n, "content": "x"} for n in range(40)]
TURNS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
CHATS = [{"messages": TURNS, "id": n} for n in range(40)]
SHARED = [{"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes"}]}]


def array(values, **options):
    return json.dumps(values, **options).encode()


def array_of_lines(values):
    return ("[\n" + ",\n".join(map(json.dumps, values)) + "\n]\n").encode()


def pretty(values):
    return "\n".join(json.dumps(value, indent=2) for value in values).encode()


NO_BODY = "web.jsonl, line 1 has no field 'body'; it has 'text', 'id', 'content'"
ARRAY = "web.jsonl is one JSON array, not JSON lines. Read "
PRETTY = "web.jsonl, line 1 begins a JSON value that continues on the next lines (pretty-printed"

CASES = {
    "another column": ("text", json_lines(TEXTS), 'column = "body"', f"{NO_BODY}. Set column to"),
    "a column of numbers": (
        *("text", json_lines([{"text": 3, "body": "a"}]), ""),
        "field 'text' is a number, not a string; the document has 'text', 'body'. Set column to",
    ),
    "a column of nulls after blank lines": (
        *("text", b"\n \n" + json_lines([{"text": None, "body": "a"}]), ""),
        "web.jsonl, line 3: field 'text' is null, not a string",
    ),
    "one array of texts": ("text", array(TEXTS), "", ARRAY),
    "one array, an element a line": ("text", array_of_lines(TEXTS), "", ARRAY),
    "one array, pretty": ("text", array(TEXTS, indent=2), "", ARRAY),
    "one long array": ("text", array(TEXTS * 2000), "", ARRAY),
    "pretty texts": ("text", pretty(TEXTS), "", PRETTY),
    "chats read as text": (
        *("text", json_lines(CHATS), ""),
        "line 1 has no field 'text'; it has 'messages', 'id'. Set kind = \"chat\"",
    ),
    "arrays of messages read as text": (
        *("text", json_lines([TURNS]), ""),
        'line 1 is an array, not an object. Set kind = "chat"',
    ),
    "turns read as text": ("text", json_lines(SHARED), "", 'Set kind = "chat"'),
    "plain lines read as JSON": (
        *("text", b"some text\nand more\n", 'format = "jsonl"'),
        'line 1: invalid JSON: Expecting value (char 0). Set format = "lines"',
    ),
    "UTF-16": (
        *("text", json_lines(TEXTS).decode().encode("utf-16"), ""),
        "line 1: invalid UTF-8: at byte 0. The file is UTF-16: convert it",
    ),
    "text read as chats": ("chat", json_lines(TEXTS), "", 'set kind = "text"'),
    "text of a dialect": ("chat", json_lines(TEXTS), 'dialect = "messages"', 'Set kind = "text"'),
    "one array of chats": ("chat", array(CHATS), "", ARRAY),
    "one array of chats, one a line": ("chat", array_of_lines(CHATS), "", ARRAY),
    "one array of arrays of messages": ("chat", array([TURNS] * 9), "", ARRAY),
    "pretty chats": ("chat", pretty(CHATS), "", PRETTY),
    "another dialect": (
        *("chat", json_lines(CHATS), 'dialect = "sharegpt"'),
        "'conversations'. The document looks like 'messages': set dialect = \"messages\", or",
    ),
    "a compressed file": (
        *("text", gzip.compress(json_lines(TEXTS)), 'column = "body"'),
        "web.jsonl.gz, line 1 has no field 'body'",
    ),
    "parquet of chats read as text": ("text", parquet_bytes(CHATS), "", 'or kind = "chat"'),
    "parquet of text read as chats": ("chat", parquet_bytes(TEXTS), "", 'set kind = "text"'),
    "parquet of chats that nobody can use": (
        *("chat", parquet_bytes([{"messages": TURNS[1:]}] * 30), ""),
        "web.parquet, row 1, read as messages: Message 0 is from assistant",
    ),
    "a file that is no text": (
        *("text", b"\xff\xfe\x00", 'format = "document"'),
        "web.jsonl: invalid UTF-8: at byte 0",
    ),
}


def write(tmp_path, kind, data, more, *, limits=""):
    """Write a file and its recipe, and return the recipe's path."""
    suffix = {b"PAR1": "parquet", b"\x1f\x8b\x08\x00": "jsonl.gz"}.get(data[:4], "jsonl")
    path = tmp_path / f"in/web.{suffix}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    recipe = tmp_path / "recipe.toml"
    text = RECIPE.format(kind=kind, path=path, more=more, out=tmp_path / "out")
    recipe.write_text(f"{text}\n{limits}")
    return str(recipe)


def reported(capsys, *arguments):
    """Run a command; return its exit code and its last JSON."""
    code = main(list(arguments))
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_wrongly_described_source_is_refused_with_what_was_found(tmp_path, capsys, case):
    kind, data, more, expected = case
    code, values = reported(capsys, "plan", write(tmp_path, kind, data, more))
    assert code == 2
    assert expected in values["error"]
    assert "\n" not in values["error"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [["prepare"], ["prepare", "--dry-run"], ["train"], ["doctor"]])
def test_every_planning_command_refuses_it_before_ray_starts(tmp_path, capsys, command):
    def start(**_):
        raise AssertionError("Ray was started")

    recipe = write(tmp_path, "text", json_lines(TEXTS), 'column = "body"')
    with in_place_of_ray(InProcess(on_session=start)):
        code = main([command[0], recipe, *command[1:]])
    out, err = capsys.readouterr()
    assert code != 0
    assert NO_BODY in out + err


def test_the_problems_of_all_sources_are_reported_at_once(tmp_path):
    source = '[[source]]\nname = "{}"\nkind = "text"\npaths = ["{}"]\n'
    (tmp_path / "a.jsonl").write_bytes(json_lines(CHATS))
    sources = "".join(source.format(name, tmp_path / "a.jsonl") for name in ("one", "two"))
    recipe = parse_recipe(f'{sources}[output]\npath = "{tmp_path}/out"')
    with pytest.raises(ValueError, match=r"source 'one'.*\n.*source 'two': a\.jsonl, line 1"):
        make_plan(recipe)


def test_if_some_files_are_usable_a_note_names_the_first_that_is_not(tmp_path, capsys):
    data = json_lines(TEXTS[:3]) + b"\noops\n" + json_lines([{"body": "a"}]) + json_lines(TEXTS[3:])
    code, values = reported(capsys, "plan", write(tmp_path, "text", data, ""))
    assert code == 0
    (note,) = [each for each in values["notes"] if "cannot be used" in each]
    assert note.startswith("source 'web': 2 of the first 20 documents of 1 file cannot be used; ")
    assert note.endswith("web.jsonl, line 5: invalid JSON: Expecting value (char 0)")


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ("[limits]\nmax_quarantined_share = 1.0", 0),
        ("[limits]\nmax_quarantined_share = 0.5", 2),
        ("[limits]\nmax_quarantined_share = 1.0\nmax_quarantined = 9", 2),
    ],
)
def test_a_recipe_that_allows_all_documents_to_be_bad_gets_a_note(tmp_path, capsys, limits, code):
    recipe = write(tmp_path, "text", json_lines(CHATS), "", limits=limits)
    found, values = reported(capsys, "plan", recipe)
    assert found == code
    said = values["error"] if code else " ".join(values["notes"])
    assert "web.jsonl, line 1 has no field 'text'; it has 'messages', 'id'" in said


def test_doctor_warns_about_a_source_with_some_bad_documents(tmp_path, capsys):
    data = json_lines(TEXTS[:3]) + b"oops\n"
    main(["doctor", write(tmp_path, "text", data, "")])
    out, err = capsys.readouterr()
    (line,) = [each for each in (out + err).splitlines() if each.startswith("warn  source web")]
    assert "the first is web.jsonl, line 4: invalid JSON" in line


def checked(path, **options):
    source = SourceRecipe(name="web", paths=(str(path),), **({"kind": "text"} | options))
    return check_sample(source, resolve(source).files, limits=LimitsRecipe())


def test_an_array_of_messages_per_line_is_no_array_of_documents(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(json_lines([TURNS] * 30))
    (tmp_path / "b.jsonl").write_bytes(json_lines([TURNS]))
    (tmp_path / "c.jsonl").write_bytes(json_lines([[{"content": "no role"}], TURNS]))
    (note,) = checked(tmp_path, kind="chat")
    assert "1 of the first 23 documents of 3 files cannot be used" in note
    assert "c.jsonl, line 1: message 0 has no 'role'" in note


def test_a_compressed_file_without_the_suffix_is_reported_with_the_name_to_use(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(json_lines(TEXTS)))
    with pytest.raises(SourceError, match=r"The file is gzip: end its name in \.gz"):
        checked(tmp_path)


def test_files_without_documents_or_with_a_long_line_are_not_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert checked(tmp_path) == ("source 'web' is empty",)
    (tmp_path / "blank.jsonl").write_bytes(b"\n\n")
    assert checked(tmp_path) == ()
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    assert checked(tmp_path / "a.parquet") == ()
    (tmp_path / "a.jsonl").write_bytes(json_lines([{"text": "x" * (1 << 20)}]))  # not in the sample
    assert checked(tmp_path / "a.jsonl") == ()
    (tmp_path / "a.jsonl").write_bytes(json_lines([{"body": "x" * (1 << 17)}]))
    with pytest.raises(ValueError, match="line 1 has no field 'text'"):
        checked(tmp_path / "a.jsonl")


def test_a_truncated_stream_is_read_as_far_as_possible(tmp_path):
    whole = gzip.compress(json_lines(TEXTS * 50), mtime=0)
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    assert checked(tmp_path) == ()


@pytest.mark.parametrize("name", ["a.jsonl", "b.jsonl.gz"])
def test_only_the_starts_of_five_files_of_a_remote_source_are_fetched(monkeypatch, name):
    folder = Folder(f"memory:///{uuid.uuid4().hex}")
    data = json_lines([{"text": f"{number} " + "x" * 1000} for number in range(4000)])
    for number in range(9):
        stored = data if name == "a.jsonl" else gzip.compress(data, 0)
        folder.write_bytes(f"{number}-{name}", stored)
    source = SourceRecipe(name="web", kind="text", paths=(folder.url,))
    files = resolve(source).files
    fetched = Counter()

    def cat_file(self, path, start=None, end=None, **_):
        fetched[path.rpartition("/")[2]] += end - start
        return self.store[path].getvalue()[start:end]

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.cat_file", cat_file)
    check_sample(source, files, limits=LimitsRecipe())
    assert fetched == dict.fromkeys([f"{number}-{name}" for number in (0, 2, 4, 6, 8)], 1 << 16)


def test_only_the_first_pages_of_remote_parquet_are_fetched(monkeypatch):
    folder = Folder(f"memory:///{uuid.uuid4().hex}")
    texts = [f"{number} " + "x" * 5000 for number in range(4000)]
    table = [{"text": text} for text in [None, *texts]]
    folder.write_bytes("a.parquet", parquet_bytes(table, compression="none", use_dictionary=False))
    source = SourceRecipe(name="web", kind="text", paths=(folder.url,))
    files = resolve(source).files
    read = []
    own = RemoteInput.readinto

    def readinto(self, buffer):
        read.append(own(self, buffer))
        return read[-1]

    monkeypatch.setattr(RemoteInput, "readinto", readinto)
    (note,) = check_sample(source, files, limits=LimitsRecipe())
    assert "1 of the first 20 documents of 1 file cannot be used; the first is a.parquet," in note
    assert sum(read) < 6 << 20 < files[0].size


def test_a_finished_output_is_not_refused_for_its_sources(tmp_path):
    (tmp_path / "web.jsonl").write_bytes(json_lines(CHATS))
    text = RECIPE.format(kind="text", path=tmp_path / "web.jsonl", more="", out=tmp_path / "out")
    allowing = parse_recipe(text, overrides=["limits.max_quarantined_share=1.0"])
    before = make_plan(allowing)
    recipe = parse_recipe(text)
    with pytest.raises(ValueError, match="has no field 'text'"):
        make_plan(recipe, earlier=EarlierPlan(plan=before))
    plan = make_plan(recipe, earlier=EarlierPlan(plan=before, is_finished=True))
    assert any("has no field 'text'" in note for note in plan.notes)
    other = parse_recipe(text, overrides=["source.web.column=body"])
    with pytest.raises(ValueError, match="has no field 'body'"):
        make_plan(other, earlier=EarlierPlan(plan=before, is_finished=True))


def test_files_with_a_wrong_compression_suffix_are_refused_beyond_the_limit(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("0.jsonl.gz", "1.jsonl.gz", "good.jsonl"):
        (tmp_path / "in" / name).write_bytes(json_lines(TEXTS))
    text = RECIPE.format(kind="text", path=tmp_path / "in", more="", out=tmp_path / "out")
    with pytest.raises(SourceError, match=r"2 files are not .*max_tails = 1 allows.*0\.jsonl\.gz"):
        make_plan(parse_recipe(text, overrides=["limits.max_tails=1"]))
    (note,) = make_plan(parse_recipe(text, overrides=["limits.max_tails=2"])).notes
    assert "1.jsonl.gz is not gzip" in note
