"""nanochat's tokenizer.pkl, a pickled `tiktoken.core.Encoding`, as our model.

Nothing that is named in the file is imported, and nothing is called.
"""

from collections.abc import Mapping

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign.pickle_reader import read_instance
from nanotok_ray.tokenizer.foreign.state import model_of_state
from nanotok_ray.tokenizer.model import Model


def from_pickle(data: bytes, *, name: str) -> Model:
    """Give the model of a file.

    Raises:
        TokenizerError: It holds anything but one encoding with its state, is damaged, or is not
            what our model can hold.
    """
    return model_of_state(pickled_state(data, name=name), name=name)


def pickled_state(data: bytes, *, name: str) -> Mapping[str, object]:
    """Return what a file says of its encoding, of types not yet checked.

    Raises:
        TokenizerError: It holds anything but one encoding with its state, or is damaged.
    """
    state = read_instance(data, module="tiktoken.core", cls="Encoding", name=name)
    if isinstance(state, str):
        raise TokenizerError(
            f"{name} names the encoding {state[:80]!r} of tiktoken and does not hold it: use "
            f"Tokenizer.from_tiktoken(tiktoken.get_encoding({state[:80]!r}))"
        )
    if not isinstance(state, dict):
        raise TokenizerError(f"{name}: the state of the encoding is a {type(state).__name__}")
    return state
