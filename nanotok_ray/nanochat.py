"""nanochat's data loaders under nanochat's names, which read shards: only an import changes.

    from nanotok_ray.nanochat import tokenizing_distributed_data_loader_with_state_bos_bestfit
    from nanotok_ray.nanochat import sft_data_generator_bos_bestfit

The arguments are those of nanochat's functions, and the path of the shards. The functions for
pretraining yield the same tensors, and a state from which training resumes exactly. The tokenizer
is only compared with the one that made the shards. The function for `chat_sft` yields no row
without targets.
"""

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from nanotok_ray.errors import PackingError, TokenizerError
from nanotok_ray.formats import SPLITS
from nanotok_ray.loader import Shards, open_shards
from nanotok_ray.loader.batch import SavedState, State
from nanotok_ray.loader.conversations import (
    Conversation,
    ConversationLoader,
    ConversationSettings,
    StoredConversations,
)
from nanotok_ray.loader.nanochat import NanochatLoader
from nanotok_ray.loader.settings import TooLong, padding_id
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.torch import Staging, this_rank  # says what to do without torch

import torch  # isort: skip

SHARDS_VARIABLE = "NANOTOK_SHARDS"
CHAT_SHARDS_VARIABLE = "NANOTOK_CHAT_SHARDS"

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
    resume_state_dict: SavedState | None = None,
    buffer_size: int = 1000,
    *,
    shards: str | os.PathLike[str] | Shards | None = None,
) -> Iterator[tuple[torch.Tensor, torch.Tensor, State]]:
    """Yield the batches that nanochat's function yields, without end.

    Args:
        tokenizer: nanochat's or this project's; it must be the one that made the shards.
        B: number of rows of a batch.
        T: number of inputs of a row.
        split: train or val.
        tokenizer_threads: has no effect.
        tokenizer_batch_size: number of documents that are read at a time.
        device: device of the tensors.
        resume_state_dict: a state that this function or nanochat's function yielded.
        buffer_size: number of documents to choose from.
        shards: path or URL of an output folder, or documents of the split; None: the value of the
            environment variable NANOTOK_SHARDS.

    Yields:
        Inputs and targets, (B, T) int64 on the device, both views of one buffer that the next batch
        overwrites; the state, which has nanochat's keys and additional ones.

    Raises:
        PackingError: Another tokenizer made the shards, or nanochat could not have read the
            documents of the shards.
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
    """Yield only inputs and targets. The arguments are those of the function with state."""
    batches = tokenizing_distributed_data_loader_with_state_bos_bestfit(*args, **kwargs)
    return ((inputs, targets) for inputs, targets, _ in batches)


def _batches(
    loader: NanochatLoader, staging: Staging
) -> Iterator[tuple[torch.Tensor, torch.Tensor, State]]:
    while True:
        batch = loader.next_batch(into=staging.arrays(staging.rows))
        inputs, targets = staging.send(staging.rows)
        yield inputs, targets, batch.state


def sft_data_generator_bos_bestfit(
    split: str,
    buffer_size: int = 100,
    *,
    too_long: TooLong = "crop",
    script: MutableMapping[str, Any] | None = None,
    shards: str | os.PathLike[str] | Shards | None = None,
) -> Iterator[Tensors]:
    """Yield the batches of nanochat's `chat_sft`, in which every row has targets, without end.

    Conversations are packed by nanochat's rule. In nanochat a conversation that is longer than a
    row stays in the buffer, which finally holds only such conversations: from then on the loss is
    NaN (nanochat#590). Here it is cropped to max_seq_len + 1 tokens, and conversations that have
    no targets, before or after cropping, are skipped. Without such conversations the batches equal
    nanochat's.

    Import it in `scripts/chat_sft.py` below nanochat's own function. Like that function it reads
    `args`, `tokenizer`, `train_dataset`, `val_dataset`, `ddp_rank`, `ddp_world_size`, `device` and
    `device_type` of the script, and sets `last_step`, `approx_progress` and `current_epoch`.

    Args:
        split: train or val.
        buffer_size: number of conversations to choose from.
        too_long: "crop" or "drop": whether a conversation longer than a row is cropped or skipped.
        script: variables of the script; None: the global variables of the caller.
        shards: path or URL of an output folder, or conversations of the split, to read in place of
            the data sets of the script; None: the value of the environment variable
            NANOTOK_CHAT_SHARDS, or the data sets if it is not set.

    Yields:
        Inputs, int32, and targets, int64, (device_batch_size, max_seq_len) on the device; a target
        is -1 where the model does not train on the token.

    Raises:
        PackingError: The script lacks a variable, another tokenizer made the shards, the shards
            hold no conversations, or no conversation has targets.
    """
    _check_split(split)
    variables = sys._getframe(1).f_globals if script is None else script  # noqa: SLF001 - or six arguments
    tokenizer, args = _variable(variables, "tokenizer"), _variable(variables, "args")
    settings = ConversationSettings(
        batch_size=args.device_batch_size,
        length=args.max_seq_len,
        buffer_size=buffer_size,
        too_long=too_long,
        rank=_variable(variables, "ddp_rank"),
        world_size=_variable(variables, "ddp_world_size"),
    )
    conversations: Sequence[Conversation]
    if shards is None and not os.environ.get(CHAT_SHARDS_VARIABLE):
        dataset = _variable(variables, f"{split}_dataset")
        conversations = _Rendered(dataset, tokenizer, settings)
        pad = tokenizer.get_bos_token_id()
    else:
        opened = _opened(shards, split, variable=CHAT_SHARDS_VARIABLE, kind="chat")
        _check_tokenizer(tokenizer, opened)
        conversations, pad = StoredConversations(opened), padding_id(opened)
    loader = ConversationLoader(conversations, settings, pad=pad)
    return _sft_batches(loader, variables, total=len(conversations), is_train=split == "train")


class _Rendered(Sequence[Conversation]):
    """The conversations of a data set of nanochat's, rendered when they are read."""

    def __init__(
        self,
        dataset: Any,  # noqa: ANN401 - nanochat's
        tokenizer: Any,  # noqa: ANN401 - nanochat's, or ours
        settings: ConversationSettings,
    ) -> None:
        self._dataset = dataset
        self._render = tokenizer.render_conversation
        self._max_tokens = settings.limit + 1  # one more tells that it is too long

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - as Sequence has it
        return self._render(self._dataset[index], max_tokens=self._max_tokens)


def _sft_batches(
    loader: ConversationLoader, script: MutableMapping[str, Any], *, total: int, is_train: bool
) -> Iterator[Tensors]:
    device = _variable(script, "device")
    is_cuda = _variable(script, "device_type") == "cuda"
    steps = script["args"].num_iterations if is_train else 0
    for arrays in loader:
        if is_train:
            by_steps = steps > 0
            script["current_epoch"] = loader.epoch
            script["approx_progress"] = (
                loader.batches / steps if by_steps else loader.consumed / total
            )
            if (by_steps and loader.batches >= steps) or loader.consumed >= total:
                script["last_step"] = True
        inputs, targets = map(torch.from_numpy, arrays)
        if is_cuda:
            inputs, targets = inputs.pin_memory(), targets.pin_memory()
        yield (
            inputs.to(device=device, dtype=torch.int32, non_blocking=is_cuda).contiguous(),
            targets.to(device=device, dtype=torch.int64, non_blocking=is_cuda).contiguous(),
        )


def _variable(script: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - as it is there
    if name not in script:
        raise PackingError(
            f"the caller has no variable {name!r}, as nanochat's scripts/chat_sft.py has: call the "
            "function there, or pass script={...} with its variables"
        )
    return script[name]


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise PackingError(f"split is {split!r}, it must be train or val")


def _opened(
    shards: str | os.PathLike[str] | Shards | None,
    split: str,
    *,
    variable: str = SHARDS_VARIABLE,
    kind: str = "text",
) -> Shards:
    """Open a split of all sources of a kind."""
    _check_split(split)
    if isinstance(shards, Shards):
        return shards
    folder = shards or os.environ.get(variable)
    if not folder:
        raise PackingError(
            f"where are the shards? Set {variable} to the output folder of the job, or pass shards="
        )
    opened = open_shards(folder, split=split)
    wanted = [name for name in opened.sources if opened.manifest.kinds[name] == kind]
    return open_shards(folder, split=split, source=wanted) if wanted else opened


def _check_tokenizer(tokenizer: Any, shards: Shards) -> None:  # noqa: ANN401 - nanochat's, or ours
    """Raise an error if the ids of a tokenizer differ from those of the shards."""
    manifest = shards.manifest
    sha256 = manifest.tokenizer_sha256
    pairs = {
        f"id of {_BOS}": (tokenizer.get_bos_token_id(), manifest.special_tokens.get(_BOS)),
        "vocabulary size": (tokenizer.get_vocab_size(), manifest.num_ids),
        "sha256": (_sha256_of(tokenizer) or sha256, sha256),
    }
    for name, (current, expected) in pairs.items():
        if current != expected:
            raise PackingError(
                f"the tokenizer has another {name} ({current}) than the one that made the shards "
                f"({expected}): load the one in the folder `tokenizer` beside them"
            )


def _sha256_of(tokenizer: Any) -> str | None:  # noqa: ANN401
    """Return the sha256 of a tokenizer, or None if it cannot be determined."""
    sha256 = getattr(tokenizer, "sha256", None)
    encoding = getattr(tokenizer, "enc", None)
    if sha256 is not None or encoding is None:
        return sha256
    try:
        return Tokenizer.from_tiktoken(encoding).sha256
    except TokenizerError:  # not byte-level BPE with merges; vocabulary size and bos were compared
        return None
