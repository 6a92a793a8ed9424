"""Where the learner runs: in the driver, or as a task with memory and a place of its own.

Takes plain values of the right types; gives a valid `LearnerRecipe` or an error. Does not know
which nodes there are.
"""

from dataclasses import dataclass

from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.checks import check_range


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnerRecipe:
    """Where the learner runs; nothing that is written depends on it."""

    memory: int | None = None
    """Bytes that one Ray task reserves, in which the learner runs; None: it runs in the driver."""
    cpus: int = 1
    """CPUs of that task."""
    label: str | None = None
    """`KEY=VALUE`: a label of the node on which that task runs; None: any node."""

    def __post_init__(self) -> None:
        check_range("learner.cpus", self.cpus, least=1, most=2**16)
        if self.memory is None:
            for name, default in (("cpus", 1), ("label", None)):
                if getattr(self, name) != default:
                    raise RecipeError(
                        f"learner.{name} = {getattr(self, name)!r} is for a learner that runs as a "
                        'task; say how much memory it needs too, as learner.memory = "32GiB"'
                    )
            return
        check_range("learner.memory", self.memory, least=2**20, most=2**50)
        if self.label is not None and not all(self.label.partition("=")[::2]):
            raise RecipeError(
                f"learner.label = {self.label!r} is not KEY=VALUE, as "
                "'ray.io/market-type=on-demand'"
            )
