"""Shards of generated vision documents with their record, from one slice without a job."""

import json
from pathlib import Path

import numpy as np

from nanotok_ray.chat import compose, segments_of
from nanotok_ray.formats import (
    PLAN_NAME,
    TOKENIZER_FOLDER,
    DocumentBatch,
    ShardRecord,
    file_values,
    from_values,
    to_json,
)
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.shards import (
    assemble,
    expected_records,
    read_record,
    tokenize_slices,
)
from nanotok_ray.shards.settings import dialect_of
from nanotok_ray.sources import plan_to_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import plan_of, shard_settings, texts

IMAGE = "<image>"


def documents_with_images(count: int) -> list[bytes]:
    """Return conversations with zero to two images: adjacent, at the end or between texts."""
    made = []
    for number in range(count):
        counts = [1 + (number + place) % 4 for place in range(number % 4)]
        question = ("", "what is <image>", "<image><image> same?", "<image>a<image>b<image>")
        messages = [
            {"role": "user", "content": question[number % 4] or "no picture"},
            {"role": "assistant", "content": f"answer {number}, no <image>"},
        ]
        made.append(json.dumps({"messages": messages, "image_token_counts": counts}).encode())
    return made


class VisionShards:
    """One slice of vision documents, written to a folder; `composed` is the reference."""

    def __init__(self, root: Path, documents: list[bytes], *, max_shard_tokens: int = 10**6):
        self.documents = documents
        self.tokenizer = Tokenizer.train_from_iterator(
            texts(40, seed=0), vocab_size=330, special_tokens=[*SPECIAL_TOKENS, IMAGE]
        )
        self.settings = shard_settings(
            self.tokenizer, prepend=(), image_token=IMAGE, max_shard_tokens=max_shard_tokens
        )
        dialect = dialect_of(self.settings, "vision", "messages")
        encode, encode_special = self.tokenizer.encode, self.tokenizer.encode_special
        self.composed = [
            compose(encode, encode_special, segments_of(document, dialect))
            for document in documents
        ]
        path = root / "in/a.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(document + b"\n" for document in documents))
        self._plan = plan_of(path, name="pics", kind="vision")
        [self.slice] = self._plan.slices()
        self.out = Folder(str(root / "out"))
        [record] = tokenize_slices(
            [self.slice], self.settings, tokenizer=self.tokenizer, out=self.out
        )
        self.values = file_values(record)
        """The record as JSON values, which tests change."""

    @property
    def record(self) -> ShardRecord:
        """The record of these values."""
        return from_values(ShardRecord, self.values, name="record")

    @property
    def rendered(self) -> DocumentBatch:
        """The documents of the reference as one batch."""
        return DocumentBatch(
            ids=np.array([n for own in self.composed for n in own.ids], dtype=np.uint16),
            positions=np.cumsum([0, *(len(own.ids) for own in self.composed)]),
            mask=np.array([n for own in self.composed for n in own.mask], dtype=np.uint8),
            images=np.array(
                [(n, *span) for n, own in enumerate(self.composed) for span in own.images]
            ).reshape(-1, 3),
        )

    def publish(self) -> Path:
        """Write the other files of a job, and return the output folder."""
        settings = {"pics": self.settings}
        [expected] = expected_records(self._plan, settings)
        self.out.write_bytes(expected.record_name, to_json(self.values))
        self.out.write_bytes(PLAN_NAME, plan_to_json(self._plan))
        self.tokenizer.save(self.out.join(TOKENIZER_FOLDER))
        record = read_record(self.out, expected.record_name, ShardRecord)
        output = assemble(self._plan, [record], settings=settings, tokenizer=self.tokenizer)
        output.publish(self.out)
        return Path(self.out.url)

    def change(self, suffix: str, change) -> None:
        """Change the first file of that suffix, and its size and sha256 in the record."""
        file = next(each for each in self.values["files"] if each["name"].endswith(suffix))
        path = Path(self.out.url) / file["name"]
        path.write_bytes(change(path.read_bytes()))
        file["sha256"], file["size"] = self.out.sha256(file["name"]), path.stat().st_size
