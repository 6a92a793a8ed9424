"""Dialects: how the bytes of a document say who speaks, and the plain reading of each."""

from nanotok_ray.dialects.gsm8k import extract_answer
from nanotok_ray.dialects.malformed import MALFORMED, reason_of
from nanotok_ray.dialects.model import CHAT_DIALECTS, DIALECTS, VISION_DIALECTS, Dialect
from nanotok_ray.dialects.read import (
    conversation_of,
    expected_text,
    expected_trained_text,
    message_texts,
    segments_of,
)

__all__ = [
    "CHAT_DIALECTS",
    "DIALECTS",
    "MALFORMED",
    "VISION_DIALECTS",
    "Dialect",
    "conversation_of",
    "expected_text",
    "expected_trained_text",
    "extract_answer",
    "message_texts",
    "reason_of",
    "segments_of",
]
