"""A parsed report page."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta"}


@dataclass
class ReadPage(HTMLParser):
    """The content of a page for tests; created from its text."""

    page: str
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    """Cells of each row of each table, in order."""
    shapes: list[tuple[str, str]] = field(default_factory=list)
    """Class and title of each box and dot."""
    figures: dict[str, str] = field(default_factory=dict)
    """Values of the head and of lists of names and values."""
    text: str = ""
    """All text except that of the style."""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._shape = ""
        self._name = ""
        self.feed(self.page)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes.append((tag, values))
        if tag in VOID:
            return
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")
        elif tag == "rect" or (tag == "path" and "dot" in values.get("class", "")):
            self._shape = values["class"]
        elif tag == "dt":
            self._name = ""

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        assert self._open[-1:] == [tag], f"{tag} closed in {self._open}"
        self._open.pop()

    def handle_data(self, data):
        if "style" in self._open:
            return
        self.text += data
        if self._open and self._open[-1] == "title" and self._open[-2] in {"rect", "path"}:
            self.shapes.append((self._shape, data))
        elif "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += data
        elif "dt" in self._open:
            self._name += data
        elif "dd" in self._open:
            self.figures[self._name] = self.figures.get(self._name, "") + data

    def row(self, *starts: str) -> list[str]:
        """Return the one row that begins with these cells."""
        found = [row for row in self.rows if row[: len(starts)] == list(starts)]
        assert len(found) == 1, (starts, found)
        return found[0]
