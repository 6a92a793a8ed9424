"""One source of a recipe: its values, which are checked, and their defaults by kind."""

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from nanotok_ray.dialects.detect import DIALECTS
from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.limits import DERIVED, check_choice, check_range
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS

KINDS: Final = ("text", "chat", "vision")
FORMATS: Final = ("parquet", "jsonl", "lines", "document")

_VISION_DEFAULTS = {
    "image_token": None,
    "image_tokens": None,
    "grounding": False,
    "train_prompt": True,
}
_MAX_IMAGE_TOKENS = 2**20  # those of all images of a document, as `vision` has it
_SMALLEST_WEIGHT = Decimal("0.000001")
_MAX_WEIGHT = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRecipe:
    """Named input files of one kind.

    >>> source = SourceRecipe(name="web", kind="text", paths=("/data/web",))
    >>> source.split, source.count, source.prepend, source.column
    ('last-file', True, ('<|bos|>',), 'text')
    """

    name: str
    """Also the name of its folder in the output."""
    kind: str
    """`text`, `chat` or `vision`."""
    paths: tuple[str, ...]
    """Globs, files and folders, local or URLs."""
    format: str | None = None
    """`parquet`, `jsonl`, `lines` (a document a line), `document` (one a file); None: by suffix."""
    column: str = DERIVED
    """Parquet column or JSON field of the text; empty where there is none. Default: text."""
    split: str = DERIVED
    """`last-file` (default for text), `train` (default for chat and vision), `val`, `files` or
    `share:0.01`."""
    val_files: tuple[str, ...] = ()
    """With the split `files`: the files that are val, as paths below the root or globs."""
    count: bool = DERIVED
    """Whether the tokenizer is learned from it. Default: text yes, others no."""
    weight: str = "1"
    """What its counts are multiplied by before learning: a decimal, as `2.5`, or `share:0.3`, so
    much of all that is learned from."""
    id_column: str | None = None
    """Parquet column or JSON field, a string or an integer, that is carried along beside each
    document; None: nothing is."""
    prepend: tuple[str, ...] = DERIVED
    """Special tokens put before each document. Default: `<|bos|>` for text, else none."""
    append: tuple[str, ...] = ()
    """Special tokens put after each document."""
    dialect: str | None = None
    """Chat and vision: how documents say who speaks, one of `CHAT_DIALECTS` or `VISION_DIALECTS`;
    None: seen from the first document of each file."""
    image_token: str | None = None
    """Vision: the special token that stands for a part of an image; None: the tokenizer's."""
    image_tokens: int | None = None
    """Vision: tokens of each image where a document does not say so; None: one."""
    grounding: bool = False
    """Vision: whether the special tokens of grounding are recognised where a text spells them."""
    train_prompt: bool = True
    """Vision: whether the prompt's text is trained on too."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise RecipeError(
                f"source.name = {self.name!r} cannot name a folder; use 1 to 100 letters, digits, "
                "'_', '-' or '.', the first a letter, a digit or '_'"
            )
        check_choice(self._key("kind"), self.kind, KINDS)
        if self.format is not None:
            check_choice(self._key("format"), self.format, FORMATS)
        if not self.paths or not all(self.paths):
            raise RecipeError(
                f"{self._key('paths')} is empty; name at least one file, folder or glob"
            )
        self._check_dialect()
        if self.kind != "text":
            self._check_rendered()
        elif self.format in {"lines", "document"} and self.column:
            raise RecipeError(
                f"{self._key('column')} = {self.column!r}, but the format {self.format!r} has no "
                "columns; leave it out"
            )
        self._check_id_column()
        self._fill_in_defaults()
        self._check_split()
        self._check_weight()

    @property
    def learned_share(self) -> Decimal | None:
        """The share of what is learned from that its weight asks for, or None."""
        rule, _, share = self.weight.partition(":")
        return Decimal(share) if rule == "share" else None

    @property
    def share(self) -> str | None:
        """The share of documents that go to val by their hash, as it was written, or None."""
        return self.split.partition(":")[2] or None

    def _key(self, field_name: str) -> str:
        return f"source.{self.name}.{field_name}"

    def _check_rendered(self) -> None:
        if self.format not in {None, "jsonl", "parquet"}:
            raise RecipeError(
                f"{self._key('format')} = {self.format!r}, but a {self.kind} source is read from "
                'JSON lines or parquet; use format = "jsonl" or "parquet"'
            )
        for name in ("column", "prepend", "append"):
            if getattr(self, name):
                raise RecipeError(
                    f"{self._key(name)} = {getattr(self, name)!r} has no use for a {self.kind} "
                    "source, whose rendering fixes it; leave it out"
                )

    def _check_dialect(self) -> None:
        """Refuse what is said of dialects and images where there are none."""
        if self.dialect is not None:
            if self.kind == "text":
                raise RecipeError(
                    f"{self._key('dialect')} = {self.dialect!r}, but the documents of a text "
                    'source have none; leave it out, or set kind = "chat" or "vision"'
                )
            check_choice(self._key("dialect"), self.dialect, DIALECTS[self.kind])
        for name, default in _VISION_DEFAULTS.items():
            if self.kind != "vision" and getattr(self, name) != default:
                raise RecipeError(
                    f"{self._key(name)} = {getattr(self, name)!r} is for documents with images, "
                    f'not for a {self.kind} source; leave it out, or set kind = "vision"'
                )
        if self.image_token == "":
            raise RecipeError(
                f"{self._key('image_token')} is empty; name a special token, or leave it out"
            )
        if self.image_token in SPECIAL_TOKENS:
            raise RecipeError(
                f"{self._key('image_token')} = {self.image_token!r} already means something else "
                "in every document; name a special token of its own, as <image>"
            )
        if self.image_tokens is not None:
            key = self._key("image_tokens")
            check_range(key, self.image_tokens, minimum=1, maximum=_MAX_IMAGE_TOKENS)

    def _fill_in_defaults(self) -> None:
        is_text = self.kind == "text"
        has_column = is_text and self.format not in {"lines", "document"}
        defaults = {
            "column": "text" if has_column else "",
            "split": "last-file" if is_text else "train",
            "count": is_text,
            "prepend": ("<|bos|>",) if is_text else (),
        }
        for name, default in defaults.items():
            if getattr(self, name) is DERIVED:
                object.__setattr__(self, name, default)
        if has_column and not self.column:
            raise RecipeError(
                f"{self._key('column')} is empty; name the column or JSON field of the text"
            )

    def _check_split(self) -> None:
        if self.split == "files" and not all(self.val_files or ("",)):
            raise RecipeError(
                f"{self._key('val_files')} is empty; name the files that are val, as "
                '["part-9.parquet", "held/*"], or choose another split'
            )
        if self.val_files and self.split != "files":
            raise RecipeError(
                f"{self._key('val_files')} = {list(self.val_files)} is for split = 'files', not "
                f"{self.split!r}; leave one of them out"
            )
        if self.split in {"last-file", "train", "val", "files"}:
            return
        rule, _, share = self.split.partition(":")
        try:
            valid = rule == "share" and 0 < Decimal(share) < 1
        except InvalidOperation:
            valid = False
        if not valid:
            raise RecipeError(
                f"{self._key('split')} = {self.split!r} is none of 'last-file', 'train', 'val', "
                "'files' and 'share:S' with 0 < S < 1, as in 'share:0.01'"
            )

    def _check_id_column(self) -> None:
        if self.id_column == "":
            raise RecipeError(
                f"{self._key('id_column')} is empty; name a column or JSON field, or leave it out"
            )
        if self.id_column is not None and self.format in {"lines", "document"}:
            raise RecipeError(
                f"{self._key('id_column')} = {self.id_column!r}, but the format {self.format!r} "
                "has text alone and no columns; leave it out, the source map of a record tells "
                "the file and place of each document"
            )

    def _check_weight(self) -> None:
        rule, _, share = self.weight.rpartition(":")
        try:
            number = Decimal(share)
            # A decimal without a fraction of more digits is a whole number of millionths.
            valid = number.is_finite() and number == number.quantize(_SMALLEST_WEIGHT)
        except InvalidOperation:
            number, valid = Decimal(0), False
        maximum = {"": _MAX_WEIGHT, "share": 1}.get(rule, 0)
        if not (valid and 0 < number <= maximum):
            raise RecipeError(
                f"{self._key('weight')} = {self.weight!r} is neither a decimal above 0 and up to "
                f"{_MAX_WEIGHT:,}, as '2.5', nor 'share:S' with 0 < S <= 1, as 'share:0.3'; at "
                "most 6 digits follow the point"
            )
        if self.weight != "1" and not self.count:
            raise RecipeError(
                f"{self._key('weight')} = {self.weight!r}, but no tokenizer is learned from this "
                "source; set count = true, or leave the weight out"
            )
