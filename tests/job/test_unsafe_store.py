"""Outputs in a store of S3 that ignores conditional writes: refused unless the recipe agrees."""

import threading

import pytest

from nanotok_ray.api import plan, prepare
from nanotok_ray.cli import exit_code, main
from nanotok_ray.errors import UnsafeStoreError
from nanotok_ray.job.doctor.checks import run_checks
from nanotok_ray.job.events import Note
from nanotok_ray.job.probes import refuses_taken_names, store_risk
from nanotok_ray.storage import Folder, RemoteStore
from tests.support.faulty_proxy import Fault
from tests.support.machine_speed import scaled
from tests.support.small_corpus import RECIPE, joined_shards, recipe, write_corpus

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("in_process")]

SEEN = "ignores conditional writes: it created a probe twice"
ACCEPTED = "output.unsafe_store=true"


@pytest.fixture
def corpus(tmp_path):
    write_corpus(tmp_path / "in")
    return tmp_path / "in"


def job(corpus, out, *overrides):
    return recipe(corpus, out, f"output.work={corpus.parent}/work", *overrides)


@pytest.fixture
def ignoring(remote, proxy):
    """Return a folder that does not exist yet, in a store that ignores conditional writes."""
    proxy.ignores_conditions = True
    return remote


@pytest.mark.parametrize("command", [prepare, plan])
def test_an_output_in_it_is_refused_before_anything_is_written(ignoring, corpus, command):
    with pytest.raises(UnsafeStoreError) as refused:
        command(job(corpus, ignoring.url))
    text = str(refused.value)
    assert text.startswith(f"the store of {ignoring.url} {SEEN}")
    assert text.endswith("set output.unsafe_store = true")
    assert exit_code(refused.value) == 5
    assert ignoring.list() == []


def test_a_job_that_accepts_it_says_so_in_plan_and_summary(ignoring, corpus):
    accepted = job(corpus, ignoring.url, ACCEPTED)
    planned = plan(accepted)
    [note] = [note for note in planned.notes if SEEN in note]
    assert note.endswith("never start two runs on this output at the same time")
    assert f"note        {note}\n" in planned.text()
    notes = []
    summary = prepare(accepted, on_event=lambda e: notes.append(e) if isinstance(e, Note) else None)
    assert summary.values["risk"] == note
    assert summary.text().count(note) == [event.text for event in notes].count(note) == 1


def test_an_output_that_was_begun_without_the_key_is_finished_with_it(remote, proxy, corpus):
    first = prepare(job(corpus, remote.url))
    assert "risk" not in first.values
    shards = joined_shards(remote)
    proxy.ignores_conditions = True
    assert prepare(job(corpus, remote.url)).values["status"] == "unchanged"  # nothing is written
    assert prepare(job(corpus, remote.url, ACCEPTED)).values["status"] == "unchanged"
    for name in [*remote.list("shards/web/train-000000"), "manifest.json"]:
        remote.remove(name)
    again = prepare(job(corpus, remote.url, ACCEPTED))
    assert (again.values["status"], joined_shards(remote)) == ("done", shards)


@pytest.mark.parametrize(("line", "code"), [("", 5), ("unsafe_store = true", 0)])
def test_the_doctor_fails_unless_the_recipe_accepts_it(ignoring, corpus, capsys, line, code):
    text = RECIPE.format(root=corpus, out=ignoring.url).replace("[output]", f"[output]\n{line}")
    path = corpus.parent / "recipe.toml"
    path.write_text(text.replace(f"{ignoring.url}-work", str(corpus.parent / "work")))
    results = [each for each in run_checks([str(path)], []) if each.name == "conditions"]
    statuses = {each.status for each in results if SEEN in each.found}
    assert statuses == {"fail" if code else "warn"}
    for command in ["doctor"], ["prepare", "--local"]:
        assert main([*command, str(path)]) == code
    assert ("output.unsafe_store" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize("fault", [None, Fault.RESET_AFTER, Fault.SLOW_DOWN])
def test_a_store_that_refuses_taken_names_is_recognized_despite_failures(remote, proxy, fault):
    if fault is not None:
        proxy.fail(fault, fault, method="PUT")
    assert refuses_taken_names(remote, "run/probe")
    assert store_risk(remote, is_accepted=False) is None
    assert remote.list() == []


def test_two_creations_are_tried_at_once(monkeypatch):
    """A store that looks for the name before it writes lets only simultaneous writers succeed."""
    meeting = threading.Barrier(2, timeout=scaled(10))
    monkeypatch.setattr(RemoteStore, "write_new", lambda *_: meeting.wait() >= 0)
    assert not refuses_taken_names(Folder("memory://bucket/out"), "run/probe")


@pytest.mark.parametrize("url", ["memory://bucket/out", "{}"], ids=["memory", "disk"])
def test_other_places_are_not_refused(tmp_path, url):
    folder = Folder(url.format(tmp_path))
    assert store_risk(folder, is_accepted=False) is None
    assert folder.list() == []
