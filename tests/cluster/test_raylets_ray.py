"""Finds the node of this machine by its real process, which a new Ray could start differently."""

import pytest

from nanotok_ray.cluster import ray_session
from nanotok_ray.cluster.drain_on_notice import Raylet, local_raylets

pytestmark = [pytest.mark.ray, pytest.mark.timeout(120)]


def test_a_running_node_is_found_without_asking_ray():
    with ray_session(cpus=1):
        import ray  # noqa: PLC0415 - the session sets its environment before

        context = ray.get_runtime_context()
        wanted = Raylet(node_id=context.get_node_id(), address=context.gcs_address)
        assert wanted in local_raylets()
    assert wanted not in local_raylets()
