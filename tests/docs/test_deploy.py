"""deploy/: files with known fields that agree with each other, cluster.yaml and requirements/."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import nanotok_ray
from nanotok_ray.cluster import LOCAL_SETTINGS
from nanotok_ray.recipe import load_recipe
from tests.support.kubernetes_fields import METADATA, SPECS, problems

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
RUN_FILES = ["rayjob", "raycronjob", "cronjob"]


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / f"{name}.yaml").read_text()))


@pytest.fixture
def job():
    [document] = documents("rayjob")
    return document["spec"]


@pytest.fixture
def cluster(job):
    return job["rayClusterSpec"]


@pytest.fixture
def pods(cluster):
    """Pods of the head and of the workers."""
    [workers] = cluster["workerGroupSpecs"]
    return [group["template"]["spec"] for group in (cluster["headGroupSpec"], workers)]


@pytest.fixture
def launched():
    """The content of cluster.yaml."""
    return yaml.safe_load((ROOT / "cluster.yaml").read_text())


def environment_of(pod):
    return {own["name"]: own["value"] for own in pod["containers"][0]["env"]}


def environment_of_image():
    text = re.search(r"^ENV (.*?[^\\])$", DOCKERFILE, re.MULTILINE | re.DOTALL)[1]
    return dict(own.split("=", 1) for own in text.replace("\\\n", " ").split())


@pytest.mark.parametrize("name", RUN_FILES)
def test_every_field_is_known_and_has_its_type(name):
    for document in documents(name):
        assert problems(document["metadata"], METADATA, "metadata") == []
    document = documents(name)[-1]
    assert problems(document["spec"], SPECS[document["apiVersion"], document["kind"]]) == []
    assert document.keys() == {"apiVersion", "kind", "metadata", "spec"}


def test_the_scheduled_runs_equal_the_single_run(job):
    [scheduled] = documents("raycronjob")
    assert scheduled["spec"]["jobTemplate"] == job
    plain = documents("cronjob")[-1]["spec"]
    assert all(plain[key] == scheduled["spec"][key] for key in ("schedule", "timeZone"))


def test_all_files_name_one_image_with_our_version_and_those_of_ray_and_python(
    cluster, pods, launched
):
    images = {pod["containers"][0]["image"] for pod in pods} | {launched["docker"]["image"]}
    [image] = images
    ray = cluster["rayVersion"]
    [python] = re.findall(r"^FROM python:(\d+\.\d+)-", DOCKERFILE, re.MULTILINE)
    short = python.replace(".", "")
    assert image.endswith(f"/nanotok:{nanotok_ray.__version__}-ray{ray}-py{short}")
    assert image in DOCKERFILE
    assert image in (DEPLOY / "README.md").read_text()
    assert f"--python-version {python} " in (ROOT / "Makefile").read_text()
    for name in ("cluster.txt", "runtime.txt", "lock.txt"):
        text = (ROOT / "requirements" / name).read_text()
        assert re.findall(r"^ray==(\S+)", text, re.MULTILINE) == [ray]


def test_every_node_has_the_same_environment(pods, launched):
    image = environment_of_image()
    head, worker = (environment_of(pod) for pod in pods)
    assert worker.pop("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S") == "90"
    options = [own.split(" ", 1) for own in launched["docker"]["run_options"]]
    of_launcher = dict(own.split("=", 1) for kind, own in options if kind == "--env")
    assert of_launcher == image | {"AUTOSCALER_MAX_NUM_FAILURES": "inf"}
    assert head == worker == image
    keepalive = "RAY_grpc_client_keepalive"
    silence = {f"{keepalive}_time_ms": "20000", f"{keepalive}_timeout_ms": "10000"}
    assert image.items() >= (LOCAL_SETTINGS | {"RAY_AUTH_MODE": "token"} | silence).items()


def test_the_token_is_required_and_never_stored(cluster):
    assert cluster["authOptions"] == {"mode": "token"}
    texts = [path.read_text() for path in [ROOT / "cluster.yaml", *DEPLOY.iterdir()]]
    assert not any("RAY_AUTH_TOKEN=" in text or "RAY_AUTH_TOKEN," in text for text in texts)


def test_the_head_runs_no_tasks_and_neither_it_nor_the_driver_is_on_spot(job, cluster, pods):
    head, worker = pods
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert job["entrypointNumCpus"] == 0
    assert head["nodeSelector"] != worker["nodeSelector"]
    assert "spot" not in str(head)


def test_a_terminated_pod_has_time_to_drain_and_limits_equal_requests(pods):
    worker = pods[1]
    drained = int(environment_of(worker)["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])
    assert worker["terminationGracePeriodSeconds"] > drained
    pods = [*pods, documents("cronjob")[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]]
    for pod in pods:
        resources = pod["containers"][0]["resources"]
        assert resources["limits"] == resources["requests"]


def test_the_workers_of_all_clusters_are_equal(cluster, launched):
    [group] = cluster["workerGroupSpecs"]
    spot = launched["available_node_types"]["spot"]
    start = launched["worker_start_ray_commands"][1]
    assert group["maxReplicas"] == spot["max_workers"] == launched["max_workers"]
    assert group["idleTimeoutSeconds"] == spot["idle_timeout_s"]
    assert group["labels"] == spot["labels"]
    assert f"--object-store-memory={group['rayStartParams']['object-store-memory']}" in start


def test_the_entrypoint_is_a_module_and_the_recipe_is_mounted(job, pods):
    words = job["entrypoint"].split()
    assert words[:2] == ["python", "-m"]
    assert find_spec(words[2])
    head = pods[0]
    [mount] = head["containers"][0]["volumeMounts"]
    [volume] = head["volumes"]
    assert mount["name"] == volume["name"]
    assert words[3:] == [f"{mount['mountPath']}/recipe.toml"]
    made = f"kubectl create configmap {volume['configMap']['name']} --from-file=deploy/recipe.toml"
    assert made in (DEPLOY / "README.md").read_text()


def test_the_recipe_is_valid_and_uses_a_store(monkeypatch):
    monkeypatch.setenv("NANOTOK_BUCKET", "gs://theirs")
    recipe = load_recipe(str(DEPLOY / "recipe.toml"))
    paths = [path for source in recipe.sources for path in source.paths]
    assert all(path.startswith("gs://theirs/") for path in [*paths, recipe.output.path])


def test_the_image_installs_only_locked_packages_and_our_wheel():
    installs = re.findall(r"pip install (.*?)(?: \\)?$", DOCKERFILE, re.MULTILINE)
    assert [("--require-hashes" in own, "--no-deps" in own) for own in installs] == [
        (True, False),
        (False, True),
    ]
    assert "USER ray" in DOCKERFILE.splitlines()
    copied = re.findall(r"^COPY (\S+) ", DOCKERFILE, re.MULTILINE)
    assert copied == ["requirements/cluster.txt", "dist/nanotok_ray-*.whl"]
