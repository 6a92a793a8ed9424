"""Hugging Face's spelling of bytes: GPT-2's alphabet, a printable character for each."""

from nanotok_ray.errors import TokenizerError

_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [value for value in range(256) if value not in _PRINTABLE]
_BYTES = {
    **dict.fromkeys(_OTHERS, "\uffff"),  # no spelling of any byte
    **{0x100 + place: chr(value) for place, value in enumerate(_OTHERS)},
}


def token_bytes(spelling: str, *, name: str) -> bytes:
    r"""Give the bytes of a token.

    >>> token_bytes("Ġthe", name="f")
    b' the'

    Raises:
        TokenizerError: A character spells no byte.
    """
    try:
        return _encoded(spelling)
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"{name}: the token {spelling[:60]!r} holds {spelling[error.start]!r}, which spells no "
            "byte: its vocabulary is not byte-level"
        ) from error


def spelled_bytes(text: str) -> bytes | None:
    r"""Give the bytes that a text spells; None if it spells none.

    >>> spelled_bytes("Ġ<|>"), spelled_bytes("<a b>")
    (b' <|>', None)
    """
    try:
        return _encoded(text)
    except UnicodeEncodeError:
        return None


def _encoded(spelling: str) -> bytes:
    return spelling.translate(_BYTES).encode("latin-1")
