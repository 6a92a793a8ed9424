"""The pages: the report of an output and its last run, and documents with their masks.

The input is an output folder, or documents. The output is the text of one HTML file, which
contains no script, fetches nothing, and depends only on the input. A part of the report that fails
is replaced by a message, since outputs can be unfinished, damaged or of another version.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Final

from nanotok_ray.formats import REPORT_PAGE_NAME
from nanotok_ray.report.corpus import (
    document_lengths,
    dropped,
    rearranged,
    sources,
    unused_text,
)
from nanotok_ray.report.document import (
    Document,
    Totals,
    Turn,
    first_items,
    legend_of,
    strip_of,
    totals_of,
    turns_of,
)
from nanotok_ray.report.facts import UNREADABLE, Facts, read_facts
from nanotok_ray.report.overview import Head, export_table, files, head, notes
from nanotok_ray.report.quarantined import quarantined
from nanotok_ray.report.render import Figure, Link, Part, Row, render
from nanotok_ray.report.run import stages, stragglers
from nanotok_ray.report.sampled import example_documents, masks
from nanotok_ray.report.timeline import timeline
from nanotok_ray.report.vocabulary import example_tokens, token_lengths, vocabulary
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer

_Parts = Callable[[Facts], Iterable[Part]]


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    title: str
    parts: Sequence[Part]


_SECTIONS: Final[tuple[tuple[str, str, tuple[_Parts, ...]], ...]] = (
    ("run", "Stages", (stages, timeline, stragglers)),
    ("sources", "Sources", (sources, rearranged, dropped, unused_text)),
    ("vocabulary", "Vocabulary", (vocabulary,)),
    ("lengths", "Lengths", (document_lengths, token_lengths)),
    ("quarantine", "Quarantine", (quarantined,)),
    ("masks", "Masks", (masks,)),
    ("examples", "Examples", (example_tokens, example_documents)),
    ("notes", "Notes and warnings", (notes,)),
    ("exports", "Exports", (export_table,)),
    ("files", "Files", (files,)),
)
"""Name, heading and parts of each section, in the order of the page."""


def report_page(out: Folder, work: Folder | None = None) -> str:
    """Return the page of an output in any state.

    The work folder of a run that failed while it counted has the quarantined documents. With None,
    it is `work` in the output: a folder that the output itself names is not read.

    Raises:
        TransientIOError: The storage failed in a way that a retry can solve.
    """
    with TemporaryDirectory(prefix="nanotok-report-") as cache:
        facts = read_facts(out, work or Folder(out.join("work")), cache=cache)
        sections = [
            _Section(name, title, [part for parts in value for part in _made(parts, facts)])
            for name, title, value in _SECTIONS
        ]
        return render(
            "report.html",
            title=f"nanotok report: {out.url[:300]}",
            url=out.url,
            head=_head(facts),
            sections=[section for section in sections if section.parts],
            command=f"nanotok report {out.url}",
        )


def write_report(out: Folder, work: Folder | None = None) -> int:
    """Write the page into the output folder atomically, and return its size in bytes.

    The work folder as in `report_page`.

    Raises:
        TransientIOError: The storage failed in a way that a retry can solve.
    """
    data = report_page(out, work).encode("utf-8", "replace")
    out.write_bytes(REPORT_PAGE_NAME, data)
    return len(data)


def _made(parts: _Parts, facts: Facts) -> list[Part]:
    try:
        return [*parts(facts)]
    except UNREADABLE as error:
        return [Part(warning=_failure(error))]


def _head(facts: Facts) -> Head:
    try:
        return head(facts)
    except UNREADABLE as error:
        return Head(warnings=[_failure(error)])


def _failure(error: Exception) -> str:
    return f"This part could not be made: {type(error).__name__}: {str(error)[:500]}"


MAX_TOKENS: Final = 20_000
"""Default limit of tokens of a document on a page, an image counted as one: a page of several such
documents still scrolls.
"""

_STRETCHES = 240
"""Parts of the strip, about the number that a phone can show."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _DocumentSection:
    document: Document
    location: str
    figures: Sequence[Figure]
    strip: Sequence[tuple[str, int]]
    turns: Sequence[Turn]
    left_out: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """The heading of a page, and a line below it."""

    title: str
    note: str = ""


def page_of(
    documents: Sequence[Document],
    tokenizer: Tokenizer,
    heading: Heading,
    *,
    limit: int | None = MAX_TOKENS,
    with_ids: bool = False,
) -> str:
    """Return the page of some documents.

    Args:
        documents: the documents in order; for more than one, there is a table of contents.
        tokenizer: the tokenizer of their ids.
        heading: the heading.
        limit: the limit of tokens of each document, an image counted as one; None: no limit.
        with_ids: whether ids are visible when the page is opened; the page has a switch.

    Raises:
        CorruptOutputError: An id is not a token.
    """
    totals = [totals_of(document, tokenizer) for document in documents]
    return render(
        "documents.html",
        title=heading.title,
        note=heading.note,
        with_ids=with_ids,
        contents=_contents(documents, totals) if len(documents) > 1 else None,
        legend=legend_of(documents),
        sections=_document_sections(documents, totals, tokenizer, limit),
    )


def _document_sections(
    documents: Sequence[Document], totals: Sequence[Totals], tokenizer: Tokenizer, limit: int | None
) -> Iterator[_DocumentSection]:
    for document, value in zip(documents, totals, strict=True):
        items, left = first_items(document, tokenizer, limit=limit)
        identity = "" if document.document_id is None else f", id {document.document_id}"
        yield _DocumentSection(
            document=document,
            location=f"{document.location}{identity}",
            figures=[Figure(name=name, value=text) for name, text in value.fields().items()],
            strip=strip_of(document, limit=_STRETCHES),
            turns=turns_of(items),
            left_out=f"{left:,} of {value.tokens:,} tokens are not shown." if left else "",
        )


def _contents(documents: Sequence[Document], totals: Sequence[Totals]) -> list[Row]:
    has_images = any(value.images for value in totals)
    return [
        {
            "document": Link(document.title, f"d{number}"),
            "tokens": value.tokens,
            "bytes": value.num_bytes,
            "bytes per token": f"{value.bytes_per_token:.2f}",
            "trained on": f"{value.trained_share:.1%}",
            **({"images": value.images} if has_images else {}),
        }
        for number, (document, value) in enumerate(zip(documents, totals, strict=True))
    ]
