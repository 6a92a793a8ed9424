"""Named split patterns, splitting a text, and the default number of threads.

A pattern is a regular expression, or the JSON of the steps and normalizers of another tokenizer.
"""

import json
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from nanotok_ray import _core
from nanotok_ray.documents import to_utf8
from nanotok_ray.errors import PatternError
from nanotok_ray.formats import Gaps
from nanotok_ray.system import usable_cpus

_CONTRACTION = r"'(?i:[sdmt]|ll|ve|re)"
_LETTERS = r"[^\r\n\p{L}\p{N}]?+\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]++[\r\n]*"
_SPACES = r"\s*[\r\n]|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"


def _superwords(digits: int) -> str:
    """Return a pattern of spans of several words, which bounds them and matches every character."""
    letter, sign = r"[\p{L}\p{M}]", r"[^\s\p{L}\p{M}\p{N}]"
    unit = rf" ?(?:{letter}{{1,16}}|{sign}(?!{sign}))| (?=\p{{N}})"
    return (
        rf"\p{{N}}{{1,{digits}}}| ?{sign}{{2,}}+[\r\n/]*|(?>(?:{unit}){{1,256}})"
        r"|\s*[\r\n]|\s+(?!\S)|\s+"
    )


PATTERNS = {
    "nanochat": rf"{_CONTRACTION}|{_LETTERS}|\p{{N}}{{1,2}}|{_SIGNS}|{_SPACES}",
    "gpt4": rf"{_CONTRACTION}|{_LETTERS}|\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}",
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "r50k": (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"),
    "o200k": (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDING}"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDING}"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "nanochat-superwords": _superwords(2),
    "gpt4-superwords": _superwords(3),
}
"""nanochat: at most two digits in a span. gpt4: three, the default of rustbpe. cl100k, r50k and
o200k: those of tiktoken; cl100k differs from gpt4 for white space at the end of a text.
nanochat-superwords and gpt4-superwords: for tokens of several words. A span is a run of words and
single signs, up to a number, to two or more signs, to the end of a line or to two spaces, and of at
most 256 units: a word of up to 16 letters is one.
"""

SPLIT_PATTERN = PATTERNS["nanochat"]
"""The pattern that nanochat passes to rustbpe."""


def resolve_pattern(pattern: str) -> str:
    r"""Return the regular expression of a name, or the regular expression itself.

    A single word that is not a name is refused: it is more likely a misspelt name than a pattern.

    >>> resolve_pattern(r"\w+|\W+")
    '\\w+|\\W+'

    Raises:
        PatternError: The pattern is empty, or a single word that is not a name.
    """
    if pattern in PATTERNS:
        return PATTERNS[pattern]
    if re.fullmatch(r"[\w-]*", pattern):
        names = ", ".join(PATTERNS)
        raise PatternError(
            f"no split pattern is called {pattern!r}: use one of {names}, or a regular "
            f"expression (for this very word: '(?:{pattern})')"
        )
    return pattern


def split(text: str, *, pattern: str = SPLIT_PATTERN) -> list[str]:
    """Split a text into its spans, whose concatenation is the text.

    >>> split("it's 12345")
    ['it', "'s", ' ', '12', '34', '5']

    Raises:
        PatternError: The pattern cannot be compiled.
        SplitError: The regex engine gave up on the text.
    """
    return [span.decode() for span in _splitter(resolve_pattern(pattern)).split(to_utf8(text))]


@lru_cache(maxsize=8)
def _splitter(pattern: str) -> _core.Splitter:
    return _core.Splitter(pattern)


_STEPS = '{"normalizers": '
"""The start of a pattern of steps; no regular expression of a tokenizer begins with it."""


def pattern_of_steps(pattern: str | Sequence[Any], normalizers: Sequence[Any]) -> str:
    r"""Return the pattern of a tokenizer that splits by steps or changes texts before.

    >>> pattern_of_steps(r"\w+", [("NFC",)])
    '{"normalizers": [["NFC"]], "steps": "\\\\w+"}'
    """
    return json.dumps({"normalizers": normalizers, "steps": pattern}, ensure_ascii=False)


def new_counter(pattern: str, *, gaps: Gaps) -> _core.SpanCounts:
    """Return empty counts of the core for a pattern of any kind.

    Raises:
        PatternError: The pattern cannot be compiled.
    """
    if not pattern.startswith(_STEPS):
        return _core.SpanCounts(pattern, gaps=gaps)
    rules = json.loads(pattern)
    steps, normalizers = rules["steps"], [tuple(one) for one in rules["normalizers"]]
    if not isinstance(steps, str):
        steps = [tuple(step) for step in steps]
    return _core.SpanCounts(steps, gaps=gaps, normalizers=normalizers)


def default_threads() -> int:
    """Return the number of cores that this process can use; 1 inside a Ray worker."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        worker = getattr(ray.get_runtime_context(), "worker", None)
        if getattr(worker, "mode", None) == ray.WORKER_MODE:
            return 1
    return usable_cpus()
