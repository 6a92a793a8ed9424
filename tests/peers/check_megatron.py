"""Compare a megatron export with its output, document by document, with the peers' readers.

Needs numpy, torch, packaging and megatron-core (without its dependencies): IndexedDataset, mapped
and not. With a checkout of gpt-neox (`--gpt-neox`) its MMapIndexedDataset is used instead, whose
package has the same name.
"""

import sys
import types
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nanotok_ray.loader import Shards
from tests.peers.native_output import Place, Tally, module_of, run, same


def open_in_core(prefix: str) -> list[tuple[str, Any]]:
    """Open a dataset with megatron-core, memory-mapped and not."""
    warnings.filterwarnings("ignore")
    from megatron.core.datasets.indexed_dataset import IndexedDataset  # noqa: PLC0415

    found = [
        (f"{prefix}, mmap={mmap}", IndexedDataset(prefix, mmap=mmap)) for mmap in (True, False)
    ]
    for what, data in found:
        same(data.index.document_indices, np.arange(len(data) + 1), f"documents of {what}")
        if len(data) > 2:
            whole = data[1]
            first = min(1, len(whole))
            own = data.get(1, offset=first, length=len(whole) - first)
            same(own, whole[first:], f"a part of document 1 of {what}")
            for one, other in zip(data[0:3], (data[0], data[1], data[2]), strict=True):
                same(one, other, f"a slice of {what}")
    return found


@cache
def neox(checkout: Path) -> types.ModuleType:
    """Import only gpt-neox's reader, since its package would import DeepSpeed."""
    sys.modules["megatron"] = types.ModuleType("megatron")
    sys.modules["megatron"].print_rank_0 = lambda *_: None  # type: ignore[attr-defined]
    return module_of(checkout / "megatron/data/indexed_dataset.py")


def opened(prefix: str, checkout: Path | None) -> list[tuple[str, Any]]:
    """Return each view of a dataset, with its description."""
    if checkout is None:
        return open_in_core(prefix)
    return [(f"{prefix} in gpt-neox", neox(checkout).MMapIndexedDataset(prefix))]


def check_dataset(prefix: str, native: Shards, at: int, checkout: Path | None) -> int:
    """Compare a dataset, and its labels if there are masks, with native documents from `at` on."""
    ids = opened(prefix, checkout)
    twin = prefix.replace("_text_document", "_text_label_document")
    labels = opened(twin, checkout) if native.mask(at) is not None else []
    size = len(ids[0][1])
    for what, data in [*ids, *labels]:
        if len(data) != size or at + size > len(native):
            raise SystemExit(f"DIFFERENT: {what} has {len(data)} documents")
    for number in range(size):
        own, mask = native[at + number], native.mask(at + number)
        for what, data in ids:
            same(data[number], own, f"document {number} of {what}")
        for what, data in labels:  # gpt-neox's: the id, or -100 if it is not trained on
            wanted = np.where(mask == 1, own.astype(np.int64), -100)
            same(data[number], wanted, f"labels of document {number} of {what}")
    return size


def check(place: Place, export: Path, tally: Tally, checkout: Path | None) -> None:
    folder = export / place.name
    found = sorted(folder.glob("*_text_document.idx"))
    at = 0
    for path in found:
        at += check_dataset(str(path.with_suffix("")), place.shards, at, checkout)
    same(at, len(place.shards), f"number of documents of {place.name}")
    twins = len(list(folder.glob("*_text_label_document.idx")))
    tally.count(**{"datasets": len(found), "datasets of labels": twins, "documents": at})


if __name__ == "__main__":
    run(check, checkout="--gpt-neox")
