"""NAME.images: the positions of the tokens of images in the documents of a shard.

Little-endian: 8 bytes of magic, u32 version, u32 zero, u64 number of documents, then (documents +
1) i64 with the number of images before each document and in total, then three i32 for each image:
start and end of its tokens as positions in the ids of its document (half-open), and its number in
the document. The module requires only numpy. The number of ids of each document is an argument of
`check_within`.
"""

import struct
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from nanotok_ray.errors import CorruptOutputError, other_format

Images = npt.NDArray[np.int64]
"""The images of a batch of documents, in order, of shape (m, 3): index of the document in the
batch, begin, end.
"""

_MAGIC = b"NANOTOKI"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQ")
_IMAGE_BYTES = 12
_IMAGES = 1 << 18  # images written at a time


def images_bytes(*, documents: int, images: int) -> int:
    """Return the size of the file of a number of documents and images, in bytes.

    >>> images_bytes(documents=2, images=1)
    60
    """
    return _HEADER.size + 8 * (documents + 1) + _IMAGE_BYTES * images


def images_parts(batches: Sequence[tuple[int, npt.NDArray[np.integer]]]) -> Iterator[bytes]:
    """Yield the pieces of the file of batches of documents with their `Images`.

    >>> batch = 2, np.array([[0, 1, 4], [0, 4, 8], [1, 0, 4]])
    >>> sum(map(len, images_parts([batch, batch]))) == images_bytes(documents=4, images=6)
    True
    """
    documents = sum(count for count, _ in batches)
    yield _HEADER.pack(_MAGIC, _VERSION, 0, documents) + bytes(8)
    end = 0
    for count, images in batches:
        yield (np.searchsorted(images[:, 0], np.arange(1, count + 1)) + end).astype("<i8").tobytes()
        end += len(images)
    for _, images in batches:
        numbers = _positions(images[:, 0])
        for start in range(0, len(images), _IMAGES):
            stop = start + _IMAGES
            part = np.column_stack([images[start:stop, 1:], numbers[start:stop]])
            yield part.astype("<i4").tobytes()


def images_of(images: Images, chosen: slice) -> Images:
    """Return the images of adjacent documents, which are numbered from 0.

    >>> images_of(np.array([[0, 1, 4], [2, 0, 4]]), slice(1, 3)).tolist()
    [[1, 0, 4]]
    """
    first, last = np.searchsorted(images[:, 0], [chosen.start, chosen.stop])
    rows = images[first:last].copy()
    rows[:, 0] -= chosen.start
    return rows


def _positions(documents: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return the number of each image in its document, counted from 0.

    >>> _positions(np.array([3, 3, 7])).tolist()
    [0, 1, 0]
    """
    return np.arange(len(documents), dtype=np.int64) - np.searchsorted(documents, documents)


class DocumentImages:
    """The images of a shard's documents, in a file that can be memory-mapped."""

    def __init__(self, data: npt.NDArray[np.uint8], *, name: str, documents: int) -> None:
        """Read the bytes of the file; errors use its name.

        Raises:
            CorruptOutputError: The file does not have images of this number of documents, or is
                inconsistent.
        """
        self._name = name
        start = images_bytes(documents=documents, images=0)
        if len(data) < start:
            raise CorruptOutputError(
                f"{name} has {len(data)} bytes, images of {documents} documents take {start} and "
                "more"
            )
        magic, version, zero, count = _HEADER.unpack(data[: _HEADER.size].tobytes())
        if magic == _MAGIC and version != _VERSION:
            raise CorruptOutputError(
                other_format(name, f"version {version}", f"version {_VERSION}")
            )
        if (magic, version, zero, count) != (_MAGIC, _VERSION, 0, documents):
            raise CorruptOutputError(
                f"{name}: the header is not that of images of {documents} documents"
            )
        self._ends: npt.NDArray[np.int64] = data[_HEADER.size : start].view("<i8")
        num_images, rest = divmod(len(data) - start, _IMAGE_BYTES)
        ends = self._ends
        # Compared directly, since differences of distant numbers can exceed 64 bits.
        if rest or ends[0] != 0 or ends[-1] != num_images or (ends[1:] < ends[:-1]).any():
            raise CorruptOutputError(f"{name}: the numbers of its images do not agree with them")
        self._images: npt.NDArray[np.int32] = data[start:].view("<i4").reshape(num_images, 3)
        self._check_images()

    def _check_images(self) -> None:
        starts, ends, numbers = self._images.T
        self._refuse((starts < 0) | (starts >= ends), "has no tokens or starts before its document")
        first = self._ends[:-1][np.diff(self._ends) > 0]
        is_first = np.zeros(len(starts), dtype=bool)
        is_first[first] = True
        behind = np.zeros(len(starts), dtype=bool)
        behind[1:] = starts[1:] < ends[:-1]
        self._refuse(behind & ~is_first, "starts before the end of the previous image")
        counted = np.arange(len(starts)) - np.repeat(self._ends[:-1], np.diff(self._ends))
        self._refuse(numbers != counted, "does not have the number of its position in the document")

    def _refuse(self, wrong: npt.NDArray[np.bool_], why: str) -> None:
        """Refuse the first image that is wrong; the message names its document."""
        if wrong.any():
            image = int(np.argmax(wrong))
            document = int(np.searchsorted(self._ends, image, side="right")) - 1
            number = image - int(self._ends[document])
            raise CorruptOutputError(f"{self._name}: image {number} of document {document} {why}")

    def check_within(self, lengths: npt.NDArray[np.integer]) -> None:
        """Refuse images that end after their document; `lengths` are the numbers of ids.

        Raises:
            CorruptOutputError: An image ends after its document; the message names the first one.
        """
        limits = np.repeat(lengths, np.diff(self._ends))
        self._refuse(self._images[:, 1] > limits, "ends after its document")

    @property
    def num_images(self) -> int:
        """Number of images of all documents."""
        return len(self._images)

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all images."""
        return int((self._images[:, 1] - self._images[:, 0]).sum(dtype=np.int64))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, document: int) -> npt.NDArray[np.int32]:
        """Return start, end and number of each image of a document as a view of shape (n, 3)."""
        return self._images[self._ends[document] : self._ends[document + 1]]

    def part(self, start: int, stop: int) -> Images:
        """Return the images of adjacent documents, which are numbered from 0.

        >>> batch = 3, np.array([[0, 1, 4], [2, 0, 4], [2, 5, 9]])
        >>> data = np.frombuffer(b"".join(images_parts([batch])), np.uint8)
        >>> DocumentImages(data, name="a.images", documents=3).part(1, 3).tolist()
        [[1, 0, 4], [1, 5, 9]]
        """
        bounds = self._ends[start : stop + 1]
        spans = self._images[bounds[0] : bounds[-1], :2].astype(np.int64)
        documents = np.repeat(np.arange(stop - start), np.diff(bounds))
        return np.column_stack([documents, spans])
