"""HTML pages and pictures: the report of a run, documents with their masks, plots of tokenizers.

The input is the files of an output, or documents. The output is single files that need no network
and no script. The package makes no decisions, and its failures never fail a job.
"""

from nanotok_ray.report.document import (
    NOBODY,
    Block,
    Document,
    Image,
    Item,
    Spelling,
    Token,
    Totals,
    Turn,
    items_of,
    totals_of,
    turns_of,
)
from nanotok_ray.report.facts import is_output
from nanotok_ray.report.figures import (
    RatioRow,
    check_plot,
    plot_bytes,
    ratio_figure,
    vocabulary_figure,
)
from nanotok_ray.report.page import MAX_TOKENS, Heading, page_of, report_page, write_report

__all__ = [
    "MAX_TOKENS",
    "NOBODY",
    "Block",
    "Document",
    "Heading",
    "Image",
    "Item",
    "RatioRow",
    "Spelling",
    "Token",
    "Totals",
    "Turn",
    "check_plot",
    "is_output",
    "items_of",
    "page_of",
    "plot_bytes",
    "ratio_figure",
    "report_page",
    "totals_of",
    "turns_of",
    "vocabulary_figure",
    "write_report",
]
