"""Formatting of numbers with units and of untrusted text: printable and without secrets."""

import math
import os
import re
from collections.abc import Collection, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import Final


def format_bytes(size: float) -> str:
    """Return a number of bytes with a decimal unit.

    >>> [format_bytes(size) for size in (1, 999, 999_999, 1_250_000, 2.5e12)]
    ['1 byte', '999 bytes', '1.0 MB', '1.2 MB', '2.5 TB']
    """
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= 0.99995 * factor:  # else it would be written as 1,000.0
            return f"{size / factor:,.1f} {unit}"
    return quantity(round(size), "byte")


_UNITS: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_EXACT: Final = 10_000
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_DASH: Final = "\u2013"


def format_count(number: float) -> str:
    """Return a count in at most four digits.

    >>> format_count(9766), format_count(3_988_214), format_count(15_039_022), format_count(999_999)
    ('9,766', '3.99 M', '15.0 M', '1.00 M')
    """
    size = abs(number)
    if size < _EXACT:
        return f"{number:,.0f}"
    limit, unit = next(item for item in _UNITS if size >= item[0] * 0.9995)
    value = number / limit
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0  # noqa: PLR2004
    return f"{value:,.{digits}f} {unit}"


def quantity(number: int, noun: str) -> str:
    """Return an exact number with a noun, whose plural must end in s.

    >>> quantity(1, "slice"), quantity(1234, "slice")
    ('1 slice', '1,234 slices')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_count_tick(number: float) -> str:
    """Return a round count as the label of an axis tick.

    >>> format_count_tick(100), format_count_tick(10_000), format_count_tick(2_500_000)
    ('100', '10 k', '2.5 M')
    """
    limit, unit = next((item for item in _UNITS if number >= item[0]), (1, ""))
    return f"{number:,g}" if number < _EXACT else f"{number / limit:g} {unit}"


def format_duration(seconds: float) -> str:
    """Return a duration as text, to about three digits or two units.

    >>> [format_duration(seconds) for seconds in (0.123, 12.3, 200, 7500, 100_000)]
    ['0.12 s', '12.3 s', '3 min 20 s', '2 h 05 min', '1 d 3 h']
    """
    if seconds < 9.95:  # noqa: PLR2004 - two digits behind the point
        return f"{seconds:.2f} s"
    if seconds < _MINUTE - 0.05:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def format_estimate(seconds: float) -> str:
    """Return an estimated duration in words, with at most two units.

    >>> [format_estimate(seconds) for seconds in (0.2, 59.6, 125, 7500, 200_000)]
    ['under 1 s', 'about 1 min', 'about 2 min 5 s', 'about 2 h 5 min', 'about 2 d 7 h']
    """
    if seconds < 1:
        return "under 1 s"
    left = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, size)
        if number or parts:
            parts.append(f"{number} {unit}" if number else "")
    return f"about {' '.join(part for part in parts[:2] if part)}"


def format_duration_tick(seconds: float) -> str:
    """Return a round duration as the label of an axis tick.

    >>> [format_duration_tick(seconds) for seconds in (0, 2.5, 60, 90, 5400)]
    ['0 s', '2.5 s', '1 min', '1:30 min', '1:30 h']
    """
    if seconds < _MINUTE:
        return f"{seconds:g} s"
    if seconds >= 2 * _DAY:
        return f"{seconds / _DAY:g} d"
    unit, name = (_MINUTE, "min") if seconds < _HOUR else (_HOUR, "h")
    whole, rest = divmod(round(seconds), unit)
    return f"{whole}:{rest * _MINUTE // unit:02d} {name}" if rest else f"{whole} {name}"


def format_rate(size: float, seconds: float) -> str:
    """Return a rate in MB/s, or a dash if there are no bytes or no time.

    >>> format_rate(25_000_000, 2)
    '12.5 MB/s'
    """
    if not size or seconds <= 0:
        return _DASH
    value = size / 1e6 / seconds
    digits = 0 if value >= 100 else 1 if value >= 1 else 2  # noqa: PLR2004
    return f"{value:,.{digits}f} MB/s"


def format_share(part: float, whole: float) -> str:
    """Return a part of a whole in percent, or a dash if the whole is 0.

    >>> format_share(1, 3)
    '33.3%'
    """
    return f"{part / whole:.1%}" if whole else _DASH


def format_ratio(above: float, below: float) -> str:
    """Return a quotient with three decimal places, or a dash if the divisor is 0.

    >>> format_ratio(10, 4)
    '2.500'
    """
    return f"{above / below:.3f}" if below else _DASH


def format_time(at: float) -> str:
    """Return a time, in seconds since 1970, as date and time in UTC.

    >>> format_time(1_800_000_000.7)
    '2027-01-15 08:00:00 UTC'
    """
    try:
        return f"{datetime.fromtimestamp(math.floor(at), tz=timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return _DASH


MAX_NAMES = 3
"""Maximum number of names of a list that `few` shows."""


def parse_time(text: str) -> datetime:
    """Parse a time in ISO 8601 format; Python 3.10 itself parses few forms of it.

    >>> parse_time("2026-11-22T10:00:00.5Z").isoformat()
    '2026-11-22T10:00:00.500000+00:00'

    Raises:
        ValueError: The text is not a time.
    """
    six_digits = re.sub(r"\.(\d+)", lambda fraction: f".{fraction[1][:6]:0<6}", text)
    return datetime.fromisoformat(re.sub("Z$", "+00:00", six_digits))


_COUNT = re.compile(r"([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kmbt]?)", re.IGNORECASE)
_COUNT_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def parse_count(text: str) -> int:
    """Parse a whole number of at least 1, with an optional unit K, M, B or T: 10**3 to 10**12.

    >>> parse_count("10B"), parse_count("2.5m"), parse_count("1_000")
    (10000000000, 2500000, 1000)

    Raises:
        ValueError: The text is not such a number; the message says how to write one.
    """
    if match := _COUNT.fullmatch(text.strip()):
        number = Decimal(match[1]) * _COUNT_UNITS[match[2].lower()]
        if number == number.to_integral_value() and number:
            return int(number)
    raise ValueError(f"{text!r} is not a whole number of 1 or more; write one like 500M or 10B")


def parse_weights(text: str, separator: str = ",") -> dict[str, float]:
    """Parse weights by name.

    >>> parse_weights("web=0.7,code=0.3")
    {'web': 0.7, 'code': 0.3}

    Raises:
        ValueError: A part does not have the form NAME=NUMBER, or a name is given twice.
    """
    shares: dict[str, float] = {}
    for part in text.split(separator):
        name, _, value = part.rpartition("=")
        try:
            share = float(value)
        except ValueError:
            name, share = "", 0.0
        if not name:
            raise ValueError(f"{part!r} is not NAME=NUMBER, as in web=0.7")
        if name in shares:
            raise ValueError(f"{name!r} is given twice; name each source once")
        shares[name] = share
    return shares


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape unprintable characters, such as control characters and lone surrogates.

    Args:
        text: a name, or a text of several lines if `lines` is true.
        lines: whether line breaks are kept.

    >>> printable("a\n\x1b[31mré\udcff"), printable("a\nb", lines=True)
    ('a\\n\\x1b[31mré\\udcff', 'a\nb')
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or (lines and char == "\n")
        else char.encode("unicode_escape").decode()
        for char in text
    )


def few(names: Sequence[str], total: int | None = None) -> str:
    """Return the first few names and the number of further ones of `total` (None: of the names).

    >>> few(["a", "b", "c", "d"], 9)
    'a, b, c and 6 more'
    """
    listed = names[:MAX_NAMES]
    left = (len(names) if total is None else total) - len(listed)
    more = f" and {left:,} more" if left > 0 else ""
    return f"{', '.join(map(printable, listed))}{more}"


def did_you_mean(value: str, choices: Collection[str]) -> str:
    """Return a question that suggests the most similar choice, or "" if none is similar.

    >>> did_you_mean("trian", ["train", "val"])
    "did you mean 'train'?"
    """
    import difflib  # noqa: PLC0415 - for wrong words alone

    near = difflib.get_close_matches(value, choices, n=1)
    return f"did you mean {near[0]!r}?" if near else ""


_NAMES = re.compile(
    r"TOKEN$|SECRET|PASSWORD|PASSWD|CREDENTIAL|ACCOUNT_KEY|ACCESS_KEY|SAS$|CONNECTION_STRING"
)
_LOGIN = re.compile(r"(?<!\babfs)(?<!\babfss)(?<!\bwasb)(?<!\bwasbs)(://)[^/\s\"']+@")
"""The login of a URL; before the @ of an Azure URL stands a container, which is no secret."""
_PARAMETER = re.compile(
    r"([?&][^=&\s\"']*"
    r"(?:sig|token|key|secret|passw|pwd|credential|auth|x-amz-|x-goog-)"
    r"[^=&\s\"']*=)[^&\s\"']+",
    re.IGNORECASE,
)
_MIN_SECRET_CHARS = 6  # shorter values occur in words
_BLOT = "***"


def is_secret(name: str) -> bool:
    """Return whether an environment variable of this name holds a secret.

    A variable whose name ends in PATH, FILE or URI holds a location, not a secret.

    >>> [is_secret(name) for name in ("HF_TOKEN", "RAY_AUTH_TOKEN_PATH", "MAX_TOKENS")]
    [True, False, False]
    """
    upper = name.upper()
    return bool(_NAMES.search(upper)) and not upper.endswith(("PATH", "FILE", "URI"))


def masked_url(url: str) -> str:
    """Replace the login and the secret parameters of a URL, or of all URLs of a text, by `***`.

    This form is stored and part of keys, so it depends on the URL alone. A path is unchanged.

    >>> masked_url("https://me:pw@host/a.parquet?sig=abc&part=1"), masked_url("/data/a?sig=abc")
    ('https://***@host/a.parquet?sig=***&part=1', '/data/a?sig=abc')
    >>> masked_url("abfss://container@account.dfs.core.windows.net/a.parquet")
    'abfss://container@account.dfs.core.windows.net/a.parquet'
    """
    if "://" not in url:
        return url
    return _PARAMETER.sub(rf"\g<1>{_BLOT}", _LOGIN.sub(rf"\g<1>{_BLOT}@", url))


def is_masked(url: str) -> bool:
    """Return whether a URL lacks secrets that `masked_url` has replaced."""
    return "://" in url and _BLOT in url


def without_secrets(text: str) -> str:
    """Replace everything that looks like a secret by `***`.

    Secrets are logins in URLs, URL parameters that are named like secrets, and the values of
    environment variables for whose names `is_secret` returns True.

    >>> without_secrets('paths = ["https://me:pw@host/a?sig=abc&b=1", "s3://${BUCKET}/x"]')
    'paths = ["https://***@host/a?sig=***&b=1", "s3://${BUCKET}/x"]'
    """
    text = masked_url(text)
    values = {value for name, value in os.environ.items() if is_secret(name)}
    for value in sorted(values, key=lambda value: (-len(value), value)):
        if len(value) >= _MIN_SECRET_CHARS:
            text = text.replace(value, _BLOT)
    return text
