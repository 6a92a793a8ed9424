"""The stored files that are made from the code, which `make golden` writes.

    python -m tests.support.golden_files

writes every file format as small files to tests/golden (docs/formats.md describes their bytes), and
the help of all commands to tests/cli/golden/help.txt. Review the changes as a diff.
"""

import shutil
from pathlib import Path

import numpy as np

from nanotok_ray.counts import SpanCounts
from nanotok_ray.exports import LAYOUTS, parse_layout
from nanotok_ray.formats import DocumentBatch, suffixes_of
from nanotok_ray.shards import ShardFiles
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.doc_commands import walk
from tests.support.made_output import BOS, END, MadeSource, export_here, made_output

TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden"
HELP = TESTS / "cli/golden/help.txt"
OLD_OUTPUTS = GOLDEN / "outputs_b6d410be"
"""Outputs of an earlier commit, which are never rewritten; see `golden_jobs`."""

TEXTS = ["low lower lowest", "new newer newest", "wide widest", "caf\u00e9 \u65e5\u672c"]
WEB = [
    MadeSource(name="web", shards=[[[BOS, 5, 6, 7], [BOS]], [[BOS, 65535, 0]]]),
    MadeSource(name="web", split="val", shards=[[[BOS, 9]]]),
]
CHAT = MadeSource(
    name="chat",
    kind="chat",
    shards=[[[BOS, 1, 2, 3, END], [BOS, 4, END]]],
    with_document_ids=True,
)


def write_golden_files(root: Path) -> None:
    """Write all files to a folder; their bytes depend neither on place nor on time."""
    _write_tokenizer(root / "tokenizer")
    counts = SpanCounts("nanochat", num_threads=1)
    counts.update(TEXTS)
    counts.save(str(root / "counts/counts.arrow"))
    made_output(root / "output", *WEB, CHAT)
    _write_vision(Folder(str(root / "vision")))
    for item_bytes, name in ((2, "export"), (4, "export-uint32")):
        out = made_output(root / "native", *WEB, CHAT, item_bytes=item_bytes)
        for layout in LAYOUTS:
            export_here(out, parse_layout(layout), Folder(str(root / name / layout)))
        shutil.rmtree(root / "native")
        for layout in ("parquet", "packed"):  # whose records have the sha256 of Arrow's bytes
            shutil.rmtree(root / name / layout / "records", ignore_errors=True)


def _write_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer.train_from_iterator(TEXTS, vocab_size=275)
    tokenizer.save(str(folder))


def _write_vision(out: Folder) -> None:
    files = ShardFiles(
        out, "pages", item_bytes=2, suffixes=suffixes_of("vision", with_document_ids=False)
    )
    ids = np.array([BOS, 7, 7, 7, 5, BOS, 6, END], dtype=np.uint16)
    mask = np.array([0, 0, 0, 0, 1, 0, 1, 1], dtype=np.uint8)
    images = np.array([[0, 1, 2], [0, 2, 4]])
    files.write(DocumentBatch(ids=ids, positions=np.array([0, 5, 8]), mask=mask, images=images))
    files.close()


def whole_help() -> str:
    """Return the help of all commands."""
    own = (f"$ {context.command_path} --help\n{context.get_help()}" for context in walk())
    return "\n\n".join(own) + "\n"


if __name__ == "__main__":
    for path in GOLDEN.iterdir():
        if path != OLD_OUTPUTS:
            shutil.rmtree(path)
    write_golden_files(GOLDEN)
    HELP.write_text(whole_help(), "utf-8")
