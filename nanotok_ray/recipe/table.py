"""What the tables of a recipe are made of: the base class, types of values, and limits."""

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
from nanotok_ray.recipe.text import absolute_path, parse_size


class Table(BaseModel):
    """A table of the recipe, whose fields are its keys.

    What a validator raises is a ValueError whose message follows the name of the key, as
    `ValueError(" = 3 is odd; use an even number")`. Python's values stay as they are; what is
    read from TOML (`FROM_TOML` is the context) has its paths made absolute too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
    location: ClassVar[tuple[str | int, ...]] = ()
    """Where the table is in the recipe."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:  # noqa: ANN401
        """Note the keys, for what messages say of unknown ones."""
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

    # As pydantic's own: a table inside a recipe reports its problems with those of the others.
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


def _all_absolute(paths: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    return tuple(_absolute(path, info) for path in paths)


_T = TypeVar("_T")
OrNone = Annotated[_T | None, BeforeValidator(_none)]
"""None, for which TOML has the text "none"."""
Size = Annotated[int, BeforeValidator(_size)]
Sizes = Annotated[tuple[int, ...], BeforeValidator(_sizes)]
Text = Annotated[str, Field(strict=True)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Flag = Annotated[bool, Field(strict=True)]
Number = Annotated[float, Field(strict=True)]
Path = Annotated[Text, AfterValidator(_absolute)]
Paths = Annotated[Texts, AfterValidator(_all_absolute)]


_Check = Callable[[Any, Mapping[str, Any]], str | None]


def rule(check: _Check) -> AfterValidator:
    """Return a validator that refuses a value of which `check` has something to say.

    `check` gets the value and those of the keys above it that are right, and returns what is wrong:
    a message that follows the name of the key.
    """

    def validate(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 - of any type
        if message := check(value, info.data or {}):
            raise RecipeError(message)
        return value

    return AfterValidator(validate)


def must(condition: Callable[[Any, Mapping[str, Any]], object], message: str) -> AfterValidator:
    """Return a validator that refuses a value for which a condition does not hold.

    Args:
        condition: gets what the check of a `rule` gets.
        message: with `{value}` and the names of other keys for their values.
    """

    def check(value: Any, values: Mapping[str, Any]) -> str | None:  # noqa: ANN401 - of any type
        written = list(value) if isinstance(value, tuple) else value  # as TOML has it
        return None if condition(value, values) else message.format(**values, value=written)

    return rule(check)


def between(minimum: int, maximum: int) -> AfterValidator:
    """Return a validator that refuses numbers outside of limits."""
    return rule(lambda value, _: outside(value, minimum=minimum, maximum=maximum))


def one_of(choices: Collection[str]) -> AfterValidator:
    """Return a validator that refuses texts that are not among the choices."""
    return rule(lambda value, _: no_choice(value, choices))


def not_empty(step: str) -> AfterValidator:
    """Return a validator that refuses an empty text, and a list without texts."""
    return must(lambda value, _: value and all(value), f" is empty; {step}")


def outside(value: int, *, minimum: int, maximum: int) -> str | None:
    """Return what is wrong with a number below `minimum` or above `maximum`."""
    if minimum <= value <= maximum:
        return None
    return f" = {value} is outside {minimum} to {maximum}; use a number within these limits"


def repeated(names: Iterable[str]) -> str | None:
    """Return what is wrong with names of which one is empty, or there twice."""
    seen: set[str] = set()
    for name in names:
        if not name:
            return " holds an empty name; remove it"
        if name in seen:
            return f" holds {name!r} twice; each name may be used once"
        seen.add(name)
    return None
