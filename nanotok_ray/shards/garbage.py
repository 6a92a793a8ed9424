"""Finds the files of a finished output that its manifest does not name.

Only files of the kinds that a job writes, or wrote in earlier versions, are considered, in the
folders of sources, records/, quarantine/, run/ and tokenizers; temporary files everywhere. The
caller must hold the lease.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.formats import (
    LEARN_RECORD,
    MANIFEST_NAME,
    MAX_PLAN_BYTES,
    PLAN_NAME,
    RECIPE_NAME,
    RECORDS,
    RESERVED_NAMES,
    SHARDS_INDEX_NAME,
    SPLITS,
    TOKENIZER_FOLDER,
    ShardRecord,
    digest_of,
    read_manifest,
    sha256_of,
)
from nanotok_ray.shards.records import Record, expected_records, slice_results
from nanotok_ray.sources import LISTS, QUARANTINE, plan_from_json
from nanotok_ray.storage import CHECKSUMS, Folder, checksum_name, writer_is_alive

_SHARED = ("work/", "run/lease/")
"""Folders of an output in which other jobs, or other threads of this process, write."""
_METADATA_PREFIXES = tuple(f".{name}." for name in (MANIFEST_NAME, PLAN_NAME, SHARDS_INDEX_NAME))

_STEM = r"[A-Za-z0-9_-]+-\d{5,}"
_SPLIT = f"(?:{'|'.join(SPLITS)})"
_SHARD = re.compile(rf"[^/]+/{_SPLIT}/{_STEM}-\d{{3,}}-[0-9a-f]{{16}}\.[a-z]+")
_RECORD = re.compile(rf"{RECORDS}[^/]+/{_SPLIT}/{_STEM}-[0-9a-f]{{16}}\.json")
_QUARANTINED = re.compile(rf"{QUARANTINE}[^/]+/{_SPLIT}/{_STEM}-[0-9a-f]{{16}}\.jsonl")
_LIST = re.compile(rf"{LISTS}[0-9a-f]{{32}}\.u32")
_LEASE = re.compile(r"run/lease/\d{6,}\.json")
_PROBE = re.compile(r"run/probe/[0-9a-f]+(?:-[0-9a-f]+)?")
_CHECKSUM = re.compile(rf"{CHECKSUMS}.+\.[0-9a-f]{{32}}")
_KINDS = (_RECORD, _QUARANTINED, _LIST, _LEASE, _PROBE, _CHECKSUM)
_ALONE = (PLAN_NAME, LEARN_RECORD, RECIPE_NAME)
"""The checked files that are no records of slices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Garbage:
    """Names and bytes of the files to remove, in the order of removal."""

    records: Mapping[str, int]
    files: Mapping[str, int]
    """Shards and the files beside them, quarantine files, old leases, probes, checksums, temporary
    files, span tables of earlier versions."""
    last: Mapping[str, int]
    """Records of former sources, removed last because they identify the files of these sources."""
    named_bytes: int
    """Bytes of records and files that the manifest names."""

    @property
    def all(self) -> dict[str, int]:
        """Every name, in order."""
        return {**self.records, **self.files, **self.last}

    @property
    def num_bytes(self) -> int:
        """Bytes of all files to remove."""
        return sum(self.all.values())


def find_garbage(out: Folder) -> Garbage:
    """Return the files of an output that its manifest does not name.

    Raises:
        IncompleteOutputError: There is no manifest; files of an unfinished job are not garbage.
        CorruptOutputError: The plan or the records differ from the manifest.
        TransientIOError: A remote store failed temporarily.
    """
    sources, records, names = _named(out)
    names |= {record.name for record in records}
    names |= {file.name for record in records for file in record.value.files}
    names |= {checksum_name(record.name, record.sha256) for record in records}
    names |= {checksum_name(name, out.sha256(name)) for name in _ALONE if out.exists(name)}
    sizes = dict(_written(out, sources))
    rest = {name: size for name, size in sizes.items() if name not in names}
    stale = {name: size for name, size in rest.items() if _RECORD.fullmatch(name)}
    last = {name: size for name, size in stale.items() if name.split("/")[2] not in sources}
    return Garbage(
        records={name: size for name, size in stale.items() if name not in last},
        files={name: size for name, size in rest.items() if name not in stale},
        last=last,
        named_bytes=sum(size for name, size in sizes.items() if name in names),
    )


def _named(out: Folder) -> tuple[set[str], list[Record[ShardRecord]], set[str]]:
    """Return the sources, records and lists that the manifest names, all of them or none."""
    manifest = read_manifest(out)
    data = out.read_bytes(PLAN_NAME, limit=MAX_PLAN_BYTES) if out.exists(PLAN_NAME) else b""
    if sha256_of(data) != manifest.plan_sha256:
        raise CorruptOutputError(_not_named(out, PLAN_NAME))
    settings = manifest.settings
    plan = plan_from_json(data)
    expected = list(expected_records(plan, settings))
    records = list(slice_results(out, expected).find().records.values())
    if digest_of(record.sha256 for record in records) != manifest.records_sha256:
        raise CorruptOutputError(_not_named(out, RECORDS))
    return set(settings), records, {one.name for one in plan.drop_lists()}


def _not_named(out: Folder, name: str) -> str:
    return (
        f"{out.join(name.rstrip('/'))} is not what {MANIFEST_NAME} names, so unused files cannot "
        "be determined; run the job again, then this command"
    )


def _written(out: Folder, sources: set[str]) -> Iterator[tuple[str, int]]:
    """Yield the files that a job can have written, with their bytes."""
    sizes = out.sizes()
    folders = sources | set(_former_sources(sizes))
    newest = max(filter(_LEASE.fullmatch, sizes), default="")
    for name, size in sorted(sizes.items()):
        is_shard = bool(_SHARD.fullmatch(name)) and name.split("/")[0] in folders
        if (is_shard or any(kind.fullmatch(name) for kind in _KINDS)) and name != newest:
            yield name, size
    for name in _left_over(out, folders):
        yield name, out.size(name) or 0


def remove_temporaries(out: Folder, work: Folder, *, sources: Iterable[str]) -> None:
    """Remove the temporary files of killed processes in an output and its work folder.

    The caller holds the lease of the output. In the work folder, which jobs share, only files of
    processes of this host are removed.
    """
    for name in _left_over(out, set(sources)):
        out.remove(name)
    for name in work.list_temporaries():
        if writer_is_alive(name) is False:
            work.remove(name)


def _left_over(out: Folder, sources: set[str]) -> Iterator[str]:
    for name in out.list_temporaries():
        top, slash, _ = name.partition("/")
        is_inside = top in {*sources, *RESERVED_NAMES} or top.startswith(f"{TOKENIZER_FOLDER}-")
        is_of_output = is_inside if slash else name.startswith(_METADATA_PREFIXES)
        is_alive = writer_is_alive(name)
        if is_of_output and not is_alive and (is_alive is False or not name.startswith(_SHARED)):
            yield name


def _former_sources(names: Iterable[str]) -> Iterator[str]:
    """Yield the sources that have records or quarantine files of any age."""
    for name in names:
        if _RECORD.fullmatch(name) or _QUARANTINED.fullmatch(name):
            source = name.split("/")[-3]
            if source not in RESERVED_NAMES and not source.startswith(TOKENIZER_FOLDER):
                yield source
