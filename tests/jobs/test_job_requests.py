"""The number of S3 requests of a slice by method, which dominates the cost of a store."""

from collections import Counter
from urllib.parse import unquote

import pytest

from nanotok_ray.api import prepare, tokenize, train, verify
from nanotok_ray.recipe import parse_recipe
from nanotok_ray.storage import Folder
from tests.support.executors import InProcess
from tests.support.s3_server import BUCKET, KINDS, corpus_of, kind_of, s3_behind_a_proxy

pytestmark = pytest.mark.slow

SMALL, LARGE = 8, 24

LIMITS = {
    "train": {"GET": 4.5, "HEAD": 0, "LIST": 0, "PUT": 3, "DELETE": 0},
    "tokenize": {"GET": 7.5, "HEAD": 0, "LIST": 0, "PUT": 4, "DELETE": 0},
    "verify": {"GET": 7, "HEAD": 0, "LIST": 0, "PUT": 0, "DELETE": 0},
    "nothing to do": {"GET": 2.5, "HEAD": 0, "LIST": 0, "PUT": 0, "DELETE": 0},
    "resume": {"GET": 9, "HEAD": 0, "LIST": 0, "PUT": 2, "DELETE": 0},
}
"""Requests of a slice; a file of the source has four slices. A record has a checksum, and the files
of a slice that an unfinished run has left are read. The page of a job reads one file of
the first shards, so that tokenizing a few slices has one GET more than many.
"""

ANY_JOB = 100
"""Requests of each method that do not depend on the number of slices."""


@pytest.fixture(scope="module")
def counted():
    with s3_behind_a_proxy() as proxy:
        return {slices: requests_of(proxy, slices) for slices in (SMALL, LARGE)}


def requests_of(proxy, slices):
    bucket = Folder(f"s3://{BUCKET}/{slices}")
    recipe = parse_recipe(corpus_of(bucket, slices))
    commands = {
        "train": lambda: train(recipe, executor=InProcess()),
        "tokenize": lambda: tokenize(recipe, executor=InProcess()),
        "verify": lambda: verify(bucket.join("out")),
        "nothing to do": lambda: prepare(recipe, executor=InProcess()),
        "resume": lambda: prepare(recipe, executor=InProcess()),
    }
    found = {}
    for name, command in commands.items():
        if name == "resume":
            remove_half(bucket)
        proxy.clear()
        command()
        found[name] = Counter(
            kind_of(method, path)
            for method, path, _ in proxy.requests
            if "/run/" not in unquote(path)  # lease and journal, which are written periodically
            or "/run/checksums/" in unquote(path)
        )
    return found


def remove_half(bucket):
    """Remove the manifest, and every other record with its files."""
    bucket.remove("out/manifest.json")
    for record in bucket.list("out/records/tokenize/")[::2]:
        stem = record.removeprefix("out/records/tokenize/").removesuffix(".json")
        for name in (record, *bucket.list(f"out/{stem}")):
            bucket.remove(name)


@pytest.mark.parametrize("command", LIMITS)
def test_a_slice_makes_no_unnecessary_requests(counted, command):
    few, many = counted[SMALL][command], counted[LARGE][command]
    of_a_slice = {kind: (many[kind] - few[kind]) / (LARGE - SMALL) for kind in KINDS}
    above = {kind: found for kind, found in of_a_slice.items() if found > LIMITS[command][kind]}
    assert not above
    assert max(few[kind] - SMALL * of_a_slice[kind] for kind in KINDS) < ANY_JOB
