"""Verification: compares an output with its records, and the records with the plan.

The input is an output folder. The output is a list of problems. Nothing is repaired; the next run
of the job does that. Sizes are checked before a file is read.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace

from nanotok_ray.errors import (
    CorruptOutputError,
    NanotokError,
    TokenizerError,
    TransientIOError,
    VerificationError,
)
from nanotok_ray.formats import (
    LEARN_RECORD,
    MANIFEST_NAME,
    MAX_PLAN_BYTES,
    PLAN_NAME,
    RECORDS,
    SHARDS_INDEX_NAME,
    TOKENIZER_FOLDER,
    LearnRecord,
    Manifest,
    ShardRecord,
    ShardSettings,
    local_path,
    read_manifest,
)
from nanotok_ray.shards.check import (
    CheckFailure,
    Result,
    SliceWork,
    check_slices,
    choose_slices,
    depth_of,
    in_order,
    listed_problems,
    record_problems,
    work_of,
)
from nanotok_ray.shards.output import Output, assemble
from nanotok_ray.shards.records import (
    READERS,
    ExpectedSlice,
    Record,
    expected_records,
    is_unchanged,
    read_record,
)
from nanotok_ray.sources import QUARANTINE, Plan, plan_from_json
from nanotok_ray.storage import Checksums, Folder, is_below
from nanotok_ray.tokenizer import (
    FILE_NAMES,
    READABLE_NAME,
    Model,
    Tokenizer,
    differing_files,
    written_tokenizer,
)
from nanotok_ray.units import is_masked, quantity

MAX_PRINTED_PROBLEMS = 20

NO_SOURCES = (
    "the sources were not compared, since plan, records and manifest contradict each other, and "
    "such an output can name any file"
)
"""The entry of `Verification.unchecked` for all slices."""


@dataclass(slots=True)
class Verification:
    """The counts of a verification, and its problems in the order of the plan."""

    slices: int = 0
    shards: int = 0
    documents: int = 0
    tokens: int = 0
    sampled: int = 0
    """Number of documents that were decoded and compared with their source."""
    source_bytes: int = 0
    """Bytes of the documents that were read again from the sources."""
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    """Slices that could not be checked, with the reason; their state is unknown."""

    @property
    def passed(self) -> bool:
        """Whether everything was checked and no problem was found."""
        return not self.problems and not self.unchecked

    def format_problems(self, folder: str) -> str:
        """Return the problems as lines, with the next step."""
        lines = []
        if self.problems:
            lines += [
                f"{folder}: {quantity(len(self.problems), 'problem')}",
                *_first_lines(self.problems),
            ]
            lines.append(
                "delete the files named above and run the job again: it writes only those again"
            )
        if self.unchecked:
            slices = [line for line in self.unchecked if line != NO_SOURCES]
            number = f"{len(slices)} of {self.slices} slices" if slices else "the sources"
            lines += [f"{folder}: {number} could not be checked", *_first_lines(self.unchecked)]
            lines.append("their state is unknown: verify again")
        return "\n".join(lines)


def _first_lines(problems: list[str]) -> list[str]:
    lines = [f"  {problem}" for problem in problems[:MAX_PRINTED_PROBLEMS]]
    if len(problems) > MAX_PRINTED_PROBLEMS:
        lines.append(f"  and {len(problems) - MAX_PRINTED_PROBLEMS} more")
    return lines


Runner = Callable[[Sequence[SliceWork]], Iterable[Result]]
"""Checks slices, and yields the result of each in any order."""


def verify_output(
    folder: Folder,
    *,
    unpublished: Output | None = None,
    sample: bool = True,
    read_files: bool = True,
    deep: bool = False,
    masks: bool = False,
    run: Runner | None = None,
) -> Verification:
    """Verify an output folder against its manifest, or against the one about to be published.

    Args:
        folder: the output folder of a job.
        unpublished: the values about to be published; None: the manifest in the folder is used.
        sample: compare some documents of some slices with their sources.
        read_files: read the files of all slices; otherwise only names and sizes are compared, with
            one listing, and no source is read: for a job whose workers have read their files back.
        deep: read all sources again and compare every document.
        masks: read the sources of conversations and vision documents again, and compare all of
            them, and the ids that are trained on, with the reference implementation of their
            dialect.
        run: the function that checks slices; None: one after the other.

    Raises:
        IncompleteOutputError: The manifest does not exist.
        CorruptOutputError: The manifest, the plan or the tokenizer cannot be read at all.
        VerificationError: Both deep and masks are requested.
    """
    if deep and masks:
        raise VerificationError("deep and masks are two ways to compare: pass one of them")
    manifest = unpublished.manifest if unpublished else read_manifest(folder)
    inputs = read_inputs(folder, manifest)
    result = Verification(problems=fingerprint_problems(folder, manifest, inputs))
    if unpublished is None:  # the planning of a job refuses such sources
        result.problems += source_folder_problems(folder, inputs.plan)
    expected = list(expected_records(inputs.plan, inputs.settings))
    result.slices = len(expected)
    sound = _check_records(folder, expected, inputs, result, read_files=read_files)
    if len(sound) == len(expected):
        published = None if unpublished is not None else folder
        result.problems += _whole_problems(manifest, inputs, [r for _, r in sound], published)
    if read_files and _is_trusted(inputs):
        # An output of others can name any file or URL as a source, which would be read with the
        # rights and credentials of this user.
        wants_sources = sample or deep or masks
        has_sources = not result.problems
        if wants_sources and not has_sources:
            result.unchecked.append(NO_SOURCES)
        works = _works(
            folder,
            sound,
            inputs,
            sample=sample and has_sources,
            deep=deep and has_sources,
            masks=masks and has_sources,
        )
        works = list(_with_readable_sources(works, result))
        _add_results(works, run or check_slices, result)
    return result


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """The values with which the records of an output are compared."""

    plan: Plan
    plan_sha256: str
    tokenizer: Tokenizer
    settings: Mapping[str, ShardSettings]

    @property
    def model(self) -> Model:
        """The model of the tokenizer."""
        return self.tokenizer.model


def read_inputs(folder: Folder, manifest: Manifest) -> Inputs:
    """Read plan and tokenizer of an output folder, and the settings in its manifest.

    Raises:
        CorruptOutputError: One of them cannot be read.
    """
    try:
        data = folder.read_bytes(PLAN_NAME, limit=MAX_PLAN_BYTES)
        plan = plan_from_json(data)
        tokenizer = written_tokenizer(folder.inside(TOKENIZER_FOLDER))
    except (TransientIOError, CorruptOutputError):
        raise
    except FileNotFoundError as error:
        raise CorruptOutputError(
            f"{folder.join(PLAN_NAME)} is missing: the output is incomplete; run its job again, "
            "which writes the missing files"
        ) from error
    except NanotokError as error:
        raise CorruptOutputError(f"plan or tokenizer cannot be read: {error}") from error
    missing = [source.name for source in plan.sources if source.name not in manifest.settings]
    if missing:
        raise CorruptOutputError(f"{MANIFEST_NAME} has no settings of {', '.join(missing)}")
    sha256 = hashlib.sha256(data).hexdigest()
    return Inputs(plan=plan, plan_sha256=sha256, tokenizer=tokenizer, settings=manifest.settings)


def fingerprint_problems(folder: Folder, manifest: Manifest, inputs: Inputs) -> list[str]:
    """Compare plan and tokenizer, with all of its files, with the hashes in the manifest."""
    problems = []
    if inputs.plan_sha256 != manifest.plan_sha256:
        problems.append(f"{PLAN_NAME} is not the one that {MANIFEST_NAME} names")
    if {settings.tokenizer_sha256 for settings in inputs.settings.values()} != {
        inputs.tokenizer.sha256
    }:
        problems.append(
            f"{TOKENIZER_FOLDER}/ does not hold the tokenizer that {MANIFEST_NAME} names"
        )
    tokenizer = folder.inside(TOKENIZER_FOLDER)
    try:
        problems += [
            f"{TOKENIZER_FOLDER}/{name} is not what {TOKENIZER_FOLDER}/{READABLE_NAME} gives"
            for name in differing_files(inputs.model, tokenizer)
        ]
    except TokenizerError as error:  # two ids with the same bytes
        problems.append(str(error))
    return [*problems, *learning_problems(folder, manifest)]


def learning_problems(folder: Folder, manifest: Manifest) -> Iterator[str]:
    """Compare the files of a learned tokenizer, its report among them, with the record of it.

    The record can be that of a tokenizer that was replaced by another one.
    """
    try:
        record = read_record(folder, LEARN_RECORD, LearnRecord)
    except CorruptOutputError as error:
        yield str(error)
        return
    if record is None or record.value.tokenizer_sha256 != manifest.tokenizer_sha256:
        return
    if not Checksums.of(folder, [LEARN_RECORD]).are_of(LEARN_RECORD, record.sha256):
        yield f"{LEARN_RECORD} is not as it was written"
    follow = {f"{TOKENIZER_FOLDER}/{name}" for name in FILE_NAMES}  # compared with the tokenizer
    for file in record.value.files:
        if file.name not in follow and not is_unchanged(folder, file):
            yield f"{file.name} is missing or has another sha256 than {LEARN_RECORD} says"


def source_folder_problems(folder: Folder, plan: Plan) -> Iterator[str]:
    """Yield a problem for each source of a plan that contains files of the output itself."""
    top = _canonical(folder.url)
    real = functools.cache(_canonical)
    for source in plan.sources:
        inside = []
        for file in source.files:
            parent, _, name = file.url.rpartition("/")
            if is_below(f"{real(parent)}/{name}", top):
                inside.append(file.url)
        if inside:
            more = f" and {len(inside) - 1:,} more files" if len(inside) > 1 else ""
            yield (
                f"{PLAN_NAME}: source {source.name!r} holds {inside[0]}{more} of this output: its "
                "documents are files that the job wrote. Remove them from the source's paths, and "
                "run the job into another folder"
            )


def _canonical(url: str) -> str:
    """Return a local path with links resolved, or a URL, without a trailing slash."""
    path = local_path(url)
    return url.rstrip("/") if path is None else os.path.realpath(path)


def _check_records(
    folder: Folder,
    expected: Sequence[ExpectedSlice],
    inputs: Inputs,
    result: Verification,
    *,
    read_files: bool,
) -> list[tuple[ExpectedSlice, Record[ShardRecord]]]:
    """Check the records themselves; return the valid ones."""
    sizes = _listing(folder, inputs, files=not read_files)
    sound = []
    for item, read in zip(expected, _records(folder, expected, sizes), strict=True):
        found = list(_checked(item, read, inputs, sizes, read_files=read_files))
        result.problems += found
        if isinstance(read, Record) and not found:
            sound.append((item, read))
            result.shards += len(read.value.shards)
            result.documents += read.value.documents.out
            result.tokens += read.value.tokens
    return sound


def _listing(folder: Folder, inputs: Inputs, *, files: bool) -> dict[str, int]:
    """Return names and sizes of the records, and with `files` of the files that they name."""
    prefixes = [RECORDS]
    if files:
        prefixes += [f"{source.name}/" for source in inputs.plan.sources] + [QUARANTINE]
    return {name: size for prefix in prefixes for name, size in folder.sizes(prefix).items()}


def _records(
    folder: Folder, expected: Sequence[ExpectedSlice], sizes: Mapping[str, int]
) -> Iterator[Record[ShardRecord] | str]:
    """Yield the record of each slice, or the reason why there is none."""

    def read(item: ExpectedSlice) -> Record[ShardRecord] | str:
        name = item.record_name
        if name not in sizes:
            return f"{name} is missing"
        try:
            record = read_record(folder, name, ShardRecord)
        except CorruptOutputError as error:
            return str(error)
        return f"{name} is missing" if record is None else record

    with ThreadPoolExecutor(max_workers=READERS) as pool:
        yield from pool.map(read, expected)


def _checked(
    expected: ExpectedSlice,
    read: Record[ShardRecord] | str,
    inputs: Inputs,
    sizes: Mapping[str, int],
    *,
    read_files: bool,
) -> Iterator[str]:
    if isinstance(read, str):
        yield read
        return
    value = read.value
    if value.key != expected.key:
        yield (
            f"{expected.record_name} belongs to another recipe, input or tokenizer: its key is "
            f"{value.key}, expected {expected.key}"
        )
        return
    item_bytes = inputs.model.id_bytes
    for problem in record_problems(value, item_bytes=item_bytes, slice_=expected.slice):
        yield f"{expected.record_name}: {problem}"
    if not read_files:
        yield from listed_problems(value, sizes)


def _whole_problems(
    manifest: Manifest,
    inputs: Inputs,
    records: Sequence[Record[ShardRecord]],
    published: Folder | None,
) -> Iterator[str]:
    """Build shards.idx and manifest again from the records, and compare them."""
    again = assemble(
        inputs.plan,
        records,
        settings=inputs.settings,
        tokenizer=inputs.tokenizer,
    )
    names = sorted(item.name for item in fields(manifest))
    different = [n for n in names if getattr(again.manifest, n) != getattr(manifest, n)]
    if different:
        yield f"{MANIFEST_NAME} and the records differ in {', '.join(different)}"
    if published is not None and not _holds(published, again.shards_index):
        yield f"{SHARDS_INDEX_NAME} is not what the records give"


def _holds(folder: Folder, data: bytes) -> bool:
    try:
        return folder.read_start(SHARDS_INDEX_NAME, len(data) + 1) == data
    except FileNotFoundError:
        return False


def _is_trusted(inputs: Inputs) -> bool:
    """Return whether the tokenizer is the one from which the keys of the slices were made."""
    return {settings.tokenizer_sha256 for settings in inputs.settings.values()} <= {
        inputs.tokenizer.sha256
    }


def _works(
    folder: Folder,
    sound: Sequence[tuple[ExpectedSlice, Record[ShardRecord]]],
    inputs: Inputs,
    *,
    sample: bool,
    deep: bool,
    masks: bool,
) -> list[SliceWork]:
    filled = [item.key for item, record in sound if record.value.shards]
    sampled = set(choose_slices(filled)) if sample else set()
    return [
        work_of(
            item,
            record,
            folder=folder,
            settings=inputs.settings[item.slice.source],
            model=inputs.model,
            depth=depth_of(item.slice, deep=deep, masks=masks, sampled=item.key in sampled),
        )
        for item, record in sound
    ]


def _with_readable_sources(works: Iterable[SliceWork], result: Verification) -> Iterator[SliceWork]:
    """Yield the works without the sources whose URLs are stored without their secrets."""
    for work in works:
        masked = next((piece.url for piece in work.slice.pieces if is_masked(piece.url)), None)
        if masked is None or work.depth is None:
            yield work
            continue
        yield replace(work, depth=None)
        result.unchecked.append(
            f"{work.record_name}: its source was not compared, since {masked} is stored without "
            "its login or signature"
        )


def _add_results(works: Sequence[SliceWork], run: Runner, result: Verification) -> None:
    """Check the files of slices; add the problems to the result in the order of the plan."""
    for check in in_order(run(works), len(works)):
        if isinstance(check, CheckFailure):
            result.unchecked.append(check.why)
            continue
        result.problems += check.problems
        result.sampled += check.sampled
        result.source_bytes += check.source_bytes
