"""The commands of a page, from its fenced blocks in order, and of the head of an example."""

import re
import shlex
from dataclasses import dataclass

PROGRAMS = ("nanotok", "make", "ray", "kubectl", "pip", "docker", "python", "cargo", "rustup")
"""A block without a language contains commands if a line of it begins with one of these."""
SHELL = ("sh", "bash")
PLAIN = ("text", "json", "toml", "console", "yaml")
"""Languages of blocks without such commands; `console` blocks have their own test."""

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CRON = re.compile(r"^(?:[\d*/,-]+ ){5} *")
_BEGINS = re.compile(rf"(?:/\S*/)?(?:{'|'.join(PROGRAMS)}) ")
_SUBSTITUTED = re.compile(r"\$\([^)]*\)")
_HEAD = re.compile(r"^(?:#)? {4,}((?:python|nanotok|make|ray|docker) .*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """A block of a page: `sh` with its commands, `python`, or `toml`."""

    language: str
    text: str

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command, variables before it included; none for other languages."""
        lines = _lines(self.text) if self.language == "sh" else ()
        return [words for line in lines if (words := words_of(line))]


def _lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def words_of(line: str) -> list[str]:
    """Return the words of a command without its comment, its place in a schedule and redirections.

    >>> words_of("30 2 * * *  /opt/bin/nanotok prepare a.toml 2>> b.log   # nightly")
    ['/opt/bin/nanotok', 'prepare', 'a.toml']
    >>> words_of("nanotok submit a.toml --submission-id web-$(date +\\\\%F)")
    ['nanotok', 'submit', 'a.toml', '--submission-id', 'web-X']
    """
    words = shlex.split(_SUBSTITUTED.sub("X", _CRON.sub("", line.strip())), comments=True)
    for number, word in enumerate(words):
        if word.startswith(("2>", ">")):
            return words[:number]
    return words


def steps_of(page: str) -> list[Step]:
    """Return blocks of a page in order; without a language they are skipped unless commands."""
    found = []
    for language, text in _BLOCK.findall(page):
        if language in SHELL or (not language and has_command(text)):
            found.append(Step("sh", text))
        elif language in {"python", "toml"}:
            found.append(Step(language, text))
        elif language and language not in PLAIN:
            raise AssertionError(f"a block in {language}: say here what becomes of it")
    return found


def has_command(text: str) -> bool:
    """Return whether a line begins with a program, possibly after a cron schedule.

    >>> has_command("30 2 * * *  nanotok prepare a.toml"), has_command("jobs/   what ray job runs")
    (True, False)
    """
    return any(_BEGINS.match(_CRON.sub("", line)) for line in _lines(text))


def head_commands(text: str) -> list[list[str]]:
    """Return the indented commands in the head of a program or a recipe."""
    return [words_of(line) for line in _HEAD.findall(text)]
