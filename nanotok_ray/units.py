"""Numbers with units, as people read them."""


def format_bytes(size: float) -> str:
    """Return a number of bytes with a decimal unit.

    >>> format_bytes(999), format_bytes(1_250_000), format_bytes(2.5e12)
    ('999 bytes', '1.2 MB', '2.5 TB')
    """
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size:,.0f} bytes"
