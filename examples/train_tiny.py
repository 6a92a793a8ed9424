"""A tiny language model trained on the shards of a job, on a CPU in less than a minute.

    python examples/train_tiny.py build/demo/out --source docs

Shows what a trainer needs of nanotok_ray: the loader of a split, tensors, and token_bytes.pt for
validation bits per byte, which are comparable between tokenizers. Needs torch.
"""

import argparse
import math
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from nanotok_ray.loader import Loader, open_shards
from nanotok_ray.torch import batches_on_device


class Block(torch.nn.Module):
    """Causal self-attention, then a two-layer perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        """Make a block with `width` channels."""
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width) for _ in range(2)])
        self.queries_keys_values = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, channels: torch.Tensor) -> torch.Tensor:
        """Take and give (rows, length, width)."""
        rows, length, width = channels.shape
        parts = self.queries_keys_values(self.norms[0](channels))
        split = parts.view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(*split, is_causal=True)
        channels = channels + self.out(seen.transpose(1, 2).reshape(rows, length, width))
        return channels + self.layers(self.norms[1](channels))


class TinyModel(torch.nn.Module):
    """Embeddings, blocks, and the embeddings again to read the next token off."""

    def __init__(self, num_ids: int, *, length: int, width: int, heads: int, depth: int) -> None:
        """Make a model for ids below `num_ids` and rows of up to `length` inputs."""
        super().__init__()
        self.ids = torch.nn.Embedding(num_ids, width)
        self.places = torch.nn.Embedding(length, width)
        self.blocks = torch.nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = torch.nn.LayerNorm(width)
        torch.nn.init.normal_(self.ids.weight, std=0.02)
        torch.nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of each target in nats, (rows, length); 0 where the target is -1."""
        channels = self.ids(inputs) + self.places.weight[: inputs.shape[1]]
        logits = self.norm(self.blocks(channels)) @ self.ids.weight.T
        return functional.cross_entropy(
            logits.transpose(1, 2), targets, ignore_index=-1, reduction="none"
        )


@torch.no_grad()
def bits_per_byte(
    model: TinyModel, batches: Iterable[tuple[torch.Tensor, ...]], token_bytes: torch.Tensor
) -> float:
    """Return bits per byte of text; special tokens have no bytes and do not count."""
    nats, num_bytes = 0.0, 0
    for inputs, targets, *_ in batches:
        sizes = torch.where(targets >= 0, token_bytes[targets.clamp(min=0)], 0)
        nats += float((model(inputs, targets) * (sizes > 0)).sum())
        num_bytes += int(sizes.sum())
    return nats / (math.log(2) * num_bytes) if num_bytes else math.inf


def main(argv: list[str] | None = None) -> None:
    """Train, and say how the loss falls."""
    args = _arguments(argv)
    torch.manual_seed(args.seed)
    train = open_shards(args.out, "train", args.source)
    val = open_shards(args.out, "val", args.source)
    if not len(val):
        raise SystemExit(f"{args.out} has no val split of {args.source or 'any source'}")
    rows = {"batch_size": args.batch_size, "length": args.length, "dtype": np.int64}
    model = TinyModel(train.num_ids, length=args.length, width=128, heads=4, depth=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    token_bytes = torch.load(Path(args.out) / "tokenizer/token_bytes.pt", weights_only=True)

    def validate() -> float:
        loader = Loader(val, **rows, epochs=1)
        chosen = (batch for _, batch in zip(range(args.val_batches), loader, strict=False))
        return bits_per_byte(model, batches_on_device(chosen, "cpu"), token_bytes)

    print(f"step 0: validation {validate():.3f} bits per byte", flush=True)
    begin = time.perf_counter()
    losses: list[float] = []
    loader = Loader(train, **rows, shuffle="block", seed=args.seed)
    # A checkpoint would keep `state` beside the model: loader.load_state_dict(state) goes on there.
    for step, (inputs, targets, _state) in enumerate(batches_on_device(loader, "cpu"), 1):
        trained = targets >= 0
        loss = model(inputs, targets).sum() / trained.sum().clamp(min=1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % args.every == 0 or step == args.steps:
            mean, spent = sum(losses) / len(losses), time.perf_counter() - begin
            print(f"step {step}: loss {mean:.3f} nats a token, {spent:.1f} s", flush=True)
            losses.clear()
        if step == args.steps:
            break
    print(f"step {args.steps}: validation {validate():.3f} bits per byte")
    print(loader.report())


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a tiny language model on shards.")
    parser.add_argument("out", help="output folder of a job")
    parser.add_argument("--source", help="one source, e.g. docs of the demo; without: all of them")
    parser.add_argument("--steps", type=int, default=60, help="training steps")
    parser.add_argument("--batch-size", type=int, default=4, help="rows of a batch")
    parser.add_argument("--length", type=int, default=128, help="inputs of a row, in tokens")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--val-batches", type=int, default=8, help="batches of a validation")
    parser.add_argument("--every", type=int, default=10, help="steps between two lines")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
