"""litdata's own StreamingDataset with TokensLoader: every block, directly and through a cache.

pip install torch litdata==0.2.76 numpy
"""

import json
import tempfile
from pathlib import Path

import litdata
import numpy as np

from tests.peers.native_output import Place, Tally, run


def check(place: Place, export: Path, tally: Tally) -> None:
    folder = export / place.name
    if not (folder / "index.json").exists():
        same = (folder / "left-over.bin").read_bytes() == place.ids_of(
            range(len(place.shards))
        ).tobytes()
        tally.compare("places without a block", place.name, same)
        return
    size = block_size_of(folder)
    blocks, left = wanted(place, size)
    path = folder / "left-over.bin"
    found = np.fromfile(path, dtype=left.dtype) if path.exists() else left[:0]
    tally.compare("left over", place.name, np.array_equal(found, left) and len(left) < size)
    before = sorted(folder.iterdir())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
        for kind, where in (("blocks", str(folder)), ("blocks from a cache", f"local:{folder}")):
            data = litdata.StreamingDataset(
                where, cache_dir=cache, item_loader=litdata.TokensLoader(block_size=size)
            )
            tally.compare("datasets", f"length of {where}", len(data) == len(blocks))
            for number, block in enumerate(data):
                same = block.dtype == blocks.dtype and np.array_equal(block, blocks[number])
                tally.compare(kind, f"{place.name} {number}", same)
            for number in range(0, len(data), 97):
                same = np.array_equal(data[number], blocks[number])
                tally.compare("blocks by number", f"{place.name} {number}", same)
    tally.compare("folders left as they were", place.name, sorted(folder.iterdir()) == before)


def block_size_of(folder: Path) -> int:
    """Return the block size from the first chunk, which users pass to TokensLoader."""
    chunk = json.loads((folder / "index.json").read_bytes())["chunks"][0]
    return chunk["dim"] // chunk["chunk_size"]


def wanted(place: Place, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all blocks, those of each shard first, then those of the rests; and the last rest."""
    flat = [place.ids_of(documents) for _, documents in place.by_shard()]
    whole = [ids[: len(ids) - len(ids) % size] for ids in flat]
    rests = np.concatenate([ids[len(own) :] for ids, own in zip(flat, whole, strict=True)])
    end = len(rests) - len(rests) % size
    return np.concatenate([*whole, rests[:end]]).reshape(-1, size), rests[end:]


if __name__ == "__main__":
    run(check)
