"""The files of a source: `exclude`, and notes on files that are not read and on the val split."""

import csv
import json
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.errors import RecipeError, SourceError
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.sources import EarlierPlan, ReadingRules, find_named, make_plan
from tests.support.read_pieces import json_lines


def write(path, *texts):
    """Write texts as parquet or JSON lines, according to the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"text": text} for text in texts]
    if path.name.endswith((".parquet", ".parquet.tmp")):
        pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), path)
    else:
        path.write_bytes(json_lines(rows))


def planned(tmp_path, paths, *lines, previous=None):
    text = "\n".join(
        [
            "[[source]]",
            *('name = "web"', 'kind = "text"', f"paths = {json.dumps(paths)}"),
            *lines,
            *("[output]", f'path = "{tmp_path}/out"'),
        ]
    )
    return make_plan(parse_recipe(text), earlier=EarlierPlan(plan=previous))


def files_of(plan):
    return [file.path for file in plan.sources[0].files]


@pytest.fixture
def web(tmp_path):
    """Write files whose grouping is decided by their names alone."""
    for number in range(4):
        write(tmp_path / f"web/{number}.jsonl", f"text {number}")
        write(tmp_path / f"web/old/{number}.jsonl", f"old text {number}")
    return tmp_path / "web"


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        (["0.jsonl", "old/1.jsonl"], ["1", "2", "3", "old/0", "old/2", "old/3"]),
        (["old/*"], ["0", "1", "2", "3"]),
        (["old/**"], ["0", "1", "2", "3"]),
        (["**/[0-2].jsonl"], ["3", "old/3"]),
        (["{web}/old/*", "[12].jsonl"], ["0", "3"]),
        (["{web}/3.jsonl", "old/*"], ["0", "1", "2"]),
    ],
)
def test_exclude_has_paths_and_globs_below_the_root_or_absolute(tmp_path, web, exclude, left):
    exclude = [pattern.format(web=web) for pattern in exclude]
    plan = planned(tmp_path, [str(web)], f"exclude = {json.dumps(exclude)}", 'split = "train"')
    assert files_of(plan) == [f"{name}.jsonl" for name in left]
    [note] = plan.notes
    assert note.startswith(f"source 'web': exclude leaves out {8 - len(left)} of 8 files, ")


def test_exclude_changes_no_key_of_the_other_slices(tmp_path, web):
    lines = ['split = "train"']
    for number in range(4):  # large files have slices of their own
        write(web / f"{number}.jsonl", *["a text of some words"] * 4000)
    lines += ["[limits]", "slice_bytes = 20000"]
    before = planned(tmp_path, [str(web)], *lines)
    after = planned(tmp_path, [str(web)], 'exclude = "2.jsonl"', *lines)
    keys = {slice_.key for slice_ in after.slices()}
    assert keys == {
        slice_.key
        for slice_ in before.slices()
        if {file.path for file in slice_.files} != {"2.jsonl"}
    }
    assert after.sources[0].root == before.sources[0].root


def test_an_excluded_file_is_not_opened_and_can_mix_formats(tmp_path, web):
    (web / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(SourceError, match="mixes the formats"):
        planned(tmp_path, [str(web)])
    plan = planned(tmp_path, [str(web)], 'exclude = "*.parquet"', 'split = "train"')
    assert len(files_of(plan)) == 8


def test_a_pattern_without_a_file_is_a_note_and_all_files_an_error(tmp_path, web):
    plan = planned(tmp_path, [str(web)], 'exclude = ["0.txt", "x/*"]', 'split = "train"')
    [note] = plan.notes
    assert note.startswith("source.web.exclude matches no file with '0.txt', 'x/*'; ")
    with pytest.raises(SourceError, match="exclude leaves out all of its 8 files"):
        planned(tmp_path, [str(web)], 'exclude = "**"')


def test_a_name_with_wildcards_is_that_file_alone(tmp_path):
    for name in ("a[1].jsonl", "a1.jsonl"):
        write(tmp_path / f"web/{name}", "text")
    plan = planned(tmp_path, [f"{tmp_path}/web"], 'exclude = "a[1].jsonl"')
    assert files_of(plan) == ["a1.jsonl"]


def test_exclude_is_a_list_of_texts(tmp_path):
    with pytest.raises(RecipeError, match=r"source\.web\.exclude = 3 is not a list of strings"):
        planned(tmp_path, ["/data"], "exclude = 3")


def test_files_of_a_folder_that_are_not_read_are_counted(tmp_path, web):
    (web / "code").mkdir()
    for number in range(2):
        (web / f"code/{number}.py").write_bytes(b"x" * 1000)
    (web / "notes.txt").write_bytes(b"y" * 500)
    [note] = planned(tmp_path, [str(web)], 'split = "train"').notes
    assert note.startswith("source 'web' does not read 3 files (.py: 2, .txt: 1), 2.5 kB, because")
    assert 'format = "document"' in note
    assert not planned(tmp_path, [f"{web}/*.jsonl"], 'split = "train"').notes
    excluded = 'exclude = ["code/*", "notes.txt"]'
    assert not planned(tmp_path, [str(web)], 'split = "train"', excluded).notes
    other = ['split = "train"', "[[source]]", 'name = "code"', 'kind = "text"', 'split = "train"']
    other += [f'paths = ["{web}/code/*.py", "{web}/*.txt"]', 'format = "document"']
    assert not planned(tmp_path, [str(web)], *other).notes


@pytest.mark.parametrize("path", ["web", "web/*", "web/**/*.parquet"])
def test_hidden_files_of_the_format_are_counted(tmp_path, path):
    for name in ("a.parquet", "_b.parquet", ".c.parquet", "d.parquet.tmp", "_old/e.parquet"):
        write(tmp_path / f"web/{name}", "text")
    for name in (".gitignore", "_SUCCESS"):
        (tmp_path / f"web/{name}").write_text("x")
    [note] = planned(tmp_path, [f"{tmp_path}/{path}"], 'split = "train"').notes
    number, names = (3, ".c.parquet, _b.parquet, d.parquet.tmp")
    if path.endswith("*.parquet"):  # does not match d.parquet.tmp
        number, names = (2, ".c.parquet, _b.parquet")
    assert note.startswith(f"source 'web' does not read {number} files, ")
    assert f": {names}; names that begin with" in note


@pytest.mark.parametrize("form", ["lines", "document"])
def test_hidden_files_of_text_are_counted_by_the_suffixes_of_the_others(tmp_path, form):
    for name in ("a.py", "_b.py", ".c.py", ".gitignore", "_d.jsonl"):
        (tmp_path / "web").mkdir(exist_ok=True)
        (tmp_path / f"web/{name}").write_text("text\n")
    for path in ("web", "web/*"):
        lines = (f'format = "{form}"', 'split = "train"')
        [note] = planned(tmp_path, [f"{tmp_path}/{path}"], *lines).notes
        assert note.startswith("source 'web' does not read 2 files, 10 bytes: .c.py, _b.py; ")


def test_suffixes_in_upper_case_are_noted_with_a_format_that_reads_them(tmp_path, web):
    write(web / "B.JSONL", "text")
    write(web / "_C.JSONL", "text")
    (web / "c.py").write_bytes(b"x")
    code, upper, hidden = planned(tmp_path, [str(web)], 'split = "train"').notes
    assert "1 file (.py: 1)" in code
    assert 'format = "document" reads each file' in code
    assert "1 file (.JSONL: 1)" in upper
    assert 'a glob and format = "jsonl" reads them' in upper
    assert "1 file, " in hidden
    assert ": _C.JSONL; " in hidden
    only = planned(tmp_path, [f"{web}/*.JSONL"], 'format = "jsonl"', 'split = "train"')
    assert files_of(only) == ["B.JSONL"]
    code, upper = find_named([str(web)], ReadingRules()).notes
    assert "1 file (.JSONL: 1)" in upper
    assert "name the files and pass --input-format jsonl" in upper


def test_a_folder_of_suffixes_in_upper_case_is_refused_with_the_format(tmp_path):
    write(tmp_path / "web/B.JSONL", "text")
    with pytest.raises(SourceError, match='by a glob and set format, as "jsonl"'):
        planned(tmp_path, [f"{tmp_path}/web"])


def test_the_files_of_a_mixed_folder_are_named_by_a_glob_that_finds_them(tmp_path, web):
    (web / "c.txt").write_text("text\n")
    with pytest.raises(SourceError, match=r"several formats \(jsonl, lines\)") as caught:
        find_named([str(web)], ReadingRules())
    pattern = str(caught.value).rpartition("as '")[2].rstrip("'")
    [file] = find_named([pattern], ReadingRules()).files
    assert file.path == f"{web}/c.txt"


def test_a_large_last_file_and_an_empty_val_split_are_noted(tmp_path):
    for number in range(3):
        write(tmp_path / f"web/{number}.jsonl", "a text of words")
    web = f"{tmp_path}/web"
    [note] = planned(tmp_path, [web]).notes
    assert "its last file, 2.jsonl, is the val split and has 33% of the bytes" in note
    assert not planned(tmp_path, [web], 'split = "last-file"').notes
    write(tmp_path / "web/9.jsonl")
    [note] = planned(tmp_path, [web]).notes
    assert "the val split is empty, because there is no document in its 1 file: 9.jsonl" in note
    write(tmp_path / "other/0.parquet", *["text"] * 300)
    [note] = planned(tmp_path, [f"{tmp_path}/other"], 'split = "share:0.01"').notes
    assert "selects about 3.0 of 300 documents, so the val split can be empty" in note
    assert not planned(tmp_path, [f"{tmp_path}/other"], 'split = "share:0.02"').notes


TEXTS = ['two\nlines, "quoted"', "plain", "übung 🙂"]


@pytest.fixture
def table(tmp_path):
    def write_table(name):
        path = tmp_path / f"it's in/{name}"
        path.parent.mkdir(exist_ok=True)
        if name.endswith(".json"):
            path.write_text(json.dumps([{"text": text} for text in TEXTS]), "utf-8")
        else:
            with path.open("w", encoding="utf-8", newline="") as stream:
                dialect = "excel-tab" if name.endswith(".tsv") else "excel"
                csv.writer(stream, dialect).writerows([["n", "text"], *enumerate(TEXTS)])
        return path

    return write_table


def converted(message, folder):
    """Run the command of a message in a shell, and return the texts of the files it wrote."""
    command = message.partition("convert it with ")[2]
    subprocess.run(command, shell=True, check=True, cwd=folder)
    [found] = [path for path in folder.iterdir() if path.suffix in {".parquet", ".jsonl"}]
    if found.suffix == ".parquet":
        return pq.read_table(found)["text"].to_pylist()
    return [json.loads(line)["text"] for line in found.read_text().splitlines()]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.json"])
def test_tables_and_arrays_are_refused_with_a_command_that_converts_them(tmp_path, table, name):
    path = table(name)
    with pytest.raises(SourceError) as caught:
        planned(tmp_path, [str(path)])
    assert "not read" in str(caught.value)
    assert converted(str(caught.value), path.parent) == TEXTS
    with pytest.raises(SourceError) as again:
        find_named([str(path)], ReadingRules())
    assert str(caught.value).partition("convert it with")[2] in str(again.value)


def test_an_array_is_refused_with_a_command_by_every_reader(tmp_path, table):
    path = table("a.json")
    messages = []
    for read in (
        lambda: planned(tmp_path, [str(path)], 'format = "jsonl"'),
        lambda: find_named([str(path)], ReadingRules(format="jsonl")),
    ):
        with pytest.raises(SourceError) as caught:
            read()
        messages.append(str(caught.value))
    for message in messages:
        assert "JSON array" in message
        assert "convert it with" in message
    assert converted(messages[1], path.parent) == TEXTS


def test_folders_of_tables_are_refused_or_noted(tmp_path, table):
    path = table("a.csv")
    with pytest.raises(SourceError, match=r"no file below .* is CSV, which is not read: convert"):
        planned(tmp_path, [str(path.parent)])
    with pytest.raises(SourceError, match=r"no file below .* is CSV, which is not read: convert"):
        find_named([str(path.parent)], ReadingRules())
    write(path.parent / "b.jsonl", "text")
    notes = planned(tmp_path, [str(path.parent)], 'split = "train"').notes
    for [note] in (notes, find_named([str(path.parent)], ReadingRules()).notes):
        assert "1 file (.csv: 1)" in note
        assert "is CSV, which is not read: convert it with" in note
