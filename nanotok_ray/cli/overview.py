"""All commands in the order of the flow: which module has each, and what it does in one line.

So the list of commands costs no import of what they do. Tests compare the lines with each
command's own help.
"""

from dataclasses import dataclass
from textwrap import fill
from typing import Final


@dataclass(frozen=True, slots=True)
class Command:
    """One command of `nanotok`."""

    name: str
    module: str
    """In `nanotok_ray.cli`."""
    summary: str
    """The first line of its help."""
    has_json: bool = True
    """Whether the last line of its stdout is JSON, however it ends."""


GROUPS: Final[tuple[tuple[str, tuple[Command, ...]], ...]] = (
    (
        "before a job",
        (
            Command(
                "doctor",
                "doctor",
                "Check this machine, and the folders, sources and cluster of a job, before it "
                "runs.",
            ),
            Command(
                "plan",
                "plan",
                "Freeze the inputs of a recipe and say what a job would do, and how long it may "
                "take.",
            ),
        ),
    ),
    (
        "the job",
        (
            Command(
                "prepare",
                "jobs",
                "Learn a tokenizer from every train document, tokenize the corpus, verify.",
            ),
            Command(
                "train",
                "jobs",
                "Learn the tokenizer of a recipe and write OUT/tokenizer, or one of files without "
                "a recipe.",
            ),
            Command(
                "tokenize",
                "jobs",
                "Tokenize the corpus of a recipe with the tokenizer that is there, and verify.",
            ),
            Command(
                "submit",
                "submit",
                "Run a recipe on a Ray cluster by its job server, follow it, and say truly how it "
                "ended.",
            ),
        ),
    ),
    (
        "its output",
        (
            Command(
                "status",
                "status",
                "Say how the last run of an output stands: running, dead, finished, failed; from "
                "its files alone.",
            ),
            Command(
                "report",
                "report",
                "Write the report of an output as one HTML file that needs no network: open it in "
                "any browser.",
                has_json=False,
            ),
            Command(
                "verify",
                "verify",
                "Check a finished output: sizes, sha256, indexes, masks, sums, and a sample "
                "against the source.",
                has_json=False,
            ),
            Command(
                "inspect",
                "inspect",
                "Show documents: their tokens in turn in two colours; with a mask, green is "
                "trained on, red is not.",
                has_json=False,
            ),
            Command(
                "pack",
                "pack",
                "Say what packing makes of an output: rows, padding, what is cut and lost. No id "
                "is read.",
            ),
            Command(
                "export", "export", "Write a finished output in the layouts of other trainers."
            ),
        ),
    ),
    (
        "tokenizers",
        (
            Command(
                "learn",
                "learn",
                "Learn a tokenizer from counts of spans: no text is read.",
            ),
            Command("tokenizer", "tokenizer", "Do something with a tokenizer that is there."),
        ),
    ),
    (
        "keeping house",
        (
            Command("counts", "counts", "Look after the counts that runs keep in the work folder."),
            Command(
                "gc",
                "gc",
                "Remove what the manifest of a finished output does not name, and say how many "
                "bytes that frees.",
            ),
        ),
    ),
)

COMMANDS: Final = {command.name: command for _, group in GROUPS for command in group}

_FIRST: Final = """\
Turn a text corpus into a BPE tokenizer and verified token shards, on Ray.

Run these in order. The first two check and plan; the third is the whole job:

  nanotok doctor recipe.toml        (is this machine ready, and can all inputs be read?)
  nanotok plan recipe.toml          (what there is to do, and how long it may take)
  nanotok prepare recipe.toml       (the same command again resumes where it stopped)

docs/recipes.md says what a recipe holds; jobs/recipes/ has two. `nanotok COMMAND --help` has the
options of each command, and examples."""


def overview() -> str:
    """Return what `nanotok --help` begins with: the first commands to run, and all by group."""
    parts = [_FIRST]
    for title, group in GROUPS:
        parts.append("\n".join([f"{title}:", *map(_line, group)]))
    return "\n\n".join(parts)


def _line(command: Command) -> str:
    return fill(
        command.summary,
        width=100,
        initial_indent=f"  {command.name:<11}",
        subsequent_indent=" " * 13,
    )
