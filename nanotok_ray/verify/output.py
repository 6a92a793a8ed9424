"""The whole output: fingerprints, a record for every slice of the plan, its files, and a sample.

Takes a folder and its manifest, gives every problem found. Does not know how any file was made.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from nanotok_ray.errors import (
    CorruptOutputError,
    IncompleteOutputError,
    NanotokError,
    TokenizerError,
)
from nanotok_ray.manifest import (
    MANIFEST_FORMAT,
    MANIFEST_NAME,
    PLAN_NAME,
    SHARDS_INDEX_NAME,
    TOKENIZER_FOLDER,
    from_json,
)
from nanotok_ray.output import (
    Expected,
    Output,
    Record,
    assemble,
    expected_records,
    read_record,
    settings_from,
)
from nanotok_ray.plan import Plan, Slice, plan_from_json
from nanotok_ray.shards import ShardSettings
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import READABLE_NAME, Tokenizer, differing_files, open_span_table
from nanotok_ray.verify.sample import choose, compare_slice
from nanotok_ray.verify.shard import check_record

SHOWN_PROBLEMS = 20


@dataclass(slots=True)
class Verification:
    """What was checked, and every problem found."""

    slices: int = 0
    shards: int = 0
    documents: int = 0
    sampled: int = 0
    """Documents decoded and compared with their source."""
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def told(self, folder: str) -> str:
        """Give the problems as lines, with what to do about them."""
        shown = [f"  {problem}" for problem in self.problems[:SHOWN_PROBLEMS]]
        if len(self.problems) > SHOWN_PROBLEMS:
            shown.append(f"  and {len(self.problems) - SHOWN_PROBLEMS} more")
        return "\n".join(
            [
                f"{folder}: {len(self.problems)} problems",
                *shown,
                "delete the files named above and run the job again: it makes only those anew",
            ]
        )


def verify_output(
    folder: Folder, *, unpublished: Output | None = None, sample: bool = True
) -> Verification:
    """Verify an output folder against its manifest, or against the one about to be published.

    Raises:
        IncompleteOutputError: there is no manifest.
        CorruptOutputError: manifest, plan or tokenizer cannot be read at all.
    """
    manifest = unpublished.manifest if unpublished else read_manifest(folder)
    check = _Check.of(folder, manifest)
    records = check.records()
    if check.result.passed:
        check.whole([record for _, record in records], is_published=unpublished is None)
    if sample and check.result.passed:
        check.sample(records)
    return check.result


def read_manifest(folder: Folder) -> dict[str, Any]:
    """Read the manifest of an output folder, local or remote.

    Raises:
        IncompleteOutputError: there is none.
        CorruptOutputError: it is not a manifest of this version.
    """
    try:
        data = folder.read_bytes(MANIFEST_NAME)
    except FileNotFoundError as error:
        raise IncompleteOutputError(
            f"{folder.join(MANIFEST_NAME)} does not exist: the job has not finished, or this is "
            "not its output folder; run the job again, it goes on where it stopped"
        ) from error
    return from_json(data, name=folder.join(MANIFEST_NAME), expected_format=MANIFEST_FORMAT)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Check:
    """The inputs of one verification, and the result that its steps add to."""

    folder: Folder
    manifest: Mapping[str, Any]
    plan: Plan
    tokenizer: Tokenizer
    settings: Mapping[str, ShardSettings]
    result: Verification

    @classmethod
    def of(cls, folder: Folder, manifest: Mapping[str, Any]) -> Self:
        """Read plan and tokenizer, and compare them with what the manifest names."""
        try:
            plan_data = folder.read_bytes(PLAN_NAME)
            plan = plan_from_json(plan_data)
            tokenizer = Tokenizer.load(folder.join(TOKENIZER_FOLDER), span_table=False)
        except (FileNotFoundError, NanotokError) as error:
            raise CorruptOutputError(f"plan or tokenizer cannot be read: {error}") from error
        result = Verification()
        if hashlib.sha256(plan_data).hexdigest() != manifest["plan_sha256"]:
            result.problems.append(f"{PLAN_NAME} is not the one that {MANIFEST_NAME} names")
        settings = settings_from(manifest)
        if {own.tokenizer_sha256 for own in settings.values()} != {tokenizer.sha256}:
            result.problems.append(
                f"{TOKENIZER_FOLDER}/ does not hold the tokenizer that {MANIFEST_NAME} names"
            )
        result.problems += [
            f"{TOKENIZER_FOLDER}/{name} is not what {TOKENIZER_FOLDER}/{READABLE_NAME} gives"
            for name in differing_files(tokenizer.model, folder.join(TOKENIZER_FOLDER))
        ]
        result.problems += _span_table_problems(folder, tokenizer)
        return cls(
            folder=folder,
            manifest=manifest,
            plan=plan,
            tokenizer=tokenizer,
            settings=settings,
            result=result,
        )

    def records(self) -> list[tuple[Slice, Record]]:
        """Check the record of every slice of the plan, and its files; give those that are sound."""
        found = []
        for expected in expected_records(self.plan, self.settings):
            self.result.slices += 1
            record = self._record(expected)
            if record is not None and self._is_sound(record):
                found.append((expected.slice, record))
                self.result.shards += len(record.values["shards"])
                self.result.documents += record.values["documents"]["out"]
        return found

    def _is_sound(self, record: Record) -> bool:
        """Check a record against its files; tell whether it can be read at all."""
        model = self.tokenizer.model
        try:
            self.result.problems += check_record(
                self.folder, record.values, item_bytes=model.id_bytes, num_ids=model.num_ids
            )
        except (KeyError, TypeError, AttributeError) as error:
            self.result.problems.append(
                f"{record.name} lacks a field or has one of another type: {error!r}"
            )
            return False
        return True

    def _record(self, expected: Expected) -> Record | None:
        name = expected.record_name
        try:
            record = read_record(self.folder, name)
        except CorruptOutputError as error:
            self.result.problems.append(str(error))
            return None
        if record is None:
            self.result.problems.append(f"{name} is missing")
        elif record.values.get("key") != expected.key:
            self.result.problems.append(
                f"{name} belongs to another recipe, input or tokenizer: its key is "
                f"{record.values.get('key')}, expected {expected.key}"
            )
        else:
            return record
        return None

    def whole(self, records: Sequence[Record], *, is_published: bool) -> None:
        """Build shards.idx and manifest anew from the records, and compare."""
        again = assemble(
            self.plan,
            records,
            settings=self.settings,
            tokenizer=self.tokenizer,
        )
        different = [name for name, own in again.manifest.items() if own != self.manifest.get(name)]
        if different:
            self.result.problems.append(
                f"{MANIFEST_NAME} and the records differ in {', '.join(sorted(different))}"
            )
        if is_published and again.shards_index != self._read_or_none(SHARDS_INDEX_NAME):
            self.result.problems.append(f"{SHARDS_INDEX_NAME} is not what the records give")

    def _read_or_none(self, name: str) -> bytes | None:
        try:
            return self.folder.read_bytes(name)
        except FileNotFoundError:
            return None

    def sample(self, records: Sequence[tuple[Slice, Record]]) -> None:
        """Compare some documents of some slices with their source."""
        for each, record in choose(records):
            count, problems = compare_slice(
                self.folder,
                each,
                record,
                tokenizer=self.tokenizer,
                settings=self.settings[each.source],
            )
            self.result.sampled += count
            self.result.problems += problems


def _span_table_problems(folder: Folder, tokenizer: Tokenizer) -> list[str]:
    """Say why a span table cannot be used; it need not be there."""
    try:
        open_span_table(folder.join(TOKENIZER_FOLDER), sha256=tokenizer.sha256)
    except TokenizerError as error:
        return [str(error)]
    return []
