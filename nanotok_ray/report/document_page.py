"""Documents as one HTML page."""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from nanotok_ray.report.document import (
    IMAGE,
    NOBODY,
    TEXT,
    TRAINED,
    UNTRAINED,
    Block,
    Document,
    Image,
    Item,
    Spelling,
    Token,
    Totals,
    Turn,
    first_items,
    strip_of,
    totals_of,
    turns_of,
)

_MAX_BYTES = 32
"""More bytes of a token are not listed."""

_TRAINED: Final = {None: "", 0: ", not trained on", 1: ", trained on"}
_CLASSES: Final = {None: "t", 0: "n", 1: "y"}
"""Text, not trained on, trained on."""

_INVISIBLE: Final = (
    "[\0-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\ufdd0-\ufdef\ud800-\udfff\ufffe\uffff\U000e0000-\U000e0fff]"
    "|[\u200c\u200d\ufe0e\ufe0f](?![^ \n\t])(?<![^ \n\t].)"
)
"""Characters that change how others look or cannot be seen; joiners only where they stand alone."""

_ESCAPED: Final = re.compile(_INVISIBLE)
_MARKED: Final = re.compile(f"(?<![^ \n]) | (?![^ \n])|[\t\n<>&]|{_INVISIBLE}")
"""Also spaces where they are easily overlooked: at the edge of a token, or beside others."""

_MARKS: Final = {
    " ": '<i class="w"> </i>',
    "\t": '<i class="h"></i>\t',
    "\n": '<i class="l"></i>\n',
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
}


_PARAGRAPH, _LONGEST = 300, 3000
"""Items after which a line break ends an element of text, and after which it ends anyway: browsers
take long over elements with far more, and lay out only those that are in sight."""


def text_blocks(items: Iterable[Item]) -> Iterator[str]:
    """Yield the elements of a text: one if it is short."""
    held: list[str] = []
    for item in items:
        held.append(item_markup(item))
        ends_line = isinstance(item, Token) and item.text.endswith("\n")
        if len(held) >= (_PARAGRAPH if ends_line else _LONGEST):
            yield _text_block(held)
            held = []
    if held:
        yield _text_block(held)


def _text_block(markup: list[str]) -> str:
    return f'<div class="b" dir="auto">{"".join(markup)}</div>'


def item_markup(item: Item) -> str:
    """Return the element of an item."""
    return _image(item) if isinstance(item, Image) else _token(item)


def text_markup(text: str) -> str:
    r"""Return a text with what is not seen made visible.

    >>> text_markup(" <b>\n")
    '<i class="w"> </i>&lt;b&gt;<i class="l"></i>\n'
    >>> text_markup("a\x00")
    'a<i data-u="U+0000"></i>'
    """
    return _MARKED.sub(lambda found: _mark(found.group()), text)


def attribute(text: str) -> str:
    r"""Return a text as the value of an attribute in double quotes, or as text of an element.

    >>> attribute('"<\x07')
    '&quot;&lt;U+0007'
    """
    return html.escape(_ESCAPED.sub(lambda found: _code_point(found.group()), text))


def _mark(character: str) -> str:
    return _MARKS.get(character) or f'<i data-u="{_code_point(character)}"></i>'


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"


def _token(token: Token) -> str:
    kind = _CLASSES[token.mask]
    text = attribute(token_title(token))
    part = f' data-x="{token.data.hex(" ").upper()}"' if token.is_part else ""
    name, kind = ("bdi", f"s {kind}") if token.is_special else ("span", kind)
    return (
        f'<{name} class="{kind}" data-i="{token.number}"{part} title="{text}">'
        f"{text_markup(token.text)}</{name}>"
    )


def token_title(token: Token) -> str:
    """Return a line that describes a token."""
    if token.is_special:
        spelled = "special token"
    else:
        count = len(token.data)
        spelled = f"{count} byte{'s'[: count != 1]} {token.data[:_MAX_BYTES].hex(' ').upper()}"
        spelled += " ..." if count > _MAX_BYTES else ""
    return f"id {token.number}, position {token.position}, {spelled}{_TRAINED[token.mask]}"


def _image(image: Image) -> str:
    last = image.end - 1
    text = f"{image.count} times id {image.token}, positions {image.start} to {last}"
    if not image.count:
        text = f"no tokens, before position {image.start}"
    return (
        f'<span class="g" data-g="{image.number}" data-n="{image.count}" title="{text}">'
        f"<b>image {image.number + 1}</b> {image.count:,} token{'s'[: image.count != 1]}</span>"
    )


STYLE: Final = """
:root{color-scheme:light dark;--paper:#faf9f7;--card:#fff;--ink:#24231f;--quiet:#67645c;
--small:#4f4c45;--line:#e2dfd8;--said:#f3f1ec;--yes:#dcf0de;--yes2:#c2e3c7;--green:#276f38;--no:#f1efeb;
--no2:#e3e0d9;--grey:#b9b5ab;--text:#e6eef8;--text2:#f4ecd9;--blue:#7d9cc4;--image:#ece6f8;
--violet:#6b4fa3;--code:#f6f5f1}
@media(prefers-color-scheme:dark){:root{--paper:#151619;--card:#1c1e22;--ink:#e6e4df;
--quiet:#a09d95;--small:#c6c3ba;--line:#32343a;--said:#202226;--yes:#1f4029;--yes2:#2b5838;
--green:#6cc583;--no:#292b30;--no2:#383b42;--grey:#5c5f67;--text:#243449;--text2:#43391f;--blue:#6f93c4;
--image:#33294a;--violet:#b9a2ec;--code:#17181b}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
header.p,main,footer{max-width:56rem;margin:0 auto;padding:0 1rem}
header.p{padding-top:1.5rem}
h1{font-size:1.05rem;font-weight:600;margin:0;overflow-wrap:anywhere}
h2{font-size:1.05rem;font-weight:600;margin:0}
p{margin:.2rem 0}
a{color:inherit}
.q{color:var(--quiet);font-size:.85rem;overflow-wrap:anywhere}
.k{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1.1rem;position:sticky;top:0;z-index:1;
background:var(--paper);padding:.6rem 1rem;margin:.4rem auto 0;max-width:56rem;
border-bottom:1px solid var(--line);font-size:.85rem;color:var(--quiet)}
.k span{white-space:nowrap}
.k label{margin-left:auto;color:var(--ink);cursor:pointer;user-select:none;border-radius:99px;
border:1px solid var(--line);background:var(--card);padding:.1rem .7rem;white-space:nowrap}
#ids{position:absolute;opacity:0;pointer-events:none}
#ids:checked~.k label{background:var(--ink);color:var(--paper);border-color:var(--ink)}
#ids:focus-visible~.k label{outline:2px solid var(--blue);outline-offset:2px}
.e{display:inline-block;width:1.5em;height:1em;border-radius:3px;vertical-align:-.12em;
margin-right:.4em;background:linear-gradient(90deg,var(--a) 50%,var(--b) 50%)}
.e.y{--a:var(--yes);--b:var(--yes2);box-shadow:inset 0 -2px var(--green)}
.e.n{--a:var(--no);--b:var(--no2)}
.e.t{--a:var(--text);--b:var(--text2)}
.e.g{--a:var(--image);--b:var(--image);box-shadow:inset 0 0 0 1px var(--violet)}
table{border-collapse:collapse;width:100%;font-size:.85rem;margin:1rem 0}
th{font-weight:400;color:var(--quiet)}
th,td{text-align:right;padding:.25rem 0 .25rem .8rem;border-bottom:1px solid var(--line);
font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left;padding-left:0;overflow-wrap:anywhere}
section{padding:1.4rem 0 .4rem;scroll-margin-top:2.5rem}
section+section{border-top:1px solid var(--line);margin-top:1.6rem}
dl{display:flex;flex-wrap:wrap;gap:.3rem 1.6rem;margin:.7rem 0 .6rem}
dl div{display:flex;flex-direction:column-reverse}
dt{color:var(--quiet);font-size:.8rem}
dd{margin:0;font-size:1.1rem;font-variant-numeric:tabular-nums}
.m{display:flex;height:8px;border-radius:4px;overflow:hidden;background:var(--no2);
margin:0 0 1.1rem}
.m i{flex-basis:0;min-width:0}
.m .y{background:var(--green)}
.m .n{background:var(--grey);opacity:.55}
.m .g{background:var(--violet)}
.m .t{background:var(--blue)}
.d{margin:.9rem 0;content-visibility:auto;contain-intrinsic-size:auto 12rem}
.d h3{font-size:.8rem;font-weight:600;color:var(--quiet);margin:0 0 .2rem .1rem}
.u{margin-left:12%}
.u h3{text-align:right;margin-right:.1rem}
.a{margin-right:6%}
.c{width:fit-content;max-width:100%;
border:1px solid var(--line);border-radius:14px;background:var(--card);padding:.6rem .85rem}
.u .c{margin-left:auto;background:var(--said);border-bottom-right-radius:4px}
.a .c{border-bottom-left-radius:4px}
.b:not(:only-child){content-visibility:auto;contain-intrinsic-size:auto 24rem}
.b{white-space:pre-wrap;overflow-wrap:anywhere;line-height:1.75;tab-size:4}
.o{max-width:100%;border:1px solid var(--line);border-left:3px solid var(--green);border-radius:8px;
background:var(--code);padding:.35rem .7rem .45rem;margin:.5rem 0}
.o.r{border-left-color:var(--grey);border-left-style:dashed}
.o h4{font-size:.75rem;font-weight:400;color:var(--quiet);margin:0}
.o .b,.s,[data-x]::before,i[data-u]::before{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,
"DejaVu Sans Mono",monospace}
.o .b{font-size:.88rem}
.y,.n,.t{border-radius:3px;padding:.1em 0;-webkit-box-decoration-break:clone;
box-decoration-break:clone}
.b .y{background:var(--yes);box-shadow:inset 0 -1px var(--green)}
.b .y:nth-child(even){background:var(--yes2)}
.b .n{background:var(--no)}
.b .n:nth-child(even){background:var(--no2)}
.b .t{background:var(--text)}
.b .t:nth-child(even){background:var(--text2)}
.b .s{font-size:.72rem;line-height:1;border:1px solid var(--grey);border-radius:99px;
padding:.12em .6em;margin:0 .15em;white-space:nowrap;background:none;color:var(--quiet);
box-shadow:none}
.b .s:nth-child(even){background:none}
.b .s.y,.b .s.y:nth-child(even){border-color:var(--green);color:var(--green);
background:var(--yes)}
.b .g{display:inline-flex;flex-direction:column;justify-content:center;min-width:9.5rem;
min-height:4.4rem;padding:.3rem .8rem;margin:.25rem .3rem .25rem 0;border-radius:8px;
border:1px solid var(--violet);color:var(--violet);background:var(--image);font-size:.8rem;
line-height:1.35;white-space:nowrap;vertical-align:middle}
i{font-style:normal}
.w{background:radial-gradient(circle,var(--small) .7px,transparent 1px) center/100% 1em no-repeat}
.l::after{content:"\\21b5";color:var(--small);font-size:.8em;padding:0 .1em}
.h::after{content:"\\2192";color:var(--small);font-size:.8em}
[data-x]::before{content:attr(data-x);font-size:.66em;color:var(--small);padding:0 .15em;
vertical-align:.1em}
i[data-u]::before{content:attr(data-u);font-size:.66em;border:1px solid var(--grey);
border-radius:3px;color:var(--small);padding:0 .2em;margin:0 .1em}
#ids:checked~main [data-i]::after{content:attr(data-i);font:.6rem/1 ui-monospace,Menlo,Consolas,
"DejaVu Sans Mono",monospace;color:var(--small);padding:0 .25em;vertical-align:.5em}
.z{border:1px dashed var(--grey);border-radius:8px;padding:.5rem .85rem;margin:.9rem 0}
footer{padding-top:1.5rem;padding-bottom:2rem}
@media(max-width:36rem){.u{margin-left:5%}.a{margin-right:0}.c{padding:.5rem .65rem}
.v{display:none}.k{gap:.3rem .8rem}}
@media print{.k{position:static}.k label{display:none}.d{content-visibility:visible}}
"""


MAX_TOKENS: Final = 20_000
"""Tokens of a document that are shown, an image as one, by default: a page of several
such documents still scrolls."""

_STRETCHES = 240
"""Of the strip: about what a phone can show."""

_STRIP_CLASSES = {UNTRAINED: "n", TRAINED: "y", IMAGE: "g", TEXT: "t"}
_LEGEND = {
    "y": "trained on",
    "n": "not trained on",
    "t": "text, token by token",
    "g": "image",
}
_TURN_CLASSES = {"user": "u", "assistant": "a"}
_HEAD = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
"""
_FOOT = """\
</main>
<footer class="q">Point at a token for its id, position, bytes and mask.</footer>
</body>
</html>
"""


def page_of(
    documents: Sequence[Document],
    spelling: Spelling,
    *,
    title: str,
    note: str = "",
    limit: int | None = MAX_TOKENS,
    with_ids: bool = False,
) -> str:
    """Return the page of some documents.

    Args:
        documents: in the order of the page; with more than one there is a table of contents.
        spelling: of their ids.
        title: what the page shows, for its heading.
        note: a line below it.
        limit: tokens shown of each document, an image counted as one; None for all.
        with_ids: whether ids are shown when the page is opened; a switch on it changes that.

    Raises:
        CorruptOutputError: An id is no token.
    """
    totals = [totals_of(document, spelling) for document in documents]
    checked = " checked" if with_ids else ""
    return "".join(
        [
            f"{_HEAD}<title>{attribute(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
            f'<input type="checkbox" id="ids"{checked} aria-label="show ids">\n',
            f'<header class="p">\n<h1>{attribute(title)}</h1>\n',
            f'<p class="q">{attribute(note)}</p>\n' if note else "",
            _contents(documents, totals) if len(documents) > 1 else "",
            "</header>\n",
            _legend(totals),
            "<main>\n",
            *(
                _section(number, document, value, spelling, limit=limit)
                for number, (document, value) in enumerate(zip(documents, totals, strict=True))
            ),
            _FOOT,
        ]
    )


def _contents(documents: Sequence[Document], totals: Sequence[Totals]) -> str:
    images = any(value.images for value in totals)
    head = (
        '<tr><th>document</th><th>tokens</th><th class="v">bytes</th>'
        '<th class="v">bytes per token</th><th>trained on</th>'
    )
    rows = [
        f'<tr><td><a href="#d{number}">{attribute(document.title)}</a></td>'
        f'<td>{value.tokens:,}</td><td class="v">{value.num_bytes:,}</td>'
        f'<td class="v">{value.bytes_per_token:.2f}</td><td>{value.trained_share:.1%}</td>'
        + (f"<td>{value.images:,}</td></tr>\n" if images else "</tr>\n")
        for number, (document, value) in enumerate(zip(documents, totals, strict=True))
    ]
    head += "<th>images</th></tr>\n" if images else "</tr>\n"
    return f"<table>\n{head}{''.join(rows)}</table>\n"


def _legend(totals: Sequence[Totals]) -> str:
    masked = any(total.trained is not None for total in totals)
    texts = any(total.trained is None for total in totals)
    images = any(total.images for total in totals)
    wanted = {"y": masked, "n": masked, "t": texts, "g": images}
    keys = [
        f'<span><i class="e {kind}"></i>{_LEGEND[kind]}</span>'
        for kind, is_wanted in wanted.items()
        if is_wanted
    ]
    return f'<div class="k">{"".join(keys)}<label for="ids">ids</label></div>\n'


def _section(
    number: int, document: Document, totals: Totals, spelling: Spelling, *, limit: int | None
) -> str:
    items, left_out = first_items(document, spelling, limit=limit)
    text = document.location
    if document.document_id is not None:
        text += f", id {document.document_id}"
    return "".join(
        [
            f'<section id="d{number}">\n<h2>{attribute(document.title)}</h2>\n',
            f'<p class="q">{attribute(text)}</p>\n{_numbers(totals)}{_strip(document)}',
            *(_turn(turn) for turn in turns_of(items)),
            _left_out(left_out, of=totals.tokens),
            "</section>\n",
        ]
    )


def _numbers(totals: Totals) -> str:
    text = {
        "tokens": f"{totals.tokens:,}",
        "bytes": f"{totals.num_bytes:,}",
        "bytes per token": f"{totals.bytes_per_token:.2f}",
    }
    if totals.trained is not None:
        text["trained on"] = f"{totals.trained:,} ({totals.trained_share:.1%})"
    if totals.images:
        text["images"] = f"{totals.images:,} ({totals.image_tokens:,} tokens)"
    pairs = [f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in text.items()]
    return f"<dl>{''.join(pairs)}</dl>\n"


def _strip(document: Document) -> str:
    parts = [
        f'<i class="{_STRIP_CLASSES[kind]}" style="flex-grow:{count}"></i>'
        for kind, count in strip_of(document, limit=_STRETCHES)
    ]
    return f'<div class="m" title="from the first token to the last">{"".join(parts)}</div>\n'


def _turn(turn: Turn) -> str:
    blocks = "".join(_block(block, turn) for block in turn.blocks)
    if turn.role == NOBODY:
        return f'<div class="d">{blocks}</div>\n'
    kind = _TURN_CLASSES.get(turn.role, "a")
    return f'<div class="d {kind}"><h3>{turn.role}</h3><div class="c">{blocks}</div></div>\n'


def _block(block: Block, turn: Turn) -> str:
    text = "".join(text_blocks(block.items))
    if block.role == turn.role:
        return text
    kind = "o" if block.role == "python" else "o r"
    return f'<div class="{kind}"><h4>{block.role}</h4>{text}</div>'


def _left_out(count: int, *, of: int) -> str:
    if not count:
        return ""
    return (
        f'<p class="z q">{count:,} of {of:,} tokens are not shown. '
        "<code>nanotok inspect --html FILE --all</code> shows them.</p>\n"
    )
