"""Reads tokenizer.json of every model type as the file of a tokenizer.

The core encodes if it can be shown to return the ids of `tokenizers`; otherwise the library does,
and the reason is kept. It is shown for byte-level BPE as follows:

* Normalizers and splits are those that the core has, with patterns that the regex engine of the
  library reads in the same way (see `oniguruma`).
* Every byte is a token, so the unknown token never occurs.
* `merges_of_pairs` of the core keeps the merges that apply, and refuses a list of merges for which
  it cannot show which ones do.
* With `ignore_merges`, a span that is a token as a whole is that token. This is the rule of the
  core for all tokens, with which the merges agree for those that they make.
* No added token is matched in a text. With `special_text = "recognise"` the library encodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final

import numpy as np

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS
from nanotok_ray.documents import as_documents
from nanotok_ray.errors import PatternError, TokenizerError
from nanotok_ray.tokenizer.added_tokens import AddedTokens
from nanotok_ray.tokenizer.core_tables import CoreTables, Normalizer, Step, pattern_of_text
from nanotok_ray.tokenizer.engines import TokenizersEngine
from nanotok_ray.tokenizer.file_model import HUGGING_FACE_FILE, FileModel, described
from nanotok_ray.tokenizer.foreign.around import around_of, around_of_processor
from nanotok_ray.tokenizer.foreign.file_object import FileObject
from nanotok_ray.tokenizer.foreign.huggingface import (
    added_tokens,
    check_numbering,
    check_spans,
    flat,
    ids_of_names,
    pair_of,
    type_of,
)
from nanotok_ray.tokenizer.foreign.oniguruma import check_reads_alike
from nanotok_ray.tokenizer.huggingface import spell, spelled_bytes
from nanotok_ray.tokenizer.model import MAX_TOKENS
from nanotok_ray.tokenizer.piece_model import bytes_of_piece

_BEHAVIORS: Final = {
    "Isolated": "isolated",
    "Contiguous": "contiguous",
    "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next",
}
_DIGIT: Final = r"[\p{N}\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6}]"
"""The numeric characters of the step Digits, which has the tables of Unicode 17."""


def from_tokenizer_json(
    contents: FileObject, data: bytes, *, beside: Mapping[str, bytes]
) -> FileModel:
    """Return the tokenizer of the object of a tokenizer.json, whose bytes are `data`.

    Raises:
        TokenizerError: A value is missing or wrong, added tokens have other ids than `tokenizers`
            gives them; or the core cannot encode, and the package tokenizers is not installed, or
            refuses the file.
    """
    name, model = contents.name, contents.inner("model")
    vocab = _vocab(model, name=name)
    tokens = added_tokens(contents)
    added = ids_of_names(tokens, name=name)
    check_numbering(added, vocab, name=name)
    unknown = _unknown(model, vocab)
    special = {text: number for text, number in added.items() if text != unknown}
    if model.get("dropout"):
        raise TokenizerError(
            f"{name}: its model has dropout = {model.get('dropout')!r:.20}, with which the ids of "
            "a text differ from call to call; set it to null in a copy of the file"
        )
    tables, reason = None, ""
    spelled: dict[str, bytes] = {}
    if _is_byte_level(contents):
        each = ((text, spelled_bytes(text)) for text in (*vocab, *added))
        spelled = {text: token for text, token in each if token is not None}
    try:
        tables = core_tables(contents, vocab, special, spelled)
    except (TokenizerError, PatternError) as error:
        reason = str(error)
    default = around_of_processor(contents.get("post_processor"))
    texts = {
        number: text
        for text, number in sorted((vocab | added).items(), key=itemgetter(1))
        if text not in special
    }
    opened = FileModel(
        description=described(
            HUGGING_FACE_FILE,
            data,
            engine="core" if tables else "tokenizers",
            special_tokens=special,
            around=around_of(beside, default=default),
        ),
        data=data,
        beside=beside,
        added=AddedTokens.of(tokens, has_normalizer=bool(contents.get("normalizer"))),
        text_tokens={n: spelled.get(text) or bytes_of_piece(text) for n, text in texts.items()},
        spelling=texts,
        tables=tables,
        reason=reason,
    )
    if tables is None:
        TokenizersEngine(opened).check()
    return opened


def _vocab(model: FileObject, *, name: str) -> dict[str, int]:
    """Return the id of each token of the model of any type."""
    vocab = model.get("vocab")
    if isinstance(vocab, list):  # of a Unigram model: pieces with their scores
        vocab = {
            piece[0]: number
            for number, piece in enumerate(vocab)
            if isinstance(piece, list) and len(piece) == 2 and isinstance(piece[0], str)  # noqa: PLR2004
        }
    if not isinstance(vocab, dict) or not vocab:
        raise TokenizerError(f"{name}: its model has no vocabulary")
    if len(vocab) > MAX_TOKENS:
        raise TokenizerError(f"{name} has {len(vocab):,} tokens: at most {MAX_TOKENS:,} are read")
    texts: dict[int, str] = {}
    for text, number in vocab.items():
        if type(number) is not int or number < 0:
            raise TokenizerError(f"{name}: the id of the token {text!r:.60} is {number!r:.60}")
        if texts.setdefault(number, text) != text:
            raise TokenizerError(
                f"{name}: the tokens {texts[number]!r:.60} and {text!r:.60} have the id {number}"
            )
    return vocab


def _unknown(model: FileObject, vocab: Mapping[str, int]) -> str | None:
    """Return the token of text without another token."""
    number = model.get("unk_id")
    if isinstance(number, int):
        return next((text for text, one in vocab.items() if one == number), None)
    unknown = model.get("unk_token")
    return unknown if isinstance(unknown, str) else None


def _is_byte_level(contents: FileObject) -> bool:
    decoders = flat(contents.get("decoder"), "decoders")
    return any(type_of(decoder) == "ByteLevel" for decoder in decoders)


def core_tables(
    contents: FileObject,
    vocab: Mapping[str, int],
    special: Mapping[str, int],
    spelled: Mapping[str, bytes],
) -> CoreTables:
    """Return the tables with which the core encodes like the library.

    Args:
        contents: the object of the file.
        vocab: the id of each token of its model.
        special: the ids of added tokens.
        spelled: the bytes of each token that is spelled with one character for each byte.

    Raises:
        TokenizerError: The tokenizer is not byte-level BPE, or does something that the core does
            not; the message is the reason.
        PatternError: A pattern cannot be compiled.
    """
    name = "the file"
    model = replace(contents, name=name).inner("model")
    _check_model(model, vocab, name=name)
    normalizers = [*_normalizers(contents.get("normalizer"), name=name)]
    steps, prefix = _steps(contents.get("pre_tokenizer"), name=name)
    if [type_of(one) for one in flat(contents.get("decoder"), "decoders")] != ["ByteLevel"]:
        raise TokenizerError(f"{name}: its decoder is not ByteLevel")
    pairs = _pairs(model.part("merges", list), vocab, spelled, name=name)
    parts = as_documents([part for pair in pairs for part in pair])
    merges, applied = _core.merges_of_pairs(parts.data, parts.offsets)
    made = [pairs[index][0] + pairs[index][1] for index in applied.tolist()]
    internal = [*(bytes([value]) for value in range(256)), *made]
    texts = {text: number for text, number in vocab.items() if text not in special}
    if (other := next((text for text in texts if text not in spelled), None)) is not None:
        raise TokenizerError(f"{name}: the token {other!r:.60} is not spelled in bytes")
    ids = {spelled[text]: number for text, number in texts.items()}
    ids |= {token: vocab[spell(token)] for token in internal if token not in ids}
    span_tokens: list[bytes] = []
    if model.get("ignore_merges"):
        span_tokens = sorted(ids.keys() - {*internal, b""}, key=ids.__getitem__)
        names = {*special} & {*vocab}
        for pattern, _, _ in steps:
            check_spans(names, pattern, name=name)
    single = len(steps) == 1 and steps[0][1:] == ("isolated", False)
    return CoreTables(
        pattern=steps[0][0] if single else tuple(steps),
        merges=merges,
        priorities=applied,
        span_tokens=tuple(span_tokens),
        numbering=np.array([ids[token] for token in (*internal, *span_tokens)], dtype=np.uint32),
        normalizers=(*normalizers, *prefix),
    )


def _check_model(model: FileObject, vocab: Mapping[str, int], *, name: str) -> None:
    kind = model.values.get("type", "BPE" if "merges" in model.values else "another")
    if kind != "BPE":
        raise TokenizerError(f"{name} has a {kind} model, and the core has BPE only")
    for key in ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model.get(key):
            raise TokenizerError(f"{name}: its model has {key} = {model.get(key)!r:.60}")
    lacking = [value for value in range(256) if spell(bytes([value])) not in vocab]
    if lacking:
        raise TokenizerError(
            f"{name} is not byte-level BPE: {len(lacking)} bytes, the first of them {lacking[0]}, "
            "are no tokens"
        )


def _pairs(
    merges: Sequence[object],
    vocab: Mapping[str, int],
    spelled: Mapping[str, bytes],
    *,
    name: str,
) -> list[tuple[bytes, bytes]]:
    pairs = []
    for index, merge in enumerate(merges):
        left, right = pair_of(merge, name=name, index=index)
        first, second = spelled.get(left), spelled.get(right)
        if first is None or second is None or left + right not in vocab:
            raise TokenizerError(
                f"{name}, merges[{index}]: {merge!r:.80} are no tokens that make a token"
            )
        pairs.append((first, second))
    return pairs


def _normalizers(normalizer: object, *, name: str) -> Iterator[Normalizer]:
    for part in flat(normalizer, "normalizers"):
        match part:
            case {"type": "NFC" | "NFD" | "NFKC" | "NFKD" | "Lowercase" as kind}:
                yield (kind,)
            case {"type": "Prepend", "prepend": str(text)}:
                yield ("Prepend", text)
            case {"type": "Replace", "pattern": {"String": str(text)}, "content": str(by)} if text:
                yield ("Replace", text, by)
            case {"type": "Strip", "strip_left": bool(left), "strip_right": bool(right)}:
                yield ("Strip", left, right)
            case _:
                raise TokenizerError(f"{name}: the core has no normalizer {type_of(part)}")


def _steps(pre_tokenizer: object, *, name: str) -> tuple[list[Step], list[Normalizer]]:
    """Return the steps of splitting, and the normalizer of a prefix space."""
    parts = flat(pre_tokenizer, "pretokenizers")
    if not parts or type_of(parts[-1]) != "ByteLevel":
        raise TokenizerError(f"{name}: its pre_tokenizer does not end with ByteLevel")
    *before, last = parts
    steps = [_step(part, name=name) for part in before]
    prefix: list[Normalizer] = []
    if last.get("add_prefix_space", True):
        if steps:
            raise TokenizerError(f"{name}: a space is put before every piece of a text")
        prefix.append(("PrefixSpace",))
    if last.get("use_regex", True):
        steps.append((PATTERNS["r50k"], "isolated", False))
    if not steps:
        steps.append((r"[\s\S]+", "isolated", False))
    return steps, prefix


def _step(part: object, *, name: str) -> Step:
    match part:
        case {"type": "Digits", **options}:
            one = options.get("individual_digits")
            return (_DIGIT if one else f"{_DIGIT}+", "isolated", False)
        case {
            "type": "Split",
            "pattern": {"String": str(text)},
            "behavior": str(behavior),
            **options,
        } if text:
            pattern = pattern_of_text(text)
        case {
            "type": "Split",
            "pattern": {"Regex": str(pattern)},
            "behavior": str(behavior),
            **options,
        }:
            check_reads_alike(pattern, name=name)
        case _:
            raise TokenizerError(f"{name}: the core does not split by {type_of(part)}")
    if behavior not in _BEHAVIORS:
        raise TokenizerError(f"{name}: a Split has the behavior {behavior!r:.60}")
    return (pattern, _BEHAVIORS[behavior], bool(options.get("invert", False)))  # type: ignore[return-value]
