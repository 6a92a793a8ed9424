"""What `make site` changes in pages and docstrings, which are written for GitHub and Python."""

import re

import griffe

EXAMPLE = re.compile(r"^ *>>> .*(?:\n(?! *$).*)*", re.MULTILINE)
"""An example of a docstring, from its first line to the next empty one."""
ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
CODE = re.compile(r"`[^`]+`")


class Doctests(griffe.Extension):
    """Puts fences around the examples, since Markdown reads >>> as a quotation."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Change the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)


def on_page_markdown(markdown: str, **_: object) -> str:
    r"""Return a page with | for \\| in the code of tables, where GitHub needs the backslash."""
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), markdown)
