"""How an optional package is installed. nanotok_ray is on no package index."""


def how_to_install(extra: str) -> str:
    """Return the commands that install an extra.

    >>> how_to_install("s3")
    "pip install '.[s3]' in a checkout of nanotok_ray, or '/path/to/nanotok_ray-...whl[s3]'"
    """
    return (
        f"pip install '.[{extra}]' in a checkout of nanotok_ray, or "
        f"'/path/to/nanotok_ray-...whl[{extra}]'"
    )
