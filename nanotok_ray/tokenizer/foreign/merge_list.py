"""The merges in a tokenizer.json: do they give the ids that its vocabulary implies?

Its model merges what comes first in its list; ours, the lowest id. They are the same if the list is
in order of the ids that it makes and has the pair of each. More pairs for an id, as in files that
were made from ranks, are never met: whoever stands side by side with its bytes is the one pair.
"""

from collections.abc import Mapping, Sequence

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.model import NUM_BYTES, Model


def check_merges(
    merges: Sequence[object], vocab: Mapping[str, int], model: Model, *, name: str
) -> None:
    """Compare the merges of a file with those of the model that its vocabulary gave.

    Raises:
        TokenizerError: One is malformed, out of order or missing.
    """
    met: set[int] = set()
    last = NUM_BYTES
    for place, merge in enumerate(merges):
        where = f"{name}, merges[{place}]"
        left, right = _pair(merge, where=where)
        made, pair = vocab.get(left + right), (vocab.get(left), vocab.get(right))
        if made is None or None in pair:
            raise TokenizerError(f"{where}: {merge!r:.80} are no tokens that make a token")
        if made < last:
            raise TokenizerError(
                f"{where}: {merge!r:.80} makes id {made} after {last}: merges must be in order of "
                "the ids they make, or ids do not say which comes first"
            )
        last = made
        if model.merges[made - NUM_BYTES] == pair:
            met.add(made)
    if len(met) != len(model.merges):
        missing = next(n for n in range(NUM_BYTES, len(model.tokens)) if n not in met)
        first, second = model.merges[missing - NUM_BYTES]
        raise TokenizerError(
            f"{name}: no merge of {model.token(first)!r:.60} and {model.token(second)!r:.60} makes "
            f"token {missing}, though its bytes come to these two: it is only met as a whole span"
        )


def _pair(merge: object, *, where: str) -> tuple[str, str]:
    """Give the two parts: a list of two, or, in older files, one string with a space."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    match parts:
        case [str(left), str(right)]:
            return left, right
    raise TokenizerError(f"{where} is {merge!r:.80}, not two tokens")
