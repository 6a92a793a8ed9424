"""A real job's output for the peers: texts with and without ids, chats, documents with images.

The input is the demo's corpus and a folder; the result is the output of the job and its inputs.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

RECIPE = Path(__file__).with_name("recipe.toml")

PAGES = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A finished output, and the inputs on which its tokenizer is compared."""

    out: Path
    texts: tuple[Path, ...]
    """Folders of parquet with a column `text`."""
    chats: tuple[Path, ...]
    """Files of JSON lines."""


def made_by_a_job(demo: Path, folder: Path) -> Made:
    """Run the job of recipe.toml; repeating the call does nothing."""
    corpus = demo / "corpus"
    docs = [text for path in sorted((corpus / "docs").glob("*.parquet")) for text in texts_of(path)]
    write_named(docs, folder / "corpus/named/part-0.parquet")
    write_pages(docs[:PAGES], folder / "corpus/pages/part-0.jsonl")
    subprocess.run(
        [sys.executable, "-m", "jobs.prepare", str(RECIPE), "--cpus", "2"],
        check=True,
        env=os.environ | {"NANOTOK_DEMO_DIR": str(demo), "NANOTOK_PEERS_DIR": str(folder)},
        stdout=subprocess.DEVNULL,  # one line of JSON; people read stderr
    )
    return Made(
        out=folder / "out",
        texts=(corpus / "code", folder / "corpus/named"),
        chats=tuple(sorted((corpus / "doctests").glob("*.jsonl"))),
    )


def texts_of(path: Path) -> list[str]:
    """Return the texts of a parquet file."""
    return pq.read_table(path, columns=["text"]).column(0).to_pylist()


def write_named(docs: list[str], path: Path) -> None:
    """Write each text with the dotted name at its beginning, and one empty text."""
    rows = {"name": [doc.partition("\n")[0] for doc in docs] + ["nothing"], "text": [*docs, ""]}
    _write(path, lambda: pq.write_table(pa.table(rows), path, row_group_size=256))


def write_pages(docs: list[str], path: Path) -> None:
    r"""Write documents with zero to two images of one to seven tokens each.

    >>> page(1, "It opens a file.")["prompt"]
    '<image>\nWhat does it say?'
    """
    lines = [json.dumps(page(number, doc)) for number, doc in enumerate(docs)]
    _write(path, lambda: path.write_text("\n".join(lines) + "\n"))


def page(number: int, text: str) -> dict[str, object]:
    """Return a document of the dialect `prompt-response`."""
    counts = [1 + (number + place) % 7 for place in range(number % 3)]
    prompt = "<image>" * len(counts) + "\nWhat does it say?"
    return {"prompt": prompt, "response": text, "image_token_counts": counts}


def _write(path: Path, write) -> None:
    """Write a file once: writing the same bytes again would change the job's input."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write()
