"""Compare every document of an export --to parquet with pyarrow, datasets and TRL's SFTTrainer.

The environment needs datasets, transformers, trl and torch, and numpy for this project. All
columns, and the labels that TRL makes of them, are compared with the native output. Peers are
imported in functions, since pytest searches all modules for doctests.
"""

import tempfile
from pathlib import Path

import numpy as np

from tests.peers.native_output import Place, Tally, run

MASKS = ("assistant_masks", "completion_mask", "labels")


def labels_of(shards, number):
    """Return the labels of a document: the id, or -100."""
    ids, mask = shards[number].astype(np.int64), shards.mask(number)
    return ids if mask is None else np.where(mask, ids, -100)


def check_row(row, shards, number):
    """Compare a row with a native document."""
    ids, mask = shards[number], shards.mask(number)
    wanted = {"input_ids": ids.tolist()}
    if mask is not None:
        (column,) = (name for name in MASKS if name in row)
        own = mask if column != "labels" else labels_of(shards, number)
        wanted[column] = own.tolist()
    if "id" in row:
        wanted["id"] = shards.document_id(number)
    images = shards.images(number)
    if images is not None:
        wanted["image_spans"] = [{"start": a, "end": b} for a, b, _ in images.tolist()]
    assert row == wanted, f"document {number}: {row} is not {wanted}"


def check_tables(paths, shards):
    """Compare every row that pyarrow reads."""
    import pyarrow.dataset as ds  # noqa: PLC0415

    number = 0
    for batch in ds.dataset(paths).to_batches():
        for row in batch.to_pylist():
            check_row(row, shards, number)
            number += 1
    assert number == len(shards), f"{number} rows, {len(shards)} documents"


def read_with_datasets(paths):
    """Return the rows as datasets reads them."""
    from datasets import load_dataset  # noqa: PLC0415

    cache = tempfile.mkdtemp()
    return load_dataset("parquet", data_files=paths, split="train", cache_dir=cache)


def check_datasets(paths, shards):
    """Compare every row that datasets reads, and return the dataset."""
    found = read_with_datasets(paths)
    assert len(found) == len(shards), f"{len(found)} rows, {len(shards)} documents"
    for number, row in enumerate(found):
        check_row(row, shards, number)
    return found


def small_trainer(dataset, num_ids):
    """Return TRL's SFTTrainer with a tiny model."""
    from tokenizers import Tokenizer, models  # noqa: PLC0415
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: PLC0415
    from trl import SFTConfig, SFTTrainer  # noqa: PLC0415

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0}, unk_token="<pad>")),
        pad_token="<pad>",
        eos_token="<pad>",
    )
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=num_ids, **sizes, **heads))
    settings = SFTConfig(
        output_dir=tempfile.mkdtemp(),
        max_length=None,
        use_cpu=True,
        bf16=False,
        report_to="none",
        per_device_train_batch_size=2,
        completion_only_loss="completion_mask" in dataset.column_names,
    )
    return SFTTrainer(model, args=settings, train_dataset=dataset, processing_class=tokenizer)


def check_trl(dataset, shards, num_ids):
    """Compare ids and labels of every row that the trainer has prepared, and of one batch."""
    trainer = small_trainer(dataset, num_ids)
    prepared = trainer.train_dataset
    assert len(prepared) == len(shards)
    trained = 0
    for number, row in enumerate(prepared):
        labels = labels_of(shards, number)
        assert row["input_ids"] == shards[number].tolist(), f"TRL, document {number}: ids"
        assert row.get("labels") == labels.tolist(), f"TRL, document {number}: labels"
        trained += int((labels != -100).sum())
    rows = [prepared[number] for number in range(2)]
    batch = trainer.data_collator(rows)
    for place, row in enumerate(rows):
        assert batch["labels"][place, : len(row["labels"])].tolist() == row["labels"]
    return trained


def check(place: Place, export: Path, tally: Tally) -> None:
    paths = sorted(map(str, (export / place.name).glob("*.parquet")))
    check_tables(paths, place.shards)
    dataset = check_datasets(paths, place.shards)
    trained = check_trl(dataset, place.shards, place.manifest["num_ids"])
    tally.count(files=len(paths), documents=len(place.shards))
    tally.count(**{"ids to train on": trained})


if __name__ == "__main__":
    run(check)
