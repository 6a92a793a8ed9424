"""Another policy for the retries of storage in this process."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nanotok_ray.storage import StoreRetryPolicy, retries


@contextmanager
def use_retry_policy(policy: StoreRetryPolicy) -> Iterator[None]:
    """Use a policy for every operation of storage, in all threads, inside the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retries, "POLICY", policy)
        yield
