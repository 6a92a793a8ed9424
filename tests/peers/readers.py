"""Who reads what: for each layout the check beside this file, and the peers that it imports.

Gives commands and names of packages; runs nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from tests.peers.job import Made

TOKENIZER = "(tokenizer)"
"""Stands where a layout stands: the tokenizer's own files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One check: what it reads, who reads it there, and how it is called."""

    layout: str
    peers: tuple[str, ...]
    """Packages as PyPI names them, the one that is meant first."""
    options: tuple[str, ...] = ()
    checkout: str = ""
    """The name of the project whose sources it takes instead of a package."""

    def command(self, made: Made, export: Path) -> list[str]:
        """Give the check and its arguments."""
        if self.layout == TOKENIZER:
            script, texts, chats = "transformers", map(str, made.texts), map(str, made.chats)
            arguments = [str(made.out / "tokenizer"), "--texts", *texts, "--chats", *chats]
        else:
            script, arguments = self.layout, [str(made.out), str(export), *self.options]
        return [str(Path(__file__).with_name(f"check_{script}.py")), *arguments]


def checks(llm_c: Path | None, gpt_neox: Path | None) -> list[Check]:
    """Give every check; those with a checkout where there is one."""
    found = [
        Check(layout="llmc", peers=("nemo-automodel", "torch")),
        Check(layout="megatron", peers=("megatron-core", "torch")),
        Check(layout="datatrove", peers=("datatrove", "torch")),
        Check(layout="olmo", peers=("ai2-olmo-core", "torch")),
        Check(layout="parquet", peers=("pyarrow", "datasets", "trl")),
        Check(layout="mds", peers=("mosaicml-streaming", "torch")),
        Check(layout="litdata", peers=("litdata", "torch")),
        Check(layout="raw", peers=("numpy",)),
        Check(layout=TOKENIZER, peers=("transformers", "tokenizers", "tiktoken")),
    ]
    for layout, option, checkout in (
        ("llmc", "--llm-c", llm_c),
        ("megatron", "--gpt-neox", gpt_neox),
    ):
        if checkout is not None:
            options = (option, str(checkout.resolve()))
            peers = ("nemo-automodel", "torch") if layout == "llmc" else ("torch",)
            own = Check(layout=layout, peers=peers, options=options, checkout=option[2:])
            found.append(own)
    return found
