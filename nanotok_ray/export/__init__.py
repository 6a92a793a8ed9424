"""A finished output in the layouts of other trainers: one file a layout, the rest is common.

Takes the native shards; writes, checks and records what each layout's readers expect. Does not know
Ray or the command line.
"""

from nanotok_ray.export.corpus import Corpus, ShardFacts, read_corpus
from nanotok_ray.export.folder import (
    EXPORT_NAME,
    EXPORTS,
    begin,
    check_folder,
    export_values,
    read_export,
    remove_strangers,
    told_options,
    write_export,
)
from nanotok_ray.export.layout import Exported, Layout, Written
from nanotok_ray.export.layouts import LAYOUTS, parse_layout
from nanotok_ray.export.record import finished_units
from nanotok_ray.export.same_pass import SamePass
from nanotok_ray.export.target import Target
from nanotok_ray.export.unit import Unit, units_of
from nanotok_ray.export.work import ExportWork, check_unit, export_unit

__all__ = [
    "EXPORTS",
    "EXPORT_NAME",
    "LAYOUTS",
    "Corpus",
    "ExportWork",
    "Exported",
    "Layout",
    "SamePass",
    "ShardFacts",
    "Target",
    "Unit",
    "Written",
    "begin",
    "check_folder",
    "check_unit",
    "export_unit",
    "export_values",
    "finished_units",
    "parse_layout",
    "read_corpus",
    "read_export",
    "remove_strangers",
    "told_options",
    "units_of",
    "write_export",
]
