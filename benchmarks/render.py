"""Measure rendering conversations, with nanochat's method, and with encoding the same texts.

    python benchmarks/render.py --learn 'english/*.parquet' --chats 'chat/*.jsonl' [--save]
    python benchmarks/render.py --learn 'english/*.parquet' --made 'more/*.parquet' [--save]

A tokenizer is learned from the parquet files; the conversations are JSON lines, or for larger runs
made of the paragraphs of other parquet files, four messages each. Three engines run on one thread
each, in new processes in turn:

  nanotok_ray   JSON lines to ids, labels and offsets, in batches like those of the job
  reference     nanochat's method: json.loads, its rendering in Python, tiktoken's encode_ordinary
  plain texts   `encode_documents` of the texts of the conversations, each as a document

The ids and masks of the first two must be equal. Printed are conversations and megabytes of text
per second, for the first pass of a process (as in a task) and for the third, and the medians over
rounds of the ratios.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from corpora import read_texts
from frame import (
    Figures,
    Runs,
    assert_same,
    files_of,
    finish,
    fresh,
    in_turn,
    median,
    parser,
    ratio,
    run,
    show,
)
from nanotok_ray.chat import conversation as chat
from nanotok_ray.chat import texts_of
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer

MESSAGES = Dialect(kind="chat", name="messages")
BATCH = 1024
"""Conversations of a batch, as in the job."""
PASSES = ("first", "third")

Lists = tuple[list[Any], list[Any]]
Work = Callable[[], Lists]


def main() -> None:
    """Measure what the command line names."""
    command = parser(__doc__, vocab_size=32768, repeats=5)
    command.add_argument("--learn", type=files_of, required=True, help="glob of parquet files")
    chats = command.add_mutually_exclusive_group(required=True)
    chats.add_argument("--chats", type=files_of, help="glob of JSON lines of messages")
    chats.add_argument("--made", type=files_of, help="glob of parquet files to make them of")
    options = command.parse_args()
    timed = options.chats or options.made
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Tokenizer.train_from_iterator(read_texts(options.learn), options.vocab_size).save(folder)
        files = options.chats or [make_chats(read_texts(timed), folder)]
        works = {each: partial(fresh, render, each, folder, *files) for each in ENGINES}
        runs = in_turn(works, options.repeats)
    assert_same({each: runs[each] for each in ("nanotok_ray", "reference")}, "answer", "ids, masks")
    assert_same(runs, "text_bytes", "bytes of texts")
    row = {"repeats": options.repeats, "passes": [row_of(runs, each) for each in PASSES]}
    names = [f"{path.parent.name}/{path.stem}" for path in timed]
    finish("render", names, row, peers=["tiktoken"], save=options.save)


def make_chats(texts: list[str], folder: Path) -> Path:
    """Write conversations of four paragraphs each."""
    paragraphs = [each for text in texts for each in text.split("\n\n") if each.strip()]
    path = folder / "made.jsonl"
    with path.open("w") as file:
        for start in range(0, len(paragraphs) - 3, 4):
            said = zip(("user", "assistant") * 2, paragraphs[start : start + 4], strict=True)
            messages = [{"role": role, "content": content} for role, content in said]
            file.write(json.dumps(messages, ensure_ascii=False) + "\n")
    return path


def row_of(runs: Runs, which: str) -> Figures:
    """Print and return the figures of one pass."""
    one = runs["nanotok_ray"][0]
    size, count = one["text_bytes"] / 1e6, one["conversations"]
    row: Figures = {"pass": which, "conversations": count, "megabytes": round(size, 2)}
    for name, own in runs.items():
        seconds = median(own, which)
        rates = {
            "conversations_per_second": round(count / seconds),
            "megabytes_per_second": round(size / seconds, 1),
        }
        row[name] = show(name, rates)
        if name != "nanotok_ray":
            row[f"ratio to {name}"] = round(ratio(runs, name, "nanotok_ray", which), 2)
    return show("render", row)


def render(engine: str, folder: str, *files: str) -> Figures:
    """Render three times with one method; reading tokenizer and lines is not timed."""
    lines = [line for file in files for line in Path(file).read_bytes().split(b"\n") if line]
    text_bytes = texts_of(MESSAGES, Documents.from_bytes(lines)).texts.num_bytes
    work = ENGINES[engine](Tokenizer.load(folder), lines)
    seconds: list[float] = []
    lists: Lists = ([], [])
    for _ in range(3):
        lists = ([], [])
        start = time.perf_counter()
        lists = work()
        seconds.append(time.perf_counter() - start)
    parts = zip(lists, ("<u4", "u1"), strict=True)
    answer = b"".join(np.asarray(one).astype(kind).tobytes() for own, kind in parts for one in own)
    return {
        "first": seconds[0],
        "third": seconds[-1],
        "conversations": len(lines),
        "text_bytes": text_bytes,
        "answer": hashlib.sha256(answer).hexdigest(),
    }


def batches_of(lines: list[bytes]) -> list[Documents]:
    """Return batches of conversations, as in the job."""
    return [Documents.from_bytes(lines[n : n + BATCH]) for n in range(0, len(lines), BATCH)]


def ours(tokenizer: Tokenizer, lines: list[bytes]) -> Work:
    """Convert JSON lines to arrays, a batch at a time."""
    renderer, batches = tokenizer.batch_renderer(MESSAGES), batches_of(lines)

    def work() -> Lists:
        rendered = [renderer.render(batch) for batch in batches]
        assert not any(each.problems for each in rendered)
        return [each.ids for each in rendered], [each.mask for each in rendered]

    return work


def reference(tokenizer: Tokenizer, lines: list[bytes]) -> Work:
    """Render one conversation after the other, as nanochat does."""
    encode, special = tokenizer.to_tiktoken().encode_ordinary, tokenizer.encode_special

    def work() -> Lists:
        ids, masks = [], []
        for line in lines:
            own, mask = chat.render(
                encode, special, {"messages": json.loads(line)}, max_tokens=None
            )
            ids.append(own)
            masks.append(mask)
        return ids, masks

    return work


def plain_texts(tokenizer: Tokenizer, lines: list[bytes]) -> Work:
    """Encode the texts of the conversations, each as a document."""
    batches = [texts_of(MESSAGES, batch).texts for batch in batches_of(lines)]
    return lambda: ([tokenizer.encode_documents(batch)[0] for batch in batches], [])


ENGINES: dict[str, Callable[[Tokenizer, list[bytes]], Work]] = {
    "nanotok_ray": ours,
    "reference": reference,
    "plain texts": plain_texts,
}

if __name__ == "__main__":
    run(main)
