"""The values of a column as Arrow decodes them to plain arrays of strings.

Takes arrays of any type that a column of texts or ids may have. Does not know files or rows.
"""

import pyarrow as pa
import pyarrow.compute as pc


def plain_texts(array: pa.Array) -> pa.Array:
    """Give texts as an array of strings, nulls kept, whatever their bytes are."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array
    return array.cast(pa.large_string())


def id_texts(array: pa.Array) -> pa.Array:
    """Give ids as text, empty where there is none; what is not UTF-8 in them is U+FFFD."""
    texts = pc.fill_null(plain_texts(array), "")
    if is_utf8(texts):
        return texts
    raw = texts.cast(pa.large_binary()).to_pylist()
    return pa.array([each.decode(errors="replace") for each in raw], pa.large_string())


def is_utf8(array: pa.Array) -> bool:
    """Tell whether all strings of an array are what Arrow says they are."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
