"""Notices of AWS and GCP, read from a metadata server on loopback."""

import pytest

from nanotok_ray.cluster.drain_on_notice import Notice, aws_notices, gcp_notices
from tests.support.metadata_server import metadata_server

NOW = 1_790_000_000.0
AT = "2026-09-21T14:15:20Z"  # NOW + 120
ACTION = f'{{"action": "terminate", "time": "{AT}"}}'


class Aws:
    """A server with the answers of AWS's: nothing without a valid token that it issued."""

    def __init__(self, **texts):
        self.texts = texts
        self.tokens = 0
        self.expired = False

    def __call__(self, method, path, headers):
        if (method, path) == ("PUT", "/latest/api/token"):
            assert 1 <= int(headers["x-aws-ec2-metadata-token-ttl-seconds"]) <= 21600
            self.tokens += 1
            self.expired = False
            return 200, f"token-{self.tokens}"
        if self.expired or headers.get("x-aws-ec2-metadata-token") != f"token-{self.tokens}":
            return 401, ""
        text = self.texts.get(path.rpartition("/")[2].replace("-", "_"))
        return (200, text) if text is not None else (404, "not found")


def test_aws_returns_no_notice_until_there_is_one_and_then_the_time_left(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # which is not used
    aws = Aws()
    with metadata_server(aws) as url:
        ask = aws_notices(url)
        assert ask(NOW) is None
        aws.texts["instance_action"] = ACTION
        assert ask(NOW) == Notice(reason=f"AWS: terminate at {AT}", seconds=120.0)
        assert ask(NOW + 500).seconds == 0.0
        assert aws.tokens == 1
        aws.expired = True
        assert ask(NOW).seconds == 120.0
    assert aws.tokens == 2


def test_the_hint_to_rebalance_counts_only_if_requested():
    aws = Aws(rebalance='{"noticeTime": "2026-09-21T14:00:00Z"}')
    with metadata_server(aws) as url:
        assert aws_notices(url)(NOW) is None
        hint = aws_notices(url, rebalance=True)(NOW)
        assert hint == Notice(reason="AWS recommends to rebalance", seconds=None)
        aws.texts["instance_action"] = ACTION
        assert aws_notices(url, rebalance=True)(NOW).seconds == 120.0


@pytest.mark.parametrize("text", ["", "soon", "[1]", '{"action": "stop"}', '{"time": 3}'])
def test_an_unreadable_notice_is_a_notice(text):
    with metadata_server(Aws(instance_action=text)) as url:
        assert aws_notices(url)(NOW) == Notice(reason=f"AWS: {text!r}", seconds=None)


def test_gcp_returns_true_before_a_preemption():
    said = "FALSE"

    def gcp(method, path, headers):
        if headers.get("metadata-flavor") != "Google":
            return 403, ""
        assert (method, path) == ("GET", "/computeMetadata/v1/instance/preempted")
        return 200, said

    with metadata_server(gcp) as url:
        assert gcp_notices(url)(NOW) is None
        said = "TRUE\n"
        assert gcp_notices(url)(NOW).seconds == 30.0


@pytest.mark.parametrize("notices", [aws_notices, gcp_notices])
def test_an_error_of_the_server_or_no_server_is_an_os_error(notices):
    for status in (401, 403, 429, 500, 503):
        with metadata_server(lambda *_, status=status: (status, "")) as url:  # noqa: SIM117
            with pytest.raises(OSError, match=str(status)):
                notices(url)(NOW)
    with pytest.raises(OSError, match="refused"):
        notices(url)(NOW)  # it has ended
