"""mosaicml-streaming's own reader with hash validation, and its writer's bytes, part by part.

pip install torch mosaicml-streaming==0.13.0 numpy

Streaming imports torchvision only for its vision datasets; an empty module is sufficient here.
"""

import importlib.machinery
import json
import sys
import tempfile
import types
from pathlib import Path

import numpy as np

from tests.peers.native_output import Place, Tally, run


def stand_in_for_torchvision() -> None:
    import transformers  # noqa: F401, PLC0415 - first, as it asks whether there is a torchvision

    for name in ("", ".transforms", ".transforms.functional", ".datasets"):
        module = types.ModuleType(f"torchvision{name}")
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None, is_package=True)
        module.__path__ = []
        sys.modules.setdefault(module.__name__, module)
    sys.modules["torchvision.datasets"].VisionDataset = object
    sys.modules["torchvision.transforms.functional"].to_tensor = None


def check(place: Place, export: Path, tally: Tally) -> None:
    from streaming import StreamingDataset  # noqa: PLC0415

    folder = export / place.name
    shards = place.shards
    numbers = [number for number in range(len(shards)) if len(shards[number])]
    with tempfile.TemporaryDirectory() as copy:
        for kind, where in (
            ("documents", {"local": str(folder), "remote": None}),
            ("documents of parts with valid hashes", {"local": copy, "remote": str(folder)}),
        ):  # hashes are checked only when parts are fetched
            data = StreamingDataset(**where, shuffle=False, batch_size=1, validate_hash="sha1")
            tally.compare("datasets", f"length of {place.name}", len(data) == len(numbers))
            for row, number in enumerate(numbers):
                same = equal_sample(data[row], shards, number)
                tally.compare(kind, f"{place.name} {number}", same)
    index = json.loads((folder / "index.json").read_bytes())["shards"]
    for name, documents in place.by_shard():
        check_bytes(place, name, documents, index=index, folder=folder, tally=tally)


def equal_sample(sample: dict, shards, number: int) -> bool:
    ids, mask = shards[number], shards.mask(number)
    same = sample["tokens"].dtype == ids.dtype and np.array_equal(sample["tokens"], ids)
    same = same and ("loss_mask" in sample) == (mask is not None)
    if mask is not None:
        same = same and np.array_equal(sample["loss_mask"], mask)
    return same and sample.get("id", "") == (shards.document_id(number) or "")


def check_bytes(
    place: Place, name: str, documents: range, *, index: list[dict], folder: Path, tally: Tally
) -> None:
    """Write the documents of a shard with MDSWriter: the parts are equal except for their names.

    Before a document above the limit, MDSWriter also writes an empty part if nothing precedes it.
    """
    from streaming import MDSWriter  # noqa: PLC0415

    stem = f"{name.rpartition('/')[2]}."
    own = [entry for entry in index if entry["raw_data"]["basename"].startswith(stem)]
    if not own:
        empty = not any(len(place.shards[number]) for number in documents)
        tally.compare("shards of empty documents", name, empty)
        return
    first = own[0]
    columns = dict(zip(first["column_names"], first["column_encodings"], strict=True))
    with tempfile.TemporaryDirectory() as scratch:
        with MDSWriter(
            out=f"{scratch}/w", columns=columns, hashes=["sha1"], size_limit=first["size_limit"]
        ) as writer:
            for number in documents:
                if len(place.shards[number]):
                    writer.write(sample_of(place.shards, number, columns))
        theirs = json.loads(Path(f"{scratch}/w/index.json").read_bytes())["shards"]
        theirs = [entry for entry in theirs if entry["samples"]]
        tally.compare("shards", f"number of parts of {name}", len(theirs) == len(own))
        for ours, other in zip(own, theirs, strict=False):
            part, base = ours["raw_data"]["basename"], other["raw_data"].pop("basename")
            same = (folder / part).read_bytes() == Path(f"{scratch}/w/{base}").read_bytes()
            tally.compare("parts as MDSWriter writes them", part, same)
            said = ours | {"raw_data": dict(ours["raw_data"])}
            del said["raw_data"]["basename"]
            tally.compare("index entries as MDSWriter writes them", part, said == other)


def sample_of(shards, number: int, columns: dict[str, str]) -> dict:
    sample = {"tokens": np.array(shards[number])}
    if "loss_mask" in columns:
        sample["loss_mask"] = np.array(shards.mask(number))
    if "id" in columns:
        sample["id"] = shards.document_id(number) or ""
    return sample


if __name__ == "__main__":
    stand_in_for_torchvision()
    run(check)
