"""Which colour stands for what: classes that the style knows.

Takes names of stages, roles and sources; gives classes.
"""

from typing import Final

_STAGES: Final = {
    "count": "c1",
    "merge": "c5",
    "reduce": "c5",
    "learn": "c3",
    "span table": "c6",
    "tokenize": "c2",
    "verify": "c6",
}
_OTHER_STAGE: Final = "c4"
"""Exports."""

ROLE_KINDS: Final = {
    "assistant": "c2",
    "python": "c7",
    "user": "c1",
    "python_output": "c3",
    "image": "c4",
    "bos": "c6",
}


def stage_kind(name: str) -> str:
    """Give the class of a stage.

    >>> stage_kind("count"), stage_kind("export llmc")
    ('c1', 'c4')
    """
    return _STAGES.get(name, _OTHER_STAGE)
