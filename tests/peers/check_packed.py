"""Compare every row of an export --to packed with datasets and TRL's collator and SFTTrainer.

The environment is that of check_parquet.py. The conversations of the rows are those of the native
output, each once, and TRL gives them the position ids and labels of the columns.
"""

from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np

from tests.peers.check_parquet import labels_of, read_with_datasets, small_trainer
from tests.peers.native_output import Place, Tally, run

Packed = tuple[tuple[int, ...], tuple[int, ...]]
"""Ids and labels of a conversation."""


def native_documents(shards, length) -> Counter[Packed]:
    """Return the documents that rows of this length hold."""
    documents: Counter[Packed] = Counter()
    for number in range(len(shards)):
        labels = labels_of(shards, number)
        labels[:1] = -100
        if len(labels) <= length and (labels != -100).any():
            documents[tuple(shards[number].tolist()), tuple(labels.tolist())] += 1
    return documents


def packed_documents(rows) -> Counter[Packed]:
    """Return the documents of rows, and compare their position ids."""
    documents: Counter[Packed] = Counter()
    for row in rows:
        ends = list(accumulate(row["seq_lengths"], initial=0))
        assert ends[-1] == len(row["input_ids"])
        assert row["position_ids"] == [n for size in row["seq_lengths"] for n in range(size)]
        for start, end in pairwise(ends):
            documents[tuple(row["input_ids"][start:end]), tuple(row["labels"][start:end])] += 1
    return documents


def check_trl(dataset, num_ids):
    """Compare what TRL makes of the rows: one sequence without padding, and a padded batch."""
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling  # noqa: PLC0415

    rows = [dataset[number] for number in range(min(2, len(dataset)))]
    batch = DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)(rows)
    for ours, theirs in (("position_ids", "position_ids"), ("labels", "labels")):
        assert batch[theirs][0].tolist() == [value for row in rows for value in row[ours]]
    trainer = small_trainer(dataset, num_ids)
    batch = trainer.data_collator([trainer.train_dataset[number] for number in range(len(rows))])
    for place, row in enumerate(rows):
        assert batch["labels"][place, : len(row["labels"])].tolist() == row["labels"]


def check(place: Place, export: Path, tally: Tally) -> None:
    paths = sorted(map(str, (export / place.name).glob("*.parquet")))
    dataset = read_with_datasets(paths)
    longest = max(len(row["input_ids"]) for row in dataset)
    assert longest <= 4096, "rows of the default length"
    documents = packed_documents(dataset)
    assert documents == native_documents(place.shards, 4096)
    check_trl(dataset, place.manifest["num_ids"])
    trained = sum(int((np.array(row["labels"]) != -100).sum()) for row in dataset)
    tally.count(files=len(paths), documents=documents.total())
    tally.count(**{"ids to train on": trained})


if __name__ == "__main__":
    run(check)
