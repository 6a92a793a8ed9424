"""Run one method of rendering conversations in this process, on one thread, three times.

    python benchmarks/one_render.py ENGINE TOKENIZER FILE...

Loading the tokenizer and the lines of the files is not timed. ENGINES lists the methods. Prints
one line of JSON: seconds of the first and third pass, and the hash of ids and masks.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nanotok_ray.chat import conversation as chat
from nanotok_ray.chat import texts_of
from nanotok_ray.dialects import Dialect
from nanotok_ray.documents import Documents
from nanotok_ray.tokenizer import Tokenizer

MESSAGES = Dialect(kind="chat", name="messages")
BATCH = 1024
"""Conversations of a batch, as in the job."""

Lists = tuple[list[Any], list[Any]]
Work = Callable[[], Lists]


def main() -> None:
    """Measure what the command line names."""
    engine, folder, *files = sys.argv[1:]
    tokenizer = Tokenizer.load(folder)
    lines = [line for file in files for line in Path(file).read_bytes().split(b"\n") if line]
    text_bytes = texts_of(MESSAGES, Documents.from_bytes(lines)).texts.num_bytes
    work = ENGINES[engine](tokenizer, lines)
    seconds: list[float] = []
    ids: list[Any] = []
    mask: list[Any] = []
    for _ in range(3):
        ids, mask = [], []
        start = time.perf_counter()
        ids, mask = work()
        seconds.append(time.perf_counter() - start)
    figures = {
        "first": seconds[0],
        "third": seconds[-1],
        "conversations": len(lines),
        "text_bytes": text_bytes,
        "answer": hashlib.sha256(_joined(ids, "<u4") + _joined(mask, "u1")).hexdigest(),
    }
    print(json.dumps(figures))


def ours(tokenizer: Tokenizer, lines: list[bytes]) -> Work:
    """Convert JSON lines to arrays, a batch at a time."""
    renderer = tokenizer.batch_renderer(MESSAGES)
    batches = [Documents.from_bytes(lines[n : n + BATCH]) for n in range(0, len(lines), BATCH)]

    def work() -> Lists:
        rendered = [renderer.render(batch) for batch in batches]
        assert not any(each.problems for each in rendered)
        return [each.ids for each in rendered], [each.mask for each in rendered]

    return work


def reference(tokenizer: Tokenizer, lines: list[bytes]) -> Work:
    """Render one conversation after the other, as nanochat does."""
    encode = tokenizer.to_tiktoken().encode_ordinary

    def work() -> Lists:
        ids, masks = [], []
        for line in lines:
            conversation = {"messages": json.loads(line)}
            own, mask = chat.render(encode, tokenizer.encode_special, conversation, max_tokens=None)
            ids.append(own)
            masks.append(mask)
        return ids, masks

    return work


def plain_texts(tokenizer: Tokenizer, lines: list[bytes]) -> Work:
    """Encode the texts of the conversations, each as a document."""
    batches = [
        texts_of(MESSAGES, Documents.from_bytes(lines[n : n + BATCH])).texts
        for n in range(0, len(lines), BATCH)
    ]
    return lambda: ([tokenizer.encode_documents(batch)[0] for batch in batches], [])


ENGINES: dict[str, Callable[[Tokenizer, list[bytes]], Work]] = {
    "nanotok_ray": ours,
    "reference": reference,
    "plain texts": plain_texts,
}


def _joined(parts: list[Any], kind: str) -> bytes:
    """Return all numbers of some arrays or lists as bytes."""
    return b"".join(np.asarray(part).astype(kind).tobytes() for part in parts)


if __name__ == "__main__":
    main()
