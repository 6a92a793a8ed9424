"""Opening a finished output by its manifest and the shards.idx that the manifest names.

An output without a manifest is rejected. No other file is read before a document is requested.
"""

import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from nanotok_ray.errors import CorruptOutputError, SourceError
from nanotok_ray.formats import (
    MANIFEST_NAME,
    MAX_JSON_BYTES,
    SPLITS,
    TOKENIZER_FILE,
    Manifest,
    local_path,
    read_manifest,
    read_shards_index,
    sha256_of,
)
from nanotok_ray.loader.files import Files, LocalFiles
from nanotok_ray.loader.shards import Shards


def open_shards(
    folder: str | os.PathLike[str],
    split: str = "train",
    source: str | Collection[str] | None = None,
    *,
    check_files: bool = False,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes: int | None = None,
) -> Shards:
    """Open the documents of a finished output folder.

    The result can be pickled for other processes that read the same documents, can be used after a
    fork, and can be read by several threads at a time.

    Args:
        folder: a local folder, as written by the job, or a URL.
        split: train or val.
        source: one source or several; None for all. Documents are in the recipe's order of sources.
        check_files: read all bytes of a shard when it is first opened, and compare them with its
            record.
        cache: for a URL, the folder for fetched blocks; None: the cache folder of this node,
            `$NANOTOK_CACHE_DIR` or `~/.cache/nanotok_ray`.
        cache_bytes: the number of bytes of blocks to keep there; None: all blocks.

    Raises:
        IncompleteOutputError: the manifest is missing: the job has not finished, or the folder is
            not an output folder.
        CorruptOutputError: a file does not match the manifest.
        SourceError: the split or the source does not exist, or the cache cannot be used.
        TransientIOError: a store failed in a way that can be temporary; reading documents raises it
            too.
    """
    folder = os.fspath(folder)
    cache = None if cache is None else Path(cache).expanduser().absolute()
    files: Files
    if (path := local_path(folder)) is not None:
        files = LocalFiles(path)
    else:
        from nanotok_ray.loader.remote import RemoteFiles  # noqa: PLC0415 - URLs alone need fsspec

        files = RemoteFiles(folder, cache=cache, cache_bytes=cache_bytes)
    manifest = read_manifest(files)
    _check_tokenizer(files, manifest)
    index = read_shards_index(files, manifest)
    chosen = index.rows["split"] == _split_number(split)
    if source is not None:
        wanted = _source_numbers(source, manifest.sources, folder=folder)
        chosen &= np.isin(index.rows["source"], wanted)
    return Shards(
        files=files,
        index=index,
        rows=np.flatnonzero(chosen),
        manifest=manifest,
        again=partial(
            open_shards,
            files.url,
            split,
            source if source is None or isinstance(source, str) else tuple(source),
            check_files=check_files,
            cache=cache,
            cache_bytes=cache_bytes,
        ),
        check_files=check_files,
    )


def _source_numbers(
    source: str | Collection[str], names: Sequence[str], *, folder: str
) -> list[int]:
    wanted = [source] if isinstance(source, str) else list(source)
    for name in wanted:
        if name not in names:
            raise SourceError(f"no source {name!r} in {folder}; there are {', '.join(names)}")
    if not wanted:
        raise SourceError(f"source names none of {', '.join(names)}; omit it for all of them")
    return [names.index(name) for name in wanted]


def _check_tokenizer(files: Files, manifest: Manifest) -> None:
    """Refuse an output whose tokenizer is not that of its shards; it need not have a tokenizer."""
    try:
        data = files.read_bytes(TOKENIZER_FILE, limit=MAX_JSON_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return
    if sha256_of(data) != manifest.tokenizer_sha256:
        raise CorruptOutputError(
            f"{files.join(TOKENIZER_FILE)} is not the tokenizer of the shards that {MANIFEST_NAME} "
            "names: another tokenizer was written there; run the job again"
        )


def _split_number(split: str) -> int:
    if split not in SPLITS:
        raise SourceError(f"no split {split!r}; there are {' and '.join(SPLITS)}")
    return SPLITS.index(split)
