"""What is to be learned from a plan: from which slices, how counted, how large; and its key.

Does not know what was done already, nor how any of it is done.
"""

from dataclasses import dataclass, replace
from typing import Any

from nanotok_ray import _core
from nanotok_ray.cluster.stages import CountWork
from nanotok_ray.counts.count_slice import CountSettings
from nanotok_ray.counts.patterns import resolve_pattern
from nanotok_ray.errors import PlanError
from nanotok_ray.formats.manifest import key_of
from nanotok_ray.recipe import Recipe, SourceRecipe
from nanotok_ray.recipe.special_tokens import GROUNDING
from nanotok_ray.sources import Plan, Slice

LEARN_FORMAT = "nanotok-learn 3"


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """What is to be learned: from which slices, how counted, how large."""

    recipe: Recipe
    slices: tuple[Slice, ...]
    settings: CountSettings
    """Of sources whose texts hold no special tokens."""
    kept_key: str | None = None
    """The key of a tokenizer that was learned by these rules from other inputs, and is to stay;
    None: what is to be learned is learned from these."""

    @property
    def key(self) -> str:
        """Everything that is learned depends on; special tokens added to it are not among that."""
        return self._own_key if self.kept_key is None else self.kept_key

    @property
    def is_of_other_inputs(self) -> bool:
        """Whether what is kept was learned before inputs were added, changed or removed."""
        return self.key != self._own_key

    @property
    def rules_key(self) -> str:
        """Everything that is learned depends on but the inputs themselves."""
        read = {
            (each.source, each.kind, each.column, each.share): self.settings_of(each).to_dict()
            for each in self.slices
        }
        return key_of({**self._rules, "read": [[*how, own] for how, own in sorted(read.items())]})

    @property
    def _own_key(self) -> str:
        counts = [self.settings_of(each).key(each) for each in self.slices]
        return key_of({**self._rules, "counts": counts})

    @property
    def _rules(self) -> dict[str, Any]:
        own = self.recipe.tokenizer
        return {
            "format": LEARN_FORMAT,
            "max_chars": self.recipe.limits.max_chars,
            "vocab_size": own.vocab_size,
            "special_tokens": list(own.learned_special_tokens),
            "min_pair_count": own.min_pair_count,
            "max_token_bytes": own.max_token_bytes,
            "min_count": own.min_count,
            "weights": {each.name: each.weight for each in counted_sources(self.recipe)},
        }

    def settings_of(self, each: Slice) -> CountSettings:
        """Give how a slice is counted: the texts that will be encoded, special tokens cut out."""
        source = next(own for own in self.recipe.sources if own.name == each.source)
        return replace(self.settings, grounding=GROUNDING) if source.grounding else self.settings

    def work(self, each: Slice, *, budget: int | None = None) -> CountWork:
        """Give the counting of one slice, with a budget of code points if it has one."""
        settings = self.settings_of(each)
        if budget is not None:
            settings = replace(settings, budget=budget)
        return CountWork(slice=each, settings=settings, work=self.recipe.output.work)


def counted_sources(recipe: Recipe) -> list[SourceRecipe]:
    """Give the sources that the tokenizer is learned from, in order."""
    return [source for source in recipe.sources if source.count]


def training_of(recipe: Recipe, plan: Plan) -> Training:
    """Say what is to be learned from a plan.

    Raises:
        PlanError: nothing is to be counted.
        PatternError: the pattern cannot be compiled.
    """
    counted = {source.name for source in counted_sources(recipe)}
    slices = tuple(each for each in plan.slices(split="train") if each.source in counted)
    if not slices:
        raise PlanError(
            "no train split to learn a tokenizer from: name a source of kind text (or with "
            "count = true) that has train files, or an existing tokenizer as tokenizer.path"
        )
    pattern = resolve_pattern(recipe.tokenizer.pattern)
    _core.Splitter(pattern)  # compiled here once, so that a bad one is not found by every task
    settings = CountSettings(
        pattern=pattern,
        gaps=recipe.tokenizer.gaps,
        doc_cap=recipe.limits.doc_cap,
        max_document_bytes=recipe.limits.max_document_bytes,
    )
    return Training(recipe=recipe, slices=slices, settings=settings)
