"""The rows of shards.idx against each other, before anything is opened by what they say.

Takes an index as read, whoever wrote it, and the list of sources; numpy only. Files are not known
here: that they are there with these sizes is checked when they are opened.
"""

import numpy as np
import numpy.typing as npt

from nanotok_ray.document_images import images_bytes
from nanotok_ray.document_index import index_bytes
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.manifest import NUMBERS, RECORDS, SHARDS_INDEX_NAME, SPLITS, ShardsIndex
from nanotok_ray.shard_paths import is_inner_name

MOST = 1 << 40
"""Documents, tokens or bytes of one shard: more than any disk holds, and sums fit 64 bits."""

_INDEX_BYTES = index_bytes(0)
_DOCUMENT_BYTES = index_bytes(1) - index_bytes(0)
_IMAGES_BYTES = images_bytes(documents=0, images=0)
_PER_DOCUMENT = images_bytes(documents=1, images=0) - _IMAGES_BYTES
_PER_IMAGE = images_bytes(documents=0, images=1) - _IMAGES_BYTES


def check_rows(index: ShardsIndex, *, sources: int) -> None:
    """Refuse rows that contradict themselves.

    Raises:
        CorruptOutputError: naming the first row and what is wrong with it.
    """
    rows = index.rows
    wide = np.isin(rows["item_bytes"], (2, 4))
    checks = {
        "a source that is none": rows["source"] < sources,
        "a split that is none": rows["split"] < len(SPLITS),
        "ids of neither 2 nor 4 bytes": wide,
        "a name outside of its names": rows["name_offset"] < len(index.strings),
        "a size that no shard has": np.all([rows[name] <= MOST for name in NUMBERS], axis=0),
    }
    _refuse(checks)
    documents, tokens, images = rows["documents"], rows["tokens"], rows["images_bytes"]
    least = _IMAGES_BYTES + documents * _PER_DOCUMENT
    _refuse(
        {
            "another size than its tokens": rows["bin_bytes"] == tokens * rows["item_bytes"],
            "an index of another size than its documents": rows["idx_bytes"]
            == _INDEX_BYTES + documents * _DOCUMENT_BYTES,
            "a mask of another length": (rows["mask_bytes"] == 0) | (rows["mask_bytes"] == tokens),
            "image positions of another size than its documents": (images == 0)
            | ((images >= least) & ((images - least) % _PER_IMAGE == 0)),
        }
    )


def shard_name(index: ShardsIndex, row: int, *, sources: list[str]) -> str:
    """Give the name of a shard: that of a file in the folder of its source and split.

    Raises:
        CorruptOutputError: it is no such name.
    """
    entry = index.rows[row]
    start = int(entry["name_offset"])
    end = index.strings.find(b"\0", start)
    name = index.strings[start:end].decode(errors="replace")
    folder, _, _ = name.rpartition("/")
    expected = f"{sources[int(entry['source'])]}/{SPLITS[int(entry['split'])]}"
    if end < 0 or folder != expected or not is_inner_name(name):
        raise CorruptOutputError(
            f"{SHARDS_INDEX_NAME}, row {row}: {name[:80]!r} is not the name of a shard "
            f"in {expected}"
        )
    return name


def record_name(shard: str) -> str:
    """Give the path of the record that names a shard: its own, without the number of the shard.

    >>> record_name("web/train/part-00003-000-0123456789abcdef")
    'records/tokenize/web/train/part-00003-0123456789abcdef.json'
    """
    slice_name, _, key = shard.rpartition("-")
    return f"{RECORDS}{slice_name.rpartition('-')[0]}-{key}.json"


def _refuse(checks: dict[str, npt.NDArray[np.bool_]]) -> None:
    for what, is_right in checks.items():
        if not is_right.all():
            row = int(np.argmin(is_right))
            raise CorruptOutputError(f"{SHARDS_INDEX_NAME}, row {row} has {what}")
