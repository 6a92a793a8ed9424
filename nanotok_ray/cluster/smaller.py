"""The smaller tokenizers of `tokenizer.also`: cut from the learned one, each in its own folder.

They enter no key: nothing is learned or tokenized again for their sake. A size that learning did
not reach has no folder. Special tokens that are added to the learned one are added to each of them.
Does not know how the tokenizer was learned.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nanotok_ray.cluster.learn_record import (
    files_of,
    finished_learning,
    recorded_sizes,
    smaller_folder,
    write_learn_record,
)
from nanotok_ray.cluster.training import Training
from nanotok_ray.formats.manifest import TOKENIZER_FOLDER, from_json, to_json
from nanotok_ray.shards.output import Record
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import SPAN_TABLE_NAME, Tokenizer
from nanotok_ray.tokenizer.report import REPORT_FORMAT, REPORT_NAME, cut_report


def reached_sizes(training: Training, tokenizer: Tokenizer) -> list[int]:
    """Give the sizes asked for that the tokenizer holds, the smallest first."""
    learned = _learned_size(training, tokenizer)
    return sorted(size for size in training.recipe.tokenizer.also if size <= learned)


def notes_on_sizes(training: Training, tokenizer: Tokenizer, out: Folder) -> Iterator[str]:
    """Say which sizes were asked for and not reached."""
    learned = _learned_size(training, tokenizer)
    for size in sorted(set(training.recipe.tokenizer.also)):
        if size > learned:
            yield (
                f"tokenizer.also asks for {size:,} ids and learning ended at "
                f"{learned:,}: {out.join(smaller_folder(size))} is not written"
            )


def missing_sizes(training: Training, tokenizer: Tokenizer, out: Folder) -> list[int]:
    """Give the sizes whose folders are not there as the learn record says."""
    record = finished_learning(training, out)
    files = [] if record is None else record.values["files"]
    expected = {file["name"]: file["size"] for file in files}
    return [
        size for size in reached_sizes(training, tokenizer) if not _is_there(size, expected, out)
    ]


def write_beside(
    training: Training, tokenizer: Tokenizer, report: Mapping[str, Any], out: Folder
) -> None:
    """Write all that goes with a tokenizer that was just saved: smaller ones, and the record.

    What smaller tokenizers a former run left and this one does not write again goes.
    """
    sizes = reached_sizes(training, tokenizer)
    _write_smaller(training, tokenizer, report, out, sizes=sizes)
    _remove_other_sizes(out, sizes=sizes)
    write_learn_record(training, out, tokenizer=tokenizer, report=report, also=sizes)


def _write_smaller(
    training: Training,
    tokenizer: Tokenizer,
    report: Mapping[str, Any],
    out: Folder,
    *,
    sizes: Sequence[int],
) -> None:
    """Write tokenizers of these sizes, with their reports, as if learned at these sizes."""
    added = training.recipe.tokenizer.extend
    learned = tokenizer.model.without(added)
    for size in sizes:
        smaller = learned.truncated(size)
        folder = smaller_folder(size)
        Tokenizer(smaller.extended(added)).save(out.join(folder), overwrite=True)
        out.write_whole(f"{folder}/{REPORT_NAME}", to_json(cut_report(report, smaller)))


def lacks_smaller(training: Training, tokenizer: Tokenizer, out: Folder) -> bool:
    """Tell whether `add_smaller` has something to write."""
    record = finished_learning(training, out)
    return record is not None and (
        bool(missing_sizes(training, tokenizer, out))
        or _sizes_to_record(training, tokenizer, out, record) != record.values["also"]
    )


def add_smaller(training: Training, tokenizer: Tokenizer, out: Folder) -> list[int]:
    """Write the missing ones of a tokenizer that was learned before; give their sizes.

    Those of sizes no longer asked for stay, and stay in the record.

    Raises:
        CorruptOutputError: the report beside the tokenizer is damaged.
    """
    record = finished_learning(training, out)
    assert record is not None
    sizes = missing_sizes(training, tokenizer, out)
    also = _sizes_to_record(training, tokenizer, out, record)
    if also == record.values["also"] and not sizes:
        return []
    report = read_report(out)
    _write_smaller(training, tokenizer, report, out, sizes=sizes)
    write_learn_record(training, out, tokenizer=tokenizer, report=report, also=also)
    return sizes


def read_report(out: Folder) -> dict[str, Any]:
    """Give the report beside the learned tokenizer.

    Raises:
        CorruptOutputError: it is damaged.
    """
    name = f"{TOKENIZER_FOLDER}/{REPORT_NAME}"
    return from_json(out.read_bytes(name), name=out.join(name), expected_format=REPORT_FORMAT)


def _learned_size(training: Training, tokenizer: Tokenizer) -> int:
    """Give the ids of a tokenizer without special tokens that were added to it."""
    return tokenizer.get_vocab_size() - len(training.recipe.tokenizer.extend)


def _remove_other_sizes(out: Folder, *, sizes: Sequence[int]) -> None:
    """Remove what a former run cut from another tokenizer, but for sizes written since."""
    for size in set(recorded_sizes(out)) - set(sizes):
        folder = smaller_folder(size)
        for name in (f"{folder}/{SPAN_TABLE_NAME}", *files_of(folder)):
            out.remove(name)


def _sizes_to_record(
    training: Training, tokenizer: Tokenizer, out: Folder, record: Record
) -> list[int]:
    expected = {file["name"]: file["size"] for file in record.values["files"]}
    kept = [size for size in record.values["also"] if _is_there(size, expected, out)]
    return sorted({*reached_sizes(training, tokenizer), *kept})


def _is_there(size: int, expected: Mapping[str, int], out: Folder) -> bool:
    names = files_of(smaller_folder(size))
    return all(name in expected and out.size(name) == expected[name] for name in names)
