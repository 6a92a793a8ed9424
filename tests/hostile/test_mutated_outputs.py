"""A changed output is read or refused with an error of this package."""

import copy
import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanotok_ray.errors import NanotokError
from nanotok_ray.formats import check_record_shape
from nanotok_ray.shards import read_record, verify_output
from nanotok_ray.shards.check import check_files, record_problems
from nanotok_ray.sources import plan_from_json
from nanotok_ray.storage import Folder
from tests.support.finished_output import publish_index, read_all
from tests.support.vision_shards import IMAGE, VisionShards, documents_with_images

changes = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=9)), min_size=1, max_size=4)


def mutated(data, changes):
    """Overwrite bytes at shares of the length; an empty change cuts the file there."""
    for share, new in changes:
        at = int(share * len(data))
        data = data[:at] + new + data[at + len(new) :] if new else data[:at]
    return data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def replaced(data, path, value):
    """Replace or remove a value of a JSON text at a location chosen by numbers."""
    values = json.loads(data)
    at, key = None, None
    inner = values
    for step in path:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        if not keys:
            break
        at, key = inner, keys[step % len(keys)]
        inner = at[key]
        if not isinstance(inner, dict | list):
            break
    at[key] = value
    return json.dumps(values).encode()


steps = st.lists(st.integers(0, 50), min_size=1, max_size=6)

mutations = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@contextmanager
def changing(*paths):
    """Let the body change files and be refused; restore them."""
    kept = {path: path.read_bytes() for path in paths}
    try:
        yield
    except NanotokError:
        pass
    finally:
        for path, data in kept.items():
            path.write_bytes(data)


@mutations
@given(number=st.integers(0, 50), changes=changes)
def test_changed_bytes_are_read_or_refused(out, number, changes):
    paths = [*sorted(out.glob("*/*/*.idx")), out / "shards.idx", out / "manifest.json"]
    path = paths[number % len(paths)]
    with changing(path, out / "manifest.json"):
        data = mutated(path.read_bytes(), changes)
        if path.name == "shards.idx":
            publish_index(out, data)
        else:
            path.write_bytes(data)
        read_all(out)


@mutations
@given(steps=steps, value=JSON)
def test_any_value_in_the_manifest_is_read_or_refused(out, steps, value):
    path = out / "manifest.json"
    with changing(path):
        path.write_bytes(replaced(path.read_bytes(), steps, value))
        read_all(out)
        verify_output(Folder(str(out)), read_files=False)


@mutations
@given(steps=steps, value=JSON)
def test_any_value_in_a_plan_is_read_or_refused(finished, steps, value):
    try:
        plan = plan_from_json(replaced((finished / "plan.json").read_bytes(), steps, value))
    except NanotokError:
        return
    for each in plan.slices():
        assert each.num_bytes >= 0
        assert each.key


@mutations
@given(steps=steps, value=JSON)
def test_any_value_in_a_record_is_a_problem_or_harmless(out, steps, value):
    path = min(out.glob("records/tokenize/chats/train/*.json"))
    with changing(path):
        path.write_bytes(replaced(path.read_bytes(), steps, value))
        verify_output(Folder(str(out)))
        read_record(Folder(str(out)), path.relative_to(out).as_posix())


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    made = VisionShards(tmp_path_factory.mktemp("vision"), documents_with_images(12))
    made.publish()
    return made


def check(made, record):
    """Check a record of vision documents like verification, with its files last."""
    check_record_shape(record, name="record", of_shards=True)
    if not list(record_problems(record, item_bytes=2, slice_=made.slice)):
        return list(
            check_files(
                made.out,
                record,
                item_bytes=2,
                num_ids=made.tokenizer.model.num_ids,
                special_tokens=made.tokenizer.special_tokens,
                image_token=IMAGE,
            )
        )
    return None


@mutations
@given(number=st.integers(0, 4), changes=changes)
def test_changed_files_of_vision_documents_are_read_or_refused(vision, number, changes):
    record = copy.deepcopy(vision.record)
    file = record["files"][number % len(record["files"])]
    path = Path(vision.out.url) / file["name"]
    with changing(path):
        kept = path.read_bytes()
        path.write_bytes(mutated(kept, changes))
        assert (check(vision, record) == []) == (path.read_bytes() == kept)
        # The record agrees with the file, as if this version had written it.
        file["size"], file["sha256"] = path.stat().st_size, vision.out.sha256(file["name"])
        check(vision, record)
        read_all(vision.out.url)


@mutations
@given(steps=steps, value=JSON)
def test_any_value_in_a_record_of_vision_documents_is_harmless(vision, steps, value):
    with changing():
        check(vision, json.loads(replaced(json.dumps(vision.record), steps, value)))
