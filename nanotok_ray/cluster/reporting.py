"""The report page at the end of a job: a job that is done is done without it too."""

from nanotok_ray.cluster.events import Note, OnEvent
from nanotok_ray.report_page import write_report
from nanotok_ray.storage import Folder


def write_page(out: Folder, on_event: OnEvent) -> None:
    """Write OUT/run/report.html; a note says why it could not be."""
    try:
        write_report(out)
    except Exception as error:  # the output is whole, whatever it is
        told = f"{type(error).__name__}: {error}"
        command = f"nanotok report {out.url}"
        on_event(Note(text=f"the report page was not written ({told[:400]}): `{command}` does it"))
