"""Hugging Face's tokenizer.json as our model, if it is byte-level BPE and nothing else.

A text gets the ids that `tokenizers` gives with `encode_special_tokens` and without special tokens
around it, where its regex engine cuts alike (its Unicode tables are its own). `added_tokens`,
special or not, become special tokens: their names in a text stay text. The post-processor is not
looked at but for its type: ids that it puts around a text are for `prepend` and `append` to say.
Truncation and padding, which `tokenizers` applies to its own results, are left out.
"""

import re
from collections.abc import Mapping
from typing import Any

from nanotok_ray import _core
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign.byte_level import spelled_bytes, token_bytes
from nanotok_ray.tokenizer.foreign.json_file import parsed_object, part_of
from nanotok_ray.tokenizer.foreign.merge_list import check_merges
from nanotok_ray.tokenizer.foreign.pre_tokenizer import pattern_of
from nanotok_ray.tokenizer.foreign.ranks import model_of_ranks
from nanotok_ray.tokenizer.model import Model

_PLAIN = {
    "dropout": (None, 0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
}
"""What of a BPE model would change ids. Its unknown token never comes, as all bytes are there."""

_LOOKS = re.compile(r"\(\?(?:=|!(?!\\S\))|<[=!])|\\[bB]")
"""What looks around, but for no text after white space: spans may be others than of it alone."""

_POST_PROCESSORS = ("ByteLevel", "TemplateProcessing", "RobertaProcessing", "BertProcessing")


def from_huggingface_file(data: bytes, *, name: str) -> Model:
    """Give the model of a file.

    Raises:
        TokenizerError: It is not byte-level BPE whose merges are those that its ids imply, does
            more than that to a text, or is damaged; the message says what and why.
    """
    contents = parsed_object(data, name=name)
    bpe = _checked_bpe(part_of(contents, "model", dict, name=name), name=name)
    _check_around(contents, name=name)
    pattern = pattern_of(contents.get("pre_tokenizer"), name=name)
    vocab = part_of(bpe, "vocab", dict, name=f"{name}, model")
    special_tokens = _added_tokens(contents.get("added_tokens"), name=name)
    texts = {text: own for text, own in vocab.items() if text not in special_tokens}
    model = model_of_ranks(
        _ranks(texts, name=name), pattern=pattern, special_tokens=special_tokens, name=name
    )
    _check_numbering(special_tokens, vocab, name=name)
    check_merges(part_of(bpe, "merges", list, name=f"{name}, model"), texts, model, name=name)
    if bpe.get("ignore_merges"):
        _check_spans({*special_tokens} & {*vocab}, pattern, name=name)
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
    """See that nothing before or after BPE changes the ids of a text."""
    normalizer = contents.get("normalizer")
    if normalizer not in (None, {"type": "Sequence", "normalizers": []}):
        raise TokenizerError(
            f"{name} has a normalizer, {_type_of(normalizer)}: texts are encoded as they are here. "
            "If yours are normalized so already, set it to null in a copy of the file"
        )
    for part in _flat(contents.get("post_processor"), "processors"):
        if _type_of(part) not in _POST_PROCESSORS:
            raise TokenizerError(
                f"{name} has a post_processor {_type_of(part)}, which is not known"
            )
    decoder = contents.get("decoder")
    if decoder is not None and _type_of(decoder) != "ByteLevel":
        raise TokenizerError(
            f"{name} has a decoder {_type_of(decoder)}: ids of byte-level BPE decode to bytes"
        )


def _flat(part: object, key: str) -> list[Any]:
    if part is None:
        return []
    if isinstance(part, dict) and part.get("type") == "Sequence":
        return part[key] if isinstance(part.get(key), list) else [part.get(key)]
    return [part]


def _type_of(part: object) -> str:
    return str(part.get("type") if isinstance(part, dict) else part)[:60]


def _added_tokens(added: object, *, name: str) -> dict[str, int]:
    """Give the id of each added token by its name."""
    if not isinstance(added, list | None):
        raise TokenizerError(f"{name}: 'added_tokens' must be of type list")
    numbers: dict[str, int] = {}
    for place, token in enumerate(added or []):
        where = f"{name}, added_tokens[{place}]"
        if not isinstance(token, dict):
            raise TokenizerError(f"{where} is no object")
        text = part_of(token, "content", str, name=where)
        number = part_of(token, "id", int, name=where)
        if numbers.setdefault(text, number) != number:
            raise TokenizerError(f"{where}: {text!r:.60} has two ids, {numbers[text]} and {number}")
    return numbers


def _check_numbering(added: Mapping[str, int], vocab: Mapping[str, int], *, name: str) -> None:
    """See that added tokens have the ids that `tokenizers` gives them, whatever the file says."""
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


def _check_spans(names: set[str], pattern: str, *, name: str) -> None:
    """Refuse special tokens that a text could say: with ignore_merges a span in vocab is its id.

    There a name in vocab is a spelling of bytes, as all of vocab: those are what a text must hold.
    """
    splitter, looks = _core.Splitter(pattern), _LOOKS.search(pattern)
    for text in sorted(names):
        said = spelled_bytes(text)
        if said is not None and (looks or len(splitter.split(said)) == 1):
            raise TokenizerError(
                f"{name}: with ignore_merges the text {said!r:.60} becomes a special token there, "
                f"as its vocabulary has {text!r:.60}; here text stays text"
            )
