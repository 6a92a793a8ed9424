"""The tokenizer that an output has: its record, its files, and its smaller versions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    LEARN_RECORD,
    MAX_JSON_BYTES,
    TOKENIZER_FOLDER,
    LearnedTokens,
    LearnRecord,
    StoredFile,
    TrainingReport,
    key_of,
    load,
)
from nanotok_ray.job.counting import Training
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards import Record, is_unchanged, read_record, write_record
from nanotok_ray.storage import Checksums, Folder
from nanotok_ray.tokenizer import (
    FILE_NAMES,
    READABLE_NAME,
    REPORT_NAME,
    LearnedTokenizer,
    Tokenizer,
    open_tokenizer,
    short_report,
    written_tokenizer,
)

if TYPE_CHECKING:
    from typing_extensions import Self


def current_tokenizer(
    training: Training, out: Folder, *, relearn: bool
) -> tuple[Training, Tokenizer | None]:
    """Return the training to use, and its tokenizer if the output has it.

    Unless `relearn` is set, a tokenizer that was learned by the same rules is kept, even if the
    inputs have changed since. Without such a tokenizer, the returned training must be run.
    """
    if not relearn:
        reusable = _reusable_training(training, out)
        tokenizer = _finished_tokenizer(reusable, out)
        if tokenizer is not None:
            return reusable, tokenizer
    return training, _finished_tokenizer(training, out)


def _finished_tokenizer(training: Training, out: Folder) -> Tokenizer | None:
    """Return the tokenizer of the output folder if its record matches the training.

    The tokenizer is returned with the special tokens that the recipe adds now.
    """
    record = finished_learning(training, out)
    if record is None:
        return None
    tokenizer = written_tokenizer(out.inside(TOKENIZER_FOLDER))
    # Another tokenizer may have replaced it, for example by a recipe with tokenizer.path.
    if tokenizer.sha256 != record.value.tokenizer_sha256:
        return None
    added = record.value.special_tokens.extended
    if added == training.recipe.tokenizer.extend:
        return tokenizer
    learned = tokenizer.model.without(added)
    return Tokenizer(learned.extended(training.recipe.tokenizer.extend))


def _reusable_training(training: Training, out: Folder) -> Training:
    """Return the training of the tokenizer in the output if its rules are those of `training`.

    A corpus can therefore grow without a new tokenizer, which would require all shards to be
    written again. A tokenizer that was learned without some slices is not kept, so that these
    slices are tried again.
    """
    record = _readable_record(out)
    if record is None or record.value.rules != training.rules_key:
        return training
    if record.value.report.skipped_slices:
        return training
    return replace(training, reused_key=record.value.key)


def has_other_rules(training: Training, out: Folder) -> bool:
    """Return whether the tokenizer of the output was learned with other settings."""
    record = _readable_record(out)
    return record is not None and record.value.rules != training.rules_key


def _readable_record(out: Folder) -> Record[LearnRecord] | None:
    try:
        return learn_record(out)
    except CorruptOutputError:
        return None


_LEARNED_FILES = tuple(f"{TOKENIZER_FOLDER}/{name}" for name in (READABLE_NAME, REPORT_NAME))
"""The files that only learning can write; the others follow from them."""


def finished_learning(training: Training, out: Folder) -> Record[LearnRecord] | None:
    """Return the record if it matches the training and the files that only learning can write."""
    try:
        record = learn_record(out)
    except CorruptOutputError:
        return None
    if record is None or record.value.key != training.key:
        return None
    files = {file.name: file for file in record.value.files}
    is_there = all(name in files and is_unchanged(out, files[name]) for name in _LEARNED_FILES)
    return record if is_there else None


def learn_record(out: Folder) -> Record[LearnRecord] | None:
    """Return the stored record of any training, or None if there is no record.

    Raises:
        CorruptOutputError: The record is damaged.
    """
    record = read_record(out, LEARN_RECORD, LearnRecord)
    if record is not None and not Checksums.of(out, [LEARN_RECORD]).are_of(
        LEARN_RECORD, record.sha256
    ):
        raise CorruptOutputError(f"{out.join(LEARN_RECORD)} is damaged")
    return record


def damage_notes(training: Training, out: Folder) -> Iterator[str]:
    """Yield a note on each damaged file of the tokenizer, and on a damaged record of it."""
    try:
        record = learn_record(out)
    except CorruptOutputError as error:
        yield f"{error}; the tokenizer is learned again"
        return
    if record is None or record.value.key != training.key:
        return
    for file in record.value.files:
        if out.exists(file.name) and not is_unchanged(out, file):
            again = "learned" if file.name in _LEARNED_FILES else "written"
            yield (
                f"{out.join(file.name)} is not as it was written; the tokenizer is {again} again"
            )


def smaller_folder(vocab_size: int) -> str:
    """Return the name of the folder of a smaller tokenizer in the output.

    >>> smaller_folder(8192)
    'tokenizer-8192'
    """
    return f"{TOKENIZER_FOLDER}-{vocab_size}"


def notes_on_sizes(training: Training, tokenizer: Tokenizer, out: Folder) -> Iterator[str]:
    """Yield notes on the requested vocabulary sizes that learning did not reach."""
    learned = _learned_size(training, tokenizer)
    for size in sorted(set(training.recipe.tokenizer.also)):
        if size > learned:
            yield (
                f"tokenizer.also asks for {size:,} ids and learning ended at "
                f"{learned:,}: {out.join(smaller_folder(size))} is not written"
            )


def write_beside(training: Training, learned: LearnedTokenizer, out: Folder) -> None:
    """Write the smaller tokenizers and the record of a tokenizer that was just saved.

    Smaller tokenizers of a former run that this run does not write are removed.
    """
    sizes = _reached_sizes(training, learned.tokenizer)
    _write_smaller(learned, out, sizes=sizes)
    for size in set(_recorded_sizes(out)) - set(sizes):
        for name in _files_of(smaller_folder(size)):
            out.remove(name)
    _write_record(training, learned, out, also=sizes)


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedOutput:
    """The tokenizer of an output, and the files that belong to it."""

    training: Training
    tokenizer: Tokenizer
    """With the special tokens that the recipe adds."""
    out: Folder
    record: Record[LearnRecord] | None
    """The record, or None if it does not match the training."""

    @classmethod
    def of(cls, training: Training, tokenizer: Tokenizer, out: Folder) -> "Self":
        """Create the value with the record that is stored in the output."""
        record = finished_learning(training, out)
        return cls(training=training, tokenizer=tokenizer, out=out, record=record)

    @property
    def lacks_extension(self) -> bool:
        """Whether the stored tokenizer has other added special tokens than `tokenizer`."""
        sha256 = self.tokenizer.sha256
        return self.record is not None and self.record.value.tokenizer_sha256 != sha256

    @property
    def lacks_files(self) -> bool:
        """Whether a file of the tokenizer is missing or damaged that follows from the others."""
        files = () if self.record is None else self.record.value.files
        own = [file for file in files if file.name.startswith(f"{TOKENIZER_FOLDER}/")]
        return not all(is_unchanged(self.out, file) for file in own)

    @property
    def missing_sizes(self) -> list[int]:
        """The sizes whose folders do not exist or differ from the record."""
        sizes = _reached_sizes(self.training, self.tokenizer)
        return [size for size in sizes if not self._is_there(size)]

    @property
    def lacks_smaller(self) -> bool:
        """Whether `add_smaller` has something to write."""
        return self.record is not None and (
            bool(self.missing_sizes) or tuple(self._sizes_to_record()) != self.record.value.also
        )

    def add_smaller(self) -> list[int]:
        """Write the missing smaller tokenizers and the record, and return their sizes.

        Tokenizers of sizes that are no longer requested are kept, in the record too.

        Raises:
            CorruptOutputError: The report beside the tokenizer is damaged.
        """
        sizes, also, learned = self.missing_sizes, self._sizes_to_record(), self._learned()
        _write_smaller(learned, self.out, sizes=sizes)
        _write_record(self.training, learned, self.out, also=also)
        return sizes

    def rewrite(self) -> None:
        """Write the tokenizer with the current special tokens, its smaller versions and the record.

        If the run is interrupted, the next run finds no tokenizer that matches the record, and
        learns it again.

        Raises:
            CorruptOutputError: The report beside the tokenizer is damaged.
        """
        learned = self._learned()
        self.out.remove(f"{TOKENIZER_FOLDER}/{READABLE_NAME}")
        self.tokenizer.save(self.out.inside(TOKENIZER_FOLDER), overwrite=True)
        write_beside(self.training, learned, self.out)

    def _learned(self) -> LearnedTokenizer:
        name = f"{TOKENIZER_FOLDER}/{REPORT_NAME}"
        data, path = self.out.read_bytes(name, limit=MAX_JSON_BYTES), self.out.join(name)
        report = load(TrainingReport, data, name=path)
        extended = self.training.recipe.tokenizer.extend
        return LearnedTokenizer(tokenizer=self.tokenizer, report=report, extended=extended)

    def _sizes_to_record(self) -> list[int]:
        assert self.record is not None
        remaining = [size for size in self.record.value.also if self._is_there(size)]
        return sorted({*_reached_sizes(self.training, self.tokenizer), *remaining})

    def _is_there(self, size: int) -> bool:
        files = () if self.record is None else self.record.value.files
        expected = {file.name: file for file in files}
        names = _files_of(smaller_folder(size))
        return all(name in expected and is_unchanged(self.out, expected[name]) for name in names)


def _write_smaller(learned: LearnedTokenizer, out: Folder, *, sizes: Sequence[int]) -> None:
    """Write tokenizers of the given sizes with reports as if they were learned at these sizes."""
    for size in sizes:
        learned.truncated(size).save(out.inside(smaller_folder(size)), overwrite=True)


def _write_record(
    training: Training, learned: LearnedTokenizer, out: Folder, *, also: Sequence[int]
) -> None:
    """Write the record of the tokenizer and its smaller versions, after their files.

    If slices were skipped, the key differs, so that the next run learns the tokenizer again.
    """
    skipped = list(learned.report.skipped_slices)
    folders = [TOKENIZER_FOLDER, *map(smaller_folder, also)]
    names = [name for folder in folders for name in _files_of(folder)]
    tokens = training.recipe.tokenizer
    record = LearnRecord(
        stage="learn",
        key=key_of({"training": training.key, "skipped": skipped}) if skipped else training.key,
        rules=training.rules_key,
        tokenizer_sha256=learned.tokenizer.sha256,
        special_tokens=LearnedTokens(learned=tokens.learned_special_tokens, extended=tokens.extend),
        also=tuple(also),
        report=short_report(learned.report),
        files=tuple(
            StoredFile(name=name, size=out.size(name) or 0, sha256=out.sha256(name))
            for name in names
        ),
    )
    write_record(out, LEARN_RECORD, record)


def _recorded_sizes(out: Folder) -> list[int]:
    """Return the sizes of the smaller tokenizers in the stored record."""
    try:
        record = learn_record(out)
    except CorruptOutputError:
        return []
    return [] if record is None else list(record.value.also)


def _reached_sizes(training: Training, tokenizer: Tokenizer) -> list[int]:
    """Return the requested sizes that learning reached, in ascending order."""
    learned = _learned_size(training, tokenizer)
    return sorted(size for size in training.recipe.tokenizer.also if size <= learned)


def _learned_size(training: Training, tokenizer: Tokenizer) -> int:
    """Return the vocabulary size without the special tokens that the recipe adds."""
    return tokenizer.get_vocab_size() - len(training.recipe.tokenizer.extend)


def _files_of(folder: str) -> list[str]:
    """Return the paths of the files of a learned tokenizer, relative to the output."""
    return [f"{folder}/{name}" for name in (*FILE_NAMES, REPORT_NAME)]


def existing_tokenizer(recipe: Recipe, out: Folder) -> Tokenizer | None:
    """Return the tokenizer of the recipe, or else the one in the output folder."""
    folder = recipe.tokenizer.path
    if folder is None:
        folder = out.inside(TOKENIZER_FOLDER)
        if not out.exists(f"{TOKENIZER_FOLDER}/{READABLE_NAME}"):
            return None
    return tokenizer_in(folder, recipe)


def tokenizer_in(folder: str, recipe: Recipe) -> Tokenizer:
    """Load the tokenizer of a folder or a file, with the special tokens that a recipe adds.

    Raises:
        TokenizerError, PatternError: Same as `open_tokenizer`.
    """
    return open_tokenizer(folder).extended(recipe.tokenizer.extend)
