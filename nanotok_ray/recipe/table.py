"""The base class of tables of a recipe, with types of values and limits."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)

from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.problems import KEYS, no_choice, problems_of, refusal
from nanotok_ray.recipe.text import absolute_path, names_hub_model, parse_size


class Table(BaseModel):
    """A table of the recipe, whose fields are its keys.

    Validators raise a ValueError whose message continues the name of the key, such as
    `ValueError(" = 3 is odd; use an even number")`. Python values are not changed; for values from
    TOML (the context is `FROM_TOML`), paths are made absolute.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
    location: ClassVar[tuple[str | int, ...]] = ()
    """The location of the table in the recipe."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:  # noqa: ANN401
        """Record the keys for messages about unknown ones."""
        names = [field.validation_alias or name for name, field in cls.model_fields.items()]
        KEYS[str(cls.location[0]) if cls.location else ""] = tuple(map(str, names))

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - the fields have their types
        try:
            self.__pydantic_validator__.validate_python(values, self_instance=self, by_name=True)
        except ValidationError as error:
            tables: Any = values
            for part in reversed(self.location):
                tables = [tables] if isinstance(part, int) else {part: tables}
            raise refusal(problems_of(error, tables, prefix=self.location)) from None

    # Marked like pydantic's own: a table in a recipe reports its problems with those of others.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


FROM_TOML = "toml"


def _none(value: object) -> object:
    return None if value == "none" else value


def _size(value: object) -> int:
    return parse_size(value, key="")


def _sizes(value: object) -> tuple[int, ...]:
    return tuple(map(_size, value if isinstance(value, list | tuple) else [value]))


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise RecipeError(f' = {value!r} is not a list of strings; write ["first", "second"]')
    return tuple(value)


def _absolute(path: str, info: ValidationInfo) -> str:
    return absolute_path(path, key="") if info.context == FROM_TOML else path


def _tokenizer_absolute(path: str, info: ValidationInfo) -> str:
    return path if names_hub_model(path) else _absolute(path, info)


def _all_absolute(paths: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    return tuple(_absolute(path, info) for path in paths)


_T = TypeVar("_T")
OrNone = Annotated[_T | None, BeforeValidator(_none)]
"""None, which is "none" in TOML."""
Size = Annotated[int, BeforeValidator(_size)]
Sizes = Annotated[tuple[int, ...], BeforeValidator(_sizes)]
Text = Annotated[str, Field(strict=True)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Flag = Annotated[bool, Field(strict=True)]
Number = Annotated[float, Field(strict=True)]
Path = Annotated[Text, AfterValidator(_absolute)]
TokenizerPath = Annotated[Text, AfterValidator(_tokenizer_absolute)]
Paths = Annotated[Texts, AfterValidator(_all_absolute)]


_Check = Callable[[Any, Mapping[str, Any]], str | None]


def rule(check: _Check) -> AfterValidator:
    """Return a validator that refuses a value for which `check` returns a message.

    `check` is called with the value and the valid values of the keys above it; its message
    continues the name of the key.
    """

    def validate(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 - of any type
        if message := check(value, info.data or {}):
            raise RecipeError(message)
        return value

    return AfterValidator(validate)


def must(condition: Callable[[Any, Mapping[str, Any]], object], message: str) -> AfterValidator:
    """Return a validator that refuses a value for which a condition does not hold.

    Args:
        condition: called like the check of a `rule`.
        message: the message, with `{value}` and the names of other keys for their values.
    """

    def check(value: Any, values: Mapping[str, Any]) -> str | None:  # noqa: ANN401 - of any type
        written = list(value) if isinstance(value, tuple) else value  # as in TOML
        return None if condition(value, values) else message.format(**values, value=written)

    return rule(check)


def between(minimum: int, maximum: int) -> AfterValidator:
    """Return a validator that refuses numbers outside the limits."""
    return rule(lambda value, _: outside(value, minimum=minimum, maximum=maximum))


is_share = must(
    lambda share, _: 0 <= share <= 1,
    " = {value} is not a share; use a number from 0 to 1, such as 0.001",
)


def one_of(choices: Collection[str]) -> AfterValidator:
    """Return a validator that refuses texts that are not among the choices."""
    return rule(lambda value, _: no_choice(value, choices))


def not_empty(step: str) -> AfterValidator:
    """Return a validator that refuses an empty text, and a list without texts."""
    return must(lambda value, _: value and all(value), f" is empty; {step}")


def outside(value: int, *, minimum: int, maximum: int) -> str | None:
    """Return the problem of a number below `minimum` or above `maximum`, or None."""
    if minimum <= value <= maximum:
        return None
    return f" = {value} is outside {minimum} to {maximum}; use a number within these limits"


def repeated(names: Iterable[str]) -> str | None:
    """Return the problem of names that are empty or repeated, or None."""
    seen: set[str] = set()
    for name in names:
        if not name:
            return " holds an empty name; remove it"
        if name in seen:
            return f" holds {name!r} twice; each name may be used once"
        seen.add(name)
    return None
