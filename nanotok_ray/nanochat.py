"""nanochat's data loaders under nanochat's names, fed from shards: one changed import.

    from nanotok_ray.nanochat import tokenizing_distributed_data_loader_with_state_bos_bestfit

Arguments are those of nanochat's functions, and the path of the shards. The functions yield the
same tensors, and a state that is resumed from exactly. The tokenizer is only compared with the one
that made the shards.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from nanotok_ray.errors import PackingError, TokenizerError
from nanotok_ray.formats.manifest import SPLITS
from nanotok_ray.loader import Shards, open_shards
from nanotok_ray.loader.nanochat import NanochatLoader
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.torch import Staging, this_rank  # says what to do without torch

import torch  # isort: skip

SHARDS_VARIABLE = "NANOTOK_SHARDS"

_BOS = SPECIAL_TOKENS[0]

Tensors = tuple[torch.Tensor, torch.Tensor]


def tokenizing_distributed_data_loader_with_state_bos_bestfit(  # noqa: PLR0917 - as nanochat's
    tokenizer: Any,  # noqa: ANN401 - nanochat's, or ours
    B: int,  # noqa: N803 - nanochat's names
    T: int,  # noqa: N803
    split: str,
    tokenizer_threads: int = 4,  # noqa: ARG001 - nothing is left to encode
    tokenizer_batch_size: int = 128,
    device: str | torch.device = "cuda",
    resume_state_dict: Mapping[str, Any] | None = None,
    buffer_size: int = 1000,
    *,
    shards: str | os.PathLike[str] | Shards | None = None,
) -> Iterator[tuple[torch.Tensor, torch.Tensor, dict[str, Any]]]:
    """Yield the batches that nanochat's function yields, without end.

    Args:
        tokenizer: nanochat's or this project's; it must be the one that made the shards.
        B: rows of a batch.
        T: inputs of a row.
        split: train or val.
        tokenizer_threads: has no effect.
        tokenizer_batch_size: documents that are read at a time.
        device: where the tensors are to be.
        resume_state_dict: a state that was yielded, by this function or by nanochat's.
        buffer_size: documents to choose from.
        shards: path or URL of an output folder, or documents of the split; None: what the
            environment variable NANOTOK_SHARDS says.

    Yields:
        Inputs and targets, (B, T) int64 on the device, both views of one buffer that the next batch
        overwrites; the state, which has nanochat's keys and some more.

    Raises:
        PackingError: The tokenizer is another one, or the shards are not as nanochat's documents.
    """
    opened = _opened(shards, split)
    _check_tokenizer(tokenizer, opened)
    rank, world_size = this_rank()
    loader = NanochatLoader(
        opened,
        batch_size=B,
        length=T,
        tokenizer_batch_size=tokenizer_batch_size,
        buffer_size=buffer_size,
        rank=rank,
        world_size=world_size,
        state=resume_state_dict,
    )
    return _batches(loader, Staging(B, T, device=device))


def tokenizing_distributed_data_loader_bos_bestfit(
    *args: Any,  # noqa: ANN401 - as nanochat's
    **kwargs: Any,  # noqa: ANN401
) -> Iterator[Tensors]:
    """Yield inputs and targets alone; arguments as of the function with state."""
    batches = tokenizing_distributed_data_loader_with_state_bos_bestfit(*args, **kwargs)
    return ((inputs, targets) for inputs, targets, _ in batches)


def _batches(
    loader: NanochatLoader, staging: Staging
) -> Iterator[tuple[torch.Tensor, torch.Tensor, dict[str, Any]]]:
    while True:
        batch = loader.next_batch(into=staging.arrays(staging.rows))
        inputs, targets = staging.send(staging.rows)
        yield inputs, targets, batch.state


def _opened(shards: str | os.PathLike[str] | Shards | None, split: str) -> Shards:
    """Open a split, of all sources that are text."""
    if split not in SPLITS:
        raise PackingError(f"split is {split!r}, it must be train or val")
    if isinstance(shards, Shards):
        return shards
    folder = shards or os.environ.get(SHARDS_VARIABLE)
    if not folder:
        raise PackingError(
            f"where are the shards? Set {SHARDS_VARIABLE} to the output folder of the job, or pass "
            "shards="
        )
    kinds = (found := open_shards(folder, split=split)).manifest["kinds"]
    texts = [name for name in found.sources if kinds[name] == "text"]
    return open_shards(folder, split=split, source=texts) if texts else found


def _check_tokenizer(tokenizer: Any, shards: Shards) -> None:  # noqa: ANN401 - nanochat's, or ours
    """Refuse a tokenizer whose ids are not those of the shards."""
    manifest = shards.manifest
    sha256 = manifest["tokenizer_sha256"]
    pairs = {
        f"id of {_BOS}": (tokenizer.get_bos_token_id(), manifest["special_tokens"].get(_BOS)),
        "vocabulary size": (tokenizer.get_vocab_size(), manifest["num_ids"]),
        "sha256": (_sha256_of(tokenizer) or sha256, sha256),
    }
    for name, (current, expected) in pairs.items():
        if current != expected:
            raise PackingError(
                f"the tokenizer has another {name} ({current}) than the one that made the shards "
                f"({expected}): load the one in the folder `tokenizer` beside them"
            )


def _sha256_of(tokenizer: Any) -> str | None:  # noqa: ANN401
    """Return what names a tokenizer here; None: it does not tell."""
    sha256 = getattr(tokenizer, "sha256", None)
    encoding = getattr(tokenizer, "enc", None)
    if sha256 is not None or encoding is None:
        return sha256
    try:
        return Tokenizer.from_tiktoken(encoding).sha256
    except TokenizerError:  # one that is no BPE of merges: vocabulary size and bos were compared
        return None
