"""Verification: compares an output with its records, and the records with the plan.

The input is an output folder. The output is a list of problems. Nothing is repaired; the next run
of the job does that. Sizes are checked before a file is read.
"""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from nanotok_ray.errors import (
    CorruptOutputError,
    NanotokError,
    TokenizerError,
    TransientIOError,
)
from nanotok_ray.formats import (
    LEARN_RECORD,
    MANIFEST_NAME,
    MASKED,
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
    sha256_of,
)
from nanotok_ray.shards.check import (
    CheckFailure,
    SliceCheck,
    SliceWork,
    check_slices,
    choose_slices,
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
    FileModel,
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

    def add(self, check: SliceCheck | CheckFailure) -> None:
        """Add the check of a slice."""
        if isinstance(check, CheckFailure):
            self.unchecked.append(check.why)
            return
        self.problems += check.problems
        self.sampled += check.sampled
        self.source_bytes += check.source_bytes

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


Runner = Callable[[Sequence[SliceWork]], Iterable[SliceCheck | CheckFailure]]
"""Checks slices, and yields the result of each in their order."""


OutputDepth = Literal["names", "files", "sample", "masks", "full"]
"""What is compared.

names: records, with names and sizes of files from one listing. This is enough for a job whose
workers have read their files back. files: also all bytes of files. sample: also some documents of
some slices with their sources; masks: instead of these, all conversations and vision documents;
full: all documents.
"""


def verify_output(
    folder: Folder,
    *,
    unpublished: Output | None = None,
    depth: OutputDepth = "sample",
    run: Runner | None = None,
    run_code: bool = False,
) -> Verification:
    """Verify an output folder against its manifest, or against the one about to be published.

    Args:
        folder: the output folder of a job.
        unpublished: the values about to be published; None: the manifest in the folder is used.
        depth: what is compared.
        run: the function that checks slices; None: one after the other.
        run_code: whether to run the functions of sources, whose code the plan of the output has.

    Raises:
        IncompleteOutputError: The manifest does not exist.
        CorruptOutputError: The manifest, the plan or the tokenizer cannot be read at all.
    """
    manifest = unpublished.manifest if unpublished else read_manifest(folder)
    inputs = read_inputs(folder, manifest)
    result = Verification(problems=fingerprint_problems(folder, manifest, inputs))
    if unpublished is None:  # the planning of a job refuses such sources
        result.problems += source_folder_problems(folder, inputs.plan)
        result.problems += _list_problems(folder, inputs.plan)
    expected = list(expected_records(inputs.plan, inputs.settings))
    result.slices = len(expected)
    sound = _check_records(folder, expected, inputs, result, from_listing=depth == "names")
    if len(sound) == len(expected):
        published = None if unpublished is not None else folder
        records = [record for _, record in sound]
        result.problems += _output_problems(manifest, inputs, records, published)
    if depth == "names" or not _is_trusted(inputs):
        return result
    # An output of others can name any file or URL as a source, which would be read with the rights
    # and credentials of this user.
    if depth != "files" and result.problems:
        result.unchecked.append(NO_SOURCES)
        depth = "files"
    todo = [
        _with_readable_sources(work, result)
        for work in _slices_to_check(folder, sound, inputs, depth)
    ]
    if not run_code:
        todo = _without_code(todo, result)
    for check in (run or check_slices)(todo):
        result.add(check)
    return result


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """The values with which the records of an output are compared."""

    plan: Plan
    plan_sha256: str
    tokenizer: Tokenizer
    settings: Mapping[str, ShardSettings]

    @property
    def model(self) -> Model | FileModel:
        """The model of the tokenizer."""
        return self.tokenizer.model


def read_inputs(folder: Folder, manifest: Manifest) -> Inputs:
    """Read plan and tokenizer of an output folder, and the settings in its manifest.

    Raises:
        CorruptOutputError: One of them cannot be read.
    """
    try:
        data = folder.read_bytes(PLAN_NAME, limit=MAX_PLAN_BYTES)
        plan = plan_from_json(data, folder=folder.url)
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
    sha256 = sha256_of(data)
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


def _list_problems(folder: Folder, plan: Plan) -> Iterator[str]:
    """Compare the lists of duplicates with their hashes."""
    for name, sha256 in {one.name: one.sha256 for one in plan.drop_lists()}.items():
        if folder.size(name) is None or folder.sha256(name) != sha256:
            yield f"{name}, a list of duplicates, is missing or damaged"


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
    from_listing: bool,
) -> list[tuple[ExpectedSlice, Record[ShardRecord]]]:
    """Check the records themselves; return the valid ones."""
    sizes = _listing(folder, inputs, files=from_listing)
    sound = []
    for item, read in zip(expected, _records(folder, expected, sizes), strict=True):
        problems = list(_record_problems(item, read, inputs))
        if isinstance(read, Record) and from_listing:
            problems += listed_problems(read.value, sizes)
        result.problems += problems
        if isinstance(read, Record) and not problems:
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


def _record_problems(
    expected: ExpectedSlice, read: Record[ShardRecord] | str, inputs: Inputs
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


def _output_problems(
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


def _slices_to_check(
    folder: Folder,
    sound: Sequence[tuple[ExpectedSlice, Record[ShardRecord]]],
    inputs: Inputs,
    depth: OutputDepth,
) -> Iterator[SliceWork]:
    filled = [item.key for item, record in sound if record.value.shards]
    sampled = set(choose_slices(filled)) if depth == "sample" else set()
    for item, record in sound:
        work = work_of(folder, item, record, model=inputs.model)
        if depth == "full" or (depth == "masks" and item.slice.kind in MASKED):
            work = replace(work, depth="full")
        elif item.key in sampled:
            work = replace(work, depth="sample")
        yield work


def _without_code(todo: Sequence[SliceWork], result: Verification) -> list[SliceWork]:
    """Return the work without the sources that have a function."""
    named = {
        work.slice.source: work.slice.transform.name
        for work in todo
        if work.slice.transform is not None and work.depth is not None
    }
    result.unchecked += [
        f"source {source!r} was not compared, since its documents went through {function}, whose "
        f"code {PLAN_NAME} has; if you trust this output, run it with --run-code"
        for source, function in named.items()
    ]
    return [replace(work, depth=None) if work.slice.source in named else work for work in todo]


def _with_readable_sources(work: SliceWork, result: Verification) -> SliceWork:
    """Return the work without its sources if their URLs are stored without their secrets."""
    masked = next((file.url for file in work.slice.files if is_masked(file.url)), None)
    if masked is None or work.depth is None:
        return work
    result.unchecked.append(
        f"{work.record_name}: its source was not compared, since {masked} is stored without its "
        "login or signature"
    )
    return replace(work, depth=None)
