"""Whether the files of a tokenizer's folder say the same: the one that is read, and tokenizer.pkl.

Another tool may have written tokenizer.pkl over that of an older tokenizer, whose other files still
lie there. Takes what was read and the bytes of the pickle, of which nothing is executed.
"""

from collections.abc import Iterator, Mapping

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign import pickled_state
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.nanochat_files import is_pickle_of


def check_agreement(
    model: Model, name: str, *, pickled: bytes, pickle_name: str, has_pattern: bool
) -> None:
    """See that a pickle holds the model that was read of the file `name`.

    With `has_pattern`, the pattern too must be the same text.

    Raises:
        TokenizerError: It holds another one, or cannot be read.
    """
    if is_pickle_of(pickled, model):
        return
    try:
        state = pickled_state(pickled, name=pickle_name)
    except TokenizerError as error:
        raise TokenizerError(
            f"{name} holds a tokenizer, and beside it lies a pickle that cannot be read: {error}; "
            "remove the pickle, or save the tokenizer again"
        ) from error
    differing = list(_differing(model, state, has_pattern=has_pattern))
    if differing:
        raise TokenizerError(
            f"{name} and {pickle_name} are two tokenizers: they differ in {', '.join(differing)}; "
            "one was written over the files of the other, as nanochat's tok_train does. If the "
            "pickle is meant, remove all other files of a tokenizer there, else remove the pickle"
        )


def _differing(model: Model, state: Mapping[str, object], *, has_pattern: bool) -> Iterator[str]:
    ranks = {token: number for number, token in enumerate(model.tokens)}
    if state.get("mergeable_ranks") != ranks:
        yield "their tokens"
    if state.get("special_tokens") != dict(model.special_tokens):
        yield "their special tokens"
    if has_pattern and state.get("pat_str") != model.pattern:
        yield "their pattern"
