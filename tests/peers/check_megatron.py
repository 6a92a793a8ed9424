"""Compare a megatron export with its output, document by document, with the peers' readers.

    PYTHONPATH=. python tests/peers/check_megatron.py OUT EXPORT [--gpt-neox CHECKOUT]

Needs numpy, torch, packaging and megatron-core 0.16.1 (without its dependencies): IndexedDataset,
mapped and not. With a checkout of gpt-neox its MMapIndexedDataset is used instead, whose package
has the same name. The exit code is 1 at the first difference.
"""

import argparse
import importlib.util
import json
import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nanotok_ray.loader import Shards, open_shards
from tests.peers.native_output import write_equal

Opened = list[tuple[str, Any]]


def same(own: Any, other: Any, what: str) -> None:
    """Stop at the first difference."""
    if not np.array_equal(np.asarray(own), np.asarray(other)):
        raise SystemExit(f"DIFFERENT: {what}")


def open_in_core(prefix: str) -> Opened:
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


def open_in_neox(checkout: Path) -> Callable[[str], Opened]:
    """Import only gpt-neox's reader, since its package would import DeepSpeed."""
    sys.modules["megatron"] = types.ModuleType("megatron")
    sys.modules["megatron"].print_rank_0 = lambda *_: None  # type: ignore[attr-defined]
    path = checkout / "megatron/data/indexed_dataset.py"
    spec = importlib.util.spec_from_file_location("neox_indexed_dataset", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda prefix: [(f"{prefix} in gpt-neox", module.MMapIndexedDataset(prefix))]


def labels_of(ids: Any, mask: Any) -> Any:
    """Return gpt-neox's labels: the ids themselves, or -100 if they are not trained on."""
    return np.where(mask == 1, ids.astype(np.int64), -100)


def check_dataset(
    open_dataset: Callable[[str], Opened], prefix: str, native: Shards, at: int
) -> int:
    """Compare a dataset, and its labels if there are masks, with native documents from `at` on."""
    ids = open_dataset(prefix)
    masked = native.mask(at) is not None
    twin = prefix.replace("_text_document", "_text_label_document")
    labels = open_dataset(twin) if masked else []
    for what, data in [*ids, *labels]:
        if len(data) != len(ids[0][1]) or at + len(data) > len(native):
            raise SystemExit(f"DIFFERENT: {what} has {len(data)} documents")
    for number in range(len(ids[0][1])):
        own = native[at + number]
        for what, data in ids:
            same(data[number], own, f"document {number} of {what}")
        for what, data in labels:
            wanted = labels_of(own, native.mask(at + number))
            same(data[number], wanted, f"labels of document {number} of {what}")
    return len(ids[0][1])


def check_split(
    open_dataset: Callable[[str], Opened],
    given: Any,
    source: str,
    split: str,
    equal: Counter[str],
) -> str:
    """Check the datasets of a source and split, and describe the comparison."""
    native = open_shards(str(given.out), split, source)
    found = sorted((given.export / source / split).glob("*_text_document.idx"))
    at = 0
    for path in found:
        at += check_dataset(open_dataset, str(path.with_suffix("")), native, at)
    if at != len(native):
        raise SystemExit(f"DIFFERENT: {source}/{split} has {at} of {len(native)} documents")
    twins = len(list((given.export / source / split).glob("*_text_label_document.idx")))
    equal.update({"datasets": len(found), "datasets of labels": twins, "documents": at})
    return f"{source}/{split}: {len(found)} datasets, {twins} with labels, {at} documents equal"


def main() -> None:
    """Check every source and split."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("export", type=Path)
    parser.add_argument("--gpt-neox", type=Path)
    given = parser.parse_args()
    manifest, equal = json.loads((given.out / "manifest.json").read_bytes()), Counter[str]()
    open_dataset = open_in_neox(given.gpt_neox) if given.gpt_neox else open_in_core
    for source in manifest["sources"]:
        for split in ("train", "val"):
            sys.stdout.write(check_split(open_dataset, given, source, split, equal) + "\n")
    write_equal(equal)


if __name__ == "__main__":
    main()
