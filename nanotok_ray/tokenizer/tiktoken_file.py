"""The `.tiktoken` file: base64 of a token's bytes, a space, its id; one line each, in id order.

What `tiktoken.load.load_tiktoken_bpe` reads. Pattern and special tokens are not in it.
"""

import base64

from nanotok_ray.tokenizer.model import Model


def to_tiktoken_file(model: Model) -> bytes:
    """Give the file.

    Raises:
        TokenizerError: Two ids stand for the same bytes.
    """
    ranks = model.ranks().items()
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks)
