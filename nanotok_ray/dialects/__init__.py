"""The dialects of chat and vision data: names, detection, and the fields of a document.

The input is the bytes of a document or the columns of a file. The result is the name of a dialect,
or the messages that a document holds.
"""

from nanotok_ray.dialects.conversations import REASONING, Row, row_of
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
    JsonObject,
    kind_of,
    object_of,
    reason_of,
    string_of,
    value_of,
)
from nanotok_ray.dialects.gsm8k import extract_answer, parts_of
from nanotok_ray.dialects.messages import messages_of
from nanotok_ray.dialects.unused import (
    METADATA,
    holds_text,
    is_metadata,
    metadata_of,
    unused_members,
    unused_text,
)

__all__ = [
    "CHAT_DIALECTS",
    "DIALECTS",
    "MALFORMED",
    "METADATA",
    "REASONING",
    "VISION_DIALECTS",
    "Dialect",
    "JsonObject",
    "Row",
    "columns_of",
    "detect",
    "detect_columns",
    "extract_answer",
    "holds_text",
    "is_metadata",
    "kind_of",
    "messages_of",
    "metadata_of",
    "object_of",
    "parts_of",
    "reason_of",
    "row_of",
    "string_of",
    "unused_members",
    "unused_text",
    "value_of",
]
