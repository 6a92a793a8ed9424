"""Another policy for the retries of storage in this process, and packages that do not wait."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nanotok_ray.storage import StoreRetryPolicy, retries


class Hasty:
    """asyncio without the waits of a package between its tries."""

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(_: float) -> None:
        await asyncio.sleep(0)


@contextmanager
def use_retry_policy(policy: StoreRetryPolicy) -> Iterator[None]:
    """Use a policy for every operation of storage, in all threads, inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retries, "POLICY", policy)
        yield
