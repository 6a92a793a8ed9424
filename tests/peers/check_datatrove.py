"""datatrove's own reader and merger: every window with its positions, every token and mask.

pip install torch datatrove==0.10.1 numpy   (it also imports loguru dill multiprocess rich)
"""

import tempfile
from pathlib import Path

import numpy as np
from datatrove.pipeline.tokens.merger import DocumentTokenizerMerger
from datatrove.utils.dataset import DatatroveFolderDataset

from tests.peers.native_output import Place, Tally, run

WINDOW = 1025


def check(place: Place, export: Path, tally: Tally) -> None:
    shards = {f"{name}.ds": documents for name, documents in place.by_shard()}
    check_windows(place, shards, export, tally)
    check_merged(place, shards, export, tally)


def check_windows(place: Place, shards: dict[str, range], export: Path, tally: Tally) -> None:
    """Check each file's windows, and the position of each token in its document."""
    data = DatatroveFolderDataset(
        str(export / place.name),
        seq_len=WINDOW - 1,
        filename_pattern="*.ds",
        token_size=place.shards[0].itemsize,
        return_positions=True,
    )
    first = 0
    for file in data.files:
        name = f"{place.name}/{Path(file.file_path).name}"
        if name not in shards:
            tally.compare("files without a document", name, len(file) == 0)
            continue
        flat = place.ids_of(shards[name])
        lengths = [len(place.shards[number]) for number in shards[name]]
        begins = np.repeat(np.cumsum([0, *lengths[:-1]]), lengths)
        for number in range(len(flat) // WINDOW):
            window = slice(number * WINDOW, (number + 1) * WINDOW)
            found = data[first + number]
            positions = np.arange(window.start, window.stop)
            positions -= np.maximum(begins[window], window.start)
            same = np.array_equal(found["input_ids"].numpy(), flat[window])
            tally.compare("windows", f"{name} {number}", same)
            same = np.array_equal(found["positions"].numpy(), positions)
            tally.compare("positions of windows", f"{name} {number}", same)
        tally.compare("files", f"length of {name}", len(file) == len(flat) // WINDOW)
        first += len(file)
    known = {f"{place.name}/{Path(file.file_path).name}" for file in data.files}
    tally.compare("folders", f"files of {place.name}", known >= set(shards))


def check_merged(place: Place, shards: dict[str, range], export: Path, tally: Tally) -> None:
    """Merge all files in the order of their names, and check every token and mask."""
    order = [shards[name] for name in sorted(shards)]
    masks = [place.mask_of(documents) for documents in order]
    with tempfile.TemporaryDirectory() as folder:
        DocumentTokenizerMerger(
            str(export / place.name),
            folder,
            "merged",
            shuffle=False,
            save_loss_metadata=masks[0] is not None,
            progress=False,
        ).run()
        merged = Path(folder) / "000_merged.ds"
        want = b"".join(place.ids_of(documents).tobytes() for documents in order)
        tally.compare("merged files", f"ids of {place.name}", merged.read_bytes() == want)
        lengths = [len(place.shards[number]) for documents in order for number in documents]
        ends = np.fromfile(f"{merged}.index", dtype="<u8")
        same = np.array_equal(ends, np.cumsum(lengths))
        tally.compare("merged indices", f"index of {place.name}", same)
        if masks[0] is not None:
            loss = np.fromfile(f"{merged}.loss", dtype=np.uint8)
            same = np.array_equal(loss, np.concatenate(masks))
            tally.compare("merged masks", f"masks of {place.name}", same)


if __name__ == "__main__":
    run(check)
