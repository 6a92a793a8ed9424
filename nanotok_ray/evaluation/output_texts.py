"""Texts of a finished output, decoded from its first documents.

Takes an output folder and a split; gives texts up to so many bytes. Special tokens are left out.
Does not know what the texts are for.
"""

from collections.abc import Iterator

import numpy as np

from nanotok_ray.documents.batch import Documents, to_utf8
from nanotok_ray.documents.texts import text_batches
from nanotok_ray.formats.manifest import TOKENIZER_FOLDER
from nanotok_ray.loader import open_shards
from nanotok_ray.tokenizer import Tokenizer


def output_texts(folder: str, *, split: str, max_bytes: int) -> Iterator[Documents]:
    """Give the texts of a split's first documents, until they reach `max_bytes`.

    A conversation is one text: all that is said in it.

    Raises:
        CorruptOutputError: A file is not what the manifest says.
        IncompleteOutputError: The folder has no manifest.
        SourceError: There is no such split.
        TokenizerError: The output's tokenizer cannot be read.
    """
    shards = open_shards(folder, split=split)
    tokenizer = Tokenizer.load(f"{folder}/{TOKENIZER_FOLDER}", span_table=False)
    special = np.array([*tokenizer.special_tokens.values()], dtype=np.uint32)

    def texts() -> Iterator[str]:
        left = max_bytes
        for ids in shards:
            text = tokenizer.decode(ids[~np.isin(ids, special)])
            yield text
            left -= len(to_utf8(text))
            if left <= 0:
                return

    return text_batches(texts())
