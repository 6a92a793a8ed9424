"""Files of deployment: images, KubeRay, cluster.yaml, the dashboard of Grafana."""

import json
import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from jsonschema import ValidationError
from ray.autoscaler._private.util import prepare_config, validate_config

import nanotok_ray
from nanotok_ray.cluster.metrics import METRICS
from nanotok_ray.cluster.session import LOCAL_SETTINGS
from nanotok_ray.recipe import load_recipe
from tests.support.kuberay_schemas import closed, problems, schemas
from tests.support.kubernetes_fields import METADATA, SPECS
from tests.support.machine_speed import scaled

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
RUN_FILES = ["rayjob", "raycronjob", "cronjob"]
AWS = ROOT / "cluster.yaml"
GCP = DEPLOY / "cluster-gcp.yaml"


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
def all_pods(job, pods):
    """Pods of the head, of the workers, of the one that submits, and of the one that schedules."""
    submitter = job["submitterPodTemplate"]["spec"]
    scheduler = documents("cronjob")[-1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return [*pods, submitter, scheduler]


@pytest.fixture
def launched():
    return yaml.safe_load(AWS.read_text())


def environment_of(pod):
    return {own["name"]: own["value"] for own in pod["containers"][0]["env"]}


def environment_of_image():
    text = re.search(r"^ENV (.*?[^\\])$", DOCKERFILE, re.MULTILINE | re.DOTALL)[1]
    return dict(own.split("=", 1) for own in text.replace("\\\n", " ").split())


@pytest.mark.parametrize("name", RUN_FILES)
def test_every_field_is_known_and_has_its_type(name):
    for document in documents(name):
        METADATA.model_validate(document["metadata"])
    document = documents(name)[-1]
    SPECS[document["apiVersion"], document["kind"]].model_validate(document["spec"])
    assert document.keys() == {"apiVersion", "kind", "metadata", "spec"}


DEFINITION = """
spec:
  group: ray.io
  names: {kind: RayJob}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          metadata: {type: object}
          spec:
            type: object
            properties:
              cpus: {type: integer}
              labels: {type: object, additionalProperties: {type: string}}
"""


def test_the_check_against_definitions_refuses_unknown_fields_and_wrong_types(tmp_path):
    folder = tmp_path / "helm-chart/kuberay-operator/crds"
    folder.mkdir(parents=True)
    (folder / "ray.io_rayjobs.yaml").write_text(DEFINITION)
    schema = schemas(tmp_path)["ray.io/v1", "RayJob"]
    good = {"metadata": {"name": "any"}, "spec": {"cpus": 1, "labels": {"any": "text"}}}
    assert problems(good, schema) == []
    [problem] = problems({"spec": {"cpu": 1}}, schema)
    assert problem.startswith("$.spec: ")
    assert "'cpu'" in problem
    assert problems({"spec": {"cpus": "1"}}, schema) == [
        "$.spec.cpus: '1' is not of type 'integer'"
    ]
    assert closed([{"type": "string"}]) == [{"type": "string"}]


@pytest.mark.parametrize("path", [AWS, GCP], ids=["aws", "gcp"])
def test_rays_schema_refuses_a_misspelt_field(path):
    config = prepare_config(yaml.safe_load(path.read_text()))
    config["max_worker"] = config.pop("max_workers")
    with pytest.raises(ValidationError, match="'max_worker' was unexpected"):
        validate_config(config)


def test_the_scheduled_runs_equal_the_single_run(job):
    [scheduled] = documents("raycronjob")
    assert scheduled["spec"]["jobTemplate"] == job
    plain = documents("cronjob")[-1]["spec"]
    assert all(plain[key] == scheduled["spec"][key] for key in ("schedule", "timeZone"))


def test_all_files_name_one_image_with_our_version_and_those_of_ray_and_python(
    job, cluster, pods, launched
):
    pods = [*pods, job["submitterPodTemplate"]["spec"]]
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
    texts = [path.read_text() for path in [AWS, *DEPLOY.iterdir()]]
    assert not any("RAY_AUTH_TOKEN=" in text or "RAY_AUTH_TOKEN," in text for text in texts)


def test_the_head_runs_no_tasks_and_neither_it_nor_the_driver_is_on_spot(job, cluster, pods):
    head, worker = pods
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert job["entrypointNumCpus"] == 0
    assert head["nodeSelector"] != worker["nodeSelector"]
    assert "spot" not in str(head)


def test_a_terminated_pod_has_time_to_drain_and_limits_equal_requests(pods, all_pods):
    worker = pods[1]
    drained = int(environment_of(worker)["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])
    assert worker["terminationGracePeriodSeconds"] > drained
    for pod in all_pods:
        resources = pod["containers"][0]["resources"]
        assert resources["limits"] == resources["requests"]


RIGHTS = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_no_container_can_become_root_and_few_pods_have_a_token_of_kubernetes(cluster, all_pods):
    [user] = re.findall(r"^ARG UID=(\d+)$", DOCKERFILE, re.MULTILINE)
    for pod in all_pods:
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": int(user),
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert [container["securityContext"] for container in pod["containers"]] == [RIGHTS]
    assert cluster["autoscalerOptions"]["securityContext"] == RIGHTS
    # The autoscaler beside the head, and kubectl in the schedule, call Kubernetes.
    tokens = [pod["automountServiceAccountToken"] for pod in all_pods]
    assert tokens == [True, False, False, True]
    [account, *_] = documents("cronjob")
    assert account["automountServiceAccountToken"] is False
    assert "sudo" not in DOCKERFILE
    assert DOCKERFILE.rstrip().splitlines()[-2] == "USER ray"


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


CLOUD_KEYS = {"provider", "available_node_types", "worker_start_ray_commands"}


@pytest.fixture(params=[AWS, GCP], ids=["aws", "gcp"])
def cluster_yaml(request):
    return yaml.safe_load(request.param.read_text())


@pytest.fixture
def workers(cluster_yaml):
    types = {**cluster_yaml["available_node_types"]}
    del types[cluster_yaml["head_node_type"]]
    return types


def test_ray_accepts_the_file(cluster_yaml):
    validate_config(prepare_config(cluster_yaml))


def test_nothing_is_installed_when_a_machine_starts(cluster_yaml, workers):
    keys = ("initialization_commands", "setup_commands", "head_setup_commands")
    assert all(cluster_yaml[key] == [] for key in (*keys, "worker_setup_commands"))
    own = [worker.keys() & {"worker_setup_commands", "docker"} for worker in workers.values()]
    assert not any(own)


def test_the_head_is_on_demand_and_runs_no_tasks_and_its_dashboard_listens_on_loopback(
    cluster_yaml,
):
    head = cluster_yaml["available_node_types"][cluster_yaml["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    started = cluster_yaml["head_start_ray_commands"][-1].split()
    assert {"--num-cpus=0", "--dashboard-host=127.0.0.1"} <= {*started}
    assert not head["node_config"].keys() & {"InstanceMarketOptions", "scheduling"}


def test_workers_are_spot_with_their_own_permissions_and_are_never_kept_stopped(
    cluster_yaml, workers
):
    configs = [worker["node_config"] for worker in workers.values()]
    assert len(configs) == len({str(config) for config in configs}) == 2
    spot = {
        "aws": ("InstanceMarketOptions", "MarketType", "spot"),
        "gcp": ("scheduling", "provisioningModel", "SPOT"),
    }
    key, name, value = spot[cluster_yaml["provider"]["type"]]
    assert all(config[key][name] == value for config in configs)
    permissions = {"aws": "IamInstanceProfile", "gcp": "serviceAccounts"}
    assert all(permissions[cluster_yaml["provider"]["type"]] in config for config in configs)
    assert cluster_yaml["provider"]["cache_stopped_nodes"] is False


def test_every_node_may_open_many_files_and_has_no_key_but_the_token(cluster_yaml):
    assert cluster_yaml["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert not any("KEY" in option for option in cluster_yaml["docker"]["run_options"])
    assert "--ulimit nofile=65536:65536" in cluster_yaml["docker"]["run_options"]
    starts = (
        cluster_yaml["head_start_ray_commands"][1],
        cluster_yaml["worker_start_ray_commands"][1],
    )
    assert all(start.startswith("ulimit -n 65536;") for start in starts)


def test_the_clouds_differ_only_where_they_must():
    aws, gcp = (yaml.safe_load(path.read_text()) for path in (AWS, GCP))
    assert {key for key in aws | gcp if aws.get(key) != gcp.get(key)} == CLOUD_KEYS
    assert aws["worker_start_ray_commands"][:2] == gcp["worker_start_ray_commands"][:2]


def test_each_spot_machine_starts_the_watcher_in_the_background(cluster_yaml, tmp_path):
    """Run the command in a shell, like Ray, with a Python that prints its arguments."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    reported = tmp_path / "reported"
    os.mkfifo(reported)
    python.write_text(f'#!/bin/sh\necho "$@" > {reported}\n')  # waits until the test reads it
    python.chmod(0o755)
    command = cluster_yaml["worker_start_ray_commands"][-1]
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    subprocess.run(
        ["bash", "-c", f"true && ({command})"], env=environment, check=True, timeout=scaled(30)
    )
    cloud = cluster_yaml["provider"]["type"]
    assert reported.read_text() == f"-m nanotok_ray.cluster.drain_on_notice {cloud}\n"
    assert (tmp_path / ".nanotok" / "drain_on_notice.log").read_text() == ""
    assert not any("drain" in command for command in cluster_yaml["head_start_ray_commands"])


SUFFIXES = {
    "Counter": ("_total",),
    "Gauge": ("",),
    "Histogram": ("_bucket", "_count", "_sum"),
}
"""Suffixes of a name from Ray and Prometheus, by kind, as observed on a real head."""

OURS = {f"ray_{own.name}{end}": own for own in METRICS for end in SUFFIXES[own.kind]}
OF_RAY = {"ray_resources", "ray_node_mem_used", "ray_node_mem_total"}
LABELS = {"stage", "cause", "le", "SessionName", "State", "Name", "NodeAddress"}


@pytest.fixture(scope="module")
def dashboard():
    return json.loads((DEPLOY / "grafana.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def queries(dashboard):
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def names_in(query):
    return set(re.findall(r"\bray_\w+", query))


def test_the_dashboard_can_be_imported_anywhere(dashboard):
    assert dashboard["id"] is None
    assert dashboard["schemaVersion"] >= 36
    inputs = {f"${{{each['name']}}}" for each in dashboard["__inputs"]}
    assert inputs == {"${DS_PROMETHEUS}"}
    for panel in dashboard["panels"]:
        for own in (panel, *panel["targets"]):
            assert own["datasource"] == {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    needed = {each["id"] for each in dashboard["__requires"] if each["type"] == "panel"}
    assert needed == {panel["type"] for panel in dashboard["panels"]}


def test_the_dashboard_queries_only_existing_metrics_and_every_one_of_ours(dashboard, queries):
    variables = [each["definition"] for each in dashboard["templating"]["list"]]
    for query in (*queries, *variables):
        assert names_in(query)
        assert names_in(query) <= OURS.keys() | OF_RAY, query
    asked = {OURS[name].name for query in queries for name in names_in(query) & OURS.keys()}
    assert asked == {own.name for own in METRICS}


def test_the_dashboard_groups_by_existing_tags_and_queries_only_counters_by_rate(queries):
    for query in queries:
        for group in re.findall(r"by \(([^)]*)\)", query):
            labels = set(re.split(r",\s*", group))
            assert labels <= LABELS
            for name in names_in(query) & OURS.keys():
                assert labels - {"le"} <= set(OURS[name].tags)
        for left, right in ("()", "{}", "[]"):
            assert query.count(left) == query.count(right)
        for name in names_in(query) & OURS.keys():
            is_rate = re.search(rf"(rate|increase)\({name}\b", query) is not None
            assert is_rate == (OURS[name].kind != "Gauge")
