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


@pytest.mark.parametrize(
    ("method", "step"), [("PUT", "written"), ("GET", "read"), ("DELETE", "removed")]
)
def test_credentials_without_a_permission_fail_and_name_the_step(url, proxy, method, step):
    proxy.fail_always(Fault.FORBIDDEN, method=method)
    status, findings = reported(url)
    assert status == "fail"
    assert step in findings["storage"].found
    proxy.clear()
    left = Folder(url).list_temporaries()
    assert len(left) == (1 if step == "removed" else 0)


def test_a_probe_is_removed_even_if_listing_it_fails(url, proxy):
    proxy.fail_always(Fault.FORBIDDEN, method="GET", path="list-type")
    status, findings = reported(url)
    assert (status, "cannot be listed" in findings["storage"].found) == ("fail", True)
    proxy.clear()
    assert Folder(url).list_temporaries() == []


def test_an_unreachable_store_fails(url, proxy):
    proxy.fail_always(Fault.SLOW_DOWN)
    status, findings = reported(url)
    assert status == "fail"
    assert "for now" in findings["storage"].found


def test_a_missing_bucket_fails(proxy):
    status, findings = reported("s3://no-such-bucket-at-all/out")
    assert (status, list(findings)) == ("fail", ["storage"])


def test_a_missing_package_names_the_extra(monkeypatch, proxy):
    uninstall_stores(monkeypatch, "Install s3fs to access S3")
    status, findings = reported("s3://bucket/out")
    assert status == "fail"
    assert how_to_install("s3") in findings["storage"].found


def test_a_store_that_returns_other_bytes_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(LocalStore, "read_bytes", lambda *_: b"other")
    status, findings = reported(str(tmp_path / "out"))
    assert (status, "read back" in findings["storage"].found) == ("fail", True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_with_an_incomplete_listing_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(LocalStore, "sizes", lambda *_: {})
    status, findings = reported(str(tmp_path))
    assert (status, "listing" in findings["storage"].found) == ("fail", True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_overwrites_an_existing_name_fails(tmp_path, monkeypatch):
    def write_new(self, name, data):
        self.write_whole(name, data)
        return True

    monkeypatch.setattr(LocalStore, "write_new", write_new)
    status, findings = reported(str(tmp_path))
    assert (status, findings["conditions"].status) == ("fail", "fail")
    monkeypatch.setattr(RemoteStore, "write_new", write_new)
    assert (
        reported("memory://doctor")[1]["conditions"].status == "warn"
    )  # the store promises nothing


def test_a_store_whose_uploads_overwrite_an_existing_name_fails(url, monkeypatch):
    monkeypatch.setattr(RemoteStore, "create_once", RemoteStore.create)
    status, findings = reported(url)
    assert (status, "upload" in findings["conditions"].found) == ("fail", True)


def test_clock_skew_is_a_warning(url):
    status, findings = reported(url, clock=lambda: 1e9)
    assert (status, findings["clock"].status) == ("warn", "warn")
    assert "behind" in findings["clock"].found


def test_a_slow_store_is_a_warning(tmp_path):
    assert reported(str(tmp_path), slow_seconds=-1.0)[1]["storage"].status == "warn"


def test_an_interrupt_leaves_no_files(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStore, "read_bytes", interrupt)
    with pytest.raises(KeyboardInterrupt):
        reported(str(tmp_path / "new" / "out"))
    assert list(tmp_path.iterdir()) == []
