"""The tokenizer of an output: as a worker is told to use it, loaded once a process, and no other.

Records name it by the sha256 of its readable file, so nothing else in its folder is asked.
"""

from functools import lru_cache

from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.folder import READABLE_NAME, load_model
from nanotok_ray.tokenizer.readable import sha256_of
from nanotok_ray.tokenizer.span_table import find_span_table
from nanotok_ray.tokenizer.tokenizer import Tokenizer


@lru_cache(maxsize=2)
def expected_tokenizer(url: str, sha256: str, *, span_table: bool) -> Tokenizer:
    """Load the tokenizer of a folder, which has this sha256.

    Raises:
        CorruptOutputError: the folder holds another one.
    """
    tokenizer = written_tokenizer(url, span_table=span_table)
    if tokenizer.sha256 != sha256:
        raise CorruptOutputError(
            f"{url} holds tokenizer {tokenizer.sha256[:16]}, {sha256[:16]} was expected; does "
            "every node see the same folder?"
        )
    return tokenizer


def written_tokenizer(folder: str, *, span_table: bool) -> Tokenizer:
    """Load what a job wrote; its other files are not compared with the one that is read.

    Raises:
        CorruptOutputError: its readable file is missing.
        TokenizerError: as `Tokenizer.load`.
    """
    there = Folder(folder)
    if not there.exists(READABLE_NAME):
        raise CorruptOutputError(
            f"{there.join(READABLE_NAME)} is missing: the output is not whole; run its job again, "
            "which writes what is missing"
        )
    model = load_model(folder)
    table = find_span_table(folder, sha256=sha256_of(model)) if span_table else None
    return Tokenizer(model, span_table=table)
