"""Compare an llmc export with its output, document by document, with the peers' readers.

Needs numpy, torch and nemo-automodel (without its dependencies). With a checkout of llm.c
(`--llm-c`), its Python loader reads all files too, and its C loader, which is compiled here, those
with ids of 2 bytes; ids of 4 bytes have no other reader.
"""

import ast
import importlib.util
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.peers.native_output import Place, Tally, module_of, run, same

BOS = "<|bos|>"
WINDOW = 255
"""Tokens of a sample of nemo-automodel, and of a batch of llm.c."""

C_PROGRAM = r"""
#include "llmc/dataloader.h"
int main(int argc, char **argv) {
    DataLoader loader;
    size_t T = (size_t) atoi(argv[2]);
    dataloader_init(&loader, argv[1], 1, T, 0, 1, 0);
    for (size_t shard = 0; shard < loader.glob_result.gl_pathc; shard++) {
        size_t batches = loader.shard_num_samples;
        for (size_t i = 0; i < batches; i++) {
            dataloader_next_batch(&loader);
            fwrite(loader.inputs, sizeof(int), T, stdout);
        }
        if (shard + 1 < loader.glob_result.gl_pathc) { dataloader_advance_(&loader); }
    }
    dataloader_free(&loader);
    return 0;
}
"""


@cache
def nemo() -> Any:
    """Import only nemo-automodel's reader, since its package would import transformers."""
    found = importlib.util.find_spec("nemo_automodel")
    if found is None or found.origin is None:
        raise SystemExit("nemo-automodel is not installed")
    path = Path(found.origin).parent / "components/datasets/llm/nanogpt_dataset.py"
    return module_of(path)


def python_loader(checkout: Path, item_bytes: int) -> Callable[[str], Any]:
    """Return the function that reads a shard from llm.c's training script."""
    path = checkout / ("train_gpt2.py" if item_bytes == 2 else "train_llama3.py")
    tree = ast.parse(path.read_text())
    wanted = [one for one in tree.body if getattr(one, "name", None) == "_load_data_shard"]
    space: dict[str, Any] = {"np": np}
    exec(compile(ast.Module(wanted, []), str(path), "exec"), space)
    return space["_load_data_shard"]


def check_documents(ids: Any, starts: Any, native: Iterator[Any], what: str) -> int:
    """Compare a file, split at the starts of its documents, with the native documents."""
    ends = [*starts[1:].tolist(), len(ids)]
    for number, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
        own = next(native, None)
        if own is None:
            raise SystemExit(f"DIFFERENT: {what} has more documents than the native shards")
        same(ids[start:end], own, f"{what}, document {number}")
    return len(starts)


def check_samples(files: list[Path], bos: int, *, aligned: bool) -> int:
    """Compare one epoch of NanogptDataset with the content of the files."""
    wanted = []
    for path in files:
        ids = np.fromfile(path, "<u2", offset=1024)
        starts = np.flatnonzero(ids == bos)
        position = 0
        while position + WINDOW < len(ids):
            wanted.append(ids[position : position + WINDOW + 1])
            position += WINDOW + 1
            if aligned:
                rest = starts[np.searchsorted(starts, position) :]
                position = int(rest[0]) if len(rest) else len(ids)
    data = nemo().NanogptDataset(
        [str(path) for path in files], WINDOW, bos_token=bos, align_to_bos=aligned
    )
    samples = islice(iter(data), len(wanted))
    for number, (sample, own) in enumerate(zip(samples, wanted, strict=True)):
        same(sample["input_ids"], own[:-1], f"sample {number}")
        same(sample["labels"], own[1:], f"labels of sample {number}")
    return len(wanted)


def check_c_loader(checkout: Path, pattern: str, files: list[Path]) -> int:
    """Compare one epoch of llm.c's C loader with the files."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "loader"
        source = program.with_suffix(".c")
        source.write_text(C_PROGRAM)
        command = ["cc", "-O1", "-w", f"-I{checkout}", "-o", str(program), str(source), "-lm"]
        subprocess.run(command, check=True)
        done = subprocess.run(
            [str(program), pattern, str(WINDOW)], check=True, stdout=subprocess.PIPE
        )
    read = np.frombuffer(done.stdout, "<i4")
    wanted = []
    for path in files:
        ids = np.fromfile(path, "<u2", offset=1024)
        wanted.append(ids[: (len(ids) - 1) // WINDOW * WINDOW])
    same(read, np.concatenate(wanted), f"{pattern} in llm.c's C loader")
    return len(read)


def readers_of(checkout: Path | None, item_bytes: int) -> dict[str, Callable[[str], Any]]:
    """Return functions that read the ids of a whole file, by name."""
    readers: dict[str, Callable[[str], Any]] = {}
    if item_bytes == 2:
        readers["nemo-automodel"] = lambda path: nemo().load_bin_shard(path).numpy()
    if checkout:
        readers["llm.c's Python loader"] = python_loader(checkout, item_bytes)
    if not readers:
        raise SystemExit("ids of 4 bytes: only llm.c's train_llama3.py reads them: --llm-c")
    return readers


def check(place: Place, export: Path, tally: Tally, checkout: Path | None) -> None:
    """Check the files of a source and split."""
    bos, item_bytes = place.manifest["special_tokens"][BOS], place.manifest["item_bytes"]
    pattern = f"{place.name.replace('/', '_')}_*.bin"
    files = sorted((export / place.name).glob(pattern))
    native = iter(place.shards)
    readers = readers_of(checkout, item_bytes)
    documents = tokens = 0
    for path in files:
        starts = np.fromfile(path.with_suffix(".bos.idx"), "<i4")
        ids = [read(str(path)) for read in readers.values()]
        for name, own in zip(readers, ids, strict=True):
            same(np.flatnonzero(own == bos), starts, f"BOS in {path} in {name}")
            same(own, ids[0], f"{path} in {name}")
        documents += check_documents(ids[0], starts, native, str(path))
        tokens += len(ids[0])
    same(documents, len(place.shards), f"number of documents of {place.name}")
    tally.count(files=len(files), documents=documents, tokens=tokens)
    if item_bytes == 2:
        samples = sum(check_samples(files, bos, aligned=own) for own in (False, True))
        tally.count(**{"samples of NanogptDataset": samples})
        if checkout:
            batched = check_c_loader(checkout, str(export / place.name / pattern), files)
            tally.count(**{"tokens in batches of llm.c's C loader": batched})


if __name__ == "__main__":
    run(check, checkout="--llm-c")
