"""The tokenizer where nanochat's training looks for it, and its lengths as torch reads them."""

import importlib
from typing import Any

from nanotok_ray.tokenizer.folder import default_folder
from nanotok_ray.tokenizer.tokenizer import Tokenizer


def get_tokenizer() -> Tokenizer:
    """Load the tokenizer in $NANOCHAT_BASE_DIR/tokenizer (~/.cache/nanochat if unset).

    Raises:
        TokenizerError: There is none; the message says what to do.
    """
    return Tokenizer.load(default_folder())


def get_token_bytes(device: str = "cpu") -> Any:  # noqa: ANN401 - a torch.Tensor; torch is not ours
    """Give the number of bytes of each id as an int32 torch tensor, 0 for special tokens.

    Raises:
        TokenizerError: There is no tokenizer; the message says what to do.
    """
    torch = importlib.import_module("torch")
    return torch.from_numpy(get_tokenizer().token_bytes()).to(device)
