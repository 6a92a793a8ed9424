"""The dialects of chat and vision data: names, detection, and the fields of a document.

The input is the bytes of a document or the columns of a file. The result is the name of a dialect,
or the messages that a document holds.
"""

from nanotok_ray.dialects.detect import (
    CHAT_DIALECTS,
    DIALECTS,
    VISION_DIALECTS,
    Dialect,
    columns_of,
    detect,
    detect_columns,
)
from nanotok_ray.dialects.fields import (
    MALFORMED,
    kind_of,
    object_of,
    reason_of,
    string_of,
    value_of,
)
from nanotok_ray.dialects.gsm8k import extract_answer, parts_of
from nanotok_ray.dialects.messages import messages_of

__all__ = [
    "CHAT_DIALECTS",
    "DIALECTS",
    "MALFORMED",
    "VISION_DIALECTS",
    "Dialect",
    "columns_of",
    "detect",
    "detect_columns",
    "extract_answer",
    "kind_of",
    "messages_of",
    "object_of",
    "parts_of",
    "reason_of",
    "string_of",
    "value_of",
]
