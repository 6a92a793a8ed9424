"""The values of a recipe as frozen dataclasses, which are checked when they are made."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, get_args

from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.limits import (
    DERIVED,
    LearnerRecipe,
    LimitsRecipe,
    check_choice,
    check_distinct,
    check_range,
)
from nanotok_ray.recipe.source import SourceRecipe
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS, expand_presets

Gaps = Literal["spans", "error"]
GAPS_RULES: Final = get_args(Gaps)

_NUM_BYTES = 256
_MAX_VOCAB_SIZE = 2**31 - 1  # ids of 32 bits are declared int32 in the document index
_READ_ONLY = ("http://", "https://")


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerRecipe:
    """What to learn, or where a tokenizer lies that exists.

    >>> TokenizerRecipe().num_merges
    32503
    """

    vocab_size: int = 32768
    """Number of ids: 256 bytes, merges and special tokens together."""
    pattern: str = "nanochat"
    """The split pattern: a name or a regular expression."""
    special_tokens: tuple[str, ...] = SPECIAL_TOKENS
    """Names of the special tokens in the order of their ids, which come last."""
    extra_special_tokens: tuple[str, ...] = ()
    """More of them, after `special_tokens` and like these part of `vocab_size`: so there are fewer
    merges, and every special token has another id than without. `preset:seed` stands for all tokens
    of a preset; here and in `extend`."""
    extend: tuple[str, ...] = ()
    """Special tokens added to the tokenizer, learned or that of `path`: they get the ids after its
    last, on top of `vocab_size`, and no id moves. Those that the one of `path` has stay."""
    gaps: Gaps = "spans"
    """Text the pattern does not match: `spans` keeps it as spans of its own, `error` refuses it."""
    min_pair_count: int = 1
    """Learning ends before a pair that occurs less often is merged."""
    max_token_bytes: int | None = None
    """No token gets more bytes than this; None: any number."""
    min_count: int = 1
    """Spans that occur less often in all of the corpus are left out of learning. Above 1 the merges
    are no longer rustbpe's."""
    also: tuple[int, ...] = ()
    """Smaller vocabulary sizes, whose tokenizers are written too; nothing more is learned."""
    span_table: int | None = None
    """Has no effect: accepted because recipes written before have it."""
    path: str | None = None
    """Existing tokenizer, ours or of others: a folder, a tokenizer.txt, tokenizer.json or
    tokenizer.pkl, or ranks with their pattern, as `ranks.tiktoken:gpt4`. Nothing is learned; of the
    keys above only extend and gaps are used."""

    def __post_init__(self) -> None:
        check_choice("tokenizer.gaps", self.gaps, GAPS_RULES)
        if not self.pattern:
            raise RecipeError(
                "tokenizer.pattern is empty; give the name of a pattern or a regular expression"
            )
        if self.path == "":
            raise RecipeError(
                "tokenizer.path is empty; name a tokenizer's folder or file, or leave it out to "
                "learn one"
            )
        self._settle_special_tokens()
        smallest = _NUM_BYTES + len(self.learned_special_tokens)
        if self.vocab_size < smallest:
            raise RecipeError(
                f"tokenizer.vocab_size = {self.vocab_size} has no room for 256 bytes and "
                f"{len(self.learned_special_tokens)} special tokens; use at least {smallest}"
            )
        check_range(
            "tokenizer.vocab_size", self.vocab_size, minimum=smallest, maximum=_MAX_VOCAB_SIZE
        )
        check_range("tokenizer.min_pair_count", self.min_pair_count, minimum=1, maximum=2**63 - 1)
        check_range("tokenizer.min_count", self.min_count, minimum=1, maximum=2**63 - 1)
        if self.max_token_bytes is not None:
            check_range(
                "tokenizer.max_token_bytes", self.max_token_bytes, minimum=2, maximum=2**63 - 1
            )
        self._check_also(smallest)

    def _settle_special_tokens(self) -> None:
        """Replace presets by their tokens; refuse a token that is there twice."""
        known = dict.fromkeys(self.special_tokens, "special_tokens")
        check_distinct("tokenizer.special_tokens", self.special_tokens)
        for key in ("extra_special_tokens", "extend"):
            names = expand_presets(f"tokenizer.{key}", getattr(self, key))
            check_distinct(f"tokenizer.{key}", names)
            object.__setattr__(self, key, names)
            if key == "extend" and self.path is not None:
                return
            for name in names:
                if name in known:
                    raise RecipeError(
                        f"tokenizer.{key} holds {name!r}, which tokenizer.{known[name]} holds too; "
                        "name it in one of them"
                    )
                known[name] = key

    def _check_also(self, smallest: int) -> None:
        for position, size in enumerate(self.also):
            if size > self.vocab_size:
                raise RecipeError(
                    f"tokenizer.also holds {size}, and a tokenizer of tokenizer.vocab_size = "
                    f"{self.vocab_size} ids contains none that large; raise vocab_size, or remove "
                    f"{size}"
                )
            if size in self.also[:position]:
                raise RecipeError(f"tokenizer.also holds {size} twice; each size may be used once")
            check_range("tokenizer.also", size, minimum=smallest, maximum=self.vocab_size)
        if self.also and self.path is not None:
            raise RecipeError(
                f"tokenizer.also = {list(self.also)} is for a tokenizer that is learned, and "
                f"tokenizer.path = {self.path!r} names one that exists; leave one of them out, or "
                "use Tokenizer.truncated"
            )

    @property
    def num_merges(self) -> int:
        """How many merges to learn."""
        return self.vocab_size - _NUM_BYTES - len(self.learned_special_tokens)

    @property
    def learned_special_tokens(self) -> tuple[str, ...]:
        """The special tokens that are part of `vocab_size`, in the order of their ids."""
        return self.special_tokens + self.extra_special_tokens

    @property
    def all_special_tokens(self) -> tuple[str, ...]:
        """The special tokens of a tokenizer that is learned, in the order of their ids."""
        return self.learned_special_tokens + self.extend


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputRecipe:
    """Where the results go."""

    path: str
    """Folder of the output, local or a URL."""
    work: str = DERIVED
    """Folder of count files, which later runs use again. Default: `work` in the output."""
    layouts: tuple[str, ...] = ()
    """Layouts in which the output is written too, to `export/NAME` in it: `NAME`, or with options
    `NAME:KEY=VALUE,...`, as `nanotok export --to` takes them."""
    allow_removed: bool = False
    """Whether a job may drop documents from a published output because a source of it, or more than
    a tenth of the files or bytes of one, is gone."""
    replace: bool = False
    """Whether a job may replace a published output of which no source remains."""

    def __post_init__(self) -> None:
        for name in ("path", "work"):
            folder = getattr(self, name)
            if folder == "":
                raise RecipeError(f"output.{name} is empty; name a folder")
            if folder is not DERIVED and folder.startswith(_READ_ONLY):
                raise RecipeError(
                    f"output.{name} = {folder!r} is a web server, which can only be read; name a "
                    "folder, or a store as s3://bucket/folder"
                )
        check_distinct("output.layouts", tuple(layout.partition(":")[0] for layout in self.layouts))
        if self.work is DERIVED:
            object.__setattr__(self, "work", f"{self.path.rstrip('/')}/work")

    @property
    def folders(self) -> dict[str, str]:
        """Return the folders that a job writes to, by the keys that name them."""
        return {"output.path": self.path, "output.work": self.work}


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """All of one job: its sources in order, what to learn, where to write, within which limits."""

    sources: tuple[SourceRecipe, ...]
    output: OutputRecipe
    tokenizer: TokenizerRecipe = field(default_factory=TokenizerRecipe)
    limits: LimitsRecipe = field(default_factory=LimitsRecipe)
    learner: LearnerRecipe = field(default_factory=LearnerRecipe)
    text: str = field(default="", compare=False, repr=False)
    """The TOML it was read from, before environment variables were put in; for people."""

    def __post_init__(self) -> None:
        if not self.sources:
            raise RecipeError("the recipe has no source; add at least one [[source]] table")
        check_distinct("source.name", tuple(source.name for source in self.sources))
        if self.tokenizer.path is not None:
            return
        if not any(source.count for source in self.sources):
            raise RecipeError(
                "no source has count = true, so there is nothing to learn a tokenizer from; set it "
                "for one source, or name an existing tokenizer in tokenizer.path"
            )
        for source in self.sources:
            self._check_special_tokens(source)
        self._check_shares()

    @property
    def deprecations(self) -> tuple[str, ...]:
        """A sentence for each key of the recipe that is accepted and has no effect."""
        if self.tokenizer.span_table is None:
            return ()
        return ("tokenizer.span_table has no effect any more and can be deleted from the recipe",)

    def _check_shares(self) -> None:
        counted = [source for source in self.sources if source.count]
        shares = [source.learned_share for source in counted]
        if not any(share is not None for share in shares):
            return
        for source, share in zip(counted, shares, strict=True):
            if share is None:
                raise RecipeError(
                    f"source.{source.name}.weight = {source.weight!r}, while other sources have "
                    "shares; give every source that is counted a share, or none"
                )
        total = sum(share for share in shares if share is not None)
        if total != 1:
            raise RecipeError(
                f"the shares in source.weight of {', '.join(entry.name for entry in counted)} add "
                f"up to {total}; they must to 1"
            )

    def _check_special_tokens(self, source: SourceRecipe) -> None:
        known = self.tokenizer.all_special_tokens
        for key, names in (("prepend", source.prepend), ("append", source.append)):
            for name in names:
                if name not in known:
                    raise RecipeError(
                        f"source.{source.name}.{key} has {name!r}, which is not among "
                        f"tokenizer.special_tokens {list(known)}; add it there, or set {key} = []"
                    )

    def to_dict(self) -> dict[str, Any]:
        """Return every resolved value under the keys of the TOML file, in a fixed order."""
        tables = asdict(self)
        return {
            "source": [_plain(table) for table in tables["sources"]],
            "tokenizer": _plain(tables["tokenizer"]),
            "output": _plain(tables["output"]),
            "limits": _plain(tables["limits"]),
            "learner": _plain(tables["learner"]),
        }


def _plain(table: dict[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in table.items()}
