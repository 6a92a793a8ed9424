"""One source of a recipe: its keys, with their limits and their defaults by kind."""

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from nanotok_ray.dialects.detect import DIALECTS
from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.problems import NAME_OF_SOURCE, did_you_mean
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS
from nanotok_ray.recipe.table import (
    Flag,
    OrNone,
    Paths,
    Size,
    Table,
    Text,
    Texts,
    between,
    check_choice,
    one_of,
)

KINDS: Final = ("text", "chat", "vision")
FORMATS: Final = ("parquet", "jsonl", "lines", "document")

_NO_COLUMNS = {"lines", "document"}
_SPLITS = ("last-file", "train", "val", "files")
_VISION_DEFAULTS = {
    "image_token": None,
    "image_tokens": None,
    "grounding": False,
    "train_prompt": True,
}
_MAX_IMAGE_TOKENS = 2**20  # those of all images of a document, as `vision` has it
_SMALLEST_WEIGHT = Decimal("0.000001")
_MAX_WEIGHT = 1_000_000


def _decimal(value: object) -> str:
    """Take a decimal as it is written: in quotes, or as a number without an exponent."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise RecipeError(f' = {value!r} is not a decimal; write it in quotes, as "2.5"')
    return str(value)


def _is_text(values: dict[str, Any]) -> bool:
    return values.get("kind") == "text"


def _default_column(values: dict[str, Any]) -> str:
    return "text" if _is_text(values) and values.get("format") not in _NO_COLUMNS else ""


class SourceRecipe(Table):
    """Named input files of one kind.

    >>> source = SourceRecipe(name="web", kind="text", paths=("/data/web",))
    >>> source.split, source.count, source.prepend, source.column
    ('last-file', True, ('<|bos|>',), 'text')
    """

    location: ClassVar = ("source", 0)

    name: Text
    """Also the name of its folder in the output."""
    kind: Annotated[Text, one_of(KINDS)]
    """`text`, `chat` or `vision`."""
    paths: Paths
    """Globs, files and folders, local or URLs."""
    format: OrNone[Annotated[Text, one_of(FORMATS)]] = None
    """`parquet`, `jsonl`, `lines` (a document a line), `document` (one a file); None: by suffix."""
    column: Text = Field(default_factory=_default_column)
    """Parquet column or JSON field of the text; empty where there is none. Default: text."""
    split: Text = Field(default_factory=lambda own: "last-file" if _is_text(own) else "train")
    """`last-file` (default for text), `train` (default for chat and vision), `val`, `files` or
    `share:0.01`."""
    val_files: Texts = ()
    """With the split `files`: the files that are val, as paths below the root or globs."""
    count: Flag = Field(default_factory=_is_text)
    """Whether the tokenizer is learned from it. Default: text yes, others no."""
    weight: Annotated[str, BeforeValidator(_decimal)] = "1"
    """What its counts are multiplied by before learning: a decimal, as `2.5`, or `share:0.3`, so
    much of all that is learned from."""
    id_column: OrNone[Text] = None
    """Parquet column or JSON field, a string or an integer, that is carried along beside each
    document; None: nothing is."""
    prepend: Texts = Field(default_factory=lambda own: SPECIAL_TOKENS[:1] if _is_text(own) else ())
    """Special tokens put before each document. Default: `<|bos|>` for text, else none."""
    append: Texts = ()
    """Special tokens put after each document."""
    dialect: OrNone[Text] = None
    """Chat and vision: how documents say who speaks, one of `CHAT_DIALECTS` or `VISION_DIALECTS`;
    None: seen from the first document of each file."""
    image_token: OrNone[Text] = None
    """Vision: the special token that stands for a part of an image; None: the tokenizer's."""
    image_tokens: OrNone[Annotated[Size, between(1, _MAX_IMAGE_TOKENS)]] = None
    """Vision: tokens of each image where a document does not say so; None: one."""
    grounding: Flag = False
    """Vision: whether the special tokens of grounding are recognised where a text spells them."""
    train_prompt: Flag = True
    """Vision: whether the prompt's text is trained on too."""

    @property
    def learned_share(self) -> Decimal | None:
        """The share of what is learned from that its weight asks for, or None."""
        rule, _, share = self.weight.partition(":")
        return Decimal(share) if rule == "share" else None

    @property
    def share(self) -> str | None:
        """The share of documents that go to val by their hash, as it was written, or None."""
        return self.split.partition(":")[2] or None

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not NAME_OF_SOURCE.fullmatch(name):
            raise RecipeError(
                f" = {name!r} cannot name a folder; use 1 to 100 letters, digits, '_', '-' or "
                "'.', the first a letter, a digit or '_'"
            )
        return name

    @field_validator("paths")
    @classmethod
    def _check_paths(cls, paths: tuple[str, ...]) -> tuple[str, ...]:
        if not paths or not all(paths):
            raise RecipeError(" is empty; name at least one file, folder or glob")
        return paths

    @field_validator("format")
    @classmethod
    def _check_format(cls, form: str | None, info: ValidationInfo) -> str | None:
        kind = info.data.get("kind", "text")
        if kind != "text" and form not in {None, "jsonl", "parquet"}:
            raise RecipeError(
                f" = {form!r}, but a {kind} source is read from JSON lines or parquet; use "
                'format = "jsonl" or "parquet"'
            )
        return form

    @field_validator("column", "prepend", "append")
    @classmethod
    def _check_rendered(cls, value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 - of any type
        kind = info.data.get("kind", "text")
        if kind != "text" and value:
            raise RecipeError(
                f" = {value!r} has no use for a {kind} source, whose rendering fixes it; leave it "
                "out"
            )
        return value

    @field_validator("column")
    @classmethod
    def _check_column(cls, column: str, info: ValidationInfo) -> str:
        if not {"kind", "format"} <= info.data.keys() or not _is_text(info.data):
            return column
        form = info.data["format"]
        if form in _NO_COLUMNS and column:
            raise RecipeError(
                f" = {column!r}, but the format {form!r} has no columns; leave it out"
            )
        if form not in _NO_COLUMNS and not column:
            raise RecipeError(" is empty; name the column or JSON field of the text")
        return column

    @field_validator("id_column")
    @classmethod
    def _check_id_column(cls, column: str | None, info: ValidationInfo) -> str | None:
        if column == "":
            raise RecipeError(" is empty; name a column or JSON field, or leave it out")
        if column is not None and (form := info.data.get("format")) in _NO_COLUMNS:
            raise RecipeError(
                f" = {column!r}, but the format {form!r} has text alone and no columns; leave it "
                "out, the source map of a record tells the file and place of each document"
            )
        return column

    @field_validator("split")
    @classmethod
    def _check_split(cls, split: str) -> str:
        rule, _, share = split.partition(":")
        try:
            valid = split in _SPLITS or (rule == "share" and 0 < Decimal(share) < 1)
        except InvalidOperation:
            valid = False
        if not valid:
            raise RecipeError(
                f" = {split!r} is none of 'last-file', 'train', 'val', 'files' and 'share:S' with "
                "0 < S < 1, as in 'share:0.01'; "
                + (did_you_mean(split, _SPLITS) or "use one of them")
            )
        return split

    @field_validator("val_files")
    @classmethod
    def _check_val_files(cls, files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        split = info.data.get("split")
        if split == "files" and not all(files or ("",)):
            raise RecipeError(
                ' is empty; name the files that are val, as ["part-9.parquet", "held/*"], or '
                "choose another split"
            )
        if files and split not in {None, "files"}:
            raise RecipeError(
                f" = {list(files)} is for split = 'files', not {split!r}; leave one of them out"
            )
        return files

    @field_validator("weight")
    @classmethod
    def _check_weight(cls, weight: str, info: ValidationInfo) -> str:
        rule, _, share = weight.rpartition(":")
        try:
            number = Decimal(share)
            # A decimal without a fraction of more digits is a whole number of millionths.
            valid = number.is_finite() and number == number.quantize(_SMALLEST_WEIGHT)
        except InvalidOperation:
            number, valid = Decimal(0), False
        maximum = {"": _MAX_WEIGHT, "share": 1}.get(rule, 0)
        if not (valid and 0 < number <= maximum):
            raise RecipeError(
                f" = {weight!r} is neither a decimal above 0 and up to {_MAX_WEIGHT:,}, as '2.5', "
                "nor 'share:S' with 0 < S <= 1, as 'share:0.3'; at most 6 digits follow the point"
            )
        if weight != "1" and not info.data.get("count", True):
            raise RecipeError(
                f" = {weight!r}, but no tokenizer is learned from this source; set count = true, "
                "or leave the weight out"
            )
        return weight

    @field_validator("dialect")
    @classmethod
    def _check_dialect(cls, dialect: str | None, info: ValidationInfo) -> str | None:
        kind = info.data.get("kind")
        if dialect is not None and kind == "text":
            raise RecipeError(
                f" = {dialect!r}, but the documents of a text source have none; leave it out, or "
                'set kind = "chat" or "vision"'
            )
        if dialect is not None and kind is not None:
            check_choice(dialect, DIALECTS[kind])
        return dialect

    @field_validator(*_VISION_DEFAULTS)
    @classmethod
    def _check_vision(cls, value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 - of any type
        kind = info.data.get("kind", "vision")
        if kind != "vision" and value != _VISION_DEFAULTS[str(info.field_name)]:
            raise RecipeError(
                f" = {value!r} is for documents with images, not for a {kind} source; leave it "
                'out, or set kind = "vision"'
            )
        return value

    @field_validator("image_token")
    @classmethod
    def _check_image_token(cls, token: str | None) -> str | None:
        if token == "":
            raise RecipeError(" is empty; name a special token, or leave it out")
        if token in SPECIAL_TOKENS:
            raise RecipeError(
                f" = {token!r} already means something else in every document; name a special "
                "token of its own, as <image>"
            )
        return token
