"""What the tables of a recipe are made of: the base class, types of values, and limits."""

from collections.abc import Collection, Iterable
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
)

from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe.problems import KEYS, did_you_mean, problems_of, refusal
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


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise RecipeError(f" = {value!r} is not a string; put it in quotes")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise RecipeError(f' = {value!r} is not a list of strings; write ["first", "second"]')
    return tuple(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise RecipeError(f" = {value!r} is neither true nor false; write one of them, unquoted")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecipeError(f" = {value!r} is not a number; write one without quotes, as 0.001")
    return float(value)


def _absolute(path: str, info: ValidationInfo) -> str:
    return absolute_path(path, key="") if info.context == FROM_TOML else path


def _all_absolute(paths: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    return tuple(_absolute(path, info) for path in paths)


_T = TypeVar("_T")
OrNone = Annotated[_T | None, BeforeValidator(_none)]
"""None, for which TOML has the text "none"."""
Size = Annotated[int, BeforeValidator(_size)]
Sizes = Annotated[tuple[int, ...], BeforeValidator(_sizes)]
Text = Annotated[str, BeforeValidator(_text)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Number = Annotated[float, BeforeValidator(_number)]
Path = Annotated[Text, AfterValidator(_absolute)]
Paths = Annotated[Texts, AfterValidator(_all_absolute)]


def between(minimum: int, maximum: int) -> AfterValidator:
    """Return a validator that refuses numbers outside of limits."""

    def check(value: int) -> int:
        check_range(value, minimum=minimum, maximum=maximum)
        return value

    return AfterValidator(check)


def check_range(value: int, *, minimum: int, maximum: int) -> None:
    """Refuse a number below `minimum` or above `maximum`."""
    if not minimum <= value <= maximum:
        raise RecipeError(
            f" = {value} is outside {minimum} to {maximum}; use a number within these limits"
        )


def one_of(choices: Collection[str]) -> BeforeValidator:
    """Return a validator that refuses texts that are not among the choices."""

    def check(value: object) -> str:
        check_choice(_text(value), choices)
        return _text(value)

    return BeforeValidator(check)


def check_choice(value: str, choices: Collection[str]) -> None:
    """Refuse a text that is none of the choices."""
    if value not in choices:
        raise RecipeError(
            f" = {value!r} is none of {', '.join(map(repr, choices))}; "
            + (did_you_mean(value, choices) or "use one of them")
        )


def check_distinct(names: Iterable[str]) -> None:
    """Refuse an empty name and a name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise RecipeError(" holds an empty name; remove it")
        if name in seen:
            raise RecipeError(f" holds {name!r} twice; each name may be used once")
        seen.add(name)
