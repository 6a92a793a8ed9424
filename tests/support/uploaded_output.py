"""An output copied to a store, and two readers compared document by document."""

from pathlib import Path

import numpy as np

from nanotok_ray.storage import Folder


def upload(root: Path, url: str) -> Folder:
    """Copy all files of an output to a store."""
    folder = Folder(url)
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.relative_to(root).as_posix().startswith("run/"):
            folder.write_whole(path.relative_to(root).as_posix(), path.read_bytes())
    return folder


def same_documents(there, local) -> int:
    """Compare all values of every document of two readers; return the number of documents."""
    assert len(there) == len(local)
    assert there.fingerprint == local.fingerprint
    for number in range(len(local)):
        assert there[number].dtype == local[number].dtype
        assert np.array_equal(there[number], local[number])
        for ask in ("mask", "images"):
            own, expected = getattr(there, ask)(number), getattr(local, ask)(number)
            assert (own is None) == (expected is None)
            assert expected is None or np.array_equal(own, expected)
        assert there.document_id(number) == local.document_id(number)
    _same_pieces(there, local)
    return len(local)


def _same_pieces(there, local) -> None:
    documents = np.random.default_rng(1).permutation(len(local))
    lengths = local.lengths(documents)
    assert np.array_equal(there.lengths(documents), lengths)
    starts = lengths // 3
    left = lengths - starts
    mine, own = (each.pieces(documents, starts, left, masks=True) for each in (there, local))
    for place, length in enumerate(left.tolist()):
        for name in ("ids", "masks"):
            parts = [_cut(each, name, place, length) for each in (mine, own)]
            assert parts[0] == parts[1]


def _cut(pieces, name: str, place: int, length: int) -> list[int] | None:
    array = getattr(pieces, name)[pieces.which[place]]
    start = pieces.offsets[place]
    return None if array is None else array[start : start + length].tolist()
