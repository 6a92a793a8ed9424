"""The report page at the end of a run: how a run ends does not depend on it."""

from nanotok_ray.cluster.events import Note
from nanotok_ray.cluster.stage_times import StageTimes
from nanotok_ray.report_page import write_report
from nanotok_ray.storage import Folder

SHOWN_CHARS = 400


def write_page(output: str, watch: StageTimes) -> None:
    """Write OUT/run/report.html, if the run has a journal; a note says why it could not be."""
    if not watch.journaling.has_begun:
        return
    try:
        write_report(Folder(output))
    except Exception as error:  # whatever it is, the run has ended as it has
        told = f"{type(error).__name__}: {error}"[:SHOWN_CHARS]
        text = f"the report page was not written ({told}): `nanotok report {output}` does it"
        watch.on_event(Note(text=text))
