"""One source of a recipe: its keys, with their limits and their defaults by kind."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from nanotok_ray.dialects import DIALECTS
from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.problems import NAME_OF_SOURCE, no_choice
from nanotok_ray.recipe.special_tokens import AUTO, FIM_TOKENS, SPECIAL_TOKENS
from nanotok_ray.recipe.table import (
    FROM_TOML,
    Flag,
    Number,
    OrNone,
    Path,
    Paths,
    Size,
    Table,
    Text,
    Texts,
    between,
    is_share,
    must,
    not_empty,
    one_of,
    repeated,
    rule,
)
from nanotok_ray.recipe.text import absolute_path
from nanotok_ray.units import did_you_mean

KINDS: Final = ("text", "chat", "vision")
FORMATS: Final = ("parquet", "jsonl", "lines", "document")

_NO_COLUMNS = {"lines", "document"}
SPECIAL_TEXT: Final = ("text", "recognise", "refuse")
TRAIN_ON: Final = ("assistant", "last", "all")
DEDUP: Final = ("exact", "exact-normalized")
UNTRAINED: Final = ("reasoning_content", "tool_calls")
_SPLITS = ("last-file", "train", "val", "files")
_MAX_IMAGE_TOKENS = 2**20  # the limit of `vision` for all images of a document
_MIN_WEIGHT = Decimal("0.000001")
_MAX_WEIGHT = 1_000_000
_Values = Mapping[str, Any]


_folder_name = must(
    lambda name, _: NAME_OF_SOURCE.fullmatch(name),
    " = {value!r} cannot name a folder; use 1 to 100 letters, digits, '_', '-' or '.', the first a "
    "letter, a digit or '_'",
)
_fits_kind = must(
    lambda form, values: values.get("kind", "text") == "text" or form not in _NO_COLUMNS,
    " = {value!r}, but a {kind} source is read from JSON lines or parquet; use "
    'format = "jsonl" or "parquet"',
)
_not_rendered = must(
    lambda value, values: values.get("kind", "text") == "text" or not value,
    " = {value!r} has no use for a {kind} source, whose rendering fixes it; remove it",
)
_no_column = must(
    lambda column, values: not column or values.get("format") not in _NO_COLUMNS,
    " = {value!r}, but the format {format!r} has no columns; remove it",
)
_needed_column = must(
    lambda column, values: column or "format" not in values or not _default_column(values),
    " is empty; name the column or JSON field of the text",
)
_has_columns = must(
    lambda _, values: values.get("format") not in _NO_COLUMNS,
    " = {value!r}, but the format {format!r} has only text and no columns; remove it: the source "
    "map of a record has the file and the position of each document",
)
_names_val_files = must(
    lambda files, values: values.get("split") != "files" or all(files or ("",)),
    ' is empty; name the files for validation, such as ["part-9.parquet", "held/*"], or choose '
    "another split",
)
_for_split_files = must(
    lambda files, values: not files or values.get("split", "files") == "files",
    " = {value} is for split = 'files', not {split!r}; remove one of them",
)
_of_counted = must(
    lambda weight, values: weight == "1" or values.get("count", True),
    " = {value!r}, but no tokenizer is learned from this source; set count = true, or remove the "
    "weight",
)
_not_of_text = must(
    lambda _, values: not _is_text(values),
    " = {value!r}, but the documents of a text source have none; remove it, or set "
    'kind = "chat" or "vision"',
)
_SPECIAL_TEXT_OF = {"text": SPECIAL_TEXT[:2], "chat": SPECIAL_TEXT, "vision": SPECIAL_TEXT[:1]}
_known_spelling = must(
    lambda value, values: value in _SPECIAL_TEXT_OF.get(values.get("kind", "chat"), ()),
    " = {value!r} is not for a source of kind {kind}; remove it",
)


def _only_chat(default: object) -> AfterValidator:
    return must(
        lambda value, values: values.get("kind", "chat") == "chat" or value == default,
        " = {value!r} is for conversations, not for a {kind} source; remove it, or set "
        'kind = "chat"',
    )


@rule
def _untrained_rule(fields: tuple[str, ...], _: _Values) -> str | None:
    return next(filter(None, (no_choice(name, UNTRAINED) for name in fields)), None)


_DATE_CHARS = len("2026-01-31")


@rule
def _date_rule(date: str, _: _Values) -> str | None:
    if len(date) == _DATE_CHARS:
        with suppress(ValueError):
            datetime.fromisoformat(date)
            return None
    return f" = {date!r} is not a date; write it as 2026-01-31, in quotes"


def _template_path(name: str, info: ValidationInfo) -> str:
    """Return the path of a template as an absolute one; return a name unchanged."""
    is_path = name.endswith(".jinja") and info.context == FROM_TOML
    return absolute_path(name, key="") if is_path else name


def _arguments(value: object) -> str:
    """Return the arguments of a template, a table or the JSON of one, as JSON."""
    try:
        values = json.loads(value) if isinstance(value, str) else value
        text = json.dumps(values, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise RecipeError(" has a value that JSON does not have, such as a date") from None
    if not isinstance(values, dict):
        raise RecipeError(f" = {value!r} is not a table; write {{name = value}}")
    return text


_new_meaning = must(
    lambda token, _: token not in SPECIAL_TOKENS,
    " = {value!r} already has another meaning in every document; use a separate special token, "
    "such as <image>",
)


_FUNCTION = re.compile(r"(?:[^:]+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):[A-Za-z_]\w*(?:\.\w+)*")
_is_function = must(
    lambda name, _: _FUNCTION.fullmatch(name),
    " = {value!r} is not of the form MODULE:FUNCTION, such as clean:fix for the function fix of "
    "clean.py beside the recipe, or package.module:fix",
)


def _with_transform(default: object) -> AfterValidator:
    return must(
        lambda value, values: values.get("transform", "unknown") is not None or value == default,
        " = {value!r} is for a function, and the source has none; set transform, or remove it",
    )


def _with_fim(default: object) -> AfterValidator:
    return must(
        lambda value, values: values.get("fim_rate", 0) is not None or value == default,
        " = {value!r} is for filling in the middle, and the source has no fim_rate; set fim_rate, "
        "or remove it",
    )


_of_texts = must(
    lambda rate, values: rate is None or values.get("kind", "text") == "text",
    " = {value!r} is for texts, not for a {kind} source; remove it",
)
_of_train = must(
    lambda rate, values: rate is None or values.get("split") != "val",
    " = {value!r}, but split = 'val', and documents for validation are not rearranged; remove one "
    "of them",
)


@rule
def _three_tokens(names: tuple[str, ...], _: _Values) -> str | None:
    if len(names) == len(FIM_TOKENS[0]):
        return repeated(names)
    return (
        f" = {list(names)}; name the special tokens of the prefix, the middle and the suffix, such "
        f"as {json.dumps(FIM_TOKENS[0])}"
    )


@rule
def _inside_rule(names: tuple[str, ...], _: _Values) -> str | None:
    for name in names:
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts:
            return f" has {name!r}; name files in the folder of the function's file, as words.txt"
    return None


@rule
def _version_rule(version: str | None, values: _Values) -> str | None:
    function = values.get("transform")
    if function is None or (version is None) == (".py:" in function):
        return None
    if version is None:
        return (
            f" is not set, and transform = {function!r} is a function of an installed package; set "
            "version to that of the package, so that another version makes the documents anew, or "
            "move the function into a file beside the recipe"
        )
    return f" = {version!r} has no use for a function of a file, whose content counts; remove it"


_other_names = must(
    lambda names, values: not {"source_row", values.get("column") or "text"} & {*names},
    " = {value} has the column of the documents, or source_row, which the function gets anyway; "
    "remove it",
)


def _vision_alone(default: object) -> AfterValidator:
    return must(
        lambda value, values: values.get("kind", "vision") == "vision" or value == default,
        " = {value!r} is for documents with images, not for a {kind} source; remove it, or set "
        'kind = "vision"',
    )


@rule
def _split_rule(split: str, _: _Values) -> str | None:
    if split in _SPLITS or (split.startswith("share:") and 0 < _number(split[6:]) < 1):
        return None
    return (
        f" = {split!r} is none of 'last-file', 'train', 'val', 'files' and 'share:S' with "
        f"0 < S < 1, as in 'share:0.01'; {did_you_mean(split, _SPLITS) or 'use one of them'}"
    )


@rule
def _weight(weight: str, _: _Values) -> str | None:
    name, _colon, share = weight.rpartition(":")
    number = _number(share)
    # A decimal with no more digits is a whole number of millionths.
    if 0 < number <= {"": _MAX_WEIGHT, "share": 1}.get(name, 0) and number % _MIN_WEIGHT == 0:
        return None
    return (
        f" = {weight!r} is neither a decimal above 0 and up to {_MAX_WEIGHT:,}, as '2.5', nor "
        "'share:S' with 0 < S <= 1, as 'share:0.3'; at most 6 digits follow the point"
    )


def _number(text: str) -> Decimal:
    """Return a decimal, or 0 for another text."""
    with suppress(InvalidOperation):
        return number if (number := Decimal(text)).is_finite() else Decimal(0)
    return Decimal(0)


@rule
def _dialect_of_kind(dialect: str, values: _Values) -> str | None:
    return no_choice(dialect, DIALECTS[values["kind"]]) if "kind" in values else None


def _expanded(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns with `~` expanded; relative ones begin at the root of the source."""
    return tuple(absolute_path(item, key="") if item[:1] == "~" else item for item in patterns)


def _decimal(value: object) -> str:
    """Return a decimal as written: in quotes, or as a number without an exponent."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RecipeError(f' = {value!r} is not a decimal; write it in quotes, as "2.5"')
    return str(value)


def _is_text(values: _Values) -> bool:
    return values.get("kind") == "text"


def _default_column(values: _Values) -> str:
    return "text" if _is_text(values) and values.get("format") not in _NO_COLUMNS else ""


class SourceRecipe(Table):
    """Named input files of one kind.

    >>> source = SourceRecipe(name="web", kind="text", paths=("/data/web",))
    >>> source.split, source.count, source.prepend, source.column
    ('last-file', True, ('<|bos|>',), 'text')
    """

    location: ClassVar = ("source", 0)

    name: Annotated[Text, _folder_name]
    """Also the name of its folder in the output."""
    kind: Annotated[Text, one_of(KINDS)]
    """`text`, `chat` or `vision`."""
    paths: Annotated[Paths, not_empty("name at least one file, folder or glob")]
    """Globs, files and folders; local or URLs."""
    exclude: Annotated[Texts, AfterValidator(_expanded)] = ()
    """Files of `paths` that are not read, as paths relative to the root or absolute, or globs."""
    format: OrNone[Annotated[Text, one_of(FORMATS), _fits_kind]] = None
    """`parquet`, `jsonl`, `lines` (one document per line), `document` (one per file); None: by
    suffix.
    """
    column: Annotated[Text, _not_rendered, _no_column, _needed_column] = Field(
        default_factory=_default_column
    )
    """Parquet column or JSON field of the text; empty if the format has none. Default: text."""
    split: Annotated[Text, _split_rule] = Field(
        default_factory=lambda values: "last-file" if _is_text(values) else "train"
    )
    """`last-file` (default for text), `train` (default for chat and vision), `val`, `files` or
    `share:0.01`."""
    val_files: Annotated[Texts, _names_val_files, _for_split_files] = ()
    """For the split `files`: the files of val, as paths relative to the root or globs."""
    count: Flag = Field(default_factory=_is_text)
    """Whether the tokenizer is learned from the source. Default: true for text, otherwise false."""
    weight: Annotated[str, BeforeValidator(_decimal), _weight, _of_counted] = "1"
    """The factor of its counts for learning: a decimal such as `2.5`, or `share:0.3`, the share of
    the source in the text that is learned from.
    """
    id_column: OrNone[
        Annotated[Text, not_empty("name a column or JSON field, or remove the key"), _has_columns]
    ] = None
    """Parquet column or JSON field with a string or an integer that is stored as the id of each
    document; None: no ids.
    """
    transform: OrNone[Annotated[Text, _is_function]] = None
    """The function that the documents go through, as MODULE:FUNCTION: of the file MODULE.py beside
    the recipe or of a `.py` file by its path, or else of an installed module. `nanotok_ray.filters`
    says what it gets and returns. None: none.
    """
    columns: Annotated[Texts, _with_transform(()), _no_column, _other_names] = ()
    """Parquet columns or JSON fields that the function gets besides the document."""
    depends: Annotated[Texts, _with_transform(()), _inside_rule] = ()
    """Further files that the function needs, relative to the folder of its file. If one of them or
    the function's own file changes, the documents are made anew.
    """
    version: Annotated[OrNone[Annotated[Text, _with_transform(None)]], _version_rule] = None
    """The version of the package of the function; required unless a file has it."""
    dedup: OrNone[Annotated[Text, one_of(DEDUP)]] = None
    """Whether a document is left out if an earlier one of the sources with the same value is equal:
    `exact`, or `exact-normalized`, which compares NFC in lower case with single spaces. None:
    duplicates are kept.
    """
    fim_rate: OrNone[Annotated[Number, is_share, _of_texts, _of_train]] = None
    """The share of the train documents that are rearranged for filling in the middle; None: none.
    """
    fim_spm_rate: Annotated[Number, is_share, _with_fim(0.5)] = 0.5
    """The share of the rearranged documents that are written as suffix, prefix, middle; the others
    are written as prefix, suffix, middle.
    """
    fim_tokens: OrNone[Annotated[Texts, _three_tokens, _with_fim(None)]] = None
    """The special tokens of the prefix, the middle and the suffix; None: those of `FIM_TOKENS` that
    the tokenizer has.
    """
    prepend: Annotated[Texts, _not_rendered] = Field(
        default_factory=lambda values: SPECIAL_TOKENS[:1] if _is_text(values) else ()
    )
    """Special tokens before each document. Default: `<|bos|>` for text, otherwise none."""
    append: Annotated[Texts, _not_rendered] = ()
    """Special tokens after each document. Default: none; of a tokenizer that a file of another tool
    defines, `prepend` and `append` are by default what this file says.
    """
    special_text: Annotated[Text, one_of(SPECIAL_TEXT), _known_spelling] = Field(
        default_factory=lambda values: "refuse" if values.get("kind") == "chat" else "text"
    )
    """Names of special tokens in a document: `text` encodes them like other text, `recognise`
    replaces them by the special tokens, as the library of the tokenizer does, and `refuse`, the
    default for conversations that a chat template renders, quarantines the conversation.
    """
    dialect: OrNone[Annotated[Text, _not_of_text, _dialect_of_kind]] = None
    """Chat and vision: the dialect of the documents, one of `CHAT_DIALECTS` or `VISION_DIALECTS`;
    None: detected from the first document of each file.
    """
    template: Annotated[
        Text,
        AfterValidator(_template_path),
        not_empty("name a template, or remove the key"),
        _only_chat(AUTO),
    ] = AUTO
    """Chat: how conversations are rendered. `nanochat`: as nanochat does; the path of a chat
    template, which ends with `.jinja`; or the name of one of several in the configuration of the
    tokenizer. `auto`: `nanochat` for tokenizers with nanochat's special tokens, otherwise the
    template of the tokenizer.
    """
    training_template: OrNone[Annotated[Path, _only_chat(None)]] = None
    """Chat: the path of a template that renders the same text as `template` and has
    `{% generation %}` blocks around what the assistant writes; None: none.
    """
    template_args: Annotated[str, BeforeValidator(_arguments), _only_chat("{}")] = "{}"
    """Chat: variables of the template, such as `{enable_thinking = false}`; stored as JSON."""
    template_date: OrNone[Annotated[Text, _date_rule, _only_chat(None)]] = None
    """Chat: the date that the template prints as today's, as in 2026-01-31."""
    tools: OrNone[
        Annotated[Text, not_empty("name a column, or remove the key"), _only_chat(None)]
    ] = None
    """Chat: the column or JSON field of the tools that a conversation can call; None: none."""
    train_on: Annotated[Text, one_of(TRAIN_ON), _only_chat("assistant")] = "assistant"
    """Chat, with a template: what is trained on, all turns of the `assistant`, the `last` of them,
    or `all`, every token.
    """
    untrained: Annotated[Texts, _untrained_rule, _only_chat(())] = ()
    """Chat, with a template: fields of the assistant's messages that are not trained on,
    `reasoning_content` and `tool_calls`.
    """
    image_token: OrNone[
        Annotated[
            Text,
            not_empty("name a special token, or remove the key"),
            _vision_alone(None),
            _new_meaning,
        ]
    ] = None
    """Vision: the special token of each part of an image; None: that of the tokenizer."""
    image_tokens: OrNone[Annotated[Size, _vision_alone(None), between(1, _MAX_IMAGE_TOKENS)]] = None
    """Vision: tokens of each image for documents that do not state the number; None: one."""
    grounding: Annotated[Flag, _vision_alone(False)] = False
    """Vision: whether texts can spell the special tokens of grounding."""
    train_prompt: Annotated[Flag, _vision_alone(True)] = True
    """Vision: whether the text of the prompt is also trained on."""

    @property
    def learned_share(self) -> Decimal | None:
        """The share of the source in the learned text according to its weight, or None."""
        rule, _, share = self.weight.partition(":")
        return Decimal(share) if rule == "share" else None

    @property
    def share(self) -> str | None:
        """The share of documents in val, which are selected by hash, as written, or None."""
        return self.split.partition(":")[2] or None
