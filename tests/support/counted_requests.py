"""A corpus of a given number of slices in a store, and the kinds of billed requests."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.storage import Folder
from tests.support.small_corpus import texts

KINDS = ("GET", "HEAD", "LIST", "PUT", "DELETE")
SLICES_OF_A_FILE = 4

RECIPE = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/*.parquet"]

[tokenizer]
vocab_size = 350

[output]
path = "{root}/out"
work = "{root}/work"

[limits]
slice_bytes = {slice_bytes}
"""


def corpus_of(folder: Folder, slices: int) -> str:
    """Write parquet files of a number of slices to a folder, and return the recipe."""
    for number in range(slices // SLICES_OF_A_FILE):
        table = pa.table({"text": pa.array(texts(40, seed=number), pa.string())})
        sink = io.BytesIO()
        pq.write_table(table, sink, row_group_size=10)
        folder.write_whole(f"in/{number:06}.parquet", sink.getvalue())
    return RECIPE.format(root=folder.url, slice_bytes=1000)


def kind_of(method: str, path: str) -> str:
    """Return the kind of a request in the price list of S3.

    >>> kind_of("GET", "/bucket?list-type=2&prefix=out"), kind_of("POST", "/bucket/a?uploads")
    ('LIST', 'PUT')
    """
    if method == "POST":
        return "DELETE" if path.partition("?")[2].startswith("delete") else "PUT"
    if method == "GET" and "list-type=2" in path:
        return "LIST"
    return method
