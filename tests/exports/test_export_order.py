"""Ordered exports: against a plain loader, resuming, damage, refusals."""

import json
import math
import tempfile
from collections import Counter
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import api
from nanotok_ray.api import verify_export
from nanotok_ray.errors import CorruptOutputError, ExportError
from nanotok_ray.exports import LAYOUTS, ExportedUnit, Sections, format_options, parse_layout
from nanotok_ray.job import ordering
from nanotok_ray.job.events import SliceEnded, StageStarted
from nanotok_ray.job.exporting import ExportPlan
from nanotok_ray.loader import Loader, Mixture, RowSettings, open_shards
from nanotok_ray.loader.mixture import Stream
from nanotok_ray.storage import Folder
from tests.support.executors import InProcess
from tests.support.made_output import BOS, MadeSource, made_output
from tests.support.plain_loader import FEWER, LENGTHS, PlainLoader, made_sources
from tests.support.small_corpus import contents
from tests.support.vision_shards import VisionShards, documents_with_images

export = partial(api.export, executor=InProcess())


@pytest.fixture(autouse=True)
def _small_sections(monkeypatch):
    monkeypatch.setattr(ordering, "SECTION_BYTES", 400)
    monkeypatch.setattr(ordering, "SCATTER_BYTES", 600)


def source_of(name, documents, *, seed=0, shards=3, **more):
    """Return a source whose documents are all different."""
    rng = np.random.default_rng([seed, len(name), documents])
    made = [
        [[BOS, *rng.integers(0, 50_000, rng.integers(3, 20)).tolist()] for _ in range(documents)]
        for _ in range(shards)
    ]
    return MadeSource(name=name, shards=made, **more)


WEB, CODE = source_of("web", 40), source_of("code", 5)
VAL = MadeSource(name="web", shards=[[[BOS, 7]]], split="val")
MIXED = "weights=web=0.6+code=0.4,tokens=2k,shuffle=5"


def documents_of(folder):
    """Return ids and mask of all train documents of an export in the layout raw."""
    found = []
    for name in folder.list("mixture/train/"):
        if not name.endswith(".offsets.npy"):
            continue
        stem = name.removesuffix(".offsets.npy")
        ids = np.fromfile(folder.join(f"{stem}.bin"), dtype="<u2")
        mask = None
        if folder.exists(f"{stem}.mask"):
            mask = np.fromfile(folder.join(f"{stem}.mask"), dtype="u1")
        offsets = np.load(folder.join(name)).tolist()
        for start, end in pairwise(offsets):
            found.append((ids[start:end].tolist(), None if mask is None else mask[start:end]))
    return found


def plain_documents(shards, *, tokens, **settings):
    """Return the documents of an order by a loader of lists and loops."""
    plain = PlainLoader(shards=shards, length=8, packing="windows", **settings)
    documents, left = [], math.inf if tokens is None else tokens
    for _, group in plain.groups(1 if tokens is None else None):
        for document in group:
            if left <= 0:
                return documents
            documents.append(document)
            left -= len(shards[document])
    return documents


@FEWER
@given(
    st.lists(LENGTHS, min_size=1, max_size=3),
    st.fixed_dictionaries(
        {
            "tokens": st.one_of(st.none(), st.integers(1, 900)),
            "seed": st.one_of(st.none(), st.integers(0, 3)),
            "weights": st.lists(st.floats(0.05, 9), max_size=3),
        }
    ),
    st.sampled_from([1, 40, 400]),
)
def test_documents_are_those_of_a_plain_loader(lengths, drawn, section_bytes):
    tokens, seed = drawn["tokens"], drawn["seed"]
    has_tokens = [any(map(sum, shards)) for shards in lengths]
    weights = {
        "abc"[number]: weight
        for number, weight in enumerate(drawn["weights"][: len(lengths)])
        if has_tokens[number] and tokens is not None
    }
    if not any(has_tokens) or (tokens is None and seed is None):
        return
    options = {
        "weights": "+".join(f"{name}={weight}" for name, weight in weights.items()),
        "tokens": tokens,
        "shuffle": seed,
    }
    text = ",".join(f"{key}={value}" for key, value in options.items() if value not in (None, ""))
    with (
        tempfile.TemporaryDirectory() as root,
        patch.object(ordering, "SECTION_BYTES", section_bytes),
        patch("os.fsync"),
    ):
        out = made_output(f"{root}/out", *made_sources(lengths))
        result = export(out, f"raw:{text}")
        shards, folder = open_shards(out.url), Folder(result.folder)
        expected = plain_documents(
            shards,
            tokens=tokens,
            weights=weights or None,
            shuffle=None if seed is None else "document",
            seed=seed or 0,
        )
        found = documents_of(folder)
        assert [ids for ids, _ in found] == [shards[one].tolist() for one in expected]
        masks = [shards.mask(one) for one in expected]
        is_masked = any(mask is not None for _, mask in found)
        for (ids, mask), own in zip(found, masks, strict=True):
            assert is_masked or own is None
            if is_masked:
                assert mask.tolist() == ([1] * len(ids) if own is None else own.tolist())
        assert verify_export(folder, out)[1] == []
        assert_reported(result.export, shards, expected)


def assert_reported(export, shards, expected):
    """Check what export.json says of each source."""
    for name, documents in shards.ranges().items():
        own = [one for one in expected if one in documents]
        said = export.mixture.sources[name]
        assert said.documents == len(own)
        assert said.tokens == sum(len(shards[one]) for one in own)
        assert said.epochs == len(own) / len(documents)
        left = len(documents) - len(own)
        assert said.left_out_documents == max(0, left)
        if len(own) == len(set(own)):
            left_tokens = sum(len(shards[one]) for one in documents if one not in own)
            assert said.left_out_tokens == left_tokens


def test_the_tokens_are_those_of_a_loader(tmp_path):
    out = made_output(tmp_path, WEB, CODE)
    folder = Folder(export(out, f"raw:{MIXED}").folder)
    stream = [token for ids, _ in documents_of(folder) for token in ids]
    settings = {"weights": {"web": 0.6, "code": 0.4}, "shuffle": "document", "seed": 5}
    loader = Loader(open_shards(out.url), batch_size=1, length=100, packing="windows", **settings)
    rows = [batch.inputs[0].tolist() for batch in islice(loader, len(stream) // 100)]
    assert [token for row in rows for token in row] == stream[: 100 * len(rows)]


def read_by_layout(out, layout, folder):
    """Return the ids of all documents of an export, read by its layout, with those of val last."""
    plan = ExportPlan.of(out, layout, folder=folder)
    assert plan.is_done
    units = [ExportedUnit(unit=work.unit, record=record.value) for work, record in plan.stored.done]
    return [ids.tolist() for unit in units for ids, _ in layout.read(unit, folder)]


@pytest.mark.parametrize("name", sorted({*LAYOUTS} - {"litdata", "packed"}))
@pytest.mark.parametrize("order", ["shuffle=3", MIXED])
def test_every_layout_has_the_documents_in_order(name, order, tmp_path):
    out = made_output(tmp_path / "out", WEB, CODE, VAL)
    layout, raw = parse_layout(f"{name}:{order}"), Folder(str(tmp_path / "raw"))
    folder = Folder(export(out, layout).folder)
    export(out, f"raw:{order}", folder=raw)
    expected = [ids for ids, _ in documents_of(raw)] + VAL.shards[0]
    if name == "olmo":  # its readers need <|bos|> at the end
        expected = [[*ids[1:], ids[0]] for ids in expected]
    assert read_by_layout(out, layout, folder) == expected
    assert verify_export(folder, out)[1] == []


@pytest.mark.parametrize("name", ["litdata:block_size=16", "packed:length=64"])
def test_files_in_another_order_are_a_problem(name, tmp_path):
    out = made_output(tmp_path / "out", WEB, CODE, VAL)
    folder = Folder(export(out, f"{name},shuffle=4").folder)
    assert verify_export(folder, out)[1] == []
    said = json.loads(folder.read_bytes("export.json"))
    said["options"]["shuffle"] = 3
    folder.write_bytes("export.json", json.dumps(said).encode())
    assert verify_export(folder, out)[1] != []


@pytest.mark.parametrize("layout", ["llmc", "megatron:datasets=3", "parquet"])
def test_bytes_do_not_depend_on_the_order_of_tasks_or_the_number_of_workers(layout, tmp_path):
    out = made_output(tmp_path / "out", WEB, CODE, VAL)
    text = layout + ("," if ":" in layout else ":") + MIXED
    executors = [InProcess(), InProcess(order=lambda tasks: tasks[::-1]), None]
    made = []
    for number, executor in enumerate(executors):
        folder = tmp_path / f"export{number}"
        api.export(out, text, folder=str(folder), executor=executor)
        made.append(contents(folder))
    assert made[0] == made[1] == made[2]


def test_document_ids_and_images_stay_with_their_documents(tmp_path):
    made = VisionShards(tmp_path, documents_with_images(24))
    folder = Folder(export(made.publish(), "parquet:shuffle=1").folder)
    names = [name for name in folder.list("mixture/") if name.endswith(".parquet")]
    rows = [row for name in names for row in pq.read_table(folder.join(name)).to_pylist()]
    spans = {tuple(own.ids): [tuple(image) for image in own.images] for own in made.composed}
    assert len(rows) == len(spans) == 24
    for row in rows:
        images = [(span["start"], span["end"]) for span in row["image_spans"]]
        assert spans[tuple(row["input_ids"])] == images


def test_documents_of_a_source_without_ids_have_none(tmp_path):
    named = source_of("code", 5, with_document_ids=True)
    folder = Folder(export(made_output(tmp_path, WEB, named), "parquet:shuffle=1").folder)
    names = [name for name in folder.list("mixture/") if name.endswith(".parquet")]
    rows = [row for name in names for row in pq.read_table(folder.join(name)).to_pylist()]
    found = {tuple(row["input_ids"]): row["id"] for row in rows}
    for shard, documents in enumerate(named.shards):
        for number, document in enumerate(documents):
            name = f"code/train/part-{shard:05d}-000-{'0' * 16}#{number}"
            assert found.pop(tuple(document)) == name
    assert len(found) == 120
    assert set(found.values()) == {None}


def test_val_is_exported_as_it_is(tmp_path):
    out = made_output(tmp_path, WEB, CODE, VAL)
    ordered, plain = export(out, "raw:shuffle=1"), export(out, "datatrove")
    assert ordered.export.documents == plain.export.documents == 136
    (name,) = [one for one in Folder(ordered.folder).list("web/val/") if one.endswith(".bin")]
    assert np.fromfile(f"{ordered.folder}/{name}", dtype="<u2").tolist() == [BOS, 7]


def test_positions_of_the_documents_of_a_shard_are_uniform(tmp_path, monkeypatch):
    monkeypatch.setattr(ordering, "SECTION_BYTES", 8000)
    shards = [[[BOS, shard, number] for number in range(200)] for shard in range(20)]
    out = made_output(tmp_path, MadeSource(name="web", shards=shards))
    found = documents_of(Folder(export(out, "raw:shuffle=9").folder))
    assert len({tuple(ids) for ids, _ in found}) == len(found) == 4000
    table = np.zeros((20, 20))
    for position, (ids, _) in enumerate(found):
        table[ids[1], position // 200] += 1
    chi_square = ((table - 10) ** 2 / 10).sum()  # 361 degrees of freedom
    assert 361 - 4 * math.sqrt(2 * 361) < chi_square < 361 + 4 * math.sqrt(2 * 361)


def test_documents_are_repeated_only_by_epochs(tmp_path):
    out = made_output(tmp_path, WEB, CODE)
    result = export(out, "raw:weights=web=0.5+code=0.5,tokens=6k,shuffle=1")
    counts = Counter(tuple(ids) for ids, _ in documents_of(Folder(result.folder)))
    for source in (WEB, CODE):
        own = [counts[tuple(one)] for shard in source.shards for one in shard]
        epochs = result.export.mixture.sources[source.name].epochs
        assert {math.floor(epochs), math.ceil(epochs)} >= set(own)
        assert result.export.mixture.sources[source.name].documents == sum(own)


class KilledError(KeyboardInterrupt):
    """Simulates the end of the process."""


@pytest.mark.parametrize("share", [0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1])
@pytest.mark.parametrize("layout", ["llmc", "raw"])
def test_a_killed_export_resumes_to_the_same_bytes(layout, share, tmp_path):
    out = made_output(tmp_path / "out", WEB, CODE, VAL)
    text, left = f"{layout}:{MIXED}", [10**6]

    def on_event(event):
        left[0] -= isinstance(event, SliceEnded | StageStarted)
        if left[0] == 0:
            raise KilledError

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    export(out, text, folder=str(whole), on_event=on_event)
    left = [1 + round(share * (10**6 - left[0] - 1))]
    with pytest.raises(KilledError):
        export(out, text, folder=str(killed), on_event=on_event)
    assert not (killed / "export.json").exists()
    export(out, text, folder=str(killed))
    assert contents(killed) == contents(whole)
    assert export(out, text, folder=str(killed)).unchanged


def killed_in_export(out, text, folder):
    """Export until the first unit is done, so that the scatter files remain."""

    def on_event(event):
        if isinstance(event, SliceEnded) and event.stage == "export":
            raise KilledError

    with pytest.raises(KilledError):
        export(out, text, folder=folder, on_event=on_event)


@pytest.mark.parametrize("suffix", [".documents", ".index", ".json"])
@pytest.mark.parametrize("is_removed", [True, False])
def test_a_damaged_scatter_file_is_made_again(suffix, is_removed, tmp_path):
    out = made_output(tmp_path / "out", WEB, CODE)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    export(out, f"raw:{MIXED}", folder=str(whole))
    killed_in_export(out, f"raw:{MIXED}", str(killed))
    path = min((killed / "run/order").glob(f"*{suffix}"))
    data = bytearray(path.read_bytes())
    path.unlink()
    if not is_removed:
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    export(out, f"raw:{MIXED}", folder=str(killed))
    assert contents(killed) == contents(whole)


@pytest.mark.parametrize("suffix", [".documents", ".index"])
def test_a_scatter_file_that_changes_while_it_is_read_is_named(suffix, tmp_path):
    out = made_output(tmp_path / "out", WEB, CODE)

    def on_event(event):
        if isinstance(event, StageStarted) and event.stage == "export":
            path = min((tmp_path / "export/run/order").glob(f"*{suffix}"))
            path.write_bytes(bytes(path.stat().st_size))

    with pytest.raises(CorruptOutputError, match="export again"):
        export(out, "raw:shuffle=1", folder=str(tmp_path / "export"), on_event=on_event)
    assert not (tmp_path / "export/export.json").exists()


def test_a_damaged_shard_of_the_output_is_named(tmp_path):
    out = made_output(tmp_path, WEB)
    path = next(Path(tmp_path).rglob("part-00001*.bin"))
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(CorruptOutputError, match="part-00001"):
        export(out, "raw:shuffle=1")


def test_a_lost_file_of_a_finished_export_is_made_again(tmp_path):
    out = made_output(tmp_path / "out", WEB, CODE)
    result = export(out, f"raw:{MIXED}")
    before = contents(Path(result.folder))
    assert not Folder(result.folder).list("run/")
    Path(f"{result.folder}/mixture/train/00001.bin").unlink()
    assert "00001" in verify_export(Folder(result.folder), out)[1][0]
    again = export(out, f"raw:{MIXED}")
    assert (again.units_done, again.removed) == (1, 0)
    assert contents(Path(result.folder)) == before
    assert not Folder(result.folder).list("run/")


def test_more_tokens_keep_the_finished_units(tmp_path):
    out = made_output(tmp_path, WEB, CODE)
    first = export(out, "raw:weights=web=0.6+code=0.4,tokens=2k,shuffle=5")
    before = documents_of(Folder(first.folder))
    more = export(out, "raw:weights=web=0.6+code=0.4,tokens=4k,shuffle=5")
    assert more.units_done == more.export.units - first.export.units + 1
    assert documents_of(Folder(more.folder))[: len(before)] == before
    fewer = export(out, "raw:weights=web=0.6+code=0.4,tokens=2k,shuffle=5")
    assert documents_of(Folder(fewer.folder)) == before
    assert fewer.export == first.export


def test_the_order_can_be_changed_and_left_out(tmp_path):
    out = made_output(tmp_path, WEB, CODE)
    plain = contents(Path(export(out, "llmc").folder))
    shuffled = export(out, "llmc:shuffle=1")
    assert not Folder(shuffled.folder).list("web/")
    assert shuffled.removed > 0
    other = export(out, "llmc:shuffle=2")
    assert other.export.documents == shuffled.export.documents
    assert contents(Path(export(out, "llmc").folder)) == plain


def test_a_change_of_a_written_file_is_found(tmp_path):
    out = made_output(tmp_path, WEB, CODE)
    folder = Folder(export(out, "raw:shuffle=1").folder)
    path = Path(folder.join("mixture/train/00002.bin"))
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    _, problems = verify_export(folder, out)
    assert len(problems) == 1
    assert "00002.bin" in problems[0]
    assert not folder.list("run/")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ("weights=web=0.7", "tokens=10B"),
        ("weights=zoo=1,tokens=5", "'zoo'"),
        ("weights=web=-1,tokens=5", "-1.0"),
        ("weights=web,tokens=5", "NAME=NUMBER"),
        ("weights=web=1+web=2,tokens=5", "twice"),
        ("tokens=0", "1 or more"),
        ("tokens=ten", "10B"),
        ("tokens=1.5", "whole number"),
        ("shuffle=yes", "shuffle=42"),
        ("shuffle=18446744073709551616", "shuffle is 18446744073709551616"),
        ("weights=web=1+code=1,tokens=10T", "lower its weight"),
    ],
)
def test_wrong_orders_are_refused(options, part, tmp_path):
    out = made_output(tmp_path, WEB, CODE)
    before = contents(tmp_path)
    with pytest.raises(ExportError) as error:
        export(out, f"raw:{options}")
    assert part in str(error.value)
    assert contents(tmp_path) == before


def test_an_output_without_train_tokens_is_refused(tmp_path):
    out = made_output(tmp_path, VAL)
    with pytest.raises(ExportError, match="nothing to pack"):
        export(out, "raw:shuffle=1")


def test_olmo_refuses_to_mix_sources_whose_documents_end_differently(tmp_path):
    ended = MadeSource(name="code", shards=[[[1, BOS]]], prepend=(), append=("<|bos|>",))
    out = made_output(tmp_path, WEB, ended)
    export(out, "olmo")
    with pytest.raises(ExportError, match="web and code are mixed"):
        export(out, "olmo:shuffle=1")
    export(out, "olmo:weights=code=1,tokens=4")


@pytest.mark.parametrize("text", ["raw:shuffle=0", f"megatron:datasets=2,{MIXED}"])
def test_options_can_be_written_as_text(text):
    layout = parse_layout(text)
    assert parse_layout(format_options(layout)) == layout


def test_sections_of_a_billion_documents_take_little_memory():
    settings = RowSettings(packing="windows", length=1, shuffle="document")
    sizes = {"a": 600_000_000, "b": 300_000_000, "c": 10_000_000}
    streams, start = [], 0
    for name, size in sizes.items():
        documents = range(start, start + size)
        streams.append(Stream(name=name, documents=documents, settings=settings))
        start += size
    steps = (2 << 32, 3 << 32, 6 << 32)
    mixture = Mixture(streams=tuple(streams), steps=steps, group_documents=4096)
    sections = Sections.of(mixture, number=500, documents=2_000_000, end=None)
    assert sum(sections.ends[-1]) == 10**9
    where, indexes, times = sections.of_documents(900_000_000, 10_000)
    per_document = np.bincount(indexes, weights=times, minlength=10_000)
    epochs = sections.ends[-1][2] / 10_000_000
    assert set(per_document) == {math.floor(epochs), math.ceil(epochs)}
    assert where.max() < 500
