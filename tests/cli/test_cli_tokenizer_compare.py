"""`nanotok tokenizer compare`: bytes per token by source and label, and common tokens."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray.cli import main
from nanotok_ray.tokenizer import Tokenizer
from tests.support.published_ranks import fake_package
from tests.support.small_corpus import texts, write_conversations, write_parquet

MADE = texts(60, seed=7)
LANGUAGES = ["en" if number % 3 else "ko" for number in range(30)]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Three tokenizers, of which two have the same name, and two corpora."""
    folder = tmp_path_factory.mktemp("compare")
    tokenizer = Tokenizer.train_from_iterator(MADE, 380, num_threads=1)
    tokenizer.save(folder / "a/tokenizer")
    tokenizer.truncated(300).save(folder / "b/tokenizer")
    Tokenizer.train_from_iterator(texts(60, seed=8), 330, num_threads=1).save(folder / "other")
    table = pa.table({"text": MADE[:30], "language": LANGUAGES})
    pq.write_table(table, folder / "web.parquet")
    for number in range(2):
        write_parquet(folder / f"more/{number}.parquet", MADE[30 + number : 60 : 2])
    return folder


@pytest.fixture
def compare(root, capsys, monkeypatch):
    """Run the command with the tokenizers; return its exit code, values and stderr."""
    monkeypatch.chdir(root)

    def run(*arguments):
        code = main(["tokenizer", "compare", *arguments])
        captured = capsys.readouterr()
        return code, json.loads(captured.out.splitlines()[-1]), captured.err

    return run


def expected(chosen, tokenizers):
    """Return the expected values of some texts, from a plain loop."""
    size = len("".join(chosen).encode())
    tokens = {
        name: sum(map(len, own.encode(list(chosen)))) if chosen else 0
        for name, own in tokenizers.items()
    }
    first, *others = tokens
    return {
        "texts": len(chosen),
        "bytes": size,
        "code_points": len("".join(chosen)),
        "tokens": tokens,
        "bytes_per_token": {name: round(size / number, 4) for name, number in tokens.items()},
        "diff_percent": {
            name: round((tokens[name] - tokens[first]) / tokens[name] * 100, 4) for name in others
        },
    }


def test_rows_equal_a_loop_over_sources_and_labels(compare, root):
    names = ["a/tokenizer", "b/tokenizer", "other"]
    code, values, reported = compare(
        *names, "--corpus", "web=web.parquet", "--corpus", "web.parquet", "--by", "language"
    )
    tokenizers = {name: Tokenizer.load(root / name) for name in names}
    assert (code, values["status"]) == (0, "compared")
    assert [own["name"] for own in values["tokenizers"]] == names
    found = {(row.pop("source"), row.pop("label")): row for row in values["rows"]}
    by_label = {
        label: [t for t, own in zip(MADE[:30], LANGUAGES, strict=True) if label in (None, own)]
        for label in (None, "en", "ko")
    }
    for source in ("web", "corpus"):
        for label, chosen in by_label.items():
            assert found[source, label] == expected(chosen, tokenizers)
    assert found["all", None] == expected(MADE[:30] * 2, tokenizers)
    assert [*found][-1] == ("all", None)
    row = found["web", "en"]
    assert f"  en  {row['bytes']:>9,}".replace(" ", "") in reported.replace(" ", "")
    assert f"{row['diff_percent']['other']:+.1f}%" in reported


def test_globs_of_one_name_are_one_source(compare, root):
    tokenizers = {"other": Tokenizer.load(root / "other")}
    _, values, reported = compare("other", "--corpus", "x=more/0.parquet", "--corpus", "x=more/1*")
    (row,) = values["rows"]
    assert row == {"source": "x", "label": None} | expected(MADE[30:60], tokenizers)
    assert values["overlaps"] == []
    assert "all" not in reported


def test_vocabularies_are_compared_with_the_first(compare, root):
    left, right = (Tokenizer.load(root / name).model for name in ("a/tokenizer", "other"))
    _, values, reported = compare("a=a/tokenizer", "other", "b=b/tokenizer", "--corpus", "more")
    other, small = values["overlaps"]
    assert (other["first"], other["other"], small["other"]) == ("a", "other", "b")
    assert other["shared"] == len({*left.tokens} & {*right.tokens})
    pairs = zip(left.merges, right.merges, strict=False)
    assert other["equal_merges"] == [own == their for own, their in pairs].index(False)
    assert (small["equal_merges"], small["only_other"], small["other_token"]) == (35, 0, None)
    assert "the first 35 merges are equal, and a has more" in reported
    assert f"merge {other['equal_merges']} (from 0) is the first that differs: a has " in reported
    _, _, reported = compare("a=a/tokenizer", "again=a/tokenizer", "--corpus", "more")
    assert "all 115 merges are equal" in reported


def test_published_vocabularies_are_shown_beside_ours(compare, tmp_path, monkeypatch):
    fake_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    _, values, _ = compare("other", "cl100k", "x=o200k", "--corpus", "more")
    first, *others = values["tokenizers"]
    assert [own["name"] for own in others] == ["cl100k", "x"]
    assert "sha256" in first
    assert values["rows"][0]["tokens"]["cl100k"] < values["rows"][0]["bytes"]
    assert values["overlaps"][0]["first_token"] is not None


def test_empty_corpora_have_no_ratios(compare, tmp_path):
    (tmp_path / "a.txt").write_text("")
    plot = tmp_path / "a.svg"
    flags = ["--corpus", str(tmp_path / "a.txt"), "--plot", str(plot)]
    code, values, reported = compare("other", "a/tokenizer", *flags)
    (row,) = values["rows"]
    assert (code, row["bytes_per_token"]) == (0, {"other": None, "tokenizer": None})
    assert row["diff_percent"] == {"tokenizer": None}
    assert "corpus      0           -" in reported
    assert plot.exists()


@pytest.mark.parametrize("name", ["a.svg", "a.png"])
def test_a_picture_has_one_bar_per_row(compare, tmp_path, name):
    path = tmp_path / name
    flags = ["--by", "language", "--plot", str(path)]
    _, _, reported = compare("other", "a/tokenizer", "--corpus", "web=web.parquet", *flags)
    assert f"wrote       {path}\n" in reported
    if name != "a.png":
        assert ">web: ko</text>" in path.read_text()


def test_a_picture_shows_the_largest_rows(compare, tmp_path):
    labels = [f"label{number:03}" for number in range(80)]
    made = ["x" * (1 + number) for number in range(len(labels))]
    pq.write_table(pa.table({"text": made, "own": labels}), tmp_path / "a.parquet")
    path = tmp_path / "a.svg"
    flags = ["--corpus", str(tmp_path / "a.parquet"), "--by", "own", "--plot", str(path)]
    _, values, _ = compare("other", *flags)
    page = path.read_text()
    assert len(values["rows"]) == len(labels) + 1
    assert f"The largest 60 of {len(labels) + 1} rows." in page
    assert page.count(">corpus: label") == 59
    assert f">corpus: {labels[-1]}<" in page
    assert f">corpus: {labels[0]}<" not in page


def test_a_source_may_have_several_formats(compare, tmp_path):
    write_parquet(tmp_path / "a.parquet", ["hallo"])
    (tmp_path / "a.txt").write_text("ja\nnein\n")
    (tmp_path / "b.md").write_text("#\n\n#")
    files = [f"--corpus={tmp_path}/{name}" for name in ("a.txt", "b.md", "a.parquet")]
    _, values, _ = compare("other", *files, "--document-per-file")
    assert [(row["texts"], row["bytes"]) for row in values["rows"]] == [(3, 5 + 8 + 4)]


def test_chats_are_read_from_folders_with_other_files(compare, tmp_path):
    made = [[{"role": "user", "content": "hallo"}, {"role": "assistant", "content": "ja"}]]
    write_conversations(tmp_path / "c.jsonl", made)
    (tmp_path / "readme.txt").write_text("no chat")
    _, values, _ = compare("other", "--corpus", str(tmp_path), "--kind", "chat")
    (row,) = values["rows"]
    assert (row["texts"], row["bytes"]) == (2, 7)
    _, values, _ = compare("other", "--corpus", str(tmp_path / "*"), "--kind", "chat")
    assert "--input-format = 'lines', but a chat source is read from" in values["error"]
