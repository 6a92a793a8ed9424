"""Compares a record with itself, its slice, its files, and its source when read again.

The types of the values of the record were checked before. Every function yields the problems that
it found.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from nanotok_ray.formats import (
    ILLUSTRATED,
    MASKED,
    MAX_SHARD_NUMBER,
    Shard,
    ShardRecord,
    SliceName,
    images_bytes,
    index_bytes,
    is_inner_name,
    suffixes_of,
)
from nanotok_ray.shards.settings import quarantine_name, shard_name
from nanotok_ray.sources import SKIPPED, Quarantined, Slice, SliceReading
from nanotok_ray.storage import Folder


def record_problems(record: ShardRecord, *, item_bytes: int, slice_: Slice) -> Iterator[str]:
    """Yield the contradictions of a record with itself and with its slice.

    Args:
        record: a record from `read_record`, or one about to be written.
        item_bytes: the bytes of a token id.
        slice_: the slice of the record.
    """
    prefix = f"record {record.key[:16]}"
    yield from _sums(record, prefix)
    yield from _byte_sums(record, prefix)
    yield from _token_sums(record, slice_.kind, prefix)
    for shard in record.shards:
        yield from _map_problems(shard)
    names = list(_name_problems(record, slice_, prefix))
    yield from names
    if not names:
        yield from _size_problems(record, item_bytes)
        if slice_.kind in ILLUSTRATED:
            yield from _images_problems(record, _sizes_of(record), prefix)
    yield from _slice_problems(record, slice_, prefix)


def listed_problems(record: ShardRecord, sizes: Mapping[str, int]) -> Iterator[str]:
    """Compare the files of a record with names and sizes of a listing."""
    for file in record.files:
        if file.name not in sizes:
            yield f"{file.name} is missing"
        elif sizes[file.name] != file.size:
            yield f"{file.name} has {sizes[file.name]} bytes, its record says {file.size}"


def account_problems(record: ShardRecord, reading: SliceReading) -> Iterator[str]:
    """Compare the counts of reading the source again with the record."""
    for old, new in zip(record.read, reading.read, strict=False):
        if (old.bytes, old.sha256) != (new.bytes, new.sha256):
            yield (
                f"{new.file}, {new.start} to {new.stop}, has changed since it was read: "
                f"it had {old.bytes} bytes, sha256 {old.sha256[:16]}, and now has "
                f"{new.bytes}, {new.sha256[:16]}"
            )
    counted = {
        "documents in": (record.documents.in_, reading.documents_in),
        "bytes of documents in": (record.bytes.in_, reading.bytes_in),
        "blank lines": (record.blank_lines, reading.blank_lines),
        "documents of the other split": (record.other_split, reading.other_split),
        # Records of earlier versions do not count them.
        "lost rows": (record.lost_rows or reading.lost_rows, reading.lost_rows),
        "dropped rows": (dict(record.dropped), dict(reading.dropped)),
    }
    for what, (then, now) in counted.items():
        if then != now:
            yield f"record {record.key[:16]}: {then} {what}, the source has {now}"


def unused_problems(record: ShardRecord, unused: Mapping[str, int]) -> Iterator[str]:
    """Compare the unused text of all documents with a record, unless it does not count it."""
    said = record.unused_text or unused
    for name in sorted(said.keys() | unused.keys()):
        then, now = said.get(name, 0), unused.get(name, 0)
        if then != now:
            yield (
                f"record {record.key[:16]}: its documents have {now} values of {name!r} that "
                f"are not rendered, it says {then}"
            )


def fim_problems(record: ShardRecord, fim: Mapping[str, int]) -> Iterator[str]:
    """Compare the numbers of rearranged documents with a record."""
    if dict(record.fim) != dict(fim):
        yield (
            f"record {record.key[:16]}: {dict(fim)} of its documents are rearranged for filling in "
            f"the middle, it says {dict(record.fim)}"
        )


def quarantine_problems(
    folder: Folder, record: ShardRecord, quarantined: Quarantined
) -> Iterator[str]:
    """Compare the quarantine file of a record with the one that would be written now."""
    names = (file.name for file in record.files)
    name = next((name for name in names if name.endswith(".jsonl")), None)
    digest = hashlib.sha256()
    for block in quarantined.blocks():
        digest.update(block)
    expected = digest.hexdigest() if len(quarantined) else None
    if (None if name is None else folder.sha256(name)) != expected:
        where = name or f"record {record.key[:16]}"
        yield f"{where}: the quarantined documents differ from those of the source"


def _sums(record: ShardRecord, prefix: str) -> Iterator[str]:
    documents, shards = record.documents, record.shards
    if documents.in_ != documents.out + documents.quarantined:
        yield (
            f"{prefix}: {documents.in_} documents in, {documents.out} out, "
            f"{documents.quarantined} quarantined"
        )
    if sum(record.quarantined.values()) != documents.quarantined:
        yield f"{prefix}: the reasons do not add up to {documents.quarantined} documents"
    for name, total in (("documents", documents.out), ("tokens", record.tokens)):
        sum_of_shards = sum(getattr(shard, name) for shard in shards)
        if sum_of_shards != total:
            yield f"{prefix}: its shards have {sum_of_shards} {name}, it says {total}"


def _byte_sums(record: ShardRecord, prefix: str) -> Iterator[str]:
    num_bytes = record.bytes
    if num_bytes.in_ != num_bytes.out + num_bytes.quarantined:
        yield (
            f"{prefix}: {num_bytes.in_} bytes of documents in, {num_bytes.out} out, "
            f"{num_bytes.quarantined} quarantined"
        )
    if (rearranged := sum(record.fim.values())) > record.documents.out:
        yield f"{prefix}: {rearranged} documents rearranged of {record.documents.out}"
    sum_of_shards = sum(shard.bytes for shard in record.shards)
    if sum_of_shards != num_bytes.out:
        yield (
            f"{prefix}: its shards have {sum_of_shards} bytes of documents, it says {num_bytes.out}"
        )


def _token_sums(record: ShardRecord, kind: str, prefix: str) -> Iterator[str]:
    """Compare the counts of tokens in a record with their number and with the kind of its slice."""
    tokens, roles = record.tokens, record.roles
    in_roles = sum(roles.values())
    if kind not in MASKED and roles:
        yield f"{prefix}: it has tokens of {', '.join(sorted(roles))}, and is of kind {kind}"
    elif kind in MASKED and in_roles != tokens:
        yield f"{prefix}: {in_roles} tokens in all roles, it says {tokens}"
    if kind not in ILLUSTRATED and (record.images or "image" in roles):
        yield f"{prefix}: it has images, and is of kind {kind}"
    if record.images > roles.get("image", 0):
        yield f"{prefix}: {record.images} images of {roles.get('image', 0)} tokens"
    special = sum(record.special_tokens.values())
    for name, count in (
        ("special tokens", special),
        ("trained tokens", record.trainable_tokens),
    ):
        if count > tokens:
            yield f"{prefix}: {count} {name} of {tokens}"
    if record.truncated > record.over_max_tokens:
        yield f"{prefix}: {record.truncated} documents cut, {record.over_max_tokens} too long"


def _map_problems(shard: Shard) -> Iterator[str]:
    entries = shard.source_map
    mapped = sum(entry.rows for entry in entries)
    if mapped != shard.documents:
        yield f"{shard.name}: {mapped} documents in its source map of {shard.documents}"
    for entry in entries:
        if not entry.rows or (entry.row_group is None) == (entry.range is None):
            yield f"{shard.name}: its source map has an entry without rows or one position"
        present, absent = entry.present, entry.absent or ()
        rising = _is_rising(absent if present is None else present)
        last = entry.first_row + entry.rows + len(absent) - 1
        is_between = not absent or (entry.first_row < absent[0] and absent[-1] < last)
        if not (rising and is_between and (present is None or len(present) == entry.rows)):
            yield f"{shard.name}: its source map has rows that contradict each other"


def _is_rising(rows: Iterable[int]) -> bool:
    last = -1
    for row in rows:
        if row <= last:
            return False
        last = row
    return True


def _name_problems(record: ShardRecord, slice_: Slice, prefix: str) -> Iterator[str]:
    """Compare the names of shards and files with those derived from the slice."""
    shards = [shard_name(slice_, record.key, number) for number in range(len(record.shards))]
    if [shard.name for shard in record.shards] != shards:
        yield f"{prefix}: its shards do not have the names of its slice"
    suffixes = suffixes_of(slice_.kind, with_document_ids=slice_.id_column is not None)
    expected = {f"{name}{suffix}" for name in shards for suffix in suffixes}
    if record.documents.quarantined:
        expected.add(quarantine_name(slice_, record.key))
    names = [file.name for file in record.files]
    for name in sorted(set(names) - expected | {n for n in names if not is_inner_name(n)}):
        yield f"{prefix} names {name!r}, which is not a file of its slice"
    for name in sorted(expected - set(names)):
        yield f"{prefix} does not name {name}"
    if len(set(names)) != len(names):
        yield f"{prefix} names a file twice"


def _sizes_of(record: ShardRecord) -> dict[str, int]:
    return {file.name: file.size for file in record.files}


def _size_problems(record: ShardRecord, item_bytes: int) -> Iterator[str]:
    sizes = _sizes_of(record)
    for shard in record.shards:
        tokens = shard.tokens
        expected = {
            f"{shard.name}.bin": tokens * item_bytes,
            f"{shard.name}.idx": index_bytes(shard.documents),
            f"{shard.name}.mask": tokens,
        }
        if max(tokens, shard.documents) > MAX_SHARD_NUMBER:
            yield f"{shard.name} has {tokens} tokens by its record, no shard has so many"
        for name, size in expected.items():
            if sizes.get(name, size) != size:
                yield (
                    f"{name} has {sizes[name]} bytes by its record, "
                    f"{shard.documents} documents of {tokens} tokens need {size}"
                )


def _images_problems(record: ShardRecord, sizes: Mapping[str, int], prefix: str) -> Iterator[str]:
    """Compare the sizes of NAME.images with the number of images, which shards do not contain."""
    images = 0
    for shard in record.shards:
        name = f"{shard.name}.images"
        empty, one = (images_bytes(documents=shard.documents, images=n) for n in (0, 1))
        number, rest = divmod(sizes[name] - empty, one - empty)
        images += number
        if number < 0 or rest:
            yield (
                f"{name} has {sizes[name]} bytes by its record, {shard.documents} documents "
                f"take {empty} and {one - empty} for each image"
            )
            return
    if images != record.images:
        yield f"{prefix}: its shards have room for {images} images, it says {record.images}"


def _slice_problems(record: ShardRecord, slice_: Slice, prefix: str) -> Iterator[str]:
    if record.slice != SliceName(source=slice_.source, split=slice_.split, number=slice_.number):
        yield f"{prefix} is in the place of another slice than the one it names, {record.slice}"
    if SKIPPED not in record.quarantined:
        read = [(one.file, one.start, one.stop) for one in record.read]
        if read != [(piece.file.path, piece.start, piece.stop) for piece in slice_.pieces]:
            yield f"{prefix}: the ranges that it read are not those of the plan"
    paths = {piece.file.path for piece in slice_.pieces}
    for shard in record.shards:
        for entry in shard.source_map:
            if entry.file not in paths:
                yield f"{shard.name}: its source map names {entry.file!r}, which is not read"
