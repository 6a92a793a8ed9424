"""The workflows of .github/: pinned actions, least permissions, and commands that exist."""

import re
from pathlib import Path

import pytest
import yaml

from tests.support.versions import ROWS

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
WRITTEN = {"release.yml": {"attestations", "id-token"}}
"""The permissions other than reading; no other workflow has one."""


def loaded(path):
    return yaml.safe_load(path.read_text("utf-8"))


def steps():
    jobs = [job for path in WORKFLOWS for job in loaded(path)["jobs"].values()]
    return [step for job in jobs for step in job.get("steps", ())]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_action_is_pinned_by_its_commit(path):
    used = re.findall(r"^ *(?:- )?uses: (.+)$", path.read_text("utf-8"), re.MULTILINE)
    others = [name for name in used if not name.startswith("./")]
    assert others or path.name == "release.yml"
    assert [name for name in others if not PINNED.fullmatch(name)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_job_has_only_the_permissions_that_it_needs(path):
    workflow = loaded(path)
    assert workflow["permissions"] == {}
    given = {}
    for job in workflow["jobs"].values():
        given |= {name: level for name, level in job["permissions"].items() if level != "read"}
        assert "timeout-minutes" in job or "uses" in job
    assert given.keys() == WRITTEN.get(path.name, set())


def test_no_checkout_keeps_the_token():
    checkouts = [step for step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_every_command_is_a_target_of_make_or_a_script():
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = [step["run"] for step in steps() if "run" in step]
    named = re.findall(r"\bmake (?:--\S+ )*([a-z-]+)", "\n".join(commands))
    assert {"setup", "check-versions", "fuzz", "chaos", "peers", "wheels", "version"} <= {*named}
    assert {*named} <= {*targets}
    assert "bash .ci/run" in commands


def test_every_row_of_check_versions_is_run():
    jobs = loaded(ROOT / ".github" / "workflows" / "check.yml")["jobs"]
    rows = jobs["versions"]["strategy"]["matrix"]["include"]
    assert tuple((row["python"], row["packages"]) for row in rows) == ROWS


def test_no_expression_is_part_of_a_command():
    """A name of a branch or a title in a command would be executed."""
    assert [step["run"] for step in steps() if "${{" in step.get("run", "")] == []
