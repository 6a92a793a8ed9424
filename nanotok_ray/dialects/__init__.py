"""How chat and vision data is written: names, detection, and the fields of a document.

Input is the bytes of a document or the columns of a file. Output is the name of a dialect, or the
messages that a document holds.
"""

from nanotok_ray.dialects.detect import CHAT_DIALECTS, DIALECTS, VISION_DIALECTS, Dialect
from nanotok_ray.dialects.fields import MALFORMED, reason_of
from nanotok_ray.dialects.gsm8k import extract_answer

__all__ = [
    "CHAT_DIALECTS",
    "DIALECTS",
    "MALFORMED",
    "VISION_DIALECTS",
    "Dialect",
    "extract_answer",
    "reason_of",
]
