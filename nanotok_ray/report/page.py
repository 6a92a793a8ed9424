"""The page: what is known of an output and its last run, as one HTML file that needs nothing else.

Input is an output folder. Output is the text of the file, the same for the same files. It has no
script and fetches nothing; all data is escaped. A part that cannot be made is replaced by a
message, as outputs may be unfinished, damaged or of another version.
"""

from collections.abc import Callable, Sequence
from tempfile import TemporaryDirectory
from typing import Final

from nanotok_ray.formats.manifest import REPORT_PAGE_NAME
from nanotok_ray.report import overview
from nanotok_ray.report.document_page import attribute
from nanotok_ray.report.examples import example_documents, example_tokens, masks
from nanotok_ray.report.facts import UNREADABLE, Facts, read_facts
from nanotok_ray.report.histograms import document_lengths, token_lengths
from nanotok_ray.report.markup import code, html_of, section, warning
from nanotok_ray.report.overview import head, title
from nanotok_ray.report.quarantined import quarantined
from nanotok_ray.report.stages import sources, stages, stragglers
from nanotok_ray.report.style import STYLE
from nanotok_ray.report.timeline import timeline
from nanotok_ray.report.vocabulary import vocabulary
from nanotok_ray.storage import Folder

_HEAD: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
"""

_Part = Callable[[Facts], str]


def report_page(out: Folder) -> str:
    """Return the page of an output, whatever there is of it.

    Raises:
        TransientIOError: storage failed in a way that may pass.
    """
    with TemporaryDirectory(prefix="nanotok-report-") as cache:
        return _page(read_facts(out, cache=cache))


def write_report(out: Folder) -> int:
    """Write the page into the output folder, whole or not at all, and return its size in bytes.

    Raises:
        TransientIOError: storage failed in a way that may pass.
    """
    data = report_page(out).encode("utf-8", "replace")
    out.write_whole(REPORT_PAGE_NAME, data)
    return len(data)


def _page(facts: Facts) -> str:
    parts = [
        (name, text, "".join(_made(part, facts) for part in value))
        for name, text, value in _sections()
    ]
    body = "".join(section(name, text, inside) for name, text, inside in parts)
    return "".join(
        [
            f"{_HEAD}<title>{attribute(title(facts))}</title>\n<style>{STYLE}</style>\n</head>\n",
            f"<body>\n{_made(head, facts)}{_contents(parts)}<main>\n{body}</main>\n",
            f"{_foot(facts)}</body>\n</html>\n",
        ]
    )


def _made(part: _Part, facts: Facts) -> str:
    try:
        return part(facts)
    except UNREADABLE as error:
        text = f"This part could not be made: {type(error).__name__}: {str(error)[:500]}"
        return warning(text)


def _of_journal(facts: Facts) -> str:
    return "" if facts.worked is None else timeline(facts.worked) + stragglers(facts.worked)


def _learned(facts: Facts) -> str:
    if facts.learning is not None:
        return vocabulary(facts.learning)
    text = "The tokenizer was not learned here, so how it grew is not known."
    return "" if facts.tokenizer is None else f"<p>{text}</p>\n"


def _token_lengths(facts: Facts) -> str:
    return "" if facts.tokenizer is None else token_lengths(facts.tokenizer, facts)


def _tokens(facts: Facts) -> str:
    return "" if facts.tokenizer is None else example_tokens(facts.tokenizer)


def _contents(parts: Sequence[tuple[str, str, str]]) -> str:
    links = "".join(
        f'<a href="#{name}">{html_of(text)}</a>' for name, text, inside in parts if inside
    )
    return f'<nav aria-label="Contents">{links}</nav>\n' if links else ""


def _foot(facts: Facts) -> str:
    made = code(f"nanotok report {facts.out.url}", 2000)
    return f'<footer class="quiet">Made by {made}. Times are UTC.</footer>\n'


def _sections() -> tuple[tuple[str, str, tuple[_Part, ...]], ...]:
    """Return name, heading and parts of each section, in the order of the page."""
    return (
        ("run", "How it ran", (stages, _of_journal)),
        ("sources", "Sources", (sources,)),
        ("vocabulary", "Vocabulary", (_learned,)),
        ("lengths", "Lengths", (document_lengths, _token_lengths)),
        ("quarantine", "Set aside", (quarantined,)),
        ("masks", "Masks", (masks,)),
        ("examples", "Examples", (_tokens, example_documents)),
        ("notes", "Notes and warnings", (overview.notes,)),
        ("exports", "Exports", (overview.exports,)),
        ("files", "Files", (overview.files,)),
    )
