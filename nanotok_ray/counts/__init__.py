"""Counts of spans: counting texts, the count file, and adding the counts of many slices.

The input is documents and a split pattern. The output is sorted spans with their counts, in files
or as `SpanCounts`, from which tokenizers are learned.
"""

from typing import TYPE_CHECKING

from nanotok_ray import lazy_attributes

if TYPE_CHECKING:
    from nanotok_ray.counts.cache import (
        COUNTS_FOLDER,
        CountsCache,
        cached_counts,
        remove_counts,
    )
    from nanotok_ray.counts.count_file import (
        NUM_RANGES,
        CountProvenance,
        CountReader,
        CountWriter,
        pack_counts,
        provenances_of,
    )
    from nanotok_ray.counts.count_slice import (
        CorpusCounts,
        CountSettings,
        SuperwordCounting,
        count_corpus,
    )
    from nanotok_ray.counts.hash_ranges import HashPart
    from nanotok_ray.counts.load import CountPaths, find_counts, load_counts
    from nanotok_ray.counts.merge import merge_count_files, merge_groups, merged_key
    from nanotok_ray.counts.patterns import (
        PATTERNS,
        SPLIT_PATTERN,
        default_threads,
        new_counter,
        pattern_of_steps,
        resolve_pattern,
        split,
    )
    from nanotok_ray.counts.reduce import (
        SHARE_UNIT,
        CountPart,
        OnRead,
        PartSettings,
        PartSums,
        SpanSums,
        Weights,
        part_key,
        reduce_counts,
        reduce_part,
        span_totals,
    )
    from nanotok_ray.counts.span_counts import (
        SpanCounts,
        SummedRuns,
    )
else:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "cache": "COUNTS_FOLDER CountsCache cached_counts remove_counts",
            "count_file": (
                "CountProvenance CountReader CountWriter NUM_RANGES pack_counts provenances_of"
            ),
            "count_slice": "CorpusCounts CountSettings SuperwordCounting count_corpus",
            "hash_ranges": "HashPart",
            "load": "CountPaths find_counts load_counts",
            "merge": "merge_count_files merge_groups merged_key",
            "patterns": (
                "PATTERNS SPLIT_PATTERN default_threads new_counter pattern_of_steps "
                "resolve_pattern split"
            ),
            "reduce": (
                "CountPart OnRead PartSettings PartSums SpanSums SHARE_UNIT Weights "
                "part_key reduce_counts reduce_part span_totals"
            ),
            "span_counts": "SpanCounts SummedRuns",
        },
    )

__all__ = [
    "COUNTS_FOLDER",
    "NUM_RANGES",
    "PATTERNS",
    "SHARE_UNIT",
    "SPLIT_PATTERN",
    "CorpusCounts",
    "CountPart",
    "CountPaths",
    "CountProvenance",
    "CountReader",
    "CountSettings",
    "CountWriter",
    "CountsCache",
    "HashPart",
    "OnRead",
    "PartSettings",
    "PartSums",
    "SpanCounts",
    "SpanSums",
    "SummedRuns",
    "SuperwordCounting",
    "Weights",
    "cached_counts",
    "count_corpus",
    "default_threads",
    "find_counts",
    "load_counts",
    "merge_count_files",
    "merge_groups",
    "merged_key",
    "new_counter",
    "pack_counts",
    "part_key",
    "pattern_of_steps",
    "provenances_of",
    "reduce_counts",
    "reduce_part",
    "remove_counts",
    "resolve_pattern",
    "span_totals",
    "split",
]
