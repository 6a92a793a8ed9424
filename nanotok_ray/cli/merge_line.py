"""How far learning is, as one line for people: the same in every command that learns.

Takes what the core tells of the last merge; knows neither bars nor streams.
"""

from nanotok_ray.tokenizer.merges import Made

LINE_SECONDS = 1.0
"""In a log at most one line in this time, and one a percent; the last merge has one always."""

FEW_MERGES = 50
"""So few have a line each."""

SHOWN = 40
"""Of a token of more bytes so many characters are shown, and how long it is."""


def merge_line(done: int, total: int, last: Made | None, seconds: float) -> str:
    """Give the line for `done` of `total` merges, the last of them, and the rate until now.

    >>> merge_line(3276, 32759, ((256, 257), b" the", 1234567), 0.0728)
    "learn: 3,276 of 32,759 merges (10%), ' the' (256, 257) 1,234,567 times, 45,000 merges/s"

    Args:
        done: merges made.
        total: merges asked for.
        last: the pair that was merged last, the bytes of its token, how often it occurred.
        seconds: since learning began; 0: the rate is left out.
    """
    parts = [f"learn: {done:,} of {total:,} merges ({percent(done, total)}%)"]
    if last is not None:
        pair, token, count = last
        parts.append(f"{shown_token(token)} {pair} {count:,} times")
    if seconds > 0:
        parts.append(f"{done / seconds:,.0f} merges/s")
    return ", ".join(parts)


def is_line_due(done: int, total: int, *, percent_before: int, seconds: float) -> bool:
    """Tell whether a log gets a line.

    >>> [is_line_due(done, 10, percent_before=0, seconds=0.0) for done in (0, 1)]
    [False, True]
    >>> [is_line_due(10, 9999, percent_before=0, seconds=own) for own in (0.1, 1.0)]
    [False, False]
    >>> [is_line_due(100, 9999, percent_before=0, seconds=own) for own in (0.1, 1.0)]
    [False, True]

    Args:
        done: merges made.
        total: merges asked for.
        percent_before: what the last line said; 0: there is none.
        seconds: since the last line.
    """
    is_due = done == total or total <= FEW_MERGES or seconds >= LINE_SECONDS
    return done > 0 and percent(done, total) != percent_before and is_due


def percent(done: int, total: int) -> int:
    """Give whole percents; none of nothing is all of it.

    >>> percent(199, 20_000), percent(0, 0)
    (0, 100)
    """
    return 100 * done // total if total else 100


def shown_token(token: bytes) -> str:
    r"""Give a token as a literal of Python, on one line: text if it is UTF-8, else bytes.

    >>> shown_token(b"\n"), shown_token(b"\xff"), shown_token(b"=" * 1000)
    ("'\\n'", "b'\\xff'", "'========================================'... (1,000 bytes)")
    """
    try:
        start = repr(token.decode()[:SHOWN])
    except UnicodeDecodeError:
        start = repr(token[:SHOWN])
    return f"{start}... ({len(token):,} bytes)" if len(token) > SHOWN else start
