"""What a trainer does with a finished output, with numpy and this package alone.

    python light_trainer.py OUTPUT

It checks itself, and prints a line. `tests/core/test_light_use.py` runs it with all other packages
blocked, and `tests/support/smoke.py` in an environment that has nothing else.
"""

import sys

import numpy as np

from nanotok_ray import Loader, Tokenizer, open_shards


def main(output: str) -> None:
    """Read documents, encode and decode, and take batches, also after a resume."""
    shards = open_shards(output, source="chats", check_files=True)
    tokenizer = Tokenizer.load(f"{output}/tokenizer")
    texts = [shards.text(number) for number in range(len(shards))]
    masks = [shards.mask(number) for number in range(len(shards))]
    assert any(mask is not None and mask.any() for mask in masks)

    text = "Ein Text, 数据 and <|bos|>"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    batch_ids, offsets = tokenizer.encode_batch([text, *texts])
    assert batch_ids[: offsets[1]].tolist() == ids

    for packing, source in (("best-fit", "web"), ("windows", "web"), ("conversations", "chats")):
        opened = open_shards(output, source=source)
        batches, resumed = (
            Loader(opened, batch_size=2, length=64, packing=packing, shuffle="document")
            for _ in range(2)
        )
        first = batches.next_batch()
        assert first.inputs.shape == first.targets.shape == (2, 64)
        resumed.load_state_dict(first.state)
        assert np.array_equal(resumed.next_batch().inputs, batches.next_batch().inputs)
    sys.stdout.write(f"{len(shards)} documents, {shards.num_ids} ids, numpy {np.__version__}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
