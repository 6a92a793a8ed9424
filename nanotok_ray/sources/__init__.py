"""Sources: from the paths of a recipe to documents, in one order.

`resolve` lists the files of a source and what is known of each without reading its documents;
`check_sample` reads the first documents of a few of them, and refuses a source if none can be used;
`read_piece` reads the documents of one piece of one file, batch by batch, and sets aside what is
not a document. Does not know how pieces are chosen, splits, or what becomes of a document.
"""

from nanotok_ray.sources.batch import BadDocument, Batch
from nanotok_ray.sources.files import Piece, ResolvedSource, RowGroup, SourceFile
from nanotok_ray.sources.piece_reader import PieceReader, read_piece
from nanotok_ray.sources.resolve import resolve
from nanotok_ray.sources.sample_check import check_sample

__all__ = [
    "BadDocument",
    "Batch",
    "Piece",
    "PieceReader",
    "ResolvedSource",
    "RowGroup",
    "SourceFile",
    "check_sample",
    "read_piece",
    "resolve",
]
