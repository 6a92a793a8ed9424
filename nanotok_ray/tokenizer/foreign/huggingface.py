"""Reads Hugging Face's tokenizer.json as a model, if it is byte-level BPE."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign.oniguruma import check_reads_alike
from nanotok_ray.tokenizer.foreign.tiktoken import model_of_ranks
from nanotok_ray.tokenizer.huggingface import (
    PATTERN_NAME,
    PUBLISHED_PATTERNS,
    spelled_bytes,
    token_bytes,
    with_atomic_intervals,
)
from nanotok_ray.tokenizer.model import NUM_BYTES, Model

MAX_OPENED = 1 << 22
"""Limit of lists and objects of a file: each takes 30 times its size in memory. Known files have
at most 450,000.
"""


def parsed_object(data: bytes, *, name: str) -> dict[str, Any]:
    """Return the JSON object of a file.

    Raises:
        TokenizerError: The file is not a JSON object in UTF-8, is nested too deeply, has too many
            values, or contains a key twice; the message names the file and, if possible, the line.
    """
    opened = data.count(b"[") + data.count(b"{")
    if opened > MAX_OPENED:
        raise TokenizerError(
            f"{name} has {opened:,} lists and objects, more than {MAX_OPENED:,} are refused"
        )
    try:
        value = json.loads(data.decode(), object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        raise TokenizerError(f"{name}, line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise TokenizerError(f"{name}: its values are nested too deep") from error
    except ValueError as error:  # invalid UTF-8, a duplicate key, a number of thousands of digits
        raise TokenizerError(f"{name}: {error}") from error
    if not isinstance(value, dict):
        raise TokenizerError(f"{name} holds a {type(value).__name__}, not an object")
    return value


def part_of(value: Mapping[str, Any], key: str, kind: type, *, name: str) -> Any:  # noqa: ANN401
    """Return a value of the required type.

    Raises:
        TokenizerError: The value is missing or of another type.
    """
    item = value.get(key)
    if not isinstance(item, kind) or (kind is int and isinstance(item, bool)):
        raise TokenizerError(
            f"{name}: {key!r} must be of type {kind.__name__}, not {type(item).__name__}"
        )
    return item


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:80]!r} comes twice in an object")
    return value


def check_merges(
    merges: Sequence[object], vocab: Mapping[str, int], model: Model, *, name: str
) -> None:
    """Compare the merges of a file with those that its vocabulary implies.

    Raises:
        TokenizerError: A merge is malformed, out of order or missing.
    """
    met: set[int] = set()
    last = NUM_BYTES
    for index, merge in enumerate(merges):
        left, right = pair_of(merge, name=name, index=index)
        made, pair = vocab.get(left + right), (vocab.get(left), vocab.get(right))
        if made is None or None in pair:
            raise TokenizerError(
                f"{name}, merges[{index}]: {merge!r:.80} are no tokens that make a token"
            )
        if made < last:
            raise TokenizerError(
                f"{name}, merges[{index}]: {merge!r:.80} makes id {made} after {last}: merges must "
                "be in order of the ids they make, or ids do not say which comes first"
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


def pair_of(merge: object, *, name: str, index: int) -> tuple[str, str]:
    """Return both parts of merge `index`: a list of two, or, in older files, a string with a space.

    Raises:
        TokenizerError: The merge is something else; the message names the file and the merge.
    """
    parts = merge.split(" ") if isinstance(merge, str) else merge
    # Not a match statement, which takes ten times as long.
    if isinstance(parts, list) and len(parts) == 2:  # noqa: PLR2004
        left, right = parts
        if isinstance(left, str) and isinstance(right, str):
            return left, right
    raise TokenizerError(f"{name}, merges[{index}] is {merge!r:.80}, not two tokens")


_KNOWN = (
    "read are ByteLevel (GPT-2's pattern), and Split by a Regex, Isolated, then ByteLevel without "
    "use_regex"
)

_SPELLED_HERE = {with_atomic_intervals(pattern): pattern for pattern in PATTERNS.values()}
"""Named patterns by their spelling in tokenizer.json, from which they are restored."""


def pattern_of(pre_tokenizer: object, *, name: str) -> str:
    """Return the pattern of the value of "pre_tokenizer".

    Raises:
        TokenizerError: The pre-tokenizer does more than splitting text by one pattern.
    """
    match _steps(pre_tokenizer):
        case [{"type": "ByteLevel"} as last] if _uses_regex(last):
            pattern = PATTERNS["r50k"]
        case [{"type": "Split"} as first, {"type": "ByteLevel"} as last] if not _uses_regex(last):
            pattern = _pattern_of_split(first, name=name)
        case steps:
            raise TokenizerError(f"{name}: its pre_tokenizer is {_format_steps(steps)}: {_KNOWN}")
    if last.get("add_prefix_space", True) is not False:
        raise TokenizerError(
            f"{name}: its pre_tokenizer has add_prefix_space, which puts a space before each text: "
            "ids of a text would not be those of its bytes"
        )
    return pattern


def _steps(pre_tokenizer: object) -> list[Any]:
    if isinstance(pre_tokenizer, dict) and pre_tokenizer.get("type") == "Sequence":
        steps = pre_tokenizer.get("pretokenizers")
        return steps if isinstance(steps, list) else [steps]
    return [pre_tokenizer]


def _uses_regex(byte_level: dict[str, Any]) -> bool:
    return byte_level.get("use_regex", True) is not False


def _pattern_of_split(split: dict[str, Any], *, name: str) -> str:
    match split:
        case {"pattern": {"Regex": str(pattern)}, "behavior": "Isolated"}:
            if split.get("invert", False) is False:
                named = split.get(PATTERN_NAME)
                if isinstance(named, str) and PUBLISHED_PATTERNS.get(named) == pattern:
                    return PATTERNS[named]
                if pattern in _SPELLED_HERE:
                    return _SPELLED_HERE[pattern]
                check_reads_alike(pattern, name=name)
                return pattern
    options = {key: value for key, value in split.items() if key != "type"}
    raise TokenizerError(f"{name}: its pre_tokenizer splits by {str(options)[:200]}: {_KNOWN}")


def _format_steps(steps: list[Any]) -> str:
    types = [step.get("type") if isinstance(step, dict) else step for step in steps]
    return f"{' then '.join(map(str, types))[:200]}"


_PLAIN = {
    "dropout": (None, 0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
}
"""Settings of a BPE model that would change ids. The unknown token is never produced, since every
byte is a token.
"""

_LOOKS = re.compile(r"\(\?(?:=|!(?!\\S\))|<[=!])|\\[bB]")
"""Lookarounds other than "no text after white space": with them a span can depend on the text
around it.
"""

_POST_PROCESSORS = ("ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing")


def from_huggingface_file(data: bytes, *, name: str) -> Model:
    """Return the model of a file.

    Raises:
        TokenizerError: The tokenizer is not byte-level BPE with the merges that its ids imply,
            changes text in other ways, or is damaged; the message names the reason.
    """
    return model_of_contents(parsed_object(data, name=name), name=name)


def model_of_contents(contents: Mapping[str, Any], *, name: str) -> Model:
    """Return the model of the object of a file.

    Raises:
        TokenizerError: As for `from_huggingface_file`.
    """
    bpe = _checked_bpe(part_of(contents, "model", dict, name=name), name=name)
    _check_around(contents, name=name)
    pattern = pattern_of(contents.get("pre_tokenizer"), name=name)
    vocab = part_of(bpe, "vocab", dict, name=f"{name}, model")
    special_tokens = added_tokens(contents.get("added_tokens"), name=name)
    texts = {text: token_id for text, token_id in vocab.items() if text not in special_tokens}
    model = model_of_ranks(
        _ranks(texts, name=name), pattern=pattern, special_tokens=special_tokens, name=name
    )
    check_numbering(special_tokens, vocab, name=name)
    check_merges(part_of(bpe, "merges", list, name=f"{name}, model"), texts, model, name=name)
    if bpe.get("ignore_merges"):
        check_spans({*special_tokens} & {*vocab}, pattern, name=name)
    return model


def _checked_bpe(bpe: Mapping[str, Any], *, name: str) -> Mapping[str, Any]:
    kind = bpe.get("type", "BPE")
    if kind != "BPE":
        of = ", as SentencePiece makes it" if kind == "Unigram" else ""
        raise TokenizerError(
            f"{name} holds a {kind!r:.60} model{of}: only byte-level BPE can be encoded here"
        )
    for key, plain in _PLAIN.items():
        if bpe.get(key) not in plain:
            raise TokenizerError(
                f"{name}: its model has {key} = {bpe[key]!r:.60}, which byte-level BPE has not"
            )
    return bpe


def _check_around(contents: Mapping[str, Any], *, name: str) -> None:
    """Check that no step before or after BPE changes the ids of a text."""
    normalizer = contents.get("normalizer")
    if normalizer not in (None, {"type": "Sequence", "normalizers": []}):
        raise TokenizerError(
            f"{name} has a normalizer, {type_of(normalizer)}: texts are encoded as they are here. "
            "If yours are normalized so already, set it to null in a copy of the file"
        )
    for part in flat(contents.get("post_processor"), "processors"):
        if type_of(part) not in _POST_PROCESSORS:
            raise TokenizerError(f"{name} has a post_processor {type_of(part)}, which is not known")
    decoder = contents.get("decoder")
    if decoder is not None and type_of(decoder) != "ByteLevel":
        raise TokenizerError(
            f"{name} has a decoder {type_of(decoder)}: ids of byte-level BPE decode to bytes"
        )


def flat(part: object, key: str) -> list[Any]:
    """Return the parts of a Sequence, whose list is under `key`, or the one part that it is."""
    if part is None:
        return []
    if isinstance(part, dict) and part.get("type") == "Sequence":
        return part[key] if isinstance(part.get(key), list) else [part.get(key)]
    return [part]


def type_of(part: object) -> str:
    """Return the type of a part of a tokenizer for a message."""
    return str(part.get("type") if isinstance(part, dict) else part)[:60]


def added_tokens(added: object, *, name: str) -> dict[str, int]:
    """Return the id of each added token by its name."""
    if not isinstance(added, list | None):
        raise TokenizerError(f"{name}: 'added_tokens' must be of type list")
    numbers: dict[str, int] = {}
    for index, token in enumerate(added or []):
        where = f"{name}, added_tokens[{index}]"
        if not isinstance(token, dict):
            raise TokenizerError(f"{where} is no object")
        text = part_of(token, "content", str, name=where)
        number = part_of(token, "id", int, name=where)
        if numbers.setdefault(text, number) != number:
            raise TokenizerError(f"{where}: {text!r:.60} has two ids, {numbers[text]} and {number}")
    return numbers


def check_numbering(added: Mapping[str, int], vocab: Mapping[str, int], *, name: str) -> None:
    """Check that added tokens have the ids that `tokenizers` assigns, regardless of the file."""
    following = len(vocab)
    for text, number in added.items():
        given = vocab.get(text, following)
        if number != given:
            raise TokenizerError(
                f"{name}: the added token {text!r:.60} has id {number}, but tokenizers would give "
                f"it {given}: it numbers what its vocabulary lacks without a gap"
            )
        following = max(following, number + 1)


def _ranks(vocab: Mapping[str, Any], *, name: str) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for text, number in vocab.items():
        if type(number) is not int:
            raise TokenizerError(f"{name}: the id of the token {text!r:.60} is {number!r:.60}")
        ranks[token_bytes(text, name=name)] = number
    return ranks


def check_spans(names: set[str], pattern: str, *, name: str) -> None:
    """Refuse special tokens that text can produce: with ignore_merges, a span in vocab is one id.

    A name in vocab is the spelling of bytes, like every key of vocab; text with these bytes would
    produce the special token.
    """
    splitter, looks = _core.Splitter(pattern), _LOOKS.search(pattern)
    for text in sorted(names):
        said = spelled_bytes(text)
        if said is not None and (looks or len(splitter.split(said)) == 1):
            raise TokenizerError(
                f"{name}: with ignore_merges the text {said!r:.60} becomes a special token there, "
                f"as its vocabulary has {text!r:.60}; here text stays text"
            )
