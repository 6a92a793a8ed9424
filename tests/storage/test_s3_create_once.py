"""Files whose names identify their bytes, on S3: a late writer never replaces one."""

from contextlib import suppress

import pytest

from nanotok_ray.errors import TransientIOError
from nanotok_ray.storage import Folder, find_files, is_precondition_conflict
from tests.support.faulty_proxy import Fault
from tests.support.machine_speed import scaled

pytestmark = [pytest.mark.timeout(60)]

PART_BYTES = 5 << 20
SMALL, LARGE = b"abc", bytes(range(256)) * (2 * PART_BYTES // 256) + b"end"


@pytest.fixture(autouse=True)
def client_that_retries(client):
    """Let the client retry too: the store has published when a request is sent again."""
    limits = {"connect_timeout": scaled(2), "read_timeout": scaled(5)}
    retries = {"total_max_attempts": 2}
    client(config_kwargs={**limits, "retries": retries}, default_block_size=PART_BYTES)


def write(folder, name, data):
    with folder.create_once(name) as file:
        for start in range(0, len(data), 1 << 20):
            file.write(data[start : start + (1 << 20)])
    return file


def puts(proxy):
    """Return the requests that could have published something."""
    return [
        (method, path)
        for method, path, _ in proxy.requests
        if (method == "PUT" and "partNumber" not in path)
        or (method == "POST" and "uploadId" in path)
    ]


@pytest.mark.parametrize("data", [b"", SMALL, LARGE], ids=["empty", "small", "parts"])
def test_a_free_name_is_created_and_equal_bytes_count_as_published(folder, proxy, data):
    for _ in range(2):
        assert write(folder, "a/b.bin", data).size == len(data)
        assert folder.read_bytes("a/b.bin") == data
    assert folder.list() == ["a/b.bin"]


def test_the_store_refuses_the_second_writer_and_keeps_the_object_of_the_first(folder, proxy):
    with folder.create_once("a") as late:
        late.write(SMALL)
        write(folder, "a", SMALL)
        before = find_files(folder.url).files
    assert find_files(folder.url).files == before  # another put would change the time
    assert len(puts(proxy)) == 2


@pytest.mark.parametrize("left", [b"xyz", b"longer than it"], ids=["same size", "other size"])
def test_other_bytes_are_removed_and_the_next_attempt_finds_the_name_free(folder, proxy, left):
    folder.write_bytes("a", left)
    with pytest.raises(TransientIOError, match=f"{folder.url}/a for now: other bytes"):
        write(folder, "a", SMALL)
    assert folder.list() == []
    write(folder, "a", SMALL)
    assert folder.read_bytes("a") == SMALL


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.RESET_AFTER, Fault.SLOW_DOWN])
def test_a_put_whose_response_is_lost_has_published(folder, proxy, fault):
    proxy.fail(fault, method="PUT")
    write(folder, "a", SMALL)
    assert proxy.faults == [fault]
    assert folder.read_bytes("a") == SMALL


def test_an_exception_in_the_block_publishes_nothing(folder, proxy):
    with suppress(ZeroDivisionError), folder.create_once("a") as file:
        file.write(SMALL)
        raise ZeroDivisionError
    assert folder.list() == []
    assert puts(proxy) == []


@pytest.mark.parametrize("url", ["memory://{}", "{}"], ids=["memory", "disk"])
def test_without_conditional_writes_it_behaves_like_create(tmp_path, url):
    folder = Folder(url.format(tmp_path))
    for data in (b"old", SMALL):
        write(folder, "a", data)
    assert folder.read_bytes("a") == SMALL


def test_a_response_without_the_name_of_the_condition_means_taken():
    cause = OSError(22, "At least one of the pre-conditions you specified did not hold")
    cause.response = {"ResponseMetadata": {"HTTPStatusCode": 412}}
    error = OSError(22, "pre-conditions")
    error.__cause__ = cause
    assert is_precondition_conflict(error)
    assert not is_precondition_conflict(OSError(22, "pre-conditions"))
