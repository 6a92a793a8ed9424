"""What `nanotok inspect` looks at: the documents of an output, or the lines of a file."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from nanotok_ray.chat.reference import segments_of
from nanotok_ray.chat.segments import compose
from nanotok_ray.cli.arguments import positive
from nanotok_ray.dialects import DIALECTS, MALFORMED, Dialect, reason_of
from nanotok_ray.dialects.detect import detect
from nanotok_ray.dialects.fields import value_of
from nanotok_ray.errors import RecipeError, SourceError, TransientIOError
from nanotok_ray.formats.manifest import TOKENIZER_FOLDER
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe.special_tokens import GROUNDING, IMAGE_TOKENS, image_token_of
from nanotok_ray.report import Document, Spelling
from nanotok_ray.storage import open_input
from nanotok_ray.tokenizer import Tokenizer, written_tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspected:
    """Documents to show."""

    title: str
    """What they are, for a heading."""
    where: str
    """The same, within a sentence."""
    count: int
    document: Callable[[int], Document]
    """Return one document by number, from 0 on."""
    tokenizer: Tokenizer

    @property
    def spelling(self) -> Spelling:
        """How their ids are spelled."""
        return Spelling(
            bytes_of=self.tokenizer.decode_single_token_bytes,
            special_tokens=self.tokenizer.special_tokens,
        )

    @property
    def note(self) -> str:
        """What encoded them, for a line below the heading."""
        size = self.tokenizer.get_vocab_size()
        return f"tokenizer {self.tokenizer.sha256[:16]}, {size:,} ids"


def output_at(folder: str, *, split: str, source: str | None) -> Inspected:
    """Return the documents of a finished output.

    Raises:
        CorruptOutputError, IncompleteOutputError, SourceError: As `open_shards`.
        TokenizerError: The output's tokenizer cannot be read.
    """
    shards = open_shards(folder, split=split, source=source)

    def document(number: int) -> Document:
        name, position = shards.shard_of(number)
        return Document(
            title=f"document {number} of {len(shards)}",
            location=f"document {position} of {name}",
            ids=shards[number],
            mask=shards.mask(number),
            images=shards.images(number),
            document_id=shards.document_id(number),
        )

    return Inspected(
        title=f"{folder}, split {split}" + (f", source {source}" if source else ""),
        where=f"split {split}" + (f" of source {source}" if source else ""),
        count=len(shards),
        document=document,
        tokenizer=written_tokenizer(f"{folder}/{TOKENIZER_FOLDER}", span_table=False),
    )


MAX_BYTES = 1 << 30
"""Of a file: all its lines are in memory while one is shown."""

_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_BOM = b"\xef\xbb\xbf"
_PARQUET = b"PAR1"

_Line = tuple[int, bytes]
"""Its number from 1 on, and what it holds."""


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a file instead of an output, and say how it is read."""
    group = parser.add_argument_group("lines of a file instead of DIR, before a job")
    group.add_argument("--file", metavar="FILE", help="JSON lines, also .gz, .zst (default: none)")
    group.add_argument(
        "--tokenizer", metavar="FOLDER", help="a tokenizer's folder; needed with --file"
    )
    group.add_argument(
        "--kind", choices=[*DIALECTS], default="chat", help="what a line is (default: chat)"
    )
    group.add_argument(
        "--dialect",
        metavar="NAME",
        help="how a line is laid out (default: seen from the first line)",
    )
    group.add_argument(
        "--image-tokens",
        type=positive,
        metavar="N",
        help="tokens of images whose document does not say (default: none)",
    )
    group.add_argument(
        "--grounding",
        action="store_true",
        help="as `grounding = true` of a recipe",
    )
    group.add_argument(
        "--no-train-prompt", action="store_true", help="as `train_prompt = false` of a recipe"
    )


def lines_at(arguments: argparse.Namespace) -> Inspected:
    """Return the lines of a file as documents.

    Raises:
        RecipeError: An argument is missing, or there is no such dialect.
        SourceError: The file cannot be read, is too large, or its dialect is not known.
        TokenizerError: The tokenizer cannot be read.
        TransientIOError: Storage failed in a way that may pass.
    """
    path = arguments.file
    if arguments.tokenizer is None:
        raise RecipeError(f"--file {path} needs a tokenizer: add --tokenizer FOLDER")
    tokenizer = Tokenizer.load(arguments.tokenizer, span_table=False)
    lines = _lines(path)
    dialect = _dialect(arguments, tokenizer, lines)
    return Inspected(
        title=f"{path}, kind {dialect.kind}, dialect {dialect.name}",
        where=path,
        count=len(lines),
        document=lambda number: _document(number, lines, dialect, tokenizer, path=path),
        tokenizer=tokenizer,
    )


def _lines(path: str) -> list[_Line]:
    """Return the lines that are not blank."""
    try:
        with open_input(path) as file:
            return [*_numbered(_decompressed(file, path), path)]
    except FileNotFoundError as error:
        raise SourceError(f"--file {path}: there is no such file") from error
    except TransientIOError:
        raise
    except (pa.ArrowInvalid, EOFError, OSError) as error:
        raise SourceError(f"--file {path} cannot be read: {error}") from error


def _numbered(file: BinaryIO | pa.NativeFile, path: str) -> Iterator[_Line]:
    data: bytes = file.read(MAX_BYTES + 1)
    if data.startswith(_PARQUET):
        raise SourceError(
            f"--file {path} is parquet, and JSON lines are looked at before a job: look at its "
            "rows in the output of one"
        )
    if len(data) > MAX_BYTES:
        raise SourceError(
            f"--file {path} holds more than {MAX_BYTES:,} bytes: cut it, e.g. with head -n 1000"
        )
    for number, line in enumerate(data.removeprefix(_BOM).split(b"\n"), 1):
        if line.strip():
            yield number, line


def _decompressed(file: BinaryIO, path: str) -> BinaryIO | pa.NativeFile:
    compression = next(
        (_COMPRESSIONS[value] for value in _COMPRESSIONS if path.endswith(value)), None
    )
    return file if compression is None else pa.CompressedInputStream(file, compression)


def _dialect(arguments: argparse.Namespace, tokenizer: Tokenizer, lines: list[_Line]) -> Dialect:
    kind, name = arguments.kind, arguments.dialect
    known = ", ".join(DIALECTS[kind])
    if name is not None and name not in DIALECTS[kind]:
        raise RecipeError(f"--dialect {name!r} is none of kind {kind}: use {known}")
    if name is None and lines:
        name = detect(_first_value(lines, arguments.file), kind=kind)
    if name is None:
        raise SourceError(
            f"--file {arguments.file}: no dialect of kind {kind} is known for its first line; add "
            f"--dialect, one of {known}, or another --kind"
        )
    if kind == "chat":
        return Dialect(kind=kind, name=name)
    return Dialect(
        kind=kind,
        name=name,
        image_token=_image_token(tokenizer),
        image_tokens=arguments.image_tokens,
        grounding=GROUNDING if arguments.grounding else (),
        train_prompt=not arguments.no_train_prompt,
    )


def _first_value(lines: list[_Line], path: str) -> object:
    try:
        return value_of(lines[0][1])
    except SourceError as error:
        raise SourceError(f"{path}, line {lines[0][0]}: {error}") from error


def _image_token(tokenizer: Tokenizer) -> str:
    found = image_token_of(tokenizer.special_tokens)
    if found is None:
        raise RecipeError(
            f"the tokenizer has no token for images ({', '.join(IMAGE_TOKENS)}): add one with "
            "`nanotok tokenizer extend`"
        )
    return found


def _document(
    number: int, lines: list[_Line], dialect: Dialect, tokenizer: Tokenizer, *, path: str
) -> Document:
    position, line = lines[number]
    try:
        segments = segments_of(line, dialect)
        composed = compose(tokenizer.encode, tokenizer.encode_special, segments)
    except MALFORMED as error:
        raise SourceError(f"{path}, line {position}: {reason_of(error)}") from error
    images = [(start, end, image) for image, (start, end) in enumerate(composed.images)]
    return Document(
        title=f"document {number} of {len(lines)}",
        location=f"line {position} of {path}",
        ids=np.array(composed.ids, dtype=tokenizer.model.id_dtype),
        mask=np.array(composed.mask, dtype=np.uint8),
        images=np.array(images, dtype=np.int32).reshape(-1, 3),
    )
