"""The report of an output and its last run: one HTML file that needs no network and no script.

Takes an output folder, finished or not; gives the page. Does not know Ray, nor how a job runs.
"""

from nanotok_ray.report_page.facts import is_output
from nanotok_ray.report_page.page import report_page, write_report

__all__ = ["is_output", "report_page", "write_report"]
