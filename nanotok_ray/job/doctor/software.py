"""Checks of the installed versions: nanotok_ray with its core, and Ray, which is not imported."""

import os
import platform
import re
from importlib import metadata
from pathlib import Path

import nanotok_ray
from nanotok_ray.errors import TokenizerError
from nanotok_ray.job.doctor.result import CheckResult, failure, passed, warning

OLDEST_RAY = (2, 59)
"""The requirement of pyproject.toml; a test compares them."""

OLDEST_SAFE_RAY = (2, 56)
"""Earlier versions have published vulnerabilities in the dashboard, through which anybody can run
code.
"""


def versions() -> str:
    """Return a line with the installed versions, without importing Ray."""
    try:
        core = f"{core_build()}, CPU level {_cpu_level()}"
    except ImportError:
        core = "missing"
    version, ray = nanotok_ray.__version__, ray_version() or "missing"
    return f"nanotok_ray {version}, core {core}, Ray {ray}, Python {platform.python_version()}"


def core_build() -> str:
    """Return the description of the compiled core, such as "0.1.0 release x86_64-linux".

    Raises:
        ImportError: The core does not exist, or does not fit this Python or machine.
    """
    from nanotok_ray import _core  # noqa: PLC0415 - a missing core must not hide all else

    return str(getattr(_core, "__build__", "of an unknown version"))


def _cpu_level() -> str:
    from nanotok_ray._core import cpu_level  # noqa: PLC0415 - as above

    try:
        return cpu_level()
    except TokenizerError:
        return f"unknown (NANOTOK_CPU={os.environ['NANOTOK_CPU']})"


def check_core() -> CheckResult:
    """Check that the compiled core exists, is optimized, and has this version."""
    name, version = "nanotok_ray", nanotok_ray.__version__
    try:
        build = core_build()
    except ImportError as error:
        return failure(
            name,
            f"{version}, and its compiled core cannot be imported: {error}",
            "install the wheel, or run `make build` in the sources",
        )
    text = f"{version}, core {build}, in {Path(nanotok_ray.__file__).parent}"
    if build.split(" ")[0] != version:
        advice = "core and Python are of two versions: install the wheel again, or `make build`"
        return failure(name, text, advice)
    if " debug " in build:
        advice = "this core is many times slower: build it with --release"
        return warning(name, text, advice)
    return passed(name, text)


def ray_version() -> str | None:
    """Return the version of the installed Ray, or None, without importing Ray."""
    try:
        return metadata.version("ray")
    except metadata.PackageNotFoundError:
        return None


def check_ray() -> CheckResult:
    """Check Ray's version."""
    name, version = "Ray", ray_version()
    minimum = ".".join(map(str, OLDEST_RAY))
    advice = f"pip install 'ray[default]>={minimum}'"
    if version is None:
        return failure(name, "is not installed", advice)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_SAFE_RAY:
        text = f"{version}, which has known security problems in its dashboard and job server"
        return failure(name, text, advice)
    if numbers < OLDEST_RAY:
        text = f"{version}, older than {minimum}, which this is tested with"
        return warning(name, text, advice)
    return passed(name, version)
