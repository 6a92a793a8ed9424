"""The learn record: what was learned, from what, and the files that hold it.

The files of the tokenizer itself decide whether it is learned again; those of smaller ones are
listed too, and are cut from it if they are gone. Does not know how anything is learned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nanotok_ray.cluster.training import Training
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats.manifest import RECORD_FORMAT, TOKENIZER_FOLDER, key_of, to_json
from nanotok_ray.shards.output import Record, finished_record, read_record
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import FILE_NAMES, Tokenizer
from nanotok_ray.tokenizer.report import REPORT_NAME, short_report

LEARN_RECORD = "records/learn.json"


def files_of(folder: str) -> list[str]:
    """Give the paths in the output of the files of a learned tokenizer."""
    return [f"{folder}/{name}" for name in (*FILE_NAMES, REPORT_NAME)]


def smaller_folder(vocab_size: int) -> str:
    """Give the folder in the output of a smaller tokenizer.

    >>> smaller_folder(8192)
    'tokenizer-8192'
    """
    return f"{TOKENIZER_FOLDER}-{vocab_size}"


def finished_learning(training: Training, out: Folder) -> Record | None:
    """Give the record if it is of this training, and the tokenizer's own files are there."""
    return finished_record(out, LEARN_RECORD, key=training.key, below=f"{TOKENIZER_FOLDER}/")


def kept_training(training: Training, out: Folder) -> Training:
    """Give what stands of a tokenizer that was learned by the same rules, whatever has come since.

    So a corpus may grow without a new tokenizer, under which every shard would be made again. One
    from which slices were left out is not kept: they are to be tried again.
    """
    try:
        record = learn_record(out)
    except CorruptOutputError:
        record = None
    if record is None or record.values.get("rules") != training.rules_key:
        return training
    if record.values["report"]["skipped_slices"]:
        return training
    return replace(training, kept_key=record.values["key"])


def recorded_sizes(out: Folder) -> list[int]:
    """Give the sizes of the smaller tokenizers that a former run wrote."""
    try:
        record = read_record(out, LEARN_RECORD)
    except CorruptOutputError:
        return []
    return [] if record is None else list(record.values.get("also", []))


def write_learn_record(
    training: Training,
    out: Folder,
    *,
    tokenizer: Tokenizer,
    report: Mapping[str, Any],
    also: Sequence[int],
) -> None:
    """Write the record, once its files are there: of the tokenizer and of smaller ones.

    Where slices were left out, the key is another one, so that the next run learns again.
    """
    folders = [TOKENIZER_FOLDER, *map(smaller_folder, also)]
    names = [name for folder in folders for name in files_of(folder)]
    record = {
        "format": RECORD_FORMAT,
        "stage": "learn",
        "key": _key(training, report["skipped_slices"]),
        "rules": training.rules_key,
        "tokenizer_sha256": tokenizer.sha256,
        "special_tokens": {
            "learned": list(training.recipe.tokenizer.learned_special_tokens),
            "extended": list(training.recipe.tokenizer.extend),
        },
        "also": list(also),
        "report": short_report(report),
        "files": [
            {"name": name, "size": out.size(name), "sha256": out.sha256(name)} for name in names
        ],
    }
    out.write_whole(LEARN_RECORD, to_json(record))


def learn_record(out: Folder) -> Record | None:
    """Give the record that is there, whatever was learned."""
    return read_record(out, LEARN_RECORD)


def _key(training: Training, skipped: Sequence[str]) -> str:
    return key_of({"training": training.key, "skipped": list(skipped)}) if skipped else training.key
