"""Who reads what: for each layout the check beside this file, and the peers that it imports.

It returns commands and names of packages, and runs nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.peers.job import Made

TOKENIZER = "(tokenizer)"
"""The name, in place of a layout, of the files of the tokenizer itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One check: what it reads, who reads it there, and how it is called."""

    layout: str
    peers: tuple[str, ...]
    """Packages by their names on PyPI, the reader first."""
    options: tuple[str, ...] = ()
    checkout: tuple[str, ...] = ()
    """The option that names the sources of a project, if the check can use them."""

    def command(self, made: Made, export: Path) -> list[str]:
        """Return the check and its arguments."""
        if self.layout == TOKENIZER:
            script, texts, chats = "transformers", map(str, made.texts), map(str, made.chats)
            arguments = [str(made.out / "tokenizer"), "--texts", *texts, "--chats", *chats]
        else:
            script, arguments = self.layout, [str(made.out), str(export), *self.options]
        return [str(Path(__file__).with_name(f"check_{script}.py")), *arguments]


def checks(llm_c: Path | None, gpt_neox: Path | None) -> list[Check]:
    """Return every check; a checkout of llm.c is a reader beside nemo-automodel."""
    own = () if llm_c is None else ("--llm-c", str(llm_c.resolve()))
    found = [
        Check(layout="llmc", peers=("nemo-automodel", "torch"), options=own, checkout=own[:1]),
        Check(layout="megatron", peers=("megatron-core", "torch")),
        Check(layout="datatrove", peers=("datatrove", "torch")),
        Check(layout="olmo", peers=("ai2-olmo-core", "torch")),
        Check(layout="parquet", peers=("pyarrow", "datasets", "trl")),
        Check(layout="packed", peers=("datasets", "trl")),
        Check(layout="mds", peers=("mosaicml-streaming", "torch")),
        Check(layout="litdata", peers=("litdata", "torch")),
        Check(layout="raw", peers=("numpy",)),
        Check(layout=TOKENIZER, peers=("transformers", "tokenizers", "tiktoken")),
    ]
    if gpt_neox is not None:
        own = ("--gpt-neox", str(gpt_neox.resolve()))
        found.append(Check(layout="megatron", peers=("torch",), options=own, checkout=own[:1]))
    return found
