"""The tables of a recipe except those of a source, and the rules between tables."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from nanotok_ray.formats import Gaps
from nanotok_ray.recipe.problems import (
    Problem,
    SeveralProblemsError,
    key_of,
    problems_of,
    sources_of,
)
from nanotok_ray.recipe.source import SourceRecipe
from nanotok_ray.recipe.special_tokens import SPECIAL_TOKENS, expand_presets
from nanotok_ray.recipe.superwords import Superwords, parsed_superwords, superwords_of
from nanotok_ray.recipe.table import (
    Flag,
    Number,
    OrNone,
    Path,
    Size,
    Sizes,
    Table,
    Text,
    Texts,
    TokenizerPath,
    between,
    is_share,
    must,
    not_empty,
    outside,
    repeated,
    rule,
)
from nanotok_ray.units import did_you_mean

if TYPE_CHECKING:
    from typing_extensions import Self

TooLong = Literal["keep", "cut", "drop"]
Untrainable = Literal["keep", "drop"]

MAX_DOCUMENT_BYTES: Final = 2**30
"""Default of `limits.max_document_bytes`."""

_NUM_BYTES = 256
_MAX_VOCAB_SIZE = 2**31 - 1  # ids of 32 bits are declared int32 in the document index
_READ_ONLY = ("http://", "https://")
_SHARD_BYTES = 2**31  # from this size on, readers of some trainers overflow
_MAX_SHARD_TOKENS = 2**31 - 1  # lengths in the document index are int32
_MAX_DOCUMENT_BYTES = _MAX_SHARD_TOKENS  # a byte can become a token
_MAX_COUNT = 2**63 - 1

_Values = Mapping[str, Any]


def _smallest_size(values: _Values) -> int:
    """Return the smallest vocabulary size that contains the known special tokens."""
    return _NUM_BYTES + sum(
        len(values.get(key, ())) for key in ("special_tokens", "extra_special_tokens")
    )


@rule
def _room(size: int, values: _Values) -> str | None:
    if values.get("base") is not None:  # it has its own special tokens
        return outside(size, minimum=_NUM_BYTES + 1, maximum=_MAX_VOCAB_SIZE)
    smallest = _smallest_size(values)
    if size < smallest:
        return (
            f" = {size} has no room for 256 bytes and {smallest - _NUM_BYTES} special tokens; use "
            f"at least {smallest}"
        )
    return outside(size, minimum=smallest, maximum=_MAX_VOCAB_SIZE)


@rule
def _superword_rule(text: str, values: _Values) -> str | None:
    start, size = parsed_superwords(text).from_size, values.get("vocab_size", _MAX_VOCAB_SIZE)
    if values.get("path") is not None or values.get("base") is not None:
        return " is for a tokenizer that is learned from bytes; remove it, or path or base"
    if not _smallest_size(values) <= start < size:
        return (
            f".from = {start} is the vocabulary size at which tokens of several words begin: use "
            f"{_smallest_size(values)} to {size - 1}"
        )
    return None


@rule
def _smaller_sizes(sizes: tuple[int, ...], values: _Values) -> str | None:
    max_size = values.get("vocab_size", _MAX_VOCAB_SIZE)
    if values.get("add") is not None:
        max_size = _MAX_VOCAB_SIZE
    for position, size in enumerate(sizes):
        if size > max_size:
            return (
                f" holds {size}, and a tokenizer of tokenizer.vocab_size = {max_size} ids contains "
                f"none that large; raise vocab_size, or remove {size}"
            )
        if size in sizes[:position]:
            return f" holds {size} twice; each size may be used once"
        if wrong := outside(size, minimum=_smallest_size(values), maximum=max_size):
            return wrong
        superword = values.get("superword")
        if superword is not None and size < parsed_superwords(superword).from_size:
            return f" holds {size}, which is less than tokenizer.superword.from; remove it"
    return None


def _clash(names: tuple[str, ...], values: _Values) -> str | None:
    for key in ("special_tokens", "extra_special_tokens"):
        for name in names:
            if name in values.get(key, ()):
                return f" holds {name!r}, which tokenizer.{key} holds too; name it in one of them"
    return None


@rule
def _new_names(names: tuple[str, ...], values: _Values) -> str | None:
    """Refuse names that exist already, except those of an existing tokenizer."""
    return _clash(names, values) if values.get("path", "unknown") is None else None


_writable = must(
    lambda folder, _: not folder.startswith(_READ_ONLY),
    " = {value!r} is a web server, which can only be read; use a folder, or a store such as "
    "s3://bucket/folder",
)
_knows_length = must(
    lambda too_long, values: too_long == "keep" or values.get("max_tokens", 0) is not None,
    " = {value!r}, but limits.max_tokens is not set; set it, for example max_tokens = 2048, or "
    "remove too_long",
)
_in_a_task = must(
    lambda value, values: value == 1 or values.get("memory", 0) is not None,
    " = {value!r} is for a learner that runs as a task; say how much memory it needs too, as "
    'learner.memory = "32GiB"',
)
_label = must(
    lambda label, _: all(label.partition("=")[::2]),
    " = {value!r} is not KEY=VALUE; write it as 'ray.io/market-type=on-demand'",
)
_to_learn = must(
    lambda sizes, values: not sizes or values.get("path") is None,
    " = {value} applies to a learned tokenizer, and tokenizer.path = {path!r} names an existing "
    "one; remove one of them, or use Tokenizer.truncated",
)
_without_path = must(
    lambda _, values: values.get("path") is None,
    " = {value!r} is continued by learning, and tokenizer.path = {path!r} is used as it is; remove "
    "one of them",
)
_with_base = must(
    lambda _, values: values.get("base", "unknown") is not None,
    " = {value} is the number of tokens after those of tokenizer.base, which is not set; set it, "
    "or use vocab_size",
)
_Presets = Annotated[Texts, AfterValidator(lambda names: expand_presets("", names))]
_DISTINCT = rule(lambda names, _: repeated(names))
_Count = Annotated[Size, between(1, _MAX_COUNT)]
_CountFrom0 = Annotated[Size, between(0, _MAX_COUNT)]
_Folder = Annotated[Path, not_empty("name a folder"), _writable]


class TokenizerRecipe(Table):
    """Settings of learning, or the path of an existing tokenizer.

    >>> TokenizerRecipe().num_merges
    32503
    """

    location: ClassVar = ("tokenizer",)

    path: OrNone[
        Annotated[
            TokenizerPath,
            not_empty("name a tokenizer's folder or file, or remove the key to learn one"),
        ]
    ] = None
    """Existing tokenizer of this project or another one: a folder or file that `open_tokenizer`
    opens, ranks with their family or pattern, as in `tokenizer.model:llama3`, or the name of a
    model of the Hugging Face hub. Nothing is learned; of the keys below only extend and gaps are
    used.
    """
    base: OrNone[
        Annotated[TokenizerPath, not_empty("name a tokenizer, or remove the key"), _without_path]
    ] = None
    """Existing tokenizer of byte-level BPE, like `path`, that learning continues: its ids, special
    tokens, pattern and merges stay, and new tokens have the ids after its last one. `vocab_size` or
    `add` says how many.
    """
    add: OrNone[Annotated[Size, between(1, _MAX_VOCAB_SIZE), _with_base]] = None
    """Number of tokens to add to `base`, in place of `vocab_size`."""
    pattern: Annotated[Text, not_empty("use the name of a pattern or a regular expression")] = (
        "nanochat"
    )
    """The split pattern: a name or a regular expression."""
    special_tokens: Annotated[Texts, _DISTINCT] = SPECIAL_TOKENS
    """Names of the special tokens in the order of their ids, which are the highest."""
    extra_special_tokens: Annotated[_Presets, _DISTINCT, rule(_clash)] = ()
    """More special tokens after `special_tokens`, also part of `vocab_size`: the number of merges
    decreases, and all special tokens get other ids than without them. `preset:seed` means all
    tokens of a preset, here and in `extend`.
    """
    extend: Annotated[_Presets, _DISTINCT, _new_names] = ()
    """Special tokens that are added to the learned tokenizer or to that of `path`: they get the
    ids after the last one, in addition to `vocab_size`, and other ids stay the same. Names that
    the tokenizer of `path` has already are kept.
    """
    vocab_size: Annotated[Size, _room] = 32768
    """Number of ids: 256 bytes, merges and special tokens together; or all of `base` and the new
    tokens.
    """
    gaps: Gaps = "spans"
    """Text that the pattern does not match: `spans` makes spans of it, `error` refuses it."""
    superword: OrNone[Annotated[str, BeforeValidator(superwords_of), _superword_rule]] = None
    """Tokens of several words: `{from = 26000}`, and optionally max_words, forbidden and pattern,
    as in `Superwords`; stored as JSON. None: no token crosses the end of a span of `pattern`.
    """
    min_pair_count: _Count = 1
    """Learning ends when no pair has at least this count."""
    max_token_bytes: OrNone[Annotated[Size, between(2, _MAX_COUNT)]] = None
    """The longest token in bytes; None: no limit."""
    min_count: _Count = 1
    """Spans with a lower count in the whole corpus are not used for learning. With a value above 1
    the merges differ from those of rustbpe.
    """
    also: Annotated[Sizes, _smaller_sizes, _to_learn] = ()
    """Smaller vocabulary sizes whose tokenizers are also written; this needs no further learning.
    """

    @property
    def superwords(self) -> Superwords | None:
        """The values of `superword`."""
        return None if self.superword is None else parsed_superwords(self.superword)

    @property
    def num_merges(self) -> int:
        """Number of merges to learn without a base."""
        return self.vocab_size - _NUM_BYTES - len(self.learned_special_tokens)

    @property
    def learned_special_tokens(self) -> tuple[str, ...]:
        """The special tokens that are part of `vocab_size`, in the order of their ids.

        None with a base, which has its own.
        """
        return () if self.base is not None else self.special_tokens + self.extra_special_tokens

    @property
    def all_special_tokens(self) -> tuple[str, ...] | None:
        """The special tokens of the tokenizer in the order of their ids; None: those of a file."""
        if self.path is not None or self.base is not None:
            return None
        return self.learned_special_tokens + self.extend


class OutputRecipe(Table):
    """The locations of the results."""

    location: ClassVar = ("output",)

    path: _Folder
    """Folder of the output, local or a URL."""
    work: _Folder = Field(
        default_factory=lambda values: f"{values.get('path', '-').rstrip('/')}/work"
    )
    """Folder of count files, which later runs reuse. Default: `work` in the output."""
    layouts: Annotated[
        Texts, rule(lambda layouts, _: repeated(layout.partition(":")[0] for layout in layouts))
    ] = ()
    """Layouts in which the output is also written, to `export/NAME` in the output: `NAME`, or with
    options `NAME:KEY=VALUE,...`, like the argument of `nanotok export --to`.
    """
    allow_removed: Flag = False
    """Whether a job may remove documents from a published output because a source, or more than a
    tenth of the files or bytes of one, no longer exists.
    """
    replace: Flag = False
    """Whether a job may replace a published output of which no source remains."""
    unsafe_store: Flag = False
    """Whether the output may be in a store that ignores conditions of writes, where two runs at the
    same time can damage it.
    """

    @property
    def folders(self) -> dict[str, str]:
        """Return the folders that a job writes to, by the names of their keys."""
        return {"output.path": self.path, "output.work": self.work}


class LimitsRecipe(Table):
    """Sizes and limits."""

    location: ClassVar = ("limits",)

    slice_bytes: Annotated[Size, between(1, 2**50)] = 256 * 2**20
    """Desired decoded bytes of a slice."""
    max_shard_tokens: OrNone[Annotated[Size, between(1, _MAX_SHARD_TOKENS)]] = None
    """Limit of the tokens of a shard; a longer document gets a shard of its own. None: the largest
    number that keeps a shard below 2 GiB.
    """
    max_tokens: OrNone[_Count] = None
    """A conversation or vision document with more tokens is too long; None: no limit."""
    too_long: Annotated[TooLong, _knows_length] = "keep"
    """The rule for documents that are too long: `keep` and count them, `cut` them as nanochat
    does, or `drop` them, which quarantine lists as `dropped`.
    """
    untrainable: Untrainable = "keep"
    """The rule for conversations and vision documents without a token to train on: `keep` or
    `drop`.
    """
    doc_cap: OrNone[_Count] = None
    """Number of code points of each document that are counted; None: all."""
    max_chars: OrNone[_Count] = None
    """Counting ends after this number of code points of the corpus; None: no limit."""
    max_document_bytes: Annotated[Size, between(1, _MAX_DOCUMENT_BYTES)] = MAX_DOCUMENT_BYTES
    """Documents with more bytes are quarantined; for JSON lines, the limit applies to the line. A
    worker needs 1 GB and four times its largest document.
    """
    max_quarantined_share: Annotated[Number, is_share] = 0.001
    """The job fails if a larger share of the documents is quarantined."""
    max_quarantined: OrNone[_CountFrom0] = None
    """The job fails if more documents are quarantined; None: only the share is limited."""
    max_tails: _CountFrom0 = 0
    """The job fails if more files than this have a rest that could not be read."""
    slice_deadline: Annotated[Size, between(1, 2**31 - 1)] = 3600
    """Seconds that an attempt may run for each started GiB of its slices before it is considered
    to hang.
    """
    max_skipped_slices: _CountFrom0 = 0
    """The job fails if more slices than this fail entirely; up to this number are skipped,
    reported, and tried again by the next run.
    """

    @property
    def accepts_all_bad(self) -> bool:
        """Whether a source may have no document that can be used."""
        return self.max_quarantined_share >= 1 and self.max_quarantined is None

    def shard_tokens(self, id_bytes: int) -> int:
        """Return the limit of the tokens of a shard for ids of `id_bytes` bytes.

        >>> LimitsRecipe().shard_tokens(2), LimitsRecipe(max_shard_tokens=9).shard_tokens(4)
        (1073741823, 9)
        """
        return self.max_shard_tokens or (_SHARD_BYTES - 1) // id_bytes


class LearnerRecipe(Table):
    """The location of the learner; no output depends on it."""

    location: ClassVar = ("learner",)

    memory: OrNone[Annotated[Size, between(2**20, 2**50)]] = None
    """Bytes that the Ray task of the learner reserves; None: the learner runs in the driver."""
    cpus: Annotated[Size, between(1, 2**16), _in_a_task] = 1
    """CPUs of that task."""
    label: OrNone[Annotated[Text, _in_a_task, _label]] = None
    """`KEY=VALUE`: a label of the node for that task; None: any node."""


_NO_SOURCE = ": the recipe has no source; add at least one [[source]] table"


class Recipe(Table):
    """The description of a job: its sources in order, the tokenizer, the output and the limits.

    The keys are those of the TOML file, described in docs/recipes.md; the list of sources is
    `sources`. Tables can be dictionaries. A recipe is immutable.

    Raises:
        RecipeError: One or more keys are wrong; the message names all of them.

    >>> recipe = Recipe(
    ...     sources=[{"name": "web", "kind": "text", "paths": ["web/*.parquet"]}],
    ...     tokenizer={"vocab_size": 8192},
    ...     output={"path": "out"},
    ... )
    >>> recipe.sources[0].split, recipe.tokenizer.num_merges
    ('last-file', 7927)
    """

    sources: Annotated[
        tuple[SourceRecipe, ...],
        must(lambda sources, _: sources, _NO_SOURCE),
    ] = Field((), validation_alias="source")
    tokenizer: TokenizerRecipe = TokenizerRecipe()
    output: OutputRecipe
    limits: LimitsRecipe = LimitsRecipe()
    learner: LearnerRecipe = LearnerRecipe()
    _text: str = PrivateAttr("")

    @property
    def text(self) -> str:
        """The TOML text before environment variables were replaced, for people."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.sources, self.tokenizer, self.output, self.limits, self.learner))

    @model_validator(mode="wrap")
    @classmethod
    def _check_together(
        cls,
        values: Any,  # noqa: ANN401 - not checked yet
        handler: "Callable[[Any], Self]",
        info: ValidationInfo,
    ) -> "Self":
        recipe: Self | None = None
        try:
            recipe = handler(values)
        except ValidationError as error:
            sources = [_valid(SourceRecipe, table, info) for table in sources_of(values)]
            table = values.get("tokenizer", {}) if isinstance(values, Mapping) else None
            tokenizer = _valid(TokenizerRecipe, table, info)
            problems = problems_of(error, values)
        else:
            sources, tokenizer, problems = list(recipe.sources), recipe.tokenizer, []
        problems += _problems_together(values, sources, tokenizer)
        if problems or recipe is None:
            raise SeveralProblemsError(problems)
        return recipe

    def to_dict(self) -> dict[str, Any]:
        """Return every resolved value by the keys of the TOML file, in a fixed order."""
        tables = self.model_dump(mode="json")
        return {"source": tables.pop("sources")} | tables


_TableT = TypeVar("_TableT", bound=Table)


def _valid(kind: type[_TableT], values: object, info: ValidationInfo) -> _TableT | None:
    """Return a table that is valid on its own, else None."""
    try:
        return kind.model_validate(values, context=info.context)
    except ValidationError:
        return None


def _problems_together(
    tables: object, sources: Sequence[SourceRecipe | None], tokenizer: TokenizerRecipe | None
) -> Iterator[Problem]:
    """Yield the problems between tables, as far as valid tables determine them."""
    names = [key_of(("source", index), tables) for index in range(len(sources))]
    for index, name in enumerate(names):
        if name in names[:index]:
            message = (
                f"source.name holds {name.removeprefix('source.')!r} twice; each name may be used "
                "once"
            )
            yield Problem(("source", index, "name"), message)
    if tokenizer is None or tokenizer.path is not None:
        return
    if tokenizer.base is not None:
        yield from _contradictions_to_base(tokenizer)
    for index, source in enumerate(sources):
        if source is not None and tokenizer.all_special_tokens is not None:
            yield from _unknown_tokens(source, index, tokenizer.all_special_tokens)
    counted = {
        index: source for index, source in enumerate(sources) if source is None or source.count
    }
    if sources and not counted:
        message = (
            "no source has count = true, so there is nothing to learn a tokenizer from; set it "
            "for one source, or name an existing tokenizer in tokenizer.path"
        )
        yield Problem(("source",), message)
    known = {index: source for index, source in counted.items() if source is not None}
    yield from _wrong_shares(known, complete=len(known) == len(counted))


def _contradictions_to_base(tokenizer: TokenizerRecipe) -> Iterator[Problem]:
    """Yield problems of the size, and of what a base has itself."""
    fields = TokenizerRecipe.model_fields
    names_size = "vocab_size" in tokenizer.model_fields_set
    has_both = tokenizer.add is not None and tokenizer.vocab_size != fields["vocab_size"].default
    if has_both or not (names_size or tokenizer.add):
        message = (
            f"tokenizer.base = {tokenizer.base!r} needs either vocab_size, larger than that of the "
            "base, or add, the number of new tokens, such as add = 4096"
        )
        yield Problem(("tokenizer", "base"), message)
    for key in ("pattern", "special_tokens", "extra_special_tokens"):
        if getattr(tokenizer, key) != fields[key].default:
            message = (
                f"tokenizer.{key} is set, but tokenizer.base = {tokenizer.base!r} has its own; "
                "remove it; tokenizer.extend adds special tokens"
            )
            yield Problem(("tokenizer", key), message)


def _unknown_tokens(source: SourceRecipe, index: int, known: tuple[str, ...]) -> Iterator[Problem]:
    for key, names in (("prepend", source.prepend), ("append", source.append)):
        for name in names:
            if name not in known:
                near = did_you_mean(name, known)
                message = (
                    f"source.{source.name}.{key} has {name!r}, which is not among "
                    f"tokenizer.special_tokens {list(known)}; {near and f'{near} Or '}add "
                    f"the line `extend = {json.dumps([name])}` under [tokenizer], or set {key} = []"
                )
                yield Problem(("source", index, key), message)


def _wrong_shares(sources: Mapping[int, SourceRecipe], *, complete: bool) -> Iterator[Problem]:
    """Yield the problems of the weights of counted sources.

    Args:
        sources: the valid sources by index.
        complete: whether all sources are valid.
    """
    shares = [source.learned_share for source in sources.values()]
    total = sum(share for share in shares if share is not None)
    if not total:
        return
    for (index, source), share in zip(sources.items(), shares, strict=True):
        if share is None:
            message = (
                f"source.{source.name}.weight = {source.weight!r}, while other sources have "
                "shares; set a share for every counted source, or for none"
            )
            yield Problem(("source", index, "weight"), message)
    if complete and None not in shares and total != 1:
        names = ", ".join(source.name for source in sources.values())
        message = f"the shares in source.weight of {names} add up to {total}; they must add up to 1"
        yield Problem(("source",), message)
