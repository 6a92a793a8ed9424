"""A parsed page of documents."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "input", "br"}


@dataclass
class ShownToken:
    """An element of a token or an image."""

    tag: str
    attributes: dict[str, str]
    text: str = ""

    @property
    def kinds(self) -> set[str]:
        return set(self.attributes["class"].split())


@dataclass
class ShownPage(HTMLParser):
    """The content of a page for tests; created from its text."""

    page: str
    tokens: list[ShownToken] = field(default_factory=list)
    """Tokens and images, in order."""
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    """Headings of turns and of their parts, in order."""
    reported: str = ""
    """All text outside tokens."""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self._token: ShownToken | None = None
        self._depth = 0
        self.feed(self.page)
        self.close()
        assert self._open == [], "an element is not closed"

    def handle_starttag(self, tag, attrs):
        values = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        self.attributes.append((tag, values))
        if tag in VOID:
            return
        self._open.append(tag)
        if "data-i" in values or "data-g" in values:
            assert self._token is None, "a token in a token"
            self._token, self._depth = ShownToken(tag, values), len(self._open)
            self.tokens.append(self._token)
        elif self._token is not None and "data-u" in values:
            self._token.text += chr(int(values["data-u"].removeprefix("U+"), 16))
        if tag in {"h3", "h4"}:
            self.turns.append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag
        if self._token is not None and len(self._open) < self._depth:
            self._token = None

    def handle_data(self, data):
        if self._token is not None:
            self._token.text += data
        elif self._open and self._open[-1] in {"h3", "h4"}:
            self.turns[-1] += data
        elif self._open and self._open[-1] != "style":
            self.reported += data

    @property
    def ids(self) -> list[int]:
        return [int(token.attributes["data-i"]) for token in self.tokens if token.tag != "b"]
