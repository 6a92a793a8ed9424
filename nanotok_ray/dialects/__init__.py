"""Dialects: how the bytes of a document say who speaks, and the plain reading of each."""

from nanotok_ray.dialects.model import CHAT_DIALECTS, VISION_DIALECTS, Dialect

__all__ = ["CHAT_DIALECTS", "VISION_DIALECTS", "Dialect"]
