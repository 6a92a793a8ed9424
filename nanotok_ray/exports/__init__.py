"""Exports of a finished output in the layouts of other trainers, with one module per layout.

The input is native shards. The output is the files that the readers of each layout expect,
verified and recorded.
"""

from nanotok_ray.exports.corpus import Corpus, read_corpus
from nanotok_ray.exports.folder import (
    EXPORT_NAME,
    EXPORTS,
    SCATTERED,
    SCATTERED_TO_VERIFY,
    SamePass,
    begin,
    check_folder,
    export_of,
    mark_unfinished,
    read_export,
    remove_orphans,
    write_export,
)
from nanotok_ray.exports.layout import (
    ExportedUnit,
    Layout,
    Target,
)
from nanotok_ray.exports.layouts import LAYOUTS, format_options, layout_of, parse_layout
from nanotok_ray.exports.litdata import Litdata
from nanotok_ray.exports.llmc import Llmc
from nanotok_ray.exports.mds import Mds
from nanotok_ray.exports.megatron import Megatron
from nanotok_ray.exports.order import Order
from nanotok_ray.exports.ordered import ScatterFiles, Section, units_in_order
from nanotok_ray.exports.raw import Raw
from nanotok_ray.exports.scatter import ENTRY, ScatterWork, Sections, scatter
from nanotok_ray.exports.unit import Unit, units_of
from nanotok_ray.exports.work import (
    ExportWork,
    check_unit,
    check_unit_files,
    export_unit,
    exported_unit,
    unit_problems,
)

__all__ = [
    "ENTRY",
    "EXPORTS",
    "EXPORT_NAME",
    "LAYOUTS",
    "SCATTERED",
    "SCATTERED_TO_VERIFY",
    "Corpus",
    "ExportWork",
    "ExportedUnit",
    "Layout",
    "Litdata",
    "Llmc",
    "Mds",
    "Megatron",
    "Order",
    "Raw",
    "SamePass",
    "ScatterFiles",
    "ScatterWork",
    "Section",
    "Sections",
    "Target",
    "Unit",
    "begin",
    "check_folder",
    "check_unit",
    "check_unit_files",
    "export_of",
    "export_unit",
    "exported_unit",
    "format_options",
    "layout_of",
    "mark_unfinished",
    "parse_layout",
    "read_corpus",
    "read_export",
    "remove_orphans",
    "scatter",
    "unit_problems",
    "units_in_order",
    "units_of",
    "write_export",
]
