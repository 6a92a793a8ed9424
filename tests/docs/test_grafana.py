"""The dashboard queries existing metrics, and its panels do not overlap."""

import json
import re
from pathlib import Path

import pytest

from nanotok_ray.cluster import METRICS

PATH = Path(__file__).resolve().parents[2] / "deploy/grafana.json"

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
    return json.loads(PATH.read_text(encoding="utf-8"))


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


def test_the_dashboard_groups_by_existing_tags(queries):
    for query in queries:
        for group in re.findall(r"by \(([^)]*)\)", query):
            labels = set(re.split(r",\s*", group))
            assert labels <= LABELS
            for name in names_in(query) & OURS.keys():
                assert labels - {"le"} <= set(OURS[name].tags)


def test_only_counters_are_queried_by_rate_and_parentheses_match(queries):
    for query in queries:
        for left, right in ("()", "{}", "[]"):
            assert query.count(left) == query.count(right)
        for name in names_in(query) & OURS.keys():
            is_rate = re.search(rf"(rate|increase)\({name}\b", query) is not None
            assert is_rate == (OURS[name].kind != "Gauge")
