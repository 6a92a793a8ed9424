"""The check of one slice: a pure function of a small value and storage, wherever it runs.

The result is numbers and problems. The driver has checked the record by itself (`record.py`); this
module reads its files, and its sources if requested.
"""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from nanotok_ray.errors import CorruptOutputError, NanotokError
from nanotok_ray.formats.manifest import RECORD_FORMAT, TOKENIZER_FOLDER, from_json
from nanotok_ray.formats.schema import check_record_shape
from nanotok_ray.shards.check.chosen import compare_some
from nanotok_ray.shards.check.deep import compare_all
from nanotok_ray.shards.check.masks import compare_masks
from nanotok_ray.shards.check.shard import check_files
from nanotok_ray.shards.output import Expected
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.shards.sink import MASKED
from nanotok_ray.sources import Slice
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import expected_tokenizer

Level = Literal["files", "sample", "masks", "deep"]
"""Files alone; and some documents with their source; and all that have masks, by the plain reading;
and all documents."""

_COMPARE = {"sample": compare_some, "masks": compare_masks, "deep": compare_all}

MAX_PROBLEMS = 50
"""The limit of problems reported of one slice."""


def level_of(slice_: Slice, *, deep: bool, masks: bool, sampled: bool) -> Level:
    """Return how far a slice is checked, by the request, its kind, and the sample.

    What has no masks is checked as far as its files go where masks are asked for.
    """
    if deep:
        return "deep"
    if masks:
        return "masks" if slice_.kind in MASKED else "files"
    return "sample" if sampled else "files"


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceWork:
    """The arguments of the check of a slice."""

    slice: Slice
    settings: ShardSettings
    key: str
    out: str
    """URL of the output folder."""
    record_sha256: str
    """Of the record as the driver read it."""
    record_bytes: int
    file_bytes: int
    """Of the files that it names."""
    item_bytes: int
    num_ids: int
    special_tokens: Mapping[str, int]
    """Of the tokenizer, with their ids."""
    level: Level

    @property
    def record_name(self) -> str:
        """Path of the record in the output folder."""
        return Expected(slice=self.slice, key=self.key).record_name


@dataclass(frozen=True, kw_only=True, slots=True)
class SliceCheck:
    """The result of the check of a slice."""

    problems: tuple[str, ...] = ()
    sampled: int = 0
    """Documents compared with their source."""
    source_bytes: int = 0
    """Bytes of the documents that were read again from the sources."""


@dataclass(frozen=True, slots=True)
class Unchecked:
    """Why a slice could not be checked."""

    why: str


Result = tuple[int, SliceCheck | Unchecked]
"""The place of the work in its list, and what became of it."""


def check_slice(work: SliceWork) -> SliceCheck:
    """Check the files of a slice, and documents against their source as the level says.

    Raises:
        CorruptOutputError: the record is not the one that the driver read.
        TransientIOError: a remote store failed in a way that may pass.
    """
    folder = Folder(work.out)
    values = _same_record(folder, work)
    found = check_files(
        folder,
        values,
        item_bytes=work.item_bytes,
        num_ids=work.num_ids,
        special_tokens=work.special_tokens,
        image_token=work.settings.image_token,
    )
    problems = tuple(itertools.islice(found, MAX_PROBLEMS))
    if problems or work.level == "files":
        return SliceCheck(problems=problems)
    compare = _COMPARE[work.level]
    # The span table is not trusted here.
    sha256 = work.settings.tokenizer_sha256
    tokenizer = expected_tokenizer(folder.join(TOKENIZER_FOLDER), sha256, span_table=False)
    source = by_content(work.slice)
    compared = compare(folder, source, values, tokenizer=tokenizer, settings=work.settings)
    return SliceCheck(
        problems=tuple(compared.problems[:MAX_PROBLEMS]),
        sampled=compared.documents,
        source_bytes=compared.source_bytes,
    )


def check_each(works: Sequence[SliceWork]) -> Iterator[Result]:
    """Check slices one after the other; yield each result with its index.

    A slice that cannot be checked does not stop the others.
    """
    yield from enumerate(map(_try_check, works))


def by_content(slice_: Slice) -> Slice:
    """Return a slice whose files may have other times and etags, as a copy has: bytes are compared.

    A file of another size is refused when it is opened.
    """
    pieces = tuple(replace(piece, etag=None, mtime_ns=None) for piece in slice_.pieces)
    return replace(slice_, pieces=pieces)


def in_order(results: Iterable[Result], number: int) -> list[SliceCheck | Unchecked]:
    """Return what became of each of a number of works, in their order."""
    ended = dict(results)
    return [ended.get(index, Unchecked("it never ended")) for index in range(number)]


def _try_check(work: SliceWork) -> SliceCheck | Unchecked:
    try:
        return check_slice(work)
    except (NanotokError, OSError) as error:
        return Unchecked(f"{work.record_name}: {error}")


def _same_record(folder: Folder, work: SliceWork) -> dict[str, Any]:
    name = work.record_name
    try:
        data = folder.read_start(name, work.record_bytes + 1)
    except FileNotFoundError:
        data = b""
    if hashlib.sha256(data).hexdigest() != work.record_sha256:
        raise CorruptOutputError(
            f"{folder.join(name)} is not what the driver read there: it was changed meanwhile, or "
            "not every node sees the same folder"
        )
    values = from_json(data, name=name, expected_format=RECORD_FORMAT)
    check_record_shape(values, name=name, of_shards=True)
    return values
