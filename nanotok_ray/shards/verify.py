"""Verification of a whole output, and its result."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from nanotok_ray.errors import CorruptOutputError, VerificationError
from nanotok_ray.formats.manifest import MANIFEST_NAME, RECORDS, SHARDS_INDEX_NAME
from nanotok_ray.formats.schema import MAX_RECORD_BYTES, check_size
from nanotok_ray.shards.check.chosen import choose
from nanotok_ray.shards.check.record import listed_problems, record_problems
from nanotok_ray.shards.check.slice import (
    Result,
    SliceWork,
    Unchecked,
    check_each,
    in_order,
    level_of,
)
from nanotok_ray.shards.inputs import (
    Inputs,
    fingerprint_problems,
    read_inputs,
    read_manifest,
    source_folder_problems,
)
from nanotok_ray.shards.output import (
    READERS,
    Expected,
    Output,
    Record,
    assemble,
    expected_records,
    read_record,
)
from nanotok_ray.sources.quarantine import QUARANTINE
from nanotok_ray.storage import Folder

MAX_PRINTED_PROBLEMS = 20


@dataclass(slots=True)
class Verification:
    """What was checked, and every problem found, in the order of the plan."""

    slices: int = 0
    shards: int = 0
    documents: int = 0
    tokens: int = 0
    sampled: int = 0
    """Documents decoded and compared with their source."""
    source_bytes: int = 0
    """Bytes of the documents that were read again from the sources."""
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    """Slices that could not be checked, and why: nothing is known of them."""

    @property
    def passed(self) -> bool:
        """Whether all was checked and no problem was found."""
        return not self.problems and not self.unchecked

    def format_problems(self, folder: str) -> str:
        """Return the problems as lines, with what to do about them."""
        lines = []
        if self.problems:
            lines += [f"{folder}: {len(self.problems)} problems", *_first_lines(self.problems)]
            lines.append(
                "delete the files named above and run the job again: it makes only those anew"
            )
        if self.unchecked:
            number = f"{len(self.unchecked)} of {self.slices} slices"
            lines += [f"{folder}: {number} could not be checked", *_first_lines(self.unchecked)]
            lines.append("nothing is known of these: verify again")
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
        unpublished: what is about to be published; None: what the manifest there says.
        sample: compare some documents of some slices with their sources.
        read_files: read the files of all slices; else names and sizes alone are compared, with one
            listing, and no source is read: for a job whose workers have read their files back.
        deep: read all sources again and compare every document.
        masks: read the sources of conversations and vision documents again, and compare all of
            these, and what is trained on of them, with the plain reading of their dialect.
        run: how slices are checked; None: one after the other.

    Raises:
        IncompleteOutputError: there is no manifest.
        CorruptOutputError: manifest, plan or tokenizer cannot be read at all.
        VerificationError: deep and masks are both asked for.
    """
    if deep and masks:
        raise VerificationError("deep and masks are two ways to compare: ask for one at a time")
    manifest = unpublished.manifest if unpublished else read_manifest(folder)
    inputs = read_inputs(folder, manifest)
    result = Verification(problems=fingerprint_problems(folder, manifest, inputs))
    if unpublished is None:  # a job refuses such sources when it plans
        result.problems += source_folder_problems(folder, inputs.plan)
    expected = list(expected_records(inputs.plan, inputs.settings))
    result.slices = len(expected)
    sound = _check_records(folder, expected, inputs, result, read_files=read_files)
    if len(sound) == len(expected):
        published = None if unpublished is not None else folder
        result.problems += _whole_problems(manifest, inputs, [r for _, r in sound], published)
    if read_files and _is_trusted(inputs):
        works = _works(folder, sound, inputs, sample=sample, deep=deep, masks=masks)
        _check_slices(works, run or check_each, result)
    return result


@dataclass(frozen=True, slots=True)
class _Read:
    """A record and the bytes of its file."""

    record: Record
    num_bytes: int


def _check_records(
    folder: Folder,
    expected: Sequence[Expected],
    inputs: Inputs,
    result: Verification,
    *,
    read_files: bool,
) -> list[tuple[Expected, _Read]]:
    """Check the records by themselves; return the valid ones."""
    sizes = _listing(folder, inputs, files=not read_files)
    sound = []
    for item, read in zip(expected, _records(folder, expected, sizes), strict=True):
        found = list(_checked(item, read, inputs, sizes, read_files=read_files))
        result.problems += found
        if isinstance(read, _Read) and not found:
            sound.append((item, read))
            values = read.record.values
            result.shards += len(values["shards"])
            result.documents += values["documents"]["out"]
            result.tokens += values["tokens"]
    return sound


def _listing(folder: Folder, inputs: Inputs, *, files: bool) -> dict[str, int]:
    """Return names and sizes of the records, and of the files that they name if so asked."""
    prefixes = [RECORDS]
    if files:
        prefixes += [f"{source.name}/" for source in inputs.plan.sources] + [QUARANTINE]
    return {name: size for prefix in prefixes for name, size in folder.sizes(prefix).items()}


def _records(
    folder: Folder, expected: Sequence[Expected], sizes: Mapping[str, int]
) -> Iterator[_Read | str]:
    """Yield the record of each slice, or why there is none."""

    def read(item: Expected) -> _Read | str:
        name = item.record_name
        if name not in sizes:
            return f"{name} is missing"
        try:
            check_size(sizes[name], limit=MAX_RECORD_BYTES, name=name)
            record = read_record(folder, name)
        except CorruptOutputError as error:
            return str(error)
        return f"{name} is missing" if record is None else _Read(record, sizes[name])

    with ThreadPoolExecutor(max_workers=READERS) as pool:
        yield from pool.map(read, expected)


def _checked(
    expected: Expected,
    read: _Read | str,
    inputs: Inputs,
    sizes: Mapping[str, int],
    *,
    read_files: bool,
) -> Iterator[str]:
    if isinstance(read, str):
        yield read
        return
    values = read.record.values
    if values["key"] != expected.key:
        yield (
            f"{expected.record_name} belongs to another recipe, input or tokenizer: its key is "
            f"{values['key']}, expected {expected.key}"
        )
        return
    item_bytes = inputs.model.id_bytes
    for problem in record_problems(values, item_bytes=item_bytes, slice_=expected.slice):
        yield f"{expected.record_name}: {problem}"
    if not read_files:
        yield from listed_problems(values, sizes)


def _whole_problems(
    manifest: Mapping[str, Any], inputs: Inputs, reads: Sequence[_Read], published: Folder | None
) -> Iterator[str]:
    """Build shards.idx and manifest anew from the records, and compare."""
    again = assemble(
        inputs.plan,
        [read.record for read in reads],
        settings=inputs.settings,
        tokenizer=inputs.tokenizer,
    )
    names = again.manifest.keys() | manifest.keys()
    different = {name for name in names if again.manifest.get(name) != manifest.get(name)}
    if different:
        yield f"{MANIFEST_NAME} and the records differ in {', '.join(sorted(different))}"
    if published is not None and not _holds(published, again.shards_index):
        yield f"{SHARDS_INDEX_NAME} is not what the records give"


def _holds(folder: Folder, data: bytes) -> bool:
    try:
        return folder.read_start(SHARDS_INDEX_NAME, len(data) + 1) == data
    except FileNotFoundError:
        return False


def _is_trusted(inputs: Inputs) -> bool:
    """Return whether the tokenizer is the one the keys of the slices were made with."""
    return {settings.tokenizer_sha256 for settings in inputs.settings.values()} <= {
        inputs.tokenizer.sha256
    }


def _works(
    folder: Folder,
    sound: Sequence[tuple[Expected, _Read]],
    inputs: Inputs,
    *,
    sample: bool,
    deep: bool,
    masks: bool,
) -> list[SliceWork]:
    filled = [item.key for item, read in sound if read.record.values["shards"]]
    sampled = set(choose(filled)) if sample else set()
    return [
        SliceWork(
            slice=item.slice,
            settings=inputs.settings[item.slice.source],
            key=item.key,
            out=folder.url,
            record_sha256=read.record.sha256,
            record_bytes=read.num_bytes,
            file_bytes=sum(file["size"] for file in read.record.values["files"]),
            item_bytes=inputs.model.id_bytes,
            num_ids=inputs.model.num_ids,
            special_tokens=inputs.model.special_tokens,
            level=level_of(item.slice, deep=deep, masks=masks, sampled=item.key in sampled),
        )
        for item, read in sound
    ]


def _check_slices(works: Sequence[SliceWork], run: Runner, result: Verification) -> None:
    """Check the files of slices; add the problems to the result in the order of the plan."""
    for check in in_order(run(works), len(works)):
        if isinstance(check, Unchecked):
            result.unchecked.append(check.why)
            continue
        result.problems += check.problems
        result.sampled += check.sampled
        result.source_bytes += check.source_bytes
