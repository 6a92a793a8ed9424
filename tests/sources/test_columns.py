"""The column of the text: one rule for parquet and JSON lines, drafts and named files."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.errors import SourceError
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.sources import ReadingRules, draft_recipe, find_named, find_paths, make_plan
from tests.support.read_pieces import json_lines, parquet_bytes

LONG = "A sentence that is long enough to be a text."
SHORT = "few words"
TALK = [{"role": "user", "content": LONG}, {"role": "assistant", "content": LONG}]
WEB = {
    "url": "http://a/b",
    "id": "urn:uuid:6f",
    "score": 0.5,
    "language": "en",
    "date": "2026-01-02 03:04",
}
DUMP = {"dump": "CC-MAIN-2024-10", "digest": "sha1:QWERTYUIOPASDFGHJKLZXCVBNM", "n": 7}

CHOSEN = {
    "one text": ({"story": LONG}, "story", []),
    "a text of one word": ({"word": "x"}, "word", []),
    "a known name beside ids, URLs, scores and times": ({"text": LONG, **WEB, **DUMP}, "text", []),
    "a known name beside another text": (
        {"content": SHORT, "comment": LONG},
        "content",
        ["comment"],
    ),
    "the first of two known names": ({"markdown": LONG, "body": LONG}, "body", ["markdown"]),
    "another name beside ids, URLs, scores and times": (
        {**WEB, **DUMP, "story": LONG},
        "story",
        [],
    ),
    "a text beside short strings": ({"story": LONG, "tone": "very sad"}, "story", []),
    "a text beside its title, author and tags": (
        *({"title": LONG, "author": LONG, "tags": [LONG], "story": LONG}, "story", []),
    ),
    "a text in a language without spaces": ({"story": "\u6587" * 20, "more": 1}, "story", []),
    "a text beside lists of numbers and words": (
        *({"story": LONG, "spans": [1, 2], "words": ["a", "b"]}, "story", []),
    ),
    "only a title": ({"title": LONG, "n": 1}, "title", []),
    "a text beside empty and null ones": ({"story": LONG, "more": "", "none": None}, "story", []),
}
SEVERAL = {
    "two texts": {"german": LONG, "english": LONG},
    "a prompt and an answer of other names": {
        "id": "a",
        "question_body": LONG,
        "answer_body": LONG,
    },
    "two short texts": {"a": "4", "b": "2 + 2?"},
    "a text and a list of texts": {"story": LONG, "chapters": [{"heading": LONG}]},
    "Dolly": {"instruction": LONG, "context": LONG, "response": LONG, "category": "qa"},
}
CHATS = {
    "alpaca": {"instruction": "Add.", "input": "1", "output": "2"},
    "alpaca with its rendered text": {"instruction": LONG, "output": LONG, "text": LONG},
    "a prompt and a response": {"prompt": LONG, "response": LONG},
    "messages beside preferences": {"messages": TALK, "chosen": TALK, "rejected": TALK},
}
PREFERENCES = {
    "strings": {"prompt": LONG, "chosen": LONG, "rejected": LONG},
    "messages": {"chosen": TALK, "rejected": TALK, "score": 1.0},
    "an instruction": {"instruction": LONG, "input": "", "chosen": LONG, "rejected": LONG},
    "turns": {"conversations": TALK, "chosen": TALK[1], "rejected": TALK[1]},
}
FORMS = ["jsonl", "parquet"]


def cases(values):
    return pytest.mark.parametrize("case", values.values(), ids=values)


@pytest.fixture(params=FORMS)
def written(request, tmp_path):
    def write(*rows):
        path = tmp_path / f"in/a.{request.param}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((json_lines if request.param == "jsonl" else parquet_bytes)(rows))
        return str(path)

    return write


def draft(path):
    output = f"{path}-out"
    return draft_recipe(find_paths([str(path)], output=output), vocab_size=300)


@cases(CHOSEN)
def test_the_column_is_the_same_for_drafts_and_named_files(written, case):
    row, column, others = case
    path = written(*[row] * 3)
    drafted = draft(path)
    assert parse_recipe(drafted.text).sources[0].column == column
    not_read = f"; not read: {', '.join(map(repr, others))}" if others else ""
    assert drafted.found[0].endswith(f", text in {column!r}{not_read}")
    named = find_named([path], ReadingRules())
    assert {slice_.column for slice_ in named.slices} == {column}
    assert len(named.notes) == bool(others)
    assert all(repr(name) in named.notes[0] for name in others)


@cases(SEVERAL)
def test_several_texts_need_a_column(written, case):
    path = written(*[case] * 3)
    drafted = draft(path)
    assert drafted.text == ""
    [reason] = drafted.unread
    with pytest.raises(SourceError) as caught:
        find_named([path], ReadingRules())
    for message in (reason, str(caught.value)):
        assert "the text can be in" in message
        assert "set column in the recipe to the one to read" in message
    name = next(name for name, text in case.items() if text in {LONG, "4"})
    assert repr(name) in reason
    assert find_named([path], ReadingRules(column=name)).columns == {path.rpartition(".")[2]: name}


@cases(CHATS)
def test_rows_of_conversations_become_conversations(written, case):
    path = written(case)
    [source] = parse_recipe(draft(path).text).sources
    assert source.kind == "chat"
    with pytest.raises(SourceError, match=r'it holds conversations, which need kind = "chat"'):
        find_named([path], ReadingRules())


@cases(PREFERENCES)
def test_preference_data_is_refused_with_the_reason(written, case):
    path = written(case)
    assert draft(path).text == ""
    assert draft(path).unread[0].startswith("a.")
    for rules in (ReadingRules(), ReadingRules(kind="chat")):
        if rules.kind == "chat" and "conversations" in case:
            continue  # a user may ask to read the turns
        with pytest.raises(SourceError, match=r"preference data .* writes no pairs"):
            find_named([path], rules)


def test_texts_in_lists_are_not_replaced_by_an_id(written):
    path = written({"id": "a-1", "dialog": [{"speaker": "x", "said": LONG}]})
    assert "the text is in 'dialog', in lists or objects" in draft(path).unread[0]


def test_a_parquet_file_without_rows_matches_any_source(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    table = pa.table({"story": [LONG], "tone": [LONG]})
    pq.write_table(table.slice(0, 0), folder / "a.parquet")
    for name in "bc":
        pq.write_table(table.select(["story"]), folder / f"{name}.parquet")
    drafted = draft(folder)
    [source] = parse_recipe(drafted.text).sources
    assert (source.column, source.paths) == ("story", (f"{folder}/*.parquet",))


@pytest.mark.parametrize("size", [10, 20_000])
def test_long_documents_are_looked_at(written, size):
    path = written({"story": LONG * size, "tone": SHORT}, {"story": LONG, "tone": SHORT})
    assert parse_recipe(draft(path).text).sources[0].column == "story"


def test_files_of_one_format_have_one_column(tmp_path):
    for name in ("body", "text"):
        (tmp_path / f"{name}.jsonl").write_bytes(json_lines([{name: LONG}]))
    (tmp_path / "blank.jsonl").write_bytes(b"\n")
    with pytest.raises(
        SourceError, match=r"different columns, 'body' \(.*\) and 'text' \(.*read these"
    ):
        find_named([str(tmp_path)], ReadingRules())
    (tmp_path / "text.jsonl").unlink()
    assert find_named([str(tmp_path)], ReadingRules()).columns == {"jsonl": "body"}


def plan(path, more=""):
    text = f"""
    output = {{path = "{path}-out"}}
    [[source]]
    name = "web"
    count = true
    paths = ["{path}"]
    {more}
    """
    return make_plan(parse_recipe(text))


TEXT, CHAT = 'kind = "text"', 'kind = "chat"'


def test_a_recipe_without_a_column_gets_a_note_on_other_texts(written):
    path = written(*[{"text": LONG, "summary": LONG, **WEB, **DUMP}] * 3)
    [note] = [note for note in plan(path, TEXT).notes if "val split" not in note]
    assert note.startswith("source 'web': 'text' is read, but not 'summary', which also hold text")
    assert "summary" not in "".join(plan(path, f'{TEXT}\ncolumn = "text"').notes)


def test_a_recipe_may_read_one_column_of_conversations_as_text(written):
    notes = plan(written(CHATS["alpaca with its rendered text"]), TEXT).notes
    assert any("but not 'instruction', 'output', which also hold text" in note for note in notes)


@cases({"alpaca": CHATS["alpaca"], "two": SEVERAL["two texts"], "body": {"body": LONG, **WEB}})
def test_a_recipe_without_a_column_is_refused_with_the_same_advice(written, case):
    with pytest.raises(SourceError, match=r"no (column|field) 'text'") as caught:
        plan(written(*[case] * 3), TEXT)
    message = str(caught.value)
    assert all(repr(name) in message for name in list(case)[:2])
    assert ('kind = "chat"' in message) == ("instruction" in case)


def test_columns_that_conversations_do_not_use_are_noted_if_they_hold_text(tmp_path):
    rows = [
        {"messages": TALK, "tools": '[{"name": "f"}]', "id": "7", "none": None, "n": n}
        for n in range(3)
    ]
    (tmp_path / "a.parquet").write_bytes(parquet_bytes(rows))
    notes = plan(tmp_path / "a.parquet", CHAT).notes
    assert any("its documents do not use 'tools', and the text" in note for note in notes)
    notes = plan(tmp_path / "a.parquet", f'{CHAT}\nid_column = "tools"').notes
    assert not any("do not use" in note for note in notes)
