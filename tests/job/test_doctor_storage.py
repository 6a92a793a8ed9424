"""The doctor's probe of folders: on S3 with faults, and in stores that break their promises."""

import pytest

from nanotok_ray.errors import how_to_install
from nanotok_ray.job.doctor import check_folder, worst
from nanotok_ray.storage import Folder, LocalStore, RemoteStore
from tests.support.faulty_proxy import Fault
from tests.support.missing_packages import uninstall_stores
from tests.support.s3_server import BUCKET, s3_behind_a_proxy, without_waiting

pytestmark = [pytest.mark.timeout(60)]


@pytest.fixture(scope="module")
def server():
    with s3_behind_a_proxy() as proxy:
        yield proxy


@pytest.fixture
def proxy(server):
    with without_waiting(server, tries=2) as proxy:
        yield proxy


@pytest.fixture
def url(proxy, request):
    return f"s3://{BUCKET}/{request.node.name}"


def reported(url, *, slow_seconds=60.0, **options):
    """Return status and results by name, the last of each name; this machine may be busy."""
    findings = list(check_folder(url, slow_seconds=slow_seconds, **options))
    return worst(findings), {each.name: each for each in findings}


def test_a_correct_bucket_passes_and_stays_empty(url, proxy):
    status, findings = reported(url)
    assert (status, list(findings)) == ("ok", ["storage", "clock", "conditions"])
    assert Folder(url).list_temporaries() == []
    assert {"PUT", "GET", "DELETE"} <= {method for method, _, _ in proxy.requests}
    status, findings = reported(url, clock=lambda: 1e9)
    assert (status, findings["clock"].status) == ("warn", "warn")
    assert "behind" in findings["clock"].found
    assert reported(url, slow_seconds=-1.0)[1]["storage"].status == "warn"


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("PUT", "", "written"),
        ("GET", "", "read"),
        ("GET", "list-type", "cannot be listed"),
        ("DELETE", "", "removed"),
    ],
)
def test_credentials_without_a_permission_fail_and_name_the_step(url, proxy, method, path, found):
    proxy.fail_always(Fault.FORBIDDEN, method=method, path=path)
    status, findings = reported(url)
    assert (status, found in findings["storage"].found) == ("fail", True)
    proxy.clear()
    assert len(Folder(url).list_temporaries()) == (found == "removed")


def test_a_missing_bucket_package_or_server_fails(url, proxy, monkeypatch):
    status, findings = reported("s3://no-such-bucket-at-all/out")
    assert (status, list(findings)) == ("fail", ["storage"])
    proxy.fail_always(Fault.SLOW_DOWN)
    status, findings = reported(url)
    assert (status, "for now" in findings["storage"].found) == ("fail", True)
    uninstall_stores(monkeypatch, "Install s3fs to access S3")
    status, findings = reported("s3://bucket/out")
    assert (status, how_to_install("s3") in findings["storage"].found) == ("fail", True)


@pytest.mark.parametrize(
    ("name", "result", "found"),
    [("read_bytes", b"other", "read back"), ("sizes", {}, "listing")],
)
def test_a_store_that_returns_something_else_fails(tmp_path, monkeypatch, name, result, found):
    monkeypatch.setattr(LocalStore, name, lambda *_: result)
    status, findings = reported(str(tmp_path / "out"))
    assert (status, found in findings["storage"].found) == ("fail", True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_overwrites_an_existing_name_fails(tmp_path, monkeypatch):
    def write_new(self, name, data):
        self.write_whole(name, data)
        return True

    for store in (LocalStore, RemoteStore):
        monkeypatch.setattr(store, "write_new", write_new)
    status, findings = reported(str(tmp_path))
    assert (status, findings["conditions"].status) == ("fail", "fail")
    # this store promises nothing
    assert reported("memory://doctor")[1]["conditions"].status == "warn"


def test_a_store_whose_uploads_overwrite_an_existing_name_fails(url, monkeypatch):
    monkeypatch.setattr(RemoteStore, "create_once", RemoteStore.create)
    status, findings = reported(url)
    assert (status, "upload" in findings["conditions"].found) == ("fail", True)


def test_an_interrupt_leaves_no_files(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStore, "read_bytes", interrupt)
    with pytest.raises(KeyboardInterrupt):
        reported(str(tmp_path / "new" / "out"))
    assert list(tmp_path.iterdir()) == []
