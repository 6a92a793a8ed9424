"""Reads Hugging Face's tokenizer.json as a model, if it is byte-level BPE."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.added_tokens import CONTEXT_FLAGS, AddedToken
from nanotok_ray.tokenizer.foreign.file_object import FileObject
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


def model_of_contents(contents: FileObject) -> Model:
    """Return the model of the object of a file.

    Raises:
        TokenizerError: The tokenizer is not byte-level BPE with the merges that its ids imply,
            changes text in other ways, or is damaged; the message names the reason.
    """
    name, bpe = contents.name, contents.inner("model")
    _check_bpe(bpe, name=name)
    _check_around(contents)
    pattern = pattern_of(contents.get("pre_tokenizer"), name=name)
    vocab = bpe.part("vocab", dict)
    special_tokens = ids_of_names(added_tokens(contents), name=name)
    texts = {text: token_id for text, token_id in vocab.items() if text not in special_tokens}
    model = model_of_ranks(
        _ranks(texts, name=name), pattern=pattern, special_tokens=special_tokens, name=name
    )
    check_numbering(special_tokens, vocab, name=name)
    check_merges(bpe.part("merges", list), texts, model, name=name)
    if bpe.get("ignore_merges"):
        check_spans({*special_tokens} & {*vocab}, pattern, name=name)
    return model


def _check_bpe(bpe: FileObject, *, name: str) -> None:
    kind = bpe.values.get("type", "BPE")
    if kind != "BPE":
        of = ", as SentencePiece makes it" if kind == "Unigram" else ""
        raise TokenizerError(
            f"{name} holds a {kind!r:.60} model{of}: only byte-level BPE can be encoded here"
        )
    for key, plain in _PLAIN.items():
        if bpe.get(key) not in plain:
            raise TokenizerError(
                f"{name}: its model has {key} = {bpe.get(key)!r:.60}, which byte-level BPE has not"
            )


def _check_around(contents: FileObject) -> None:
    """Check that no step before or after BPE changes the ids of a text."""
    name, normalizer = contents.name, contents.get("normalizer")
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


def added_tokens(contents: FileObject) -> list[AddedToken]:
    """Return the added tokens of a file."""
    listed, name = contents.get("added_tokens"), contents.name
    if not isinstance(listed, list | None):
        raise TokenizerError(f"{name}: 'added_tokens' must be of type list")
    tokens = []
    for index, values in enumerate(listed or []):
        token = FileObject(values, f"{name}, added_tokens[{index}]")
        if not isinstance(values, dict):
            raise TokenizerError(f"{token.name} is no object")
        is_special = bool(token.get("special"))
        tokens.append(
            AddedToken(
                content=token.part("content", str),
                id=token.part("id", int),
                is_special=is_special,
                is_normalized=bool(values.get("normalized", not is_special)),
                context_flag=next((flag for flag in CONTEXT_FLAGS if values.get(flag)), None),
            )
        )
    return tokens


def ids_of_names(tokens: Sequence[AddedToken], *, name: str) -> dict[str, int]:
    """Return the id of each added token by its name."""
    numbers: dict[str, int] = {}
    for index, token in enumerate(tokens):
        first = numbers.setdefault(token.content, token.id)
        if first != token.id:
            raise TokenizerError(
                f"{name}, added_tokens[{index}]: {token.content!r:.60} has two ids, {first} and "
                f"{token.id}"
            )
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
