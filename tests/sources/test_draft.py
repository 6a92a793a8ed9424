"""A recipe that is drafted for a folder: a plan accepts it, and every file is mentioned."""

import gzip
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray.errors import SourceError
from nanotok_ray.job.job_plan import decide
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.sources import draft_recipe, find_paths
from tests.support.read_pieces import json_lines, parquet_bytes

TALK = [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]
SHAREGPT = [{"from": "human", "value": "a?"}, {"from": "gpt", "value": "b"}]
ROWS = {
    "text": {"text": "one two", "url": "http://a"},
    "body": {"id": 7, "body": "three four", "lang": "en"},
    "longest": {"a": "x", "story": "the longest of all texts"},
    "messages": {"messages": TALK},
    "sharegpt": {"conversations": SHAREGPT},
    "gsm8k": {"question": "1 + 1?", "answer": "#### 2"},
    "pages": {"prompt": "<image>", "response": "a page", "image_token_counts": [2]},
}
KINDS = dict.fromkeys(ROWS, "text") | {
    **dict.fromkeys(("messages", "sharegpt", "gsm8k", "array"), "chat"),
    "pages": "vision",
    "plain": "text",
}
JSON = [*ROWS, "array"]


def write(path, what, form):
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [TALK if what == "array" else ROWS.get(what)] * 3
    if form == "parquet":
        path.write_bytes(parquet_bytes(rows))
    elif form == "jsonl":
        path.write_bytes(json_lines(rows))
    elif form == "jsonl.gz":
        path.write_bytes(gzip.compress(json_lines(rows)))
    else:
        path.write_text("plain text\nof two lines\n")


def drafted(tmp_path, *paths):
    output = str(tmp_path / "out")
    named = find_paths([*map(str, paths)], output=output)
    return draft_recipe(named, vocab_size=32768)


def planned(draft):
    """Return the recipe and the plan of a draft."""
    recipe = parse_recipe(draft.text)
    return recipe, decide(recipe)


GOOD = st.one_of(
    st.tuples(st.sampled_from(JSON), st.sampled_from(["jsonl", "jsonl.gz"])),
    st.tuples(st.sampled_from([*ROWS]), st.just("parquet")),
    st.tuples(st.just("plain"), st.sampled_from(["txt", "md"])),
)
BAD = st.sampled_from(
    [
        ("empty.jsonl", b""),
        ("array.json", b'[{"text": "a"},\n{"text": "b"}]\n'),
        ("pretty.json", b'{\n  "text": "a"\n}\n'),
        ("image.png", b"\x89PNG"),
        ("latin.txt", b"caf\xe9 and more"),
        ("broken.parquet", b"PAR1 and nothing else"),
        ("not.jsonl.gz", b'{"text": "a"}\n'),
        ("README.md", b"about"),
        ("numbers.jsonl", b'{"n": 1}\n{"n": 2}\n'),
    ]
)
FOLDERS = st.sampled_from(["", "web", "work", "a [1]", "deep/er", "übung ${HOME}"])


@settings(deadline=None)
@given(
    good=st.lists(st.tuples(FOLDERS, GOOD), min_size=1, max_size=7),
    bad=st.lists(st.tuples(FOLDERS, BAD), max_size=4),
)
def test_plan_accepts_the_draft_and_every_file_is_named(tmp_path_factory, good, bad):
    root = tmp_path_factory.mktemp("draft")
    folder = root / "in"
    used = set()
    for number, (below, (what, form)) in enumerate(good):
        path = folder / below / f"{number}-{what}.{form}"
        write(path, what, form)
        used.add(str(path))
    for below, (name, data) in bad:
        (folder / below).mkdir(parents=True, exist_ok=True)
        (folder / below / name).write_bytes(data)
    draft = drafted(root, folder)
    recipe, plan = planned(draft)
    read = {file.url for source in plan.plan.sources for file in source.files}
    read = {path for path in read if not path.endswith(("empty.jsonl", "latin.txt"))}
    assert read == used  # a file that is not UTF-8 is quarantined, if others of its source are
    for _, (name, _) in bad:
        lines = [*draft.unread, *draft.found]
        assert name == "empty.jsonl" or any(name in line for line in lines)
    for source in recipe.sources:
        (mine,) = (own for own in plan.plan.sources if own.name == source.name)
        kinds = {
            KINDS[file.url.rpartition("/")[2].partition("-")[2].partition(".")[0]]
            for file in mine.files
            if file.url in used
        }
        assert kinds == {source.kind}
    assert len(draft.found) == len(recipe.sources)
    shutil.rmtree(root)


def test_the_draft_lists_what_it_found_and_left_out(tmp_path):
    for number in range(2):
        write(tmp_path / f"in/web/{number}.parquet", "text", "parquet")
    write(tmp_path / "in/talk/a.jsonl", "messages", "jsonl")
    write(tmp_path / "in/talk/b.jsonl", "gsm8k", "jsonl")
    (tmp_path / "in/scan.pdf").write_bytes(b"%PDF")
    draft = drafted(tmp_path, tmp_path / "in")
    size = sum(path.stat().st_size for path in (tmp_path / "in/talk").iterdir())
    found = f"talk: 2 files of jsonl, {size} bytes, conversations (gsm8k, messages)"
    assert draft.found[0] == found
    assert draft.found[1].endswith(", text in 'text'")
    assert draft.unread == (
        "scan.pdf: no known format, 4 bytes; --document-per-file reads each file as one document",
    )
    for line in (
        f'paths = ["{tmp_path}/in/web/*.parquet"]',
        '# id_column = "url"  # carried along beside each document',
        'split = "share:0.01"  # 1% of the documents are for validation, chosen by hash',
        "vocab_size = 32768  # bytes and special tokens included",
    ):
        assert line in draft.text.splitlines()


def test_added_files_are_read_by_the_same_recipe(tmp_path):
    for number in range(2):
        write(tmp_path / f"in/{number}.jsonl", "text", "jsonl")
    first = drafted(tmp_path, tmp_path / "in")
    write(tmp_path / "in/9.jsonl", "text", "jsonl")
    assert drafted(tmp_path, tmp_path / "in").text == first.text
    _, plan = planned(first)
    assert [file.path for file in plan.plan.sources[0].files] == ["0.jsonl", "1.jsonl", "9.jsonl"]


def test_the_tokenizer_learns_from_conversations_if_there_is_nothing_else(tmp_path):
    write(tmp_path / "in/a.jsonl", "messages", "jsonl")
    recipe, plan = planned(drafted(tmp_path, tmp_path / "in"))
    assert recipe.sources[0].count
    assert plan.values["count"]["todo"] == 1


def test_large_text_files_have_one_document_per_line(tmp_path):
    (tmp_path / "README.md").write_text("plain text\n" * ((17 << 20) // 10))  # it is named
    recipe, _ = planned(drafted(tmp_path, tmp_path / "README.md"))
    assert recipe.sources[0].format == "lines"
    assert recipe.sources[0].paths == (str(tmp_path / "README.md"),)


def test_a_folder_that_contains_the_output_is_refused(tmp_path):
    write(tmp_path / "a.txt", "plain", "txt")
    with pytest.raises(SourceError, match=r"output\.path"):
        drafted(tmp_path, tmp_path)


def test_a_source_contains_only_named_files(tmp_path):
    for name in ("a-1", "a-2", "b-1", "b-2"):
        write(tmp_path / f"in/web/{name}.jsonl", "text", "jsonl")
    web = f"{tmp_path}/in/web"

    def paths_for(*paths):
        recipe, _ = planned(drafted(tmp_path, *paths))
        return [path for source in recipe.sources for path in source.paths]

    assert paths_for(web) == paths_for(web, f"{web}/a-1.jsonl") == [f"{web}/*.jsonl"]
    assert paths_for(f"{web}/a-*") == [f"{web}/a-*"]
    two = [f"{web}/a-2.jsonl", f"{web}/b-1.jsonl"]
    assert paths_for(*two) == two
    three = [f"{web}/{name}.jsonl" for name in ("a-1", "a-2", "b-2")]
    assert paths_for(f"{web}/a-*", f"{web}/b-2.jsonl") == three
