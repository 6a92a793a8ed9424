"""Rows of parquet files as the JSON lines they could have been: the columns of a dialect.

Takes a file's schema and a dialect, or finds that; gives what is to be read of row groups. Does not
know what a conversation must hold.
"""

from contextlib import closing

import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.dialects.detect import columns_of, detect_columns
from nanotok_ray.errors import SourceError
from nanotok_ray.sources.arrow_json import is_list, objects_of, unfit
from nanotok_ray.sources.chunk_file import ChunkFile
from nanotok_ray.sources.parquet_column import (
    Footer,
    Selection,
    footer_of,
    id_number,
    is_text,
    open_parquet,
)

_SHOWN_COLUMNS = 20
_LISTS = ("messages", "conversations", "image_token_counts")
"""Columns that are lists; all others of a dialect are strings."""


def read_rows_footer(
    url: str, *, kind: str, dialect: str | None, id_column: str | None = None
) -> tuple[Footer, str]:
    """Give what a footer says of the columns of a dialect, and which that is if it is not said.

    Raises:
        SourceError: the file is no parquet file, or its columns are not those of the dialect, or of
            any; or there is no column of ids.
    """
    with closing(ChunkFile(url)) as file:
        parquet = open_parquet(file, url=url)
        names = parquet.schema_arrow.names
        found = dialect or detect_columns(names, kind=kind)
        if found is None:
            shown = ", ".join(map(repr, names[:_SHOWN_COLUMNS])) or "none"
            is_text = kind == "chat" and "text" in names
            hint = 'set kind = "text" if the rows are texts, or ' if is_text else ""
            raise SourceError(
                f"{url}: no dialect of {kind} is known for its columns, {shown}; {hint}set "
                "dialect, or rename columns"
            )
        selection = row_selection(parquet, url=url, kind=kind, dialect=found, id_column=id_column)
        return footer_of(file, parquet.metadata, chunks=selection.chunks), found


def row_selection(
    parquet: pq.ParquetFile, *, url: str, kind: str, dialect: str, id_column: str | None
) -> Selection:
    """Select the columns of a dialect, each row an object of them, and the column of the ids.

    Raises:
        SourceError: columns are missing, there twice, or of types that the dialect has no use for.
    """
    schema = parquet.schema_arrow
    try:
        names = columns_of(dialect, kind=kind, available=schema.names)
    except SourceError as error:
        raise SourceError(f"{url}: {error}") from None
    chunks = [each for name in names for each in _chunks(parquet, name, url=url)]
    for name in names:
        _check_type(schema.field(name).type, name=name, dialect=dialect, url=url)
    return Selection(
        columns=names,
        chunks=tuple(chunks),
        documents=lambda batch: objects_of(
            names, [batch.column(name) for name in names], count=len(batch)
        ),
        id_column=id_column,
        id_chunks=() if id_column is None else (id_number(parquet, url=url, column=id_column),),
        is_aligned=True,
    )


def _chunks(parquet: pq.ParquetFile, name: str, *, url: str) -> list[int]:
    """Give the numbers of all columns of the footer that one top-level column is made of."""
    names = parquet.schema_arrow.names
    like = [each for each in names if each == name or each.startswith(f"{name}.")]
    if len(like) > 1:  # Arrow would read both: it is asked by the begin of a path
        raise SourceError(
            f"{url} has the columns {', '.join(map(repr, like))}, which cannot be told apart; "
            "rename all but one"
        )
    schema = parquet.metadata.schema
    paths = [schema.column(number).path for number in range(parquet.metadata.num_columns)]
    return [
        number for number, path in enumerate(paths) if path == name or path.startswith(f"{name}.")
    ]


def _check_type(kind: pa.DataType, *, name: str, dialect: str, url: str) -> None:
    wants_list = name in _LISTS
    fits = pa.types.is_null(kind) or (is_list(kind) if wants_list else is_text(kind))
    if not fits:
        raise SourceError(
            f"{url}: column {name!r} is of type {kind}, and the dialect {dialect!r} needs a "
            f"{'list' if wants_list else 'string'}; rewrite the file with it so, or set another "
            "dialect"
        )
    if (left := unfit(kind)) is not None:
        raise SourceError(
            f"{url}: column {name!r} holds values of type {left}, which JSON does not have; "
            "rewrite the file without them"
        )
