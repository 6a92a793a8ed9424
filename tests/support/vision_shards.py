"""Generated shards of vision documents with their record, as from a renderer.

The segments come from the reference implementation; sinks and files are the real ones, without a
job or a plan.
"""

import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np

from nanotok_ray.chat import compose, segments_of
from nanotok_ray.formats import PLAN_NAME, ROLES, TOKENIZER_FOLDER, to_json
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.shards import (
    NativeSink,
    Rendered,
    ShardWriter,
    assemble,
    expected_records,
    read_record,
)
from nanotok_ray.sources import Plan, PlannedSource, Slice, SourceFile, plan_to_json
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer
from tests.support.made_output import record_of
from tests.support.small_corpus import shard_settings, texts

IMAGE = "<image>"


def vision_tokenizer() -> Tokenizer:
    """Return a small tokenizer with a special token for images."""
    names = [*SPECIAL_TOKENS, IMAGE]
    return Tokenizer.train_from_iterator(texts(40, seed=0), vocab_size=330, special_tokens=names)


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
    """One slice of vision documents, written to a folder."""

    def __init__(self, root: Path, documents: list[bytes], *, max_shard_tokens: int = 10**6):
        self.documents = documents
        self.tokenizer = vision_tokenizer()
        self.settings = shard_settings(
            self.tokenizer, prepend=(), image_token=IMAGE, max_shard_tokens=max_shard_tokens
        )
        dialect = self.settings.dialect("vision", "messages")
        self.composed = [
            compose(
                self.tokenizer.encode,
                self.tokenizer.encode_special,
                segments_of(document, dialect),
            )
            for document in documents
        ]
        path = root / "in/a.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(document + b"\n" for document in documents))
        self.slice = _slice(path)
        self.out = Folder(str(root / "out"))
        self.record = self._record(self._write())

    @property
    def rendered(self) -> Rendered:
        """The documents as one batch."""
        return Rendered(
            ids=np.array([n for own in self.composed for n in own.ids], dtype=np.uint16),
            lengths=np.array([len(own.ids) for own in self.composed], dtype=np.int64),
            mask=np.array([n for own in self.composed for n in own.mask], dtype=np.uint8),
            images=np.array(
                [(n, *span) for n, own in enumerate(self.composed) for span in own.images]
            ).reshape(-1, 3),
            sizes=np.array([*map(len, self.documents)], dtype=np.int64),
            piece=0,
            group=None,
            selected=np.arange(len(self.documents)),
            rows=np.arange(len(self.documents)),
            document_ids=None,
        )

    @property
    def key(self) -> str:
        """The key of the shards."""
        return self.settings.key(self.slice)

    def _write(self) -> ShardWriter:
        def open_sinks(number: int) -> list[NativeSink]:
            name = f"pics/train/a-00000-{number:03d}-{self.key[:16]}"
            options = {"item_bytes": 2, "with_mask": True, "with_images": True}
            return [NativeSink(self.out, name, **options, with_document_ids=False)]

        writer = ShardWriter(
            open_sinks,
            pieces=self.slice.pieces,
            max_shard_tokens=self.settings.max_shard_tokens,
        )
        writer.write(self.rendered)
        writer.finish()
        return writer

    def _record(self, writer: ShardWriter) -> dict:
        rendered = self.rendered
        count, size = len(self.documents), int(rendered.sizes.sum())
        labels = np.array([n for own in self.composed for n in own.labels])
        roles = Counter(ROLES[label >> 1] for label in labels.tolist())
        special = Counter(rendered.ids.tolist())
        shards = [
            {"name": f"pics/train/a-00000-{number:03d}-{self.key[:16]}"}
            | {name: shard[name] for name in ("documents", "bytes", "tokens", "source_map")}
            for number, shard in enumerate(writer.shards)
        ]
        piece = self.slice.pieces[0]
        read = {"file": piece.path, "start": piece.start, "stop": piece.stop}
        data = Path(piece.url).read_bytes()
        return record_of(
            "pics",
            key=self.key,
            read=[read | {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}],
            documents={"in": count, "out": count, "quarantined": 0},
            bytes={"in": size, "out": size, "quarantined": 0},
            tokens=len(labels),
            text_bytes=size,
            trainable_tokens=int((labels & 1).sum()),
            images=len(rendered.images),
            roles=dict(roles),
            special_tokens={
                name: special[number]
                for name, number in self.tokenizer.special_tokens.items()
                if special[number]
            },
            shards=shards,
            files=[file for shard in writer.shards for file in shard["files"]],
        )

    def publish(self) -> Path:
        """Write the other files of a job, and return the output folder."""
        source = PlannedSource(
            name="pics",
            kind="vision",
            format="jsonl",
            column="",
            root=str(Path(self.slice.pieces[0].url).parent),
            rule="train",
            files=self.slice.files,
            splits=("train",),
            slices=(self.slice,),
        )
        plan = Plan(sources=(source,), slice_bytes=10**6)
        settings = {"pics": self.settings}
        [expected] = expected_records(plan, settings)
        self.out.write_whole(expected.record_name, to_json(self.record))
        self.out.write_whole(PLAN_NAME, plan_to_json(plan))
        self.tokenizer.save(self.out.join(TOKENIZER_FOLDER))
        record = read_record(self.out, expected.record_name)
        assert record is not None
        assemble(plan, [record], settings=settings, tokenizer=self.tokenizer).publish(self.out)
        return Path(self.out.url)

    def change(self, suffix: str, change) -> None:
        """Change the first file of that suffix, and its size and sha256 in the record."""
        file = next(each for each in self.record["files"] if each["name"].endswith(suffix))
        path = Path(self.out.url) / file["name"]
        path.write_bytes(change(path.read_bytes()))
        file["sha256"], file["size"] = self.out.sha256(file["name"]), path.stat().st_size


def _slice(path: Path) -> Slice:
    size = path.stat().st_size
    file = SourceFile(path="a.jsonl", url=str(path), size=size, format="jsonl", dialect="messages")
    piece = file.piece(0, size)
    return Slice(
        source="pics",
        kind="vision",
        column="",
        split="train",
        share=None,
        number=0,
        stem="a",
        pieces=(piece,),
        files=(file,),
    )
