"""What is to be learned, its key and record, smaller tokenizers, added special tokens."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nanotok_ray import _core
from nanotok_ray.counts.count_slice import CountSettings
from nanotok_ray.counts.patterns import resolve_pattern
from nanotok_ray.errors import CorruptOutputError, PlanError
from nanotok_ray.formats.manifest import RECORD_FORMAT, TOKENIZER_FOLDER, from_json, key_of, to_json
from nanotok_ray.job.work import CountWork
from nanotok_ray.recipe import Recipe, SourceRecipe
from nanotok_ray.recipe.special_tokens import GROUNDING
from nanotok_ray.shards.output import Record, finished_record, read_record
from nanotok_ray.sources import Plan, Slice
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import FILE_NAMES, READABLE_NAME, Tokenizer
from nanotok_ray.tokenizer.report import REPORT_FORMAT, REPORT_NAME, cut_report, short_report

LEARN_FORMAT = "nanotok-learn 3"


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """What is to be learned: from which slices, how counted, how large."""

    recipe: Recipe
    slices: tuple[Slice, ...]
    settings: CountSettings
    """Of sources whose texts hold no special tokens."""
    reused_key: str | None = None
    """The key of a tokenizer that was learned by these rules from other inputs, and is to stay;
    None: what is to be learned is learned from these."""

    @property
    def key(self) -> str:
        """Everything that is learned depends on; special tokens added to it are not among that."""
        return self._current_key if self.reused_key is None else self.reused_key

    @property
    def is_of_other_inputs(self) -> bool:
        """Whether what is kept was learned before inputs were added, changed or removed."""
        return self.key != self._current_key

    @property
    def rules_key(self) -> str:
        """Everything that is learned depends on but the inputs themselves."""
        read = {
            (slice_.source, slice_.kind, slice_.column, slice_.share): self.settings_of(
                slice_
            ).to_dict()
            for slice_ in self.slices
        }
        return key_of(
            {**self._rules, "read": [[*how, settings] for how, settings in sorted(read.items())]}
        )

    @property
    def _current_key(self) -> str:
        counts = [self.settings_of(slice_).key(slice_) for slice_ in self.slices]
        return key_of({**self._rules, "counts": counts})

    @property
    def _rules(self) -> dict[str, Any]:
        recipe = self.recipe.tokenizer
        return {
            "format": LEARN_FORMAT,
            "max_chars": self.recipe.limits.max_chars,
            "vocab_size": recipe.vocab_size,
            "special_tokens": list(recipe.learned_special_tokens),
            "min_pair_count": recipe.min_pair_count,
            "max_token_bytes": recipe.max_token_bytes,
            "min_count": recipe.min_count,
            "weights": {source.name: source.weight for source in counted_sources(self.recipe)},
        }

    def settings_of(self, slice_: Slice) -> CountSettings:
        """Return how a slice is counted: the texts that will be encoded, special tokens cut out."""
        source = next(
            candidate for candidate in self.recipe.sources if candidate.name == slice_.source
        )
        return replace(self.settings, grounding=GROUNDING) if source.grounding else self.settings

    def work(self, slice_: Slice, *, budget: int | None = None) -> CountWork:
        """Return the counting of one slice, with a budget of code points if it has one."""
        settings = self.settings_of(slice_)
        if budget is not None:
            settings = replace(settings, budget=budget)
        return CountWork(slice=slice_, settings=settings, work=self.recipe.output.work)


def counted_sources(recipe: Recipe) -> list[SourceRecipe]:
    """Return the sources that the tokenizer is learned from, in order."""
    return [source for source in recipe.sources if source.count]


def training_of(recipe: Recipe, plan: Plan) -> Training:
    """Return what is to be learned from a plan.

    Raises:
        PlanError: nothing is to be counted.
        PatternError: the pattern cannot be compiled.
    """
    counted = {source.name for source in counted_sources(recipe)}
    slices = tuple(slice_ for slice_ in plan.slices(split="train") if slice_.source in counted)
    if not slices:
        raise PlanError(
            "no train split to learn a tokenizer from: name a source of kind text (or with "
            "count = true) that has train files, or an existing tokenizer as tokenizer.path"
        )
    pattern = resolve_pattern(recipe.tokenizer.pattern)
    _core.Splitter(pattern)  # compiled here once, so that a bad one is not found by every task
    settings = CountSettings(
        pattern=pattern,
        gaps=recipe.tokenizer.gaps,
        doc_cap=recipe.limits.doc_cap,
        max_document_bytes=recipe.limits.max_document_bytes,
    )
    return Training(recipe=recipe, slices=slices, settings=settings)


LEARN_RECORD = "records/learn.json"


def files_of(folder: str) -> list[str]:
    """Return the paths in the output of the files of a learned tokenizer."""
    return [f"{folder}/{name}" for name in (*FILE_NAMES, REPORT_NAME)]


def smaller_folder(vocab_size: int) -> str:
    """Return the folder in the output of a smaller tokenizer.

    >>> smaller_folder(8192)
    'tokenizer-8192'
    """
    return f"{TOKENIZER_FOLDER}-{vocab_size}"


def finished_learning(training: Training, out: Folder) -> Record | None:
    """Return the record if it is of this training, and the tokenizer's own files are there."""
    return finished_record(out, LEARN_RECORD, key=training.key, below=f"{TOKENIZER_FOLDER}/")


def reusable_training(training: Training, out: Folder) -> Training:
    """Return the training of the tokenizer that the output has, if its rules are the same.

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
    return replace(training, reused_key=record.values["key"])


def recorded_sizes(out: Folder) -> list[int]:
    """Return the sizes of the smaller tokenizers that a former run wrote."""
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
    """Return the record that is there, whatever was learned."""
    return read_record(out, LEARN_RECORD)


def _key(training: Training, skipped: Sequence[str]) -> str:
    return key_of({"training": training.key, "skipped": list(skipped)}) if skipped else training.key


def reached_sizes(training: Training, tokenizer: Tokenizer) -> list[int]:
    """Return the sizes asked for that the tokenizer holds, the smallest first."""
    learned = _learned_size(training, tokenizer)
    return sorted(size for size in training.recipe.tokenizer.also if size <= learned)


def notes_on_sizes(training: Training, tokenizer: Tokenizer, out: Folder) -> Iterator[str]:
    """Yield notes on the sizes that were asked for and not reached."""
    learned = _learned_size(training, tokenizer)
    for size in sorted(set(training.recipe.tokenizer.also)):
        if size > learned:
            yield (
                f"tokenizer.also asks for {size:,} ids and learning ended at "
                f"{learned:,}: {out.join(smaller_folder(size))} is not written"
            )


def missing_sizes(training: Training, tokenizer: Tokenizer, out: Folder) -> list[int]:
    """Return the sizes whose folders are not there as the learn record says."""
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
    """Return whether `add_smaller` has something to write."""
    record = finished_learning(training, out)
    return record is not None and (
        bool(missing_sizes(training, tokenizer, out))
        or _sizes_to_record(training, tokenizer, out, record) != record.values["also"]
    )


def add_smaller(training: Training, tokenizer: Tokenizer, out: Folder) -> list[int]:
    """Write the missing ones of a tokenizer that was learned before; return their sizes.

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
    """Return the report beside the learned tokenizer.

    Raises:
        CorruptOutputError: it is damaged.
    """
    name = f"{TOKENIZER_FOLDER}/{REPORT_NAME}"
    return from_json(out.read_bytes(name), name=out.join(name), expected_format=REPORT_FORMAT)


def _learned_size(training: Training, tokenizer: Tokenizer) -> int:
    """Return the ids of a tokenizer without special tokens that were added to it."""
    return tokenizer.get_vocab_size() - len(training.recipe.tokenizer.extend)


def _remove_other_sizes(out: Folder, *, sizes: Sequence[int]) -> None:
    """Remove what a former run cut from another tokenizer, but for sizes written since."""
    for size in set(recorded_sizes(out)) - set(sizes):
        folder = smaller_folder(size)
        for name in files_of(folder):
            out.remove(name)


def _sizes_to_record(
    training: Training, tokenizer: Tokenizer, out: Folder, record: Record
) -> list[int]:
    expected = {file["name"]: file["size"] for file in record.values["files"]}
    remaining = [size for size in record.values["also"] if _is_there(size, expected, out)]
    return sorted({*reached_sizes(training, tokenizer), *remaining})


def _is_there(size: int, expected: Mapping[str, int], out: Folder) -> bool:
    names = files_of(smaller_folder(size))
    return all(name in expected and out.size(name) == expected[name] for name in names)


def with_extension(tokenizer: Tokenizer, record: Record, names: Sequence[str]) -> Tokenizer:
    """Return the recorded tokenizer with these special tokens in the place of those added to it."""
    added = list(record.values.get("special_tokens", {}).get("extended", ()))
    if added == list(names):
        return tokenizer
    return Tokenizer(tokenizer.model.without(added).extended(names))


def lacks_extension(training: Training, tokenizer: Tokenizer, out: Folder) -> bool:
    """Return whether the tokenizer in the folder has other special tokens added to it than this."""
    record = finished_learning(training, out)
    return record is not None and record.values.get("tokenizer_sha256") != tokenizer.sha256


def replace_extension(training: Training, tokenizer: Tokenizer, out: Folder) -> None:
    """Write what `with_extension` gave, and all that goes with it.

    Should this run end in between, the next one finds no tokenizer of the record, and learns again.

    Raises:
        CorruptOutputError: the report beside the tokenizer is damaged.
    """
    report = read_report(out)
    out.remove(f"{TOKENIZER_FOLDER}/{READABLE_NAME}")
    tokenizer.save(out.join(TOKENIZER_FOLDER), overwrite=True)
    write_beside(training, tokenizer, report, out)
