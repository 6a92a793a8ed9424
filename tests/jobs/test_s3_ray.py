"""A whole job on Ray with all files on an S3 that fails often and stalls once."""

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.cluster import ray_session
from nanotok_ray.storage import Folder
from tests.jobs.chaos_s3 import paused
from tests.support.faulty_proxy import Fault
from tests.support.s3_server import BUCKET, s3_behind_a_proxy
from tests.support.small_corpus import joined_shards, recipe, write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

LARGE = "limits.slice_bytes=15000"


def test_a_job_on_s3_with_ray_writes_what_it_writes_on_a_disk(tmp_path):
    write_corpus(tmp_path / "in")
    with s3_behind_a_proxy() as proxy, ray_session(cpus=2):
        bucket = Folder(f"s3://{BUCKET}/job")
        for path in (tmp_path / "in").rglob("*.*"):
            bucket.write_whole(f"in/{path.relative_to(tmp_path / 'in')}", path.read_bytes())
        faults = [Fault.RESET, Fault.SLOW_DOWN, Fault.RESET_AFTER, Fault.TRUNCATE]
        proxy.fail_always(*faults, period=29)
        with paused(proxy, at=200, seconds=1.5) as reported:
            prepare(recipe(f"{bucket.url}/in", f"{bucket.url}/out", LARGE))
        assert reported == ["paused for 1.5 s at request 200"]
        assert set(proxy.faults) == set(faults)
        proxy.clear()
        prepare(recipe(tmp_path / "in", tmp_path / "out", LARGE))
        assert joined_shards(Folder(bucket.join("out"))) == joined_shards(
            Folder(str(tmp_path / "out"))
        )
