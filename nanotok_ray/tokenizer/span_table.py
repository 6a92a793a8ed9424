"""The span table in a tokenizer's folder: the ids of its most frequent spans, mapped by every user.

The table makes encoding faster; the ids are the same without it. The core defines the format of the
file, except for its first 128 bytes: they name the tokenizer and hold a check sum of the rest.
"""

import logging
import os

from nanotok_ray import _core
from nanotok_ray.documents.batch import Documents
from nanotok_ray.errors import TokenizerError, TransientIOError
from nanotok_ray.storage import Folder, local_copy
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.readable import sha256_of

SPAN_TABLE_NAME = "span_table.bin"
MAX_SPANS = 1_000_000
"""Default number of spans of a table."""

SWITCH = "NANOTOK_SPAN_TABLE"

_HEADER_BYTES = 128
_TOKENIZER = slice(16, 48)  # of the header

_log = logging.getLogger(__name__)


def write_span_table(model: Model, spans: Documents, folder: str | os.PathLike[str]) -> int:
    """Write the table of a tokenizer beside it; return its bytes. No span may come twice.

    Left out are spans of over 255 bytes, and those of up to 15 bytes with over 7 ids (3 if the ids
    do not fit 16 bits). The same spans in the same order make the same bytes.
    """
    encoder = _core.Encoder(model.pattern, model.merge_array, byte_order=model.core_byte_order)
    tokenizer = bytes.fromhex(sha256_of(model))
    data = encoder.span_table_file(spans.data, spans.offsets, tokenizer)
    with Folder(os.fspath(folder)).create(SPAN_TABLE_NAME) as file:
        file.write(data.data)
    return file.size


def find_span_table(folder: str | os.PathLike[str], *, sha256: str) -> _core.SpanTable | None:
    """Open the table of a folder unless the environment switches tables off.

    Raises:
        TokenizerError: As `open_span_table`; or NANOTOK_SPAN_TABLE is neither "on" nor "off".
        TransientIOError: A remote store failed in a way that may pass.
    """
    switch = os.environ.get(SWITCH) or "on"
    if switch not in {"on", "off"}:
        raise TokenizerError(f"{SWITCH} = {switch!r} is neither 'on' nor 'off'")
    return open_span_table(folder, sha256=sha256) if switch == "on" else None


def open_span_table(folder: str | os.PathLike[str], *, sha256: str) -> _core.SpanTable | None:
    """Map the table of a folder, that of a remote one by a copy on this node.

    None if there is none. One that cannot be read or copied is done without, as it only saves time;
    that is logged.

    Raises:
        TokenizerError: It is damaged, or not that of the tokenizer `sha256` (hex).
        TransientIOError: A remote store failed in a way that may pass.
    """
    source = Folder(os.fspath(folder))
    try:
        return _open(source, bytes.fromhex(sha256))
    except TransientIOError:
        raise
    except FileNotFoundError:
        return None
    except OSError as error:
        _log.warning("working without %s: %s", source.join(SPAN_TABLE_NAME), error)
        return None
    except TokenizerError as error:
        raise TokenizerError(
            f"{source.join(SPAN_TABLE_NAME)} cannot be used: {error}; it only saves time, so "
            f"delete it, or load the tokenizer with span_table=False (or {SWITCH}=off)"
        ) from error


def remove_foreign_span_table(folder: Folder, *, sha256: str) -> None:
    """Remove the table of a folder unless it is that of the tokenizer `sha256` (hex)."""
    try:
        header = folder.read_start(SPAN_TABLE_NAME, _HEADER_BYTES)
    except FileNotFoundError:
        return
    if header[_TOKENIZER] != bytes.fromhex(sha256):
        folder.remove(SPAN_TABLE_NAME)


def copy_span_table(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Write the table of one folder, if it has one, into another of the same tokenizer."""
    try:
        data = Folder(os.fspath(source)).read_bytes(SPAN_TABLE_NAME)
    except FileNotFoundError:
        return
    Folder(os.fspath(target)).write_whole(SPAN_TABLE_NAME, data)


def _open(source: Folder, tokenizer: bytes) -> _core.SpanTable:
    path = source.local_path(SPAN_TABLE_NAME)
    if path is not None:
        return _core.SpanTable(path, tokenizer)
    try:
        return _core.SpanTable(_copied(source), tokenizer)
    except TokenizerError:  # perhaps of the copy alone
        return _core.SpanTable(_copied(source, anew=True), tokenizer)


def _copied(source: Folder, *, anew: bool = False) -> str:
    return str(local_copy(source, SPAN_TABLE_NAME, head_bytes=_HEADER_BYTES, anew=anew))
