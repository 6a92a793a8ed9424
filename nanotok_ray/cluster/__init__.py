"""All code that imports Ray: sessions, the executor, node checks, metrics, job submission.

The input is tasks of the job. The output is their results. No other package imports Ray.
"""

from typing import TYPE_CHECKING

from nanotok_ray import lazy_attributes

if TYPE_CHECKING:
    from nanotok_ray.cluster.metrics import METRICS, Metrics
    from nanotok_ray.cluster.ray_executor import RayExecutor, failure_of
    from nanotok_ray.cluster.session import LOCAL_SETTINGS, ray_session
else:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "metrics": "METRICS Metrics",
            "ray_executor": "RayExecutor failure_of",
            "session": "LOCAL_SETTINGS ray_session",
        },
    )

__all__ = [
    "LOCAL_SETTINGS",
    "METRICS",
    "Metrics",
    "RayExecutor",
    "failure_of",
    "ray_session",
]
