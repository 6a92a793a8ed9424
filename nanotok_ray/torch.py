"""Batches as torch tensors: a dataset for DataLoader and its workers, and the way to a device.

Input is shards and the settings of a loader.
"""

import copy
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import PackingError, how_to_install
from nanotok_ray.loader import Batch, Shards
from nanotok_ray.loader.batch import SavedState, State
from nanotok_ray.loader.loader import Loader
from nanotok_ray.loader.nanochat import NanochatLoader
from nanotok_ray.loader.settings import Arrays

try:
    import torch
    import torch.distributed
    import torch.utils.data
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error}: nanotok_ray.torch and nanotok_ray.nanochat need torch; take numpy arrays "
        f"from nanotok_ray.loader, or {how_to_install('torch')}"
    ) from error

NANOCHAT = "nanochat"
"""The value of `packing` for the batches of nanochat's own loader."""


class PackedDataset(torch.utils.data.IterableDataset):
    """Return (inputs, targets, state) of one rank, for `DataLoader(dataset, batch_size=None)`.

    Inputs and targets are tensors, (rows, length). The batches and their order are the same with
    any number of workers: worker w of k makes every k-th batch, and only plans the other batches.
    The state is that of the loader after the batch, so the state of the last batch that was trained
    on is all that a checkpoint needs.
    """

    def __init__(
        self,
        shards: Shards,
        *,
        packing: str = "best-fit",
        rank: int | None = None,
        world_size: int | None = None,
        dtype: npt.DTypeLike = np.int64,
        **settings: Any,  # noqa: ANN401 - the loader says what they are
    ) -> None:
        """Check the settings; rank and world size are looked up here, in the main process.

        Args:
            shards: the documents.
            packing: best-fit, windows or conversations, of `Loader`, or nanochat, of
                `NanochatLoader`.
            rank: the rank of this process; None: the rank that `this_rank` returns.
            world_size: the number of processes; None: the number that `this_rank` returns.
            dtype: the data type of the tensors, int32 or int64.
            settings: further arguments of the loader.

        Raises:
            PackingError: A setting is out of range.
        """
        super().__init__()
        default = this_rank() if rank is None or world_size is None else (rank, world_size)
        self._shards = shards
        self._packing = packing
        self._settings = {
            **settings,
            "rank": default[0] if rank is None else rank,
            "world_size": default[1] if world_size is None else world_size,
            "dtype": np.dtype(dtype),
        }
        self._state: State | None = None
        self._loader(shards)

    def load_state_dict(self, state: SavedState) -> None:
        """Set the state. Iterators that are created later begin after the batch of the state."""
        self._state = dict(state)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, State]]:
        """Yield the batches of this worker, or all batches if there are no workers."""
        worker = torch.utils.data.get_worker_info()
        number, workers = (0, 1) if worker is None else (worker.id, worker.num_workers)
        # A copy opens the files again: connections of another process must not be shared.
        loader = self._loader(self._shards if worker is None else copy.copy(self._shards))
        if self._state is not None:
            loader.load_state_dict(self._state)
        loader.skip_batches(number)
        while (batch := loader.next_batch()) is not None:
            yield torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets), batch.state
            loader.skip_batches(workers - 1)

    def _loader(self, shards: Shards) -> Loader | NanochatLoader:
        try:
            if self._packing == NANOCHAT:
                return NanochatLoader(shards, **self._settings)
            return Loader(shards, **({"packing": self._packing} | self._settings))
        except TypeError as error:
            raise PackingError(f"packing {self._packing!r}: {error}") from error


def batches_on_device(
    batches: Iterable[Any], device: str | torch.device
) -> Iterator[tuple[Any, ...]]:
    """Copy batches to a device, each with one copy, which is asynchronous for a GPU.

    The tensors are views of one buffer, [inputs | targets], which the next batch overwrites.

    Args:
        batches: batches of a loader, or tuples that begin with two tensors, as `PackedDataset`
            yields them.
        device: the target device.

    Yields:
        Inputs, targets and the other elements of the tuple, or the state of a `Batch`.
    """
    staging = None
    for batch in batches:
        inputs, targets, *others = _tensors(batch)
        if staging is None or inputs.shape[0] > staging.rows or inputs.dtype != staging.dtype:
            staging = Staging(*inputs.shape, dtype=inputs.dtype, device=device)
        host = staging.free(inputs.shape[0])
        host[0].copy_(inputs)
        host[1].copy_(targets)
        yield *staging.send(inputs.shape[0]), *others


def _tensors(batch: Any) -> tuple[Any, ...]:  # noqa: ANN401 - as it came
    if isinstance(batch, Batch):
        return torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets), batch.state
    return tuple(batch)


class Staging:
    """One buffer on the host, pinned for a GPU, and one on the device: [inputs | targets]."""

    def __init__(
        self,
        rows: int,
        length: int,
        *,
        dtype: torch.dtype = torch.long,
        device: str | torch.device,
    ) -> None:
        """Allocate the buffers for batches of up to `rows` rows of `length` inputs."""
        self.rows = rows
        self.dtype = dtype
        self._length = length
        self._is_cuda = torch.device(device).type == "cuda"
        cells = 2 * rows * length
        self._host = torch.empty(cells, dtype=dtype, pin_memory=self._is_cuda)
        is_host = torch.device(device).type == "cpu"
        self._device = self._host if is_host else torch.empty(cells, dtype=dtype, device=device)
        self._copied = torch.cuda.Event() if self._is_cuda else None

    def free(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Wait for the last copy to finish, and return writable inputs and targets on the host."""
        if self._copied is not None:
            self._copied.synchronize()
        return self._views(self._host, rows)

    def arrays(self, rows: int) -> Arrays:
        """Same as `free`, but return numpy arrays that share the memory."""
        inputs, targets = self.free(rows)
        return inputs.numpy(), targets.numpy()

    def send(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy the written rows to the device, and return inputs and targets there."""
        cells = 2 * rows * self._length
        if self._device is not self._host:
            self._device[:cells].copy_(self._host[:cells], non_blocking=self._is_cuda)
        if self._copied is not None:
            self._copied.record()
        return self._views(self._device, rows)

    def _views(self, buffer: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        cells = rows * self._length
        return (
            buffer[:cells].view(rows, self._length),
            buffer[cells : 2 * cells].view(rows, self._length),
        )


def this_rank() -> tuple[int, int]:
    """Return rank and world size: of torch.distributed, else of RANK and WORLD_SIZE, else 0 and 1.

    Raises:
        PackingError: One of the variables is missing, or is not a number.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    variables = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    values = [value for value in variables.values() if value is not None]
    if not values:
        return 0, 1
    if len(values) < len(variables) or not all(value.isdecimal() for value in values):
        raise PackingError(
            f"the environment has {variables}: set both to numbers, as torchrun does, or neither"
        )
    return int(values[0]), int(values[1])
