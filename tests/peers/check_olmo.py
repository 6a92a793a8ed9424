"""Compare every document of an export --to olmo with its output, with OLMo-core's own classes.

The environment needs ai2-olmo-core with torch, and numpy for this project. Ids and masks are
compared with the native output. Peers are imported in functions, since pytest searches all modules
for doctests.
"""

import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from tests.peers.native_output import Place, Tally, run

LENGTH = 1024


def native(place, end):
    """Return ids and mask of every document by shard, with the end token at its end."""
    shards, found = place.shards, {}
    for number in range(len(shards)):
        ids, mask = shards[number].astype(np.int64), shards.mask(number)
        mask = None if mask is None else mask.astype(bool)
        if end not in ids:
            ids, mask = np.append(ids, end), None if mask is None else np.append(mask, False)
        elif ids[-1] != end or len(ids) == 1:
            ids, mask = np.roll(ids, -1), None if mask is None else np.roll(mask, -1)
        assert np.flatnonzero(ids == end).tolist() == [len(ids) - 1], (place.name, number)
        found.setdefault(shards.shard_of(number)[0], []).append((ids, mask))
    return found


def check_scans(path, documents, dtype, end):
    """Compare both ways of finding documents: the csv.gz, and the end tokens."""
    from olmo_core.data.utils import iter_document_indices  # noqa: PLC0415

    by_index = list(iter_document_indices(path, use_array_if_local=False, dtype=dtype))
    by_scan = list(iter_document_indices(path, eos_token_id=end, dtype=dtype))
    assert by_index == by_scan, f"{path}: its csv.gz and a scan find other documents"
    assert len(by_scan) == len(documents), f"{path}: {len(by_scan)} documents"
    data = np.memmap(path, dtype=dtype, mode="r")
    for (start, stop), (ids, _) in zip(by_scan, documents, strict=True):
        assert np.array_equal(data[start:stop], ids), f"{path}: tokens {start} to {stop}"
    return len(by_scan)


def check_fixed(paths, documents, options):
    """Compare every instance of a fixed length and its mask with the joined native documents."""
    from olmo_core.data.numpy_dataset import NumpyFSLDataset  # noqa: PLC0415

    dataset, number = NumpyFSLDataset(*paths, generate_doc_lengths=True, **options), 0
    for path, own in zip(paths, documents, strict=True):
        ids = np.concatenate([one for one, _ in own])
        masks = None if own[0][1] is None else np.concatenate([mask for _, mask in own])
        for start in range(0, len(ids) - LENGTH + 1, LENGTH):
            item, part = dataset[number], slice(start, start + LENGTH)
            assert np.array_equal(item["input_ids"].numpy(), ids[part]), f"{path} at {start}"
            if masks is not None:
                assert np.array_equal(item["label_mask"].numpy(), masks[part]), f"{path} at {start}"
            number += 1
    assert number == len(dataset)
    return number


def check_packed(paths, documents, options):
    """Compare the documents of all packed instances, cut at their length, with native ones."""
    from olmo_core.data.numpy_dataset import NumpyPackedFSLDataset  # noqa: PLC0415
    from olmo_core.data.types import LongDocStrategy  # noqa: PLC0415

    packed = []
    for use_array in (False, None):  # with the csv.gz, and with a scan
        dataset = NumpyPackedFSLDataset(
            *paths,
            long_doc_strategy=LongDocStrategy.fragment,
            use_array_if_local=use_array,
            generate_doc_lengths=use_array is False,
            **options,
        )
        dataset.work_dir = tempfile.mkdtemp()
        dataset.prepare()
        packed.append(dataset)
    wanted, found = Counter(), Counter()
    for ids, mask in (one for own in documents for one in own):
        own_mask = np.ones(len(ids), bool) if mask is None else mask
        for start in range(0, len(ids), LENGTH):
            part = slice(start, start + LENGTH)
            wanted[ids[part].tobytes(), own_mask[part].tobytes()] += 1
    assert len(packed[0]) == len(packed[1])
    for number in range(len(packed[0])):
        item, other = packed[0][number], packed[1][number]
        ids, mask = item["input_ids"].numpy(), item["label_mask"].numpy()
        assert np.array_equal(ids, other["input_ids"].numpy()), number
        assert np.array_equal(mask, other["label_mask"].numpy()), number
        ends = np.cumsum(item["doc_lens"].numpy())
        for part in map(slice, [0, *ends[:-1].tolist()], ends.tolist()):
            if ids[part.start] == options["pad_token_id"]:
                assert (ids[part] == options["pad_token_id"]).all()
                assert not mask[part].any()
            else:
                found[ids[part].tobytes(), mask[part].tobytes()] += 1
    assert found == wanted, (
        f"{(wanted - found).total()} pieces missing, {(found - wanted).total()} new"
    )
    return len(packed[0]), found.total()


def check(place: Place, export: Path, tally: Tally) -> None:
    """Check the shards of one source and split."""
    export_json, manifest = export / "export.json", place.manifest
    options = json.loads(export_json.read_text())["options"] if export_json.exists() else {}
    end = manifest["special_tokens"][options.get("end_token", "<|bos|>")]
    dtype = {2: np.uint16, 4: np.uint32}[manifest["item_bytes"]]
    shards = native(place, end)
    paths, masks = (
        sorted((export / place.name).glob(pattern)) for pattern in ("*.npy", "*.label_mask")
    )
    names = [path.relative_to(export).as_posix().removesuffix(".npy") for path in paths]
    assert names == sorted(shards), f"{place.name}: {names}, not {sorted(shards)}"
    documents = [shards[name] for name in names]
    assert len(masks) == (len(paths) if documents[0][0][1] is not None else 0)
    number = sum(map(check_scans, paths, documents, [dtype] * len(paths), [end] * len(paths)))
    options = {
        "sequence_length": LENGTH,
        "pad_token_id": manifest["num_ids"],  # not the id of any document
        "eos_token_id": end,
        "vocab_size": manifest["num_ids"] + 1,
        "dtype": dtype,
        "label_mask_paths": masks or None,
    }
    fixed = check_fixed(paths, documents, options)
    packed, pieces = check_packed(paths, documents, options)
    trained = sum(int(mask.sum()) for own in documents for _, mask in own if mask is not None)
    tally.count(shards=len(paths), documents=number, instances=fixed)
    tally.count(**{"packed instances": packed, "documents or parts in them": pieces})
    tally.count(**{"ids to train on by masks": trained})


if __name__ == "__main__":
    run(check)
