"""The line of JSON that ends a command's stdout. Imports nothing heavy."""

import json
from collections.abc import Mapping
from typing import Any


def print_json(values: Mapping[str, Any]) -> None:
    """Print one JSON document on one line of stdout."""
    print(json.dumps(values, sort_keys=True), flush=True)
