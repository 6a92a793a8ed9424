"""Journals on S3: many small objects, despite failures, and permanently refused."""

import uuid

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.job import Note, read_journal, segment_name
from nanotok_ray.storage import Folder
from tests.support.faulty_proxy import Fault
from tests.support.s3_server import BUCKET, s3_behind_a_proxy, without_waiting
from tests.support.small_corpus import recipe, write_corpus


@pytest.fixture(scope="module")
def server():
    with s3_behind_a_proxy() as proxy:
        yield proxy


@pytest.fixture
def proxy(server):
    with without_waiting(server, seconds=0.3, tries=3) as proxy:
        yield proxy


@pytest.fixture
def out():
    return Folder(f"s3://{BUCKET}/{uuid.uuid4().hex}")


def test_many_segments_are_read_in_parallel_and_in_order(out, proxy):
    for number in range(40):
        row = f'{{"event":"note","at":{number},"text":"{number}"}}\n'
        out.write_whole(segment_name(1, number), row.encode())
    proxy.fail(Fault.RESET, Fault.SLOW_DOWN, method="GET", path="-0000", period=7)
    own = read_journal(Folder(out.url))
    assert [each.text for each in own.notes] == [str(number) for number in range(40)]


def test_a_job_continues_after_failures_of_the_journal(out, proxy, tmp_path, in_process):
    write_corpus(tmp_path / "in")
    proxy.fail_always(Fault.FORBIDDEN, method="PUT", path="run/journal")
    reported = []
    summary = prepare(recipe(tmp_path / "in", out.url), on_event=reported.append)
    assert summary.values["status"] == "done"
    notes = [each.text for each in reported if isinstance(each, Note) and "journal" in each.text]
    assert len(notes) == 1
