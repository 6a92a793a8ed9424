"""Checks of a machine, of folders, and of the settings for Ray; only probe files are written.

The input is a recipe or folders. The output is check results. Checks of a cluster are in
`cluster`.
"""

from typing import TYPE_CHECKING

from nanotok_ray import lazy_attributes

if TYPE_CHECKING:
    from nanotok_ray.job.doctor.checks import run_checks
    from nanotok_ray.job.doctor.folder import check_folder, clock_finding
    from nanotok_ray.job.doctor.machine import cpu_limit, memory_limit, memory_used
    from nanotok_ray.job.doctor.ray_settings import (
        NO_CLUSTER,
        NO_SERVER,
        check_auth_mode,
        check_form,
        check_ray_address,
        check_ray_settings,
        check_reachable,
        check_token,
        check_transport,
        host_and_port,
    )
    from nanotok_ray.job.doctor.result import CheckResult, failure, passed, warning, worst
    from nanotok_ray.job.doctor.software import PACKAGES, core_build, ray_version, versions
else:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "checks": "run_checks",
            "folder": "check_folder clock_finding",
            "machine": "cpu_limit memory_limit memory_used",
            "ray_settings": (
                "NO_CLUSTER NO_SERVER check_auth_mode check_form check_ray_address "
                "check_ray_settings check_reachable check_token check_transport host_and_port"
            ),
            "result": "CheckResult failure passed warning worst",
            "software": "PACKAGES core_build ray_version versions",
        },
    )

__all__ = [
    "NO_CLUSTER",
    "NO_SERVER",
    "PACKAGES",
    "CheckResult",
    "check_auth_mode",
    "check_folder",
    "check_form",
    "check_ray_address",
    "check_ray_settings",
    "check_reachable",
    "check_token",
    "check_transport",
    "clock_finding",
    "core_build",
    "cpu_limit",
    "failure",
    "host_and_port",
    "memory_limit",
    "memory_used",
    "passed",
    "ray_version",
    "run_checks",
    "versions",
    "warning",
    "worst",
]
