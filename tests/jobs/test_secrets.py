"""Logins and signatures of source URLs are used for requests, and neither stored nor printed."""

import http.server
import json
import threading
from functools import partial

import pytest

from nanotok_ray.api import prepare, verify
from nanotok_ray.cli import main
from nanotok_ray.errors import NanotokError
from nanotok_ray.recipe import parse_recipe
from tests.support.run_job import run
from tests.support.small_corpus import contents, texts

RECIPE = """
tokenizer = {{vocab_size = 300}}
output = {{path = "{out}", work = "{out}-work"}}
limits = {{max_quarantined_share = 0.5}}

[[source]]
name = "web"
kind = "text"
paths = ["{url}/a.jsonl?part=1&sig={signature}", "{url}/b.jsonl?part=1&sig={signature}"]
format = "jsonl"
"""

PASSWORD, SIGNATURE = "pa55-w0rd", "5ignature"


@pytest.fixture
def url(tmp_path):
    """Serve two files of texts, one with a bad line; yield their URL with a login."""
    for number, name in enumerate("ab"):
        lines = [json.dumps({"text": text}) for text in texts(30, seed=number)]
        (tmp_path / f"in/{name}.jsonl").parent.mkdir(exist_ok=True)
        (tmp_path / f"in/{name}.jsonl").write_text("\n".join(["{bad", *lines]))
    handler = partial(Quiet, directory=tmp_path / "in")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:{PASSWORD}@127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def recipe_of(url, out, *, signature=SIGNATURE):
    return RECIPE.format(url=url, out=out, signature=signature)


def test_no_file_of_an_output_has_a_secret(url, out, in_process, tmp_path):
    run(parse_recipe(recipe_of(url, out)))
    files = [path for path in tmp_path.glob("out*/**/*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        data = path.read_bytes()
        assert PASSWORD.encode() not in data, path
        assert SIGNATURE.encode() not in data, path
    assert b"a.jsonl?part=1&sig=***" in (out / "plan.json").read_bytes()
    before = contents(out)
    renewed = parse_recipe(recipe_of(url, out, signature="renewed"))
    assert prepare(renewed).values["status"] == "unchanged"
    assert contents(out) == before


def test_verification_says_which_sources_it_cannot_read(url, out, in_process):
    prepare(parse_recipe(recipe_of(url, out)))
    result = verify(str(out))
    assert not result.problems
    assert all("without its login or signature" in why for why in result.unchecked)
    assert result.unchecked
    assert verify(str(out), sample=False).passed


@pytest.mark.parametrize(
    ("name", "message"),
    [("missing.jsonl?sig=5ignature", "missing.jsonl"), ("a.jsonl?part=1&sig=x", "differ only in")],
)
def test_no_error_has_a_secret(url, tmp_path, capsys, name, message):
    path = tmp_path / "recipe.toml"
    text = recipe_of(url.replace(PASSWORD, "${PW}"), tmp_path / "out")
    path.write_text(text.replace(f"b.jsonl?part=1&sig={SIGNATURE}", name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PW", PASSWORD)
        for command in (["plan", str(path)], ["prepare", str(path), "--local"]):
            assert main(command) != 0
            printed = "".join(capsys.readouterr())
            assert message in printed
            assert PASSWORD not in printed
            assert SIGNATURE not in printed


def test_an_error_is_masked_wherever_it_is_printed():
    error = NanotokError(f"cannot read https://me:{PASSWORD}@host/a?sig={SIGNATURE}&b=1")
    assert str(error) == "cannot read https://***@host/a?sig=***&b=1"
