"""olmo: documents end with the end token, by one of three rules, or are refused."""

import gzip
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanotok_ray.errors import ExportError
from nanotok_ray.exports import ExportedUnit, parse_layout
from nanotok_ray.storage import Folder
from tests.support.made_output import (
    BOS,
    END,
    MadeSource,
    export_here,
    exported_documents,
    made_output,
    mask_of,
    native_documents,
)

LAYOUT = parse_layout("olmo")
HASH = "0" * 16
CHAT = MadeSource(name="chat", kind="chat", shards=[[[BOS, 1, 2, 3, END], [BOS, 8]]])


def stem(source: str, shard: int = 0) -> str:
    return f"{source}/train/part-{shard:05d}-000-{HASH}"


def ids_of(folder: Folder, name: str, item_bytes: int = 2) -> list[int]:
    return np.frombuffer(folder.read_bytes(f"{name}.npy"), f"<u{item_bytes}").tolist()


def lines_of(folder: Folder, name: str) -> list[str]:
    return gzip.decompress(folder.read_bytes(f"{name}.csv.gz")).decode().splitlines()


def scanned(ids: list[int], end: int) -> list[list[int]]:
    """Return the documents that OLMo-core sees in a local file."""
    stops = [place + 1 for place, own in enumerate(ids) if own == end]
    return [ids[start:stop] for start, stop in pairwise([0, *stops])]


def test_an_added_token_has_mask_0(tmp_path, folder):
    other = MadeSource(name="chat", kind="chat", shards=[[[BOS, 1, 2], [BOS]]])
    out = made_output(tmp_path / "out", other)
    export_here(out, parse_layout("olmo:end_token=<|assistant_end|>"), folder)
    assert ids_of(folder, stem("chat")) == [BOS, 1, 2, END, BOS, END]
    assert list(folder.read_bytes(f"{stem('chat')}.label_mask")) == [0, 1, 1, 0, 0, 0]


def test_the_first_mask_byte_moves_with_its_token(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(
        "tests.support.made_output.mask_of", lambda document: np.arange(len(document)) % 2 == 0
    )
    out = made_output(tmp_path / "out", CHAT)
    exported = export_here(out, LAYOUT, folder)
    assert list(folder.read_bytes(f"{stem('chat')}.label_mask")) == [0, 1, 0, 1, 1, 0, 1]
    native = native_documents([each.unit for each in exported])
    assert exported_documents(exported, folder, LAYOUT) == [
        (ids[1:] + ids[:1], mask[1:] + mask[:1]) for ids, mask in native
    ]


def test_document_ids_of_any_text_stay_on_one_line(tmp_path, folder):
    texts = ["", "a,b", 'say "x"', "two\nlines\r", "é"]
    source = MadeSource(
        name="web", shards=[[[BOS]] * 5], with_document_ids=True, document_ids=texts
    )
    export_here(made_output(tmp_path / "out", source), LAYOUT, folder)
    name = stem("web")
    reported = [f"{name}#0", '"a,b"', '"say ""x"""', r"two\nlines\r", "é"]
    assert lines_of(folder, name) == [
        f"{n},{n + 1},{own},{name},{n}" for n, own in enumerate(reported)
    ]
    data = folder.read_bytes(f"{name}.csv.gz")
    assert data[3:8] == bytes(5)  # no flags, so no name; no time


def test_a_name_containing_npy_has_its_index_where_readers_expect_it(tmp_path, folder):
    source = MadeSource(name="a.npy", shards=[[[BOS, 1]]])
    export_here(made_output(tmp_path / "out", source), LAYOUT, folder)
    assert folder.exists(f"{stem('a.npy')}.csv.gz")  # the name of a folder is unchanged


WRONG = {
    "kept, inside": (("", "<|bos|>"), [[5, BOS], [5, BOS, 6, BOS]], 1, "holds <|bos|> again at"),
    "kept, missing": (("", "<|bos|>"), [[5, BOS], [5]], 1, "does not end with <|bos|>"),
    "kept, empty": (("", "<|bos|>"), [[], [5, BOS]], 0, "is empty"),
    "moved, inside": (("<|bos|>", ""), [[BOS, 5], [BOS, BOS]], 1, "again at place 1"),
    "moved, missing": (("<|bos|>", ""), [[BOS], [5, BOS]], 1, "again at place 1"),
    "moved, absent": (("<|bos|>", ""), [[BOS], [5]], 1, "does not begin with <|bos|>"),
    "moved, empty": (("<|bos|>", ""), [[BOS], [], [BOS]], 1, "is empty"),
    "moved, all empty": (("<|bos|>", ""), [[], []], 0, "is empty"),
    "added, inside": (("", ""), [[5], [], [6, BOS]], 2, "holds <|bos|> at place 1"),
}


@pytest.mark.parametrize("batch_bytes", [1 << 20, 4])
@pytest.mark.parametrize("case", WRONG)
def test_documents_that_readers_would_split_are_refused(case, batch_bytes, tmp_path, folder):
    (before, after), documents, number, why = WRONG[case]
    source = MadeSource(
        name="web",
        prepend=(before,) if before else (),
        append=(after,) if after else (),
        shards=[documents],
    )
    out = made_output(tmp_path / "out", source)
    with pytest.raises(ExportError) as error:
        export_here(out, LAYOUT, folder, batch_bytes=batch_bytes)
    for part in ("source web", stem("web"), f"document {number} ", why, "end_token"):
        assert part in str(error.value)
    assert folder.list() == []
    assert folder.list_temporaries() == []


def rule_sources(bodies, chats):
    """Return one source for each rule, of the same bodies, and their documents for readers."""
    sources = [
        MadeSource(
            name="kept",
            prepend=("<|assistant_end|>",),
            append=("<|bos|>",),
            shards=[[[END, *body, BOS] for body in bodies]],
        ),
        MadeSource(name="moved", shards=[[[BOS, *body] for body in bodies]]),
        MadeSource(name="added", prepend=(), shards=[bodies]),
        MadeSource(name="chat", kind="chat", shards=[[[BOS, *body] for body in chats]]),
    ]
    wanted = [[END, *body, BOS] for body in bodies] + [[*body, BOS] for body in (*bodies, *bodies)]
    masks = [mask_of([BOS, *body]).tolist() for body in chats]
    masked = [[*body, BOS] for body in chats], [[*own[1:], own[0]] for own in masks]
    documents = [(ids, None) for ids in wanted] + list(zip(*masked, strict=True))
    return sources, documents


BODIES = st.lists(st.lists(st.integers(0, END - 2) | st.just(END + 1), max_size=6), max_size=8)


@settings(max_examples=25)
@given(bodies=BODIES, chats=BODIES, batch=st.integers(1, 40), item_bytes=st.sampled_from([2, 4]))
def test_any_documents_follow_the_rules(bodies, chats, batch, item_bytes, tmp_path_factory):
    sources, wanted = rule_sources(bodies, chats)
    root = tmp_path_factory.mktemp("olmo")
    out = made_output(root / "out", *sources, item_bytes=item_bytes)
    folder = Folder(str(root / "export"))
    exported = export_here(out, LAYOUT, folder, batch_bytes=batch)
    assert exported_documents(exported, folder, LAYOUT) == wanted
    for each in exported:
        check_bounds(each, folder, item_bytes)


def check_bounds(each: ExportedUnit, folder: Folder, item_bytes: int) -> None:
    """Compare the documents of a scan with the index."""
    assert bool(each.record.files) == bool(each.unit.documents)
    if not each.record.files:
        return
    ids = ids_of(folder, each.unit.name, item_bytes)
    said = [tuple(map(int, line.split(",")[:2])) for line in lines_of(folder, each.unit.name)]
    assert [ids[start:end] for start, end in said] == scanned(ids, BOS)
