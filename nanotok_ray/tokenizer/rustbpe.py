"""nanochat's tokenizer class with its name and signatures, and the functions that load it."""

import importlib
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.errors import how_to_install
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer.folder import default_folder, save_for_nanochat
from nanotok_ray.tokenizer.foreign import from_encoding
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.tokenizer import CACHE_BYTES, Tokenizer

if TYPE_CHECKING:
    import tiktoken
    from typing_extensions import Self

_BOS = SPECIAL_TOKENS[0]
_END_OF_TEXT = "<|endoftext|>"


class RustBPETokenizer(Tokenizer):
    """A `Tokenizer` with the constructor, parameters and attributes of nanochat's class.

    Nanochat's scripts need one change: `from nanotok_ray import RustBPETokenizer`.

    >>> tokenizer = RustBPETokenizer.train_from_iterator(["hello hello"], 267)
    >>> tokenizer.bos_token_id == tokenizer.enc.encode_single_token("<|bos|>")
    True
    >>> RustBPETokenizer(tokenizer.enc, "<|bos|>") == tokenizer
    True
    """

    def __init__(
        self,
        enc: "tiktoken.Encoding | Model",
        bos_token: str | None = None,
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Convert an encoding of tiktoken, or wrap a model.

        Args:
            enc: the encoding; texts are encoded like by its `encode_ordinary`.
            bos_token: the special token that begins documents; None: `<|bos|>`, or `<|endoftext|>`
                if the encoding has only that one.
            cache_bytes: as for `Tokenizer`.

        Raises:
            KeyError: The encoding lacks the token.
            TokenizerError: The object is not an encoding of tiktoken, or cannot be converted.
            PatternError: The pattern cannot be compiled here.
        """
        model = enc if isinstance(enc, Model) else from_encoding(enc)
        super().__init__(model, cache_bytes=cache_bytes)
        if bos_token is None:
            has_other = _BOS not in model.special_tokens and _END_OF_TEXT in model.special_tokens
            bos_token = _END_OF_TEXT if has_other else _BOS
        self.bos_token_id = self.encode_special(bos_token)

    @classmethod
    def train_from_iterator(  # type: ignore[override] # nanochat's name for the texts
        cls,
        text_iterator: Iterable[str],
        vocab_size: int,
        *,
        num_threads: int | None = None,
        pattern: str = SPLIT_PATTERN,
        special_tokens: Sequence[str] = SPECIAL_TOKENS,
    ) -> "Self":
        """Learn from texts as `Tokenizer.train_from_iterator` does; the merges are rustbpe's.

        Raises:
            VocabularySizeError: The size is too small for 256 bytes and the special tokens.
            PatternError: The pattern cannot be compiled.
            TokenizerError: `text_iterator` is a single string.
            TypeError: A text is not a str.
        """
        return super().train_from_iterator(
            text_iterator,
            vocab_size,
            num_threads=num_threads,
            pattern=pattern,
            special_tokens=special_tokens,
        )

    @classmethod
    def from_directory(cls, tokenizer_dir: str | os.PathLike[str]) -> "Self":  # type: ignore[override]
        """Read the tokenizer in a folder of nanochat, or in one that `Tokenizer.save` wrote.

        Raises:
            TokenizerError: No tokenizer exists, or it is damaged; the message names the next step.
        """
        return cls(Tokenizer.load(tokenizer_dir).byte_level_model)

    @classmethod
    def from_pretrained(cls, tiktoken_name: str) -> "Self":
        """Convert an encoding that tiktoken knows by name, such as gpt2; tiktoken can download it.

        Raises:
            ValueError: tiktoken does not know the encoding.
        """
        import tiktoken  # noqa: PLC0415 - 0.1 s, and not every user needs it

        return cls(tiktoken.get_encoding(tiktoken_name), _END_OF_TEXT)

    @cached_property
    def enc(self) -> "tiktoken.Encoding":
        """The same tokenizer as tiktoken's class."""
        return self.to_tiktoken()

    def get_bos_token_id(self) -> int:
        """Return the id of the token that begins every document."""
        return self.bos_token_id

    def id_to_token(self, id: int) -> str:
        """Return the text of one id.

        Raises:
            KeyError: The id is not a token.
        """
        return self.decode([id])

    def save(  # type: ignore[override] # nanochat's name for the folder
        self, tokenizer_dir: str | os.PathLike[str]
    ) -> None:
        """Write tokenizer.pkl and token_bytes.pt, replacing older ones, like nanochat.

        Other files of a tokenizer in that folder are removed, since they would be out of date.
        `Tokenizer(tokenizer.model).save` writes the files of all formats.

        Raises:
            TokenizerError: Two ids have the same bytes, or too many ids are unused.
        """
        save_for_nanochat(self.byte_level_model, tokenizer_dir)


def get_tokenizer() -> RustBPETokenizer:
    """Load the tokenizer in nanochat's folder.

    The folder is $NANOCHAT_BASE_DIR/tokenizer (~/.cache/nanochat if unset), or that of the
    experiment that NANOCHAT_EXPERIMENT and NANOCHAT_EXPERIMENTS_DIR name.

    Raises:
        TokenizerError: No tokenizer exists; the message names the next step.
    """
    return RustBPETokenizer.from_directory(default_folder())


def get_token_bytes(device: str = "cpu") -> Any:  # noqa: ANN401 - a torch.Tensor; torch is not ours
    """Return the number of bytes of each id as an int32 torch tensor; 0 for special tokens.

    Raises:
        TokenizerError: No tokenizer exists; the message names the next step.
        ModuleNotFoundError: torch is not installed.
    """
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error}: get_token_bytes returns a tensor and needs torch; for a numpy array use "
            f"get_tokenizer().token_bytes(), or {how_to_install('torch')}"
        ) from error
    return torch.from_numpy(get_tokenizer().token_bytes()).to(device)
