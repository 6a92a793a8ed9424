"""The executor on Ray without an open session."""

from nanotok_ray.cluster import RayExecutor
from nanotok_ray.job import Holder, use_executor


def test_without_a_session_there_is_no_driver_and_no_known_dead_driver():
    executor = RayExecutor()
    assert executor.driver() == ("", "")
    assert not executor.is_dead_driver("01000000")
    with use_executor(executor):
        me = Holder.this_process()
    assert (me.ray_cluster, me.ray_job) == ("", "")
    assert me.lives(me)
