"""Shows the examples of docstrings as code on the site: Markdown reads >>> as a quotation."""

import re

import griffe

EXAMPLE = re.compile(r"^ *>>> .*(?:\n(?! *$).*)*", re.MULTILINE)
"""From the first line of an example to the next empty one."""


class Doctests(griffe.Extension):
    """Puts fences around the examples."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Change the docstring of an object, if it has one."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
