"""Writes and verifies shards: ids, document index, masks and images.

The input is a slice of the plan and a tokenizer. The output is files and one record. The records of
all slices become shards.idx and the manifest. The package schedules nothing.
"""

from nanotok_ray.shards.garbage import find_garbage, remove_temporaries
from nanotok_ray.shards.output import (
    Output,
    assemble,
    output_facts,
    totals_of,
)
from nanotok_ray.shards.records import (
    READERS,
    AnyRecord,
    ExpectedSlice,
    Keyed,
    Record,
    Results,
    StoredRecords,
    expected_records,
    file_problem,
    finished_record,
    is_skipped,
    is_unchanged,
    read_record,
    slice_results,
    write_record,
)
from nanotok_ray.shards.render import LengthPolicy, renderer_of
from nanotok_ray.shards.settings import dialect_of, quarantine_name
from nanotok_ray.shards.tokenize import skip_slice, tokenize_slices
from nanotok_ray.shards.verify import MAX_PRINTED_PROBLEMS, OutputDepth, Verification, verify_output
from nanotok_ray.shards.writer import (
    RenderedDocuments,
    ShardFiles,
    ShardWriter,
    SourceMap,
    mapped_rows,
)

__all__ = [
    "MAX_PRINTED_PROBLEMS",
    "READERS",
    "AnyRecord",
    "ExpectedSlice",
    "Keyed",
    "LengthPolicy",
    "Output",
    "OutputDepth",
    "Record",
    "RenderedDocuments",
    "Results",
    "ShardFiles",
    "ShardWriter",
    "SourceMap",
    "StoredRecords",
    "Verification",
    "assemble",
    "dialect_of",
    "expected_records",
    "file_problem",
    "find_garbage",
    "finished_record",
    "is_skipped",
    "is_unchanged",
    "mapped_rows",
    "output_facts",
    "quarantine_name",
    "read_record",
    "remove_temporaries",
    "renderer_of",
    "skip_slice",
    "slice_results",
    "tokenize_slices",
    "totals_of",
    "verify_output",
    "write_record",
]
