"""Damaged files of an earlier run: results are made again with a note, or the file is named."""

import json
import random
import shutil
from pathlib import Path

import pytest

from nanotok_ray.api import prepare, train
from nanotok_ray.errors import CorruptOutputError, NanotokError, SliceError
from nanotok_ray.job import lease as leases
from nanotok_ray.job.lease import Clock
from nanotok_ray.job.work import tokenize_work
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from tests.support.executors import InProcess, Replacing, in_place_of_ray
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe, write_corpus

OVERRIDES = (
    "limits.slice_bytes=1500",
    "tokenizer.also=[300]",
    "source.chats.id_column=id",
    'output.layouts=["datatrove", "megatron"]',
)


class Outputs:
    """An output and its work folder, half finished and finished, of which copies are damaged."""

    def __init__(self, root: Path) -> None:
        write_corpus(root / "in")
        self.root, self.out = root, root / "out"
        self.job = recipe(root / "in", self.out, *OVERRIDES[:2], OVERRIDES[3])
        self._interrupt()
        self._keep("half")
        prepare(self.job)
        self.expected = contents(self.out)
        self._keep("whole")

    def _interrupt(self) -> None:
        """Run the job until some slices of each source fail."""

        def fail(work):
            if work.slice.number % 3 == 2:
                raise SliceError("not now")
            return tokenize_work(work)

        with in_place_of_ray(Replacing({tokenize_work: fail})), pytest.raises(SliceError):
            prepare(self.job)

    def _keep(self, name: str) -> None:
        for folder in ("out", "out-work"):
            shutil.copytree(self.root / folder, self.root / name / folder)

    def restore(self, name: str) -> None:
        for folder in ("out", "out-work"):
            shutil.rmtree(self.root / folder)
            shutil.copytree(self.root / name / folder, self.root / folder)

    def files(self, *patterns: str) -> list[Path]:
        """Return the files of both folders that match, sorted."""
        found = {path for pattern in patterns for path in self.root.glob(pattern)}
        return sorted(path for path in found if path.is_file() and path.stat().st_size)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, in_place_of_ray(InProcess()):
        patch.setattr("os.fsync", lambda _: None)
        return Outputs(tmp_path_factory.mktemp("damage"))


@pytest.fixture
def outputs(made, in_process, monkeypatch):
    seconds = [0.0]  # a damaged lease expires without waiting
    clock = Clock(now=lambda: seconds[0], sleep=lambda by: seconds.append(seconds.pop() + by))
    monkeypatch.setattr(leases, "Clock", lambda: clock)
    return made


def flip(path: Path, rng: random.Random) -> str:
    """Flip a random bit of a file; return where."""
    data = bytearray(path.read_bytes())
    place = rng.randrange(len(data))
    data[place] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"{path}, byte {place}"


def resumed(outputs: Outputs, where: str) -> str:
    """Run the job again; its output must be the undisturbed one, or the error name the file."""
    try:
        _, _, notes = run(outputs.job)
    except NanotokError as error:
        message = str(error)
    else:
        differing = dict(contents(outputs.out).items() ^ outputs.expected.items())
        assert not differing, where
        return "noted" if any("damaged" in note or "again" in note for note in notes) else "equal"
    assert Path(where.partition(", byte")[0]).name in message, (where, message)
    return "refused"


HALF = {
    "counts": "out-work/counts/**/*.arrow",
    "count records": "out-work/counts/**/*.json",
    "records": "out/records/tokenize/**/*.json",
    "learning": "out/records/learn.json",
    "tokenizers": "out/tokenizer*/*",
    "ids": "out/*/train/*.bin",
    "indexes": "out/*/*/*.idx",
    "masks": "out/chats/*/*.mask",
    "exports": "out/export/**/*.ds",
    "records of exports": "out/export/**/*.json",
    "runs": "out/run/**/*",
}


@pytest.mark.parametrize("kind", HALF)
def test_a_bit_that_flips_in_a_half_finished_output_changes_nothing(outputs, kind):
    rng = random.Random(kind)
    for _ in range(4):
        outputs.restore("half")
        where = flip(rng.choice(outputs.files(HALF[kind])), rng)
        assert resumed(outputs, where) in {"noted", "equal"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_any_of_a_thousand_bits_changes_nothing_or_is_named(outputs, seed):
    rng = random.Random(seed)
    for _ in range(50):
        outputs.restore("half")
        resumed(outputs, flip(rng.choice(outputs.files("out/**/*", "out-work/**/*")), rng))


@pytest.mark.parametrize("half", ["half", "whole"])
def test_a_damaged_plan_is_named(outputs, half):
    outputs.restore(half)
    path = outputs.out / "plan.json"
    path.write_bytes(path.read_bytes().replace(b"shard_00002", b"shard_00003"))
    with pytest.raises(CorruptOutputError, match=f"{path} is damaged"):
        prepare(outputs.job)
    outputs.restore("whole")
    shutil.rmtree(outputs.out / "run")
    path.write_bytes(path.read_bytes().replace(b"shard_00002", b"shard_00003"))
    with pytest.raises(CorruptOutputError, match=rf"{path} is damaged, or manifest\.json is"):
        prepare(outputs.job)


@pytest.mark.parametrize("name", ["manifest.json", "shards.idx"])
def test_a_damaged_manifest_is_written_again(outputs, name):
    for rng in map(random.Random, range(3)):
        outputs.restore("whole")
        where = flip(outputs.out / name, rng)
        assert resumed(outputs, where) in {"noted", "equal"}


def test_a_damaged_record_of_a_finished_output_is_made_again(outputs):
    outputs.restore("whole")
    path = min(outputs.out.glob("records/tokenize/web/train/*.json"))
    values = json.loads(path.read_text())
    values["shards"][0]["name"] += "0"
    path.write_text(json.dumps(values))
    assert resumed(outputs, str(path)) == "noted"
    shutil.rmtree(outputs.out / "run")  # without checksums, shards.idx names the record's hash
    path.write_text(path.read_text().replace('"blank_lines": 0', '"blank_lines": 1'))
    assert resumed(outputs, str(path)) == "noted"


def test_a_changed_shard_is_found_before_it_is_published_again(outputs):
    outputs.restore("whole")
    (outputs.out / "manifest.json").unlink()
    path = min(outputs.out.glob("web/train/*.bin"))
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert resumed(outputs, str(path)) == "noted"
    assert path.read_bytes() == data


def test_a_published_output_states_which_files_were_compared_by_size_only(outputs):
    outputs.restore("whole")
    summary = prepare(outputs.job)
    assert summary.values["compared_by_size"] == summary.values["slices"]
    assert "compared by size only" in summary.text()
    path = min(outputs.out.glob("web/train/*.bin"))
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
    assert any(path.name in problem for problem in verify_output(Folder(str(outputs.out))).problems)


def test_a_tokenizer_file_that_follows_from_others_is_written_without_learning(outputs):
    outputs.restore("whole")
    flip(outputs.out / "tokenizer/tokenizer.json", random.Random(1))
    _, stages, notes = run(outputs.job)
    assert "learn" not in stages
    assert any("tokenizer.json is not as it was written" in note for note in notes)
    assert contents(outputs.out) == outputs.expected


def test_damaged_counts_are_counted_again_with_a_note(outputs):
    outputs.restore("half")
    shutil.rmtree(outputs.out)
    [path, *_] = outputs.files("out-work/counts/web/*.arrow")
    before = path.read_bytes()
    rng = random.Random(3)
    for _ in range(8):
        path.write_bytes(before)
        where = flip(path, rng)
        _, _, notes = run(outputs.job, train)
        assert path.read_bytes() == before or not notes, where
        tokenizer = {name: data for name, data in outputs.expected.items() if "tokenizer/" in name}
        assert contents(outputs.out).items() >= tokenizer.items(), where
        shutil.rmtree(outputs.out)
