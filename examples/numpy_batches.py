"""Packed batches as numpy arrays, for JAX or anything else: no torch.

    python examples/numpy_batches.py OUT --length 512 --batch-size 8 --batches 100

OUT is the output folder of a job, local or a URL. A checkpoint keeps `batch.state` beside the model
and gives it to `load_state_dict`; rank and world size are those of the trainer's processes.
"""

import argparse
import time

from nanotok_ray.loader import Loader, open_shards


def main() -> None:
    """Return batches and say what packing cost."""
    parser = argparse.ArgumentParser(description="Packed batches as numpy arrays.")
    parser.add_argument("out", help="output folder of a job, local or a URL")
    parser.add_argument("--source", help="one source; without: all of them")
    parser.add_argument("--length", type=int, default=512, help="inputs of a row, in tokens")
    parser.add_argument("--batch-size", type=int, default=8, help="rows of a batch")
    parser.add_argument("--batches", type=int, default=100, help="how many batches to take")
    args = parser.parse_args()

    shards = open_shards(args.out, "train", args.source)
    loader = Loader(
        shards,
        batch_size=args.batch_size,
        length=args.length,
        shuffle="block",
    )
    begin = time.perf_counter()
    tokens = 0
    for _, batch in zip(range(args.batches), loader, strict=False):
        tokens += batch.inputs.size  # a training step: jnp.asarray(batch.inputs), batch.targets
    seconds = time.perf_counter() - begin
    print(loader.report())
    print(f"{tokens:,} inputs in {seconds:.2f} s: {tokens / seconds / 1e6:.1f} million a second")


if __name__ == "__main__":
    main()
