"""`nanotok prepare FILES --output DIR`: folders that grow, shrink, break and are repaired."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from nanotok_ray.recipe import load_recipe
from nanotok_ray.tokenizer import Tokenizer
from tests.support.read_pieces import json_lines
from tests.support.small_corpus import contents, texts, write_conversations, write_parquet

SIZE = ("--vocab-size", "300")


def write(path, *, count=20, seed=0):
    """Write documents as parquet, JSON lines, or one text, according to the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [f"{text} and more." for text in texts(count, seed=seed)]
    if path.suffix == ".parquet":
        write_parquet(path, found)
    elif path.suffix == ".jsonl":
        path.write_bytes(json_lines([{"text": text} for text in found]))
    else:
        path.write_text(found[0], "utf-8")


def cut(path):
    """Move a file away, and leave its first half."""
    data = path.read_bytes()
    path.with_name(f".{path.name}.whole").write_bytes(data)
    path.write_bytes(data[: len(data) // 2])


def repair(path):
    path.with_name(f".{path.name}.whole").rename(path)


def compress(path):
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def write_many(folder, numbers):
    for number in numbers:
        write(folder / f"web/{number:03}.parquet", seed=number)


def remove_many(folder, numbers):
    for number in numbers:
        (folder / f"web/{number:03}.parquet").unlink()


def edit(folder):
    with (folder.parent / "out/recipe.toml").open("a") as stream:
        stream.write("\n[limits]\nmax_tails = 1\n")


def nothing(_):
    """Change no file."""


LEFT = ('source.web-text.paths=["{folder}/web/*.jsonl.gz"]',)
"""The paths that are left after the files of the other path are gone, which a recipe refuses."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A change of the folder, and what the same command does then."""

    name: str
    change: Callable[[Path], object] = nothing
    options: tuple[str, ...] = ()
    code: int = 0
    documents: int | None = None
    """The documents of the output; None after an error."""
    status: str = "done"
    shown: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    """What a recipe needs in addition, to do the same."""
    code_of_recipe: int | None = None
    """The exit code of the recipe; None: that of the files."""


STEPS = [
    Step(
        name="four files",
        change=lambda folder: write_many(folder, range(4)),
        documents=80,
        shown=("found web: 4 files of parquet",),
    ),
    Step(name="no change", documents=80, status="unchanged", shown=("using {out}/recipe.toml",)),
    Step(
        name="a file is touched",
        change=lambda folder: os.utime(folder / "web/001.parquet", (1, 1)),
        documents=80,
        shown=("1 changed", "modification time"),
    ),
    Step(
        name="a file is added",
        change=lambda folder: write_many(folder, [4]),
        documents=100,
        shown=("1 added (004.parquet)",),
    ),
    Step(
        name="growth to as many files as would be split by the last file",
        change=lambda folder: write_many(folder, range(5, 26)),
        documents=520,
        shown=("21 added", "the tokenizer is kept"),
    ),
    Step(
        name="a file is truncated that is part of the output",
        change=lambda folder: cut(folder / "web/007.parquet"),
        code=2,
        shown=("web/007.parquet is not a readable parquet file", "--skip-unreadable"),
    ),
    Step(
        name="a bad file is added too",
        change=lambda folder: (folder / "web/zz.parquet").write_bytes(b"PAR1"),
        code=2,
        shown=("2 of 27 files cannot be used", "zz.parquet", "--skip-unreadable"),
    ),
    Step(
        name="they are left out",
        options=("--skip-unreadable",),
        documents=500,
        shown=("left out    2 files", "  007.parquet: it is not", "  zz.parquet: it is not"),
    ),
    Step(
        name="they are left out again",
        options=("--skip-unreadable",),
        documents=500,
        status="unchanged",
        shown=("left out    2 files",),
    ),
    Step(
        name="one is repaired, and the other removed",
        change=lambda folder: (
            repair(folder / "web/007.parquet"),
            (folder / "web/zz.parquet").unlink(),
        ),
        documents=520,
        shown=("1 added (007.parquet)",),
    ),
    Step(
        name="a file is removed",
        change=lambda folder: remove_many(folder, [9]),
        documents=500,
        shown=("1 removed (009.parquet)",),
    ),
    Step(
        name="a fifth of the files is removed",
        change=lambda folder: remove_many(folder, range(10, 15)),
        code=2,
        shown=("source 'web' has lost 5 of 25 files", "--allow-removed"),
    ),
    Step(name="their removal is allowed", options=("--allow-removed",), documents=400),
    Step(
        name="a file is renamed",
        change=lambda folder: (folder / "web/002.parquet").rename(folder / "web/renamed.parquet"),
        documents=400,
        shown=("1 added (renamed.parquet), 1 removed (002.parquet)",),
    ),
    Step(
        name="another format is added",
        change=lambda folder: write(folder / "web/new.jsonl", count=7, seed=50),
        documents=407,
        shown=("found web-text: 1 file of jsonl", "the tokenizer is kept"),
    ),
    Step(
        name="a file of the new format is compressed",
        change=lambda folder: compress(folder / "web/new.jsonl"),
        code=2,
        shown=("source 'web-text' is gone with 1 file, all that it had", "--allow-removed"),
        overrides=LEFT,
    ),
    Step(
        name="its replacement is allowed",
        options=("--allow-removed",),
        documents=407,
        overrides=LEFT,
    ),
    Step(
        name="a folder is added",
        change=lambda folder: write(folder / "more/a.jsonl", count=5, seed=60),
        documents=412,
        shown=("found more: 1 file of jsonl", "the tokenizer is kept"),
        overrides=LEFT,
    ),
    Step(
        name="files that are not documents are added",
        change=lambda folder: (
            (folder / "web/README.md").write_text("about"),
            (folder / "web/a.py").write_bytes(b"x" * 1500),
            (folder / "web/.b.parquet").write_bytes(b"hidden"),
            (folder / "web/table.csv").write_text("text\nwords\n"),
        ),
        documents=412,
        status="unchanged",
        shown=(
            "skipped README.md: about the data",
            "skipped a.py: no known format, 1.5 kB; --document-per-file",
            "source 'web' does not read 1 file, 6 bytes: .b.parquet",
            "skipped table.csv: CSV, which is not read",
            "convert it with",
        ),
        overrides=LEFT,
    ),
    Step(
        name="preference data is added in a new folder",
        change=lambda folder: (
            (folder / "pairs").mkdir(),
            (folder / "pairs/p.jsonl").write_bytes(json_lines([{"chosen": "a", "rejected": "b"}])),
        ),
        code=2,
        code_of_recipe=0,
        overrides=LEFT,
        shown=("1 file cannot be used", "p.jsonl: preference data", "--skip-unreadable"),
    ),
    Step(
        name="it is left out",
        options=("--skip-unreadable",),
        documents=412,
        status="unchanged",
        shown=("left out    1 file", "p.jsonl: preference data"),
        overrides=LEFT,
    ),
    Step(
        name="it is removed, and the recipe is edited",
        change=lambda folder: (shutil.rmtree(folder / "pairs"), edit(folder)),
        documents=412,
        status="unchanged",
        overrides=LEFT,
    ),
    Step(
        name="a file without a source is added after the edit",
        change=lambda folder: write(folder / "late/a.jsonl", count=5, seed=70),
        code=2,
        code_of_recipe=0,
        overrides=LEFT,
        shown=("was edited, and no source of it reads", "[[source]]", 'name = "late"'),
    ),
]


def test_there_are_at_least_twenty_steps():
    assert len(STEPS) >= 20


def test_every_step_of_a_folder_has_the_result_of_a_recipe(tmp_path, in_process, run):
    folder, out = tmp_path / "in", tmp_path / "out"
    tokenizers, splits = set(), {}
    for step in STEPS:
        step.change(folder)
        code, values, printed = run("prepare", folder, "--output", out, *SIZE, *step.options)
        where = (step.name, values, printed)
        assert code == step.code, where
        for words in step.shown:
            assert words.format(out=out) in printed, (words, *where)
        overrides = [word.format(folder=folder) for word in step.overrides]
        expected = code if step.code_of_recipe is None else step.code_of_recipe
        assert recipe_code(run, out, tmp_path / "mirror", step, overrides) == expected, where
        if step.documents is not None:
            assert (values["documents"]["in"], values["status"]) == (step.documents, step.status)
            assert result_of(out) == result_of(tmp_path / "mirror"), step.name
            tokenizers.add(Tokenizer.load(out / "tokenizer").sha256)
        recipe = load_recipe(str(out / "recipe.toml"))
        for source in recipe.sources:
            assert splits.setdefault(source.name, source.split) == source.split, step.name
    assert len(tokenizers) == 1
    assert splits == {"web": "share:0.01", "web-text": "share:0.01", "more": "share:0.01"}


def recipe_code(run, out, mirror, step, overrides):
    """Run the saved recipe with another output, and return the exit code."""
    path = mirror.with_suffix(".toml")
    path.write_text((out / "recipe.toml").read_text().replace(str(out), str(mirror)))
    words = [word for override in overrides for word in ("--set", override)]
    return run("prepare", path, *words, *step.options)[0]


def result_of(out):
    """Return the sha256 of every file except the recipe, counts and what a run leaves."""
    return contents(out, leave_out=("run", "work", "recipe.toml"))


@pytest.fixture
def prepare(run, tmp_path, in_process):
    """Return a function that prepares paths of a folder without a recipe."""

    def prepare_files(*words):
        paths = [word if str(word).startswith("-") else tmp_path / word for word in words]
        return run("prepare", *paths, "--output", tmp_path / "out")

    return prepare_files


def saved(tmp_path):
    return load_recipe(str(tmp_path / "out/recipe.toml"))


def succeeds(result, documents=None):
    code, values, printed = result
    assert code == 0, printed
    assert documents in {None, values["documents"]["in"]}
    return values, printed


def fails(result, *words):
    code, values, _ = result
    assert code == 2, values
    for word in words:
        assert word in values["error"]
    return values["error"]


def test_options_that_contradict_the_saved_recipe_are_refused_by_name(tmp_path, prepare):
    write(tmp_path / "in/a.jsonl")
    succeeds(prepare("in", "--vocab-size=300", "--column=text"))
    name = str(tmp_path / "out/recipe.toml")
    succeeds(prepare("in"))  # an option that is omitted contradicts nothing
    succeeds(prepare("in", "--input-format=jsonl"))
    succeeds(prepare("in", "--document-per-file"))
    fails(prepare("in", "--vocab-size=310"), f"--vocab-size 310 contradicts {name}", "= 300")
    fails(prepare("in", "--column=body"), f"--column body contradicts {name}", "column = 'text'")
    fails(prepare("in", "--input-format=lines"), "--input-format lines contradicts", "'jsonl'")
    (tmp_path / "out").rename(tmp_path / "moved")
    (tmp_path / "moved").rename(tmp_path / "out")
    text = (tmp_path / "out/recipe.toml").read_text()
    (tmp_path / "out/recipe.toml").write_text(text.replace(str(tmp_path / "out"), "/elsewhere"))
    fails(prepare("in"), "--output", "contradicts", "path = '/elsewhere'")


def test_other_files_are_refused_or_replace_the_output(tmp_path, prepare):
    write(tmp_path / "in/a.jsonl")
    write(tmp_path / "other/b.jsonl", count=9)
    succeeds(prepare("in", "--vocab-size=300"), 20)
    message = fails(prepare("other", "--vocab-size=310"), "is the recipe of other files")
    assert f"({tmp_path}/in/*.jsonl)" in message
    assert "--replace" in message
    succeeds(prepare("in", "other"), 29)
    values, printed = succeeds(prepare("other"), 29)
    assert "it also names files that are not named here, of in\n" in printed
    write(tmp_path / "third/c.jsonl", count=8)
    values, _ = succeeds(prepare("third", "--vocab-size=310", "--replace"), 8)
    assert values["vocab_size"] == 310
    assert [source.name for source in saved(tmp_path).sources] == ["third"]


def test_a_source_that_is_added_later_is_learned_from_with_relearn(tmp_path, prepare):
    write(tmp_path / "in/web/a.jsonl")
    succeeds(prepare("in", "--vocab-size=300"))
    before = (tmp_path / "out/tokenizer/tokenizer.txt").read_bytes()
    (tmp_path / "in/more").mkdir()
    (tmp_path / "in/more/b.jsonl").write_bytes(json_lines([{"text": "zyxwv zyxwv zyxwv"}] * 50))
    succeeds(prepare("in"))
    assert [source.count for source in saved(tmp_path).sources] == [True, False]
    assert (tmp_path / "out/tokenizer/tokenizer.txt").read_bytes() == before
    succeeds(prepare("in", "--relearn"))
    assert [source.count for source in saved(tmp_path).sources] == [True, True]
    after = (tmp_path / "out/tokenizer/tokenizer.txt").read_bytes()
    assert after != before
    succeeds(prepare("in"))
    assert (tmp_path / "out/tokenizer/tokenizer.txt").read_bytes() == after


def test_deeper_folders_and_other_suffixes_become_paths_of_the_same_source(tmp_path, prepare):
    write(tmp_path / "in/web/a.jsonl")
    succeeds(prepare("in", "--vocab-size=300"), 20)
    write(tmp_path / "in/web/2026/b.jsonl", seed=1)
    succeeds(prepare("in"), 40)
    write(tmp_path / "in/web/2026/12/c.jsonl", seed=2)
    succeeds(prepare("in"), 60)
    write(tmp_path / "in/web/d.jsonl", seed=3)
    compress(tmp_path / "in/web/d.jsonl")
    (tmp_path / "in/web/README.jsonl.gz").write_bytes(b"about")
    _, printed = succeeds(prepare("in"), 80)
    assert f"note: extended {tmp_path}/out/recipe.toml\n" in printed
    (tmp_path / "in/web/LICENSE.json").write_bytes(b"about")
    (tmp_path / "in/web/e.json").write_bytes(json_lines([{"text": "a text of words"}]))
    succeeds(prepare("in"), 81)  # as a new source: a source without format reads no .json
    assert [source.exclude for source in saved(tmp_path).sources] == [
        ("README.jsonl.gz",),
        ("LICENSE.json",),
    ]
    source = saved(tmp_path).sources[0]
    web = f"{tmp_path}/in/web"
    assert source.paths == (f"{web}/*.jsonl", f"{web}/**/*.jsonl", f"{web}/*.jsonl.gz")


def test_files_that_are_left_out_are_added_to_those_of_the_source(tmp_path, prepare):
    write(tmp_path / "in/web/a.txt")
    (tmp_path / "in/web/README.txt").write_text("about")
    succeeds(prepare("in", "--vocab-size=270"), 1)
    for number, suffix in enumerate(("md", "rst")):
        write(tmp_path / f"in/web/b.{suffix}", seed=number)
        (tmp_path / f"in/web/LICENSE.{suffix}").write_text("about")
        succeeds(prepare("in"), 2 + number)
    [source] = saved(tmp_path).sources
    assert source.paths == tuple(f"{tmp_path}/in/web/*.{end}" for end in ("txt", "md", "rst"))
    assert source.exclude == ("README.txt", "LICENSE.md", "LICENSE.rst")


def test_files_that_are_named_alone_can_be_removed_and_added(tmp_path, prepare):
    for number in range(12):
        write(tmp_path / f"in/{number:02}.jsonl", seed=number)
    names = [f"in/{number:02}.jsonl" for number in range(12)]
    succeeds(prepare(*names[:11], "--vocab-size=300"), 220)
    (tmp_path / names[4]).unlink()
    succeeds(prepare(*names[:4], *names[5:11]), 200)
    succeeds(prepare(*names[:4], *names[5:]), 220)
    fails(prepare(*names), "04.jsonl matches no file")


def test_a_source_that_is_gone_is_removed_only_if_allowed(tmp_path, prepare):
    write(tmp_path / "in/web/a.jsonl")
    write(tmp_path / "in/more/b.jsonl", count=9)
    succeeds(prepare("in", "--vocab-size=300"), 29)
    shutil.rmtree(tmp_path / "in/more")
    fails(prepare("in"), "source 'more' is gone with 1 file, all that it had", "--allow-removed")
    succeeds(prepare("in", "--allow-removed"), 20)
    write(tmp_path / "in/more/b.jsonl", count=9)
    succeeds(prepare("in"), 29)  # the recipe still has the source, with its split


def test_the_last_file_stays_the_val_split_of_a_growing_folder(tmp_path, prepare):
    for number in range(25):
        write(tmp_path / f"in/{number:02}.jsonl", count=20)
    succeeds(prepare("in", "--vocab-size=300"))
    assert saved(tmp_path).sources[0].split == "last-file"
    write(tmp_path / "in/99.jsonl", count=400)
    values, _ = succeeds(prepare("in"), 900)
    assert values["sources"]["in/val"]["documents"] == 20


def test_a_val_split_that_stays_empty_is_noted_when_that_is_known(tmp_path, prepare):
    write(tmp_path / "in/a.jsonl", count=3)
    _, printed = succeeds(prepare("in", "--vocab-size=300"), 3)
    assert "note: source 'in': the val split is empty" in printed
    write(tmp_path / "in/b.jsonl", count=500)
    _, printed = succeeds(prepare("in"), 503)
    assert "the val split is empty" not in printed


def test_a_dry_run_of_a_grown_folder_writes_nothing(tmp_path, prepare):
    write(tmp_path / "in/web/a.jsonl")
    succeeds(prepare("in", "--vocab-size=300"))
    before = contents(tmp_path / "out", leave_out=())
    write(tmp_path / "in/more/b.jsonl", count=9)
    code, values, _ = prepare("in", "--dry-run")
    assert (code, [source["name"] for source in values["sources"]]) == (0, ["web", "more"])
    assert contents(tmp_path / "out", leave_out=()) == before


def test_gc_does_not_make_a_recipe_look_edited(tmp_path, prepare, run):
    write(tmp_path / "in/web/a.jsonl")
    succeeds(prepare("in", "--vocab-size=300"))
    assert run("gc", tmp_path / "out")[0] == 0
    write(tmp_path / "in/more/b.jsonl", count=9)
    succeeds(prepare("in"), 29)


def test_images_are_not_added_to_a_tokenizer_without_their_tokens(tmp_path, prepare):
    write(tmp_path / "in/web/a.jsonl")
    succeeds(prepare("in", "--vocab-size=300"))
    row = {"prompt": "<image>", "response": "a page", "image_token_counts": [2]}
    (tmp_path / "in/pages.jsonl").write_bytes(json_lines([row]))
    message = fails(prepare("in"), "has no special tokens for images", 'kind = "vision"')
    assert 'extend = ["preset:seed"]' in message


def test_conversations_can_be_added_to_text(tmp_path, prepare):
    write(tmp_path / "in/web/a.jsonl")
    succeeds(prepare("in", "--vocab-size=300"))
    talk = [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]
    write_conversations(tmp_path / "in/web/talk.json", [talk] * 3)
    succeeds(prepare("in"), 23)
    assert [source.kind for source in saved(tmp_path).sources] == ["text", "chat"]


LATIN = "caf\xe9 and more".encode("latin-1")


def test_files_that_are_not_utf8_are_quarantined_and_init_names_no_others(tmp_path, prepare, run):
    for number in range(40):
        write(tmp_path / f"in/{number:03}.txt", seed=number)
    for number in (3, 5):
        (tmp_path / f"in/{number:03}.txt").write_bytes(LATIN)
    recipe = tmp_path / "recipe.toml"
    values = run("init", tmp_path / "in", "--output", recipe)[1]
    assert "2 not UTF-8 text, to be quarantined: 003.txt, 005.txt" in values["found"][0]
    assert f'paths = ["{tmp_path}/in/*.txt"]' in recipe.read_text()
    assert '.txt",' not in recipe.read_text()
    assert load_recipe(str(recipe)).limits.max_quarantined_share == 0.1
    assert "# 2 files: not UTF-8 text, whose documents are quarantined" in recipe.read_text()
    values, _ = succeeds(run("prepare", recipe, "--set", "tokenizer.vocab_size=300"), 40)
    assert values["documents"]["quarantined"] == 2
    code, values, _ = prepare("in", "--vocab-size=300")  # nobody reads this recipe before it runs
    assert code == 3
    assert "documents were quarantined" in values["error"]
    values, printed = succeeds(prepare("in", "--skip-unreadable"), 38)
    assert [entry["file"] for entry in values["left_out"]] == [
        f"{tmp_path}/in/{number:03}.txt" for number in (3, 5)
    ]
    assert "  003.txt: invalid UTF-8: at byte 3" in printed


def test_init_excludes_the_files_that_it_cannot_use_with_the_reason(tmp_path, run):
    write(tmp_path / "in/a.parquet")
    (tmp_path / "in/bad [1].parquet").write_bytes(b"PAR1")
    (tmp_path / "in/pairs.jsonl").write_bytes(json_lines([{"chosen": "a", "rejected": "b"}]))
    write(tmp_path / "in/b.jsonl")
    (tmp_path / "in/LICENSE.txt").write_text("about")
    write(tmp_path / "in/c.txt")
    recipe = tmp_path / "recipe.toml"
    code, values, _ = run("init", tmp_path / "in", "--output", recipe)
    assert code == 0
    text = recipe.read_text()
    assert '  "bad [[]1].parquet",  # it is not a readable parquet file' in text
    assert '  "pairs.jsonl",  # preference data' in text
    assert '  "LICENSE.txt",  # about the data' in text
    for name in ("bad [1].parquet", "pairs.jsonl", "LICENSE.txt"):
        assert any(name in line for line in values["unread"])
    code, values, _ = run("plan", recipe, "--set", "tokenizer.vocab_size=300")
    assert code == 0
    excluded = [note for note in values["notes"] if "exclude leaves out 1 of 2 files" in note]
    assert len(excluded) == 3


def test_files_of_unknown_formats_are_read_if_asked(tmp_path, prepare, run):
    for number in range(3):
        write(tmp_path / f"in/{number}.py")
    write(tmp_path / "in/a.txt")
    recipe = tmp_path / "recipe.toml"
    for option in ("--document-per-file", "--input-format=document"):
        flags = ["--output", recipe, "--force", option]
        assert run("init", tmp_path / "in", *flags)[0] == 0
        [source] = load_recipe(str(recipe)).sources
        assert source.format == "document"
        assert source.paths == (f"{tmp_path}/in/*.py", f"{tmp_path}/in/*.txt")
    _, printed = succeeds(prepare("in", "--vocab-size=270"), 1)
    assert "3 files" not in printed
    assert "0.py, 1.py, 2.py: no known format" in printed
    succeeds(prepare("in", "--document-per-file"), 4)
    fails(prepare("in/a.txt", "in/0.py", "in/b.xyz"), "b.xyz matches no file")


def test_a_named_file_in_no_known_format_is_refused(tmp_path, prepare):
    write(tmp_path / "in/a.txt")
    write(tmp_path / "in/a.py")
    fails(prepare("in/a.txt", "in/a.py", "--vocab-size=270"), "a.py: no known format")
    assert not (tmp_path / "out").exists()
    succeeds(prepare("in/a.txt", "in/a.py", "--vocab-size=270", "--document-per-file"), 2)


def test_a_column_can_be_named(tmp_path, prepare):
    rows = [{"german": "Ein Text aus Worten.", "english": "A text made of words."}] * 9
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_bytes(json_lines(rows))
    fails(prepare("in", "--vocab-size=270"), "the text can be in", "set --column to the one")
    succeeds(prepare("in", "--vocab-size=270", "--column=english"), 9)
    assert saved(tmp_path).sources[0].column == "english"


@pytest.mark.parametrize("command", ["init", "prepare"])
@pytest.mark.parametrize("place", ["files", "output"])
def test_logins_and_signatures_are_not_written_into_a_recipe(tmp_path, run, command, place):
    secret = "https://me:pa55-w0rd@127.0.0.1:9/a.jsonl?sig=5ignature"
    write(tmp_path / "a.jsonl")
    files, out = (secret, tmp_path / "out.toml")
    if place == "output" and command == "prepare":
        files, out = tmp_path / "a.jsonl", "s3://me:pa55-w0rd@bucket/5ignature"
    code, values, printed = run(command, files, "--output", out)
    assert code == 2
    assert "has a login or a signature" in values["error"]
    assert "${URL}" in values["error"]
    for text in (json.dumps(values), printed):
        assert "pa55-w0rd" not in text
        assert "5ignature" not in text or place == "output"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


def test_a_recipe_leaves_out_unusable_files_too(tmp_path, prepare, run):
    write(tmp_path / "in/a.parquet")
    write(tmp_path / "in/b.parquet", seed=1)
    succeeds(prepare("in", "--vocab-size=300"))
    recipe = tmp_path / "out/recipe.toml"
    cut(tmp_path / "in/b.parquet")
    for command in ("plan", "prepare", "train"):
        code, values, _ = run(command, recipe)
        assert code == 2
        assert "name it in exclude, or pass --skip-unreadable" in values["error"]
    flags = ["--skip-unreadable", "--allow-removed"]
    for command in ("plan", "prepare"):
        code, values, printed = run(command, recipe, *flags)
        assert code == 0
        [entry] = values["left_out"]
        assert entry["file"] == f"{tmp_path}/in/b.parquet"
        assert "left out    1 file" in printed
    cut(tmp_path / "in/a.parquet")
    code, values, _ = run("prepare", recipe, *flags)
    assert code == 2
    assert "source 'in': none of its 2 files can be used" in values["error"]
