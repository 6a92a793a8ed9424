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
    NewTokens,
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
    NEW_TOKENS_NAME,
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


_LEARNED_FILES = tuple(
    f"{TOKENIZER_FOLDER}/{name}" for name in (READABLE_NAME, REPORT_NAME, NEW_TOKENS_NAME)
)
"""The files that only learning can write; the others follow from them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedOutput:
    """The tokenizer that an output has for a training, and the files that belong to it."""

    training: Training
    """The training to use."""
    tokenizer: Tokenizer | None
    """With the special tokens that the recipe adds; None if the training must be run."""
    out: Folder
    record: Record[LearnRecord] | None
    """The stored record of any training, or None if there is none that can be read."""
    damage: str | None
    """Why the stored record cannot be read; None if it can, or if there is none."""
    changed: frozenset[str]
    """The files of the record that are missing or have other bytes."""

    @classmethod
    def find(cls, training: Training, out: Folder, *, relearn: bool) -> "Self":
        """Read the record and compare its files.

        Unless `relearn` is set, a tokenizer that was learned by the same rules is kept, even if the
        inputs have changed since. A corpus can therefore grow without a new tokenizer, which would
        require all shards to be written again. A tokenizer that was learned without some slices is
        not kept, so that these slices are tried again.
        """
        record, damage = None, None
        try:
            record = learn_record(out)
        except CorruptOutputError as error:
            damage = str(error)
        files = () if record is None else record.value.files
        output = cls(
            training=training,
            tokenizer=None,
            out=out,
            record=record,
            damage=damage,
            changed=frozenset(file.name for file in files if not is_unchanged(out, file)),
        )
        is_reusable = not (relearn or output.has_other_rules)
        if is_reusable and record is not None and not record.value.report.skipped_slices:
            training = replace(training, reused_key=record.value.key)
        tokenizer = output._stored_tokenizer(training)
        if tokenizer is None:
            return output
        return replace(output, training=training, tokenizer=tokenizer)

    @property
    def has_other_rules(self) -> bool:
        """Whether the stored tokenizer was learned with other settings."""
        return self.record is not None and self.record.value.rules != self.training.rules_key

    @property
    def rewrites(self) -> bool:
        """Whether the files of the tokenizer must be written again.

        The special tokens that are added to it have changed, or a file that follows from the others
        is missing or damaged.
        """
        is_damaged = any(name.startswith(f"{TOKENIZER_FOLDER}/") for name in self.changed)
        return self.tokenizer is not None and (self.lacks_extension or is_damaged)

    @property
    def lacks_extension(self) -> bool:
        """Whether the stored tokenizer has other added special tokens than `tokenizer`."""
        record, tokenizer = self.record, self.tokenizer
        if record is None or tokenizer is None:
            return False
        return record.value.tokenizer_sha256 != tokenizer.sha256

    @property
    def missing_sizes(self) -> list[int]:
        """The sizes whose folders do not exist or differ from the record."""
        if self.tokenizer is None:  # a tokenizer that is not learned yet can still reach any size
            return list(self.training.recipe.tokenizer.also)
        sizes = _reached_sizes(self.training, self.tokenizer)
        return [size for size in sizes if not self._is_there(size)]

    @property
    def lacks_smaller(self) -> bool:
        """Whether `add_smaller` has something to write."""
        if self.record is None or self.tokenizer is None:
            return False
        return bool(self.missing_sizes) or self._sizes_to_record() != self.record.value.also

    def notes(self) -> Iterator[str]:
        """Yield notes on damaged files, and on vocabulary sizes that learning did not reach."""
        if self.damage is not None:
            yield f"{self.damage}; the tokenizer is learned again"
        if self.record is not None and self.record.value.key == self.training.key:
            for file in self.record.value.files:
                if file.name in self.changed and self.out.exists(file.name):
                    again = "learned" if file.name in _LEARNED_FILES else "written"
                    yield (
                        f"{self.out.join(file.name)} is not as it was written; the tokenizer is "
                        f"{again} again"
                    )
        if self.tokenizer is not None:
            yield from notes_on_sizes(self.training, self.tokenizer, self.out)

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
        learned.save(self.out.inside(TOKENIZER_FOLDER), overwrite=True)
        write_beside(self.training, learned, self.out)

    def _stored_tokenizer(self, training: Training) -> Tokenizer | None:
        """Return the stored tokenizer if it is that of a training and can be used.

        The tokenizer is returned with the special tokens that the recipe adds now.
        """
        record = self.record
        if record is None or record.value.key != training.key:
            return None
        if self.changed.intersection(_LEARNED_FILES):
            return None
        tokenizer = written_tokenizer(self.out.inside(TOKENIZER_FOLDER))
        # Another tokenizer may have replaced it, for example by a recipe with tokenizer.path.
        if tokenizer.sha256 != record.value.tokenizer_sha256:
            return None
        added = record.value.special_tokens.extended
        if added == training.recipe.tokenizer.extend:
            return tokenizer
        learned = tokenizer.model.without(added)
        return Tokenizer(learned.extended(training.recipe.tokenizer.extend))

    def _learned(self) -> LearnedTokenizer:
        assert self.tokenizer is not None
        name = f"{TOKENIZER_FOLDER}/{REPORT_NAME}"
        data, path = self.out.read_bytes(name, limit=MAX_JSON_BYTES), self.out.join(name)
        learned = LearnedTokenizer(
            tokenizer=self.tokenizer,
            report=load(TrainingReport, data, name=path),
            extended=self.training.recipe.tokenizer.extend,
        )
        if self.training.base is None:
            return learned
        name = f"{TOKENIZER_FOLDER}/{NEW_TOKENS_NAME}"
        data, path = self.out.read_bytes(name, limit=MAX_JSON_BYTES), self.out.join(name)
        new_tokens = load(NewTokens, data, name=path)
        return replace(learned, base=self.training.base, new_tokens=new_tokens)

    def _sizes_to_record(self) -> tuple[int, ...]:
        assert self.record is not None
        assert self.tokenizer is not None
        remaining = [size for size in self.record.value.also if self._is_there(size)]
        return tuple(sorted({*_reached_sizes(self.training, self.tokenizer), *remaining}))

    def _is_there(self, size: int) -> bool:
        files = () if self.record is None else self.record.value.files
        own = {file.name for file in files if file.name.startswith(f"{smaller_folder(size)}/")}
        return bool(own) and not own & self.changed


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
    names = [name for folder in folders for name in _files_of(folder) if out.exists(name)]
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
    """Return the paths that files of a learned tokenizer can have, relative to the output."""
    return [f"{folder}/{name}" for name in (*FILE_NAMES, REPORT_NAME, NEW_TOKENS_NAME)]


def existing_tokenizer(recipe: Recipe, out: Folder) -> Tokenizer | None:
    """Return the tokenizer of the recipe, or else the one in the output folder.

    It has the special tokens that the recipe adds.

    Raises:
        TokenizerError, PatternError: Same as `open_tokenizer`.
    """
    folder = recipe.tokenizer.path
    if folder is None:
        folder = out.inside(TOKENIZER_FOLDER)
        if not out.exists(f"{TOKENIZER_FOLDER}/{READABLE_NAME}"):
            return None
    return open_tokenizer(folder).extended(recipe.tokenizer.extend)
