"""Batches of documents as arrays: all bytes back to back, and the offsets of the documents.

The input is texts of Python, numpy and Arrow. The output is arrays that the compiled core reads
without copying. The package reads no files.
"""

from nanotok_ray.documents.arrow_texts import ArrowTexts, null_rows
from nanotok_ray.documents.batch import Documents, Nulls, as_documents, offsets_of, to_utf8, type_of
from nanotok_ray.documents.texts import arrow_parts_of, batches_of, encode_texts

__all__ = [
    "ArrowTexts",
    "Documents",
    "Nulls",
    "arrow_parts_of",
    "as_documents",
    "batches_of",
    "encode_texts",
    "null_rows",
    "offsets_of",
    "to_utf8",
    "type_of",
]
