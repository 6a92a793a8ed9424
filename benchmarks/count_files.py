"""Write synthetic count files: many different spans, each in one of the files or in several.

The number of spans and files is given; two processes write the files from numbers alone, so that
the same command makes the same bytes. A span is its number, spelled with 8 to 14 letters. Number i
is in one file that it selects, and in each other file with the probability spans ** 0.55 / (i +
1): frequent spans are in all files, as in text. Its count in a file is 1 + (spans / (i + 1)) **
1.05 / files: Zipf's law, with a long tail of ones. The totals are printed as one line of JSON.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nanotok_ray import _core
from nanotok_ray.counts import CountProvenance, pack_counts

LETTERS = np.frombuffer(b"etaoinsrhldcumfp", np.uint8)
"""One letter for each four bits."""
SHORTEST, LONGEST = 8, 14
ZIPF = 1.05
SPREAD = 0.55
"""Every file contains the spans whose number is below this power of the number of spans."""

BLOCK = 2**20
"""Numbers that are processed at a time."""

FIRST, SECOND, THIRD = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0xBF58476D1CE4E5B9)
)
"""Odd factors of hash functions."""

Numbers = npt.NDArray[np.uint64]


def main() -> None:
    """Write the files of the command line; print the totals as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--spans", type=int, required=True)
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    write = partial(write_file, options.folder, options.spans, options.files)
    with ProcessPoolExecutor(options.processes) as pool:
        facts = list(pool.map(write, range(options.files)))
    print(json.dumps({name: sum(each[name] for each in facts) for name in facts[0]}))


def write_file(folder: Path, spans: int, files: int, number: int) -> dict[str, Any]:
    """Write one file; return its rows, bytes, and sums of counts."""
    ids = ids_of(spans, files, number)
    letters, lengths = spelled(ids)
    counts = (1 + (spans / (ids + 1.0)) ** ZIPF / files).astype(np.uint64)
    offsets = ends_of(lengths)
    order = np.argsort(_core.hash_documents(packed(letters, lengths), offsets), kind="stable")
    lengths, letters, counts = lengths[order], letters[order], counts[order]
    data, offsets = packed(letters, lengths), ends_of(lengths)
    hashes = _core.hash_documents(data, offsets)
    origin = CountProvenance(
        pattern="benchmark", texts=0, text_bytes=0, spans=int(counts.sum()), num_gaps=0
    )
    path = folder / f"{number:05}.arrow"
    path.write_bytes(pack_counts((hashes, data, offsets, counts), origin))
    return {
        "rows": len(ids),
        "file_bytes": path.stat().st_size,
        "spans": int(counts.sum()),
        "span_bytes": int(counts @ lengths.astype(np.uint64)),
    }


def ids_of(spans: int, files: int, number: int) -> Numbers:
    """Return the increasing numbers of a file's spans; every number is in at least one file."""
    blocks = range(0, spans, BLOCK)
    return np.concatenate([chosen(spans, files, number, start) for start in blocks])


def chosen(spans: int, files: int, number: int, start: int) -> Numbers:
    """Return the numbers of one block."""
    ids = np.arange(start, min(start + BLOCK, spans), dtype=np.uint64)
    mixed = ids * FIRST ^ np.uint64((number + 1) * int(SECOND) % 2**64)
    mixed = (mixed ^ mixed >> np.uint64(29)) * THIRD
    chance = (mixed >> np.uint64(40)).astype(np.float32) / np.float32(2**24)
    everywhere = chance * (ids + np.uint64(1)).astype(np.float32) < np.float32(spans**SPREAD)
    own = (ids * THIRD >> np.uint64(33)) % np.uint64(files) == number
    here: Numbers = ids[everywhere | own]
    return here


def spelled(ids: Numbers) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return distinct spellings of numbers below 2**32; letters after the length are ignored."""
    scrambled = ids * np.uint64(0x9E3779B1) % np.uint64(2**32)
    more = scrambled * np.uint64(0xC2B2AE3D27D4EB4F) >> np.uint64(32)
    bits = scrambled | more << np.uint64(32)
    places = np.arange(LONGEST, dtype=np.uint64) * np.uint64(4)
    letters = LETTERS[(bits[:, None] >> places & np.uint64(15)).astype(np.uint8)]
    lengths = SHORTEST + (bits >> np.uint64(56)) % np.uint64(LONGEST - SHORTEST + 1)
    return letters, lengths.astype(np.int64)


def packed(letters: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Put rows of letters back to back."""
    return letters[np.arange(letters.shape[1]) < lengths[:, None]]


def ends_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the begin of each row, and the end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


if __name__ == "__main__":
    main()
