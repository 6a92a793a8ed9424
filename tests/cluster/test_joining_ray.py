"""A RAY_ADDRESS that cannot run jobs: one line in seconds, with the address and the next step."""

import socket
import subprocess
import time

import pytest

from nanotok_ray.cli import main
from nanotok_ray.cluster import session
from tests.support.machine_speed import scaled
from tests.support.ray_head import BIN
from tests.support.small_corpus import RECIPE, write_corpus

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    root = tmp_path_factory.mktemp("job")
    write_corpus(root / "in")
    path = root / "recipe.toml"
    path.write_text(RECIPE.format(root=root / "in", out=root / "out"))
    return str(path)


@pytest.fixture
def prepare(recipe, monkeypatch, capsys):
    """Return exit code and error of `nanotok prepare` with a RAY_ADDRESS."""

    def run(address):
        monkeypatch.setenv("RAY_ADDRESS", address)
        code = main(["prepare", recipe])
        return code, error_in(capsys.readouterr().err)

    return run


def error_in(stderr):
    assert "Traceback" not in stderr
    [line] = [line for line in stderr.splitlines() if line.startswith("nanotok: ")]
    assert line.startswith(
        "nanotok: error: cannot join the Ray cluster of the environment variable"
    )
    assert "RAY_ADDRESS" in line
    return line


@pytest.fixture
def silent():
    """Return the address of a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_listener_that_is_no_head_fails_soon(prepare, silent, monkeypatch):
    monkeypatch.setattr(session, "CALL_SECONDS", 0.5)
    code, line = prepare(silent)
    assert code == 5
    assert f"{silent} does not answer as the head of a Ray cluster" in line
    assert "6379" in line


@pytest.fixture
def head(shared_head):
    return shared_head


def prepared(head, recipe, **variables):
    """Run `nanotok prepare` in a separate process; return exit code, stderr and seconds."""
    environment = {**head.environment, "RAY_ADDRESS": head.address} | variables
    start = time.monotonic()
    done = subprocess.run(
        [BIN / "nanotok", "prepare", recipe],
        env={name: own for name, own in environment.items() if own is not None},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr, time.monotonic() - start


def test_a_head_is_joined_only_with_its_token(head, recipe, tmp_path):
    no_token = {"RAY_AUTH_TOKEN": None, "HOME": str(tmp_path)}
    wrong = {"RAY_AUTH_TOKEN": "f" * 64}
    while "does not accept" not in prepared(head, recipe, **wrong)[1]:
        time.sleep(0.1)  # the server is still starting
    for variables, reported in (
        (wrong, "does not accept the token (from RAY_AUTH_TOKEN); export RAY_AUTH_MODE=token"),
        (no_token, "couldn't find an authentication token; export RAY_AUTH_MODE=token"),
        ({**no_token, "RAY_AUTH_MODE": "disabled"}, "does not accept the token (none in"),
        ({**no_token, "RAY_AUTH_MODE": None}, "does not accept the token (none in"),
    ):
        code, stderr, seconds = prepared(head, recipe, **variables)
        assert code == 5
        assert reported in error_in(stderr)
        assert seconds < scaled(30)
    code, stderr, _ = prepared(head, recipe)
    assert code == 0, stderr
