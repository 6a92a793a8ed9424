"""The watcher of spot instances: notices of clouds, draining of a node."""

import fcntl
import os
import subprocess
import sys

import pytest

from nanotok_ray.cluster.drain_on_notice import Notice, aws_notices, drain, gcp_notices, main, watch
from tests.support.metadata_server import metadata_server

NOTICE = Notice(reason="AWS: terminate at noon", seconds=119.9)

COMMAND = (
    "drain-node --address 10.0.0.1:6379 --node-id {node} --reason DRAIN_NODE_REASON_PREEMPTION "
    "--reason-message AWS: terminate at noon --deadline-remaining-seconds 119\n"
)


@pytest.fixture
def processes(tmp_path):
    """A table of processes with one raylet, and similar ones."""
    table = tmp_path / "proc"
    commands = {
        "7": ["/opt/ray/raylet/raylet", "--node_id=ab12", "--gcs-address=10.0.0.1:6379", "--x"],
        "8": ["python", "-c", "raylet", "--node_id=ff", "--gcs-address=10.0.0.1:6379"],
        "9": ["/opt/ray/raylet", "--node_ip_address=10.0.0.2"],
        "10": [],
        "self": ["/opt/ray/raylet/raylet", "--node_id=ab12", "--gcs-address=10.0.0.1:6379"],
    }
    for name, words in commands.items():
        (table / name).mkdir(parents=True)
        (table / name / "cmdline").write_text("".join(word + "\0" for word in words))
    (table / "11").mkdir()  # the process has ended
    return table


@pytest.fixture
def ray(tmp_path):
    """A command that records its arguments; it fails as often as `failures` has lines."""
    path = tmp_path / "ray"
    path.write_text(
        f"#!/bin/sh\ncd {tmp_path}\n"
        'echo "$@" >> said\n'
        "if [ -s failures ]; then sed -i 1d failures; echo no cluster >&2; exit 1; fi\n"
    )
    path.chmod(0o755)
    return path


def test_all_nodes_of_the_machine_are_drained_even_if_one_fails(processes, ray, tmp_path, caplog):
    (processes / "12").mkdir()
    words = ["raylet", "--node_id=aa", "--gcs-address=10.0.0.1:6379"]
    (processes / "12" / "cmdline").write_text("\0".join(words))
    (tmp_path / "failures").write_text("once\n")
    assert not drain(NOTICE, str(ray), processes)
    assert "exit 1: no cluster" in caplog.text
    assert drain(NOTICE, str(ray), processes)
    said = COMMAND.format(node="aa") + COMMAND.format(node="ab12")
    assert (tmp_path / "said").read_text() == said * 2
    assert not drain(NOTICE, str(tmp_path / "missing"), processes)
    assert "No such file" in caplog.text
    (tmp_path / "said").unlink()
    assert drain(Notice(reason="soon", seconds=None), str(ray), processes)
    assert "deadline" not in (tmp_path / "said").read_text()


def test_without_a_node_nothing_runs(ray, tmp_path, caplog):
    assert not drain(NOTICE, str(ray), tmp_path)
    assert not (tmp_path / "said").exists()
    assert "no node of Ray runs here" in caplog.text


def test_the_watcher_polls_until_a_notice_and_acts_until_success(caplog):
    answers = iter([None, OSError("down"), OSError("down"), None, NOTICE, NOTICE, NOTICE])
    acts, times = iter([False, False, True]), iter(range(100))
    pauses, asked = [], []

    def ask(now):
        asked.append(now)
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    reported = watch(ask, lambda _: next(acts), now=lambda: next(times), pause=pauses.append)
    assert reported == NOTICE
    assert asked == list(range(7))
    assert len(pauses) == 6
    assert set(pauses) <= {2.0}
    assert caplog.text.count("does not answer") == 1


def test_the_watcher_works_as_a_process(processes, ray, tmp_path):
    """The whole program, with AWS's answers and a `ray` on the PATH."""

    def aws(method, path, headers):
        action = '{"action": "terminate", "time": "2001-01-01T00:00:00Z"}'
        return 200, "token" if method == "PUT" else action

    with metadata_server(aws) as url:
        command = [sys.executable, "-m", "nanotok_ray.cluster.drain_on_notice", "aws"]
        command += ["--server", url, "--processes", processes, "--lock", tmp_path / "lock"]
        path = f"{tmp_path}:{os.environ['PATH']}"
        done = subprocess.run(
            command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("drained: AWS: terminate at 2001-01-01T00:00:00Z\n")
    said = (tmp_path / "said").read_text()
    assert said.startswith("drain-node --address 10.0.0.1:6379 --node-id ab12 ")
    assert said.endswith("--deadline-remaining-seconds 0\n")


def test_a_second_watcher_exits_at_once(tmp_path, processes, caplog):
    lock = tmp_path / "lock"
    with lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        caplog.set_level("INFO")
        assert main(["gcp", "--server", "http://127.0.0.1:9", "--lock", str(lock)]) == 0
    assert "another watcher is running" in caplog.text


def test_the_watcher_imports_neither_ray_nor_arrow():
    """It runs on every node for the node's whole life: small and fast to start."""
    code = (
        "import sys, nanotok_ray.cluster.drain_on_notice\n"
        "print(sorted({'ray', 'pyarrow', 'numpy', 'fsspec'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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
