"""raw with numpy alone: documents by offsets like torchtitan, windows by memmap like nanoGPT.

pip install numpy
"""

from pathlib import Path

import numpy as np

from tests.peers.native_output import Place, Tally, run

BLOCK = 1024


def check(place: Place, export: Path, tally: Tally) -> None:
    for name, documents in place.by_shard():
        flat = place.ids_of(documents)
        if not len(flat):
            size = (export / f"{name}.bin").stat().st_size
            tally.compare("files without a token, which numpy cannot map", name, size == 0)
            continue
        data = np.memmap(export / f"{name}.bin", dtype=flat.dtype, mode="r")
        offsets = np.load(export / f"{name}.offsets.npy", mmap_mode="r")
        tally.compare("offset files", name, offsets.dtype == np.int64 and offsets[-1] == len(data))
        masks = place.mask_of(documents)
        own = None if masks is None else np.memmap(export / f"{name}.mask", dtype=np.uint8)
        tally.compare(
            "masks are there", name, (export / f"{name}.mask").exists() == (own is not None)
        )
        for number, document in enumerate(documents):
            start, end = offsets[number], offsets[number + 1]
            same = np.array_equal(data[start:end], place.shards[document])
            if own is not None:
                same = same and np.array_equal(own[start:end], place.shards.mask(document))
            tally.compare("documents", f"{name} {number}", same)
        for start in range(0, len(data) - BLOCK, BLOCK):
            x = data[start : start + BLOCK].astype(np.int64)
            y = data[start + 1 : start + 1 + BLOCK].astype(np.int64)
            same = (x == flat[start : start + BLOCK]).all() and (y[:-1] == x[1:]).all()
            tally.compare("windows", f"{name} from {start}", same and y[-1] == flat[start + BLOCK])


if __name__ == "__main__":
    run(check)
