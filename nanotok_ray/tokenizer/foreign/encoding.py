"""A tiktoken `Encoding`, as an object, as our model.

Imports no tiktoken: the three attributes that hold its state are looked at, and nothing is called.
"""

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign.state import model_of_state
from nanotok_ray.tokenizer.model import Model


def from_encoding(encoding: object) -> Model:
    """Give the model of an encoding; texts get the ids that its `encode_ordinary` gives.

    Except that what its pattern does not match is dropped there, and kept here.

    Raises:
        TokenizerError: It is no tiktoken encoding, or not one that our model can hold.
    """
    state = {
        key: getattr(encoding, f"_{key}", None)
        for key in ("pat_str", "mergeable_ranks", "special_tokens")
    }
    name = f"the tiktoken encoding {getattr(encoding, 'name', '')!r}"
    if None in state.values():
        raise TokenizerError(
            f"from_tiktoken takes a tiktoken.Encoding, as tiktoken.get_encoding gives, not a "
            f"{type(encoding).__name__}"
        )
    return model_of_state(state, name=name)
