"""The special tokens of `tokenizer.extend`, put in the place of others on what was learned before.

They enter no key: nothing is learned again for their sake, while every slice is tokenized again, as
the tokenizer is another one. Does not know how the tokenizer was learned.
"""

from collections.abc import Sequence

from nanotok_ray.cluster.learn_record import finished_learning
from nanotok_ray.cluster.smaller import read_report, write_beside
from nanotok_ray.cluster.training import Training
from nanotok_ray.formats.manifest import TOKENIZER_FOLDER
from nanotok_ray.shards.output import Record
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import READABLE_NAME, Tokenizer


def with_extension(tokenizer: Tokenizer, record: Record, names: Sequence[str]) -> Tokenizer:
    """Give the recorded tokenizer with these special tokens in the place of those added to it."""
    added = list(record.values.get("special_tokens", {}).get("extended", ()))
    if added == list(names):
        return tokenizer
    return Tokenizer(tokenizer.model.without(added).extended(names))


def lacks_extension(training: Training, tokenizer: Tokenizer, out: Folder) -> bool:
    """Tell whether the tokenizer in the folder has other special tokens added to it than this."""
    record = finished_learning(training, out)
    return record is not None and record.values.get("tokenizer_sha256") != tokenizer.sha256


def replace_extension(training: Training, tokenizer: Tokenizer, out: Folder) -> None:
    """Write what `with_extension` gave, and all that goes with it.

    Its span table goes, as it names the tokenizer: what it is made of is not read again. Should
    this run end in between, the next one finds no tokenizer of the record, and learns again.

    Raises:
        CorruptOutputError: the report beside the tokenizer is damaged.
    """
    report = read_report(out)
    out.remove(f"{TOKENIZER_FOLDER}/{READABLE_NAME}")
    tokenizer.save(out.join(TOKENIZER_FOLDER), overwrite=True)
    write_beside(training, tokenizer, report, out)
