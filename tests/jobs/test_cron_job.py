"""The plain CronJob: its script starts one run, waits for it, and reports its result."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.machine_speed import scaled

DEPLOY = Path(__file__).parents[2] / "deploy"


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()))


FAKE_KUBECTL = """#!{python}
import pathlib, sys
here = pathlib.Path({folder!r})
with (here / "said").open("a") as said:
    said.write(" ".join(sys.argv[1:3]) + "\\n")
if sys.argv[1] == "get":
    number = (here / "said").read_text().count("get rayjob") - 1
    state = [*(here / "states").read_text().split(","), "Failed/asked too often"][number]
    print(state, end="")
    sys.exit(state == "no answer")
"""

MADE = ["create --filename"]
DELETED = ["delete rayjob"]


@pytest.mark.parametrize(
    ("states", "code", "done"),
    [
        (["", "/", "Running/RUNNING", "Complete/SUCCEEDED"], 0, MADE),
        (["no answer"], 1, []),
        (["", "Failed/FAILED"], 1, MADE),
        (["", "Failed/"], 1, MADE),
        (["", "Complete/STOPPED"], 1, MADE),
        (["", "ValidationFailed/"], 1, MADE),
        (["", "Running/RUNNING", ""], 1, MADE),
        (["", "no answer", "Retrying/FAILED", "Complete/SUCCEEDED"], 0, MADE),
        (["Complete/SUCCEEDED", "/", "Complete/SUCCEEDED"], 0, DELETED + MADE),
        (["Failed/FAILED", "/", "Complete/SUCCEEDED"], 0, DELETED + MADE),
        (["Running/RUNNING", "Running/RUNNING", "Complete/SUCCEEDED"], 0, []),
        (["Initializing/", "Failed/"], 1, []),
    ],
    ids=lambda own: "-".join(own) if isinstance(own, list) else str(own),
)
def test_the_pod_of_the_cron_job_makes_one_run_and_reports_its_end(tmp_path, states, code, done):
    pod = documents("cronjob")[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(FAKE_KUBECTL.format(python=sys.executable, folder=str(tmp_path)))
    kubectl.chmod(0o755)
    (tmp_path / "states").write_text(",".join(states))
    ended = subprocess.run(
        [*container["command"], *container["args"]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PAUSE": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=scaled(50),
    )
    assert ended.returncode == code, ended
    said = (tmp_path / "said").read_text().splitlines()
    assert [own for own in said if own != "get rayjob"] == done
    assert said.count("get rayjob") == len(states)


def test_the_cron_job_has_exactly_the_permissions_of_its_script():
    account, role, binding, cron = documents("cronjob")
    [rule] = role["rules"]
    assert (rule["apiGroups"], rule["resources"]) == (["ray.io"], ["rayjobs"])
    needed = {"get", "create", "delete"}
    assert needed <= set(rule["verbs"]) <= needed | {"list", "watch"}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["metadata"]["name"]}]
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    [mount] = pod["containers"][0]["volumeMounts"]
    assert f"{mount['mountPath']}/rayjob.yaml" in pod["containers"][0]["args"][0]
    [document] = documents("rayjob")
    assert f"rayjob {document['metadata']['name']} " in pod["containers"][0]["args"][0]
