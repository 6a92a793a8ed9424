"""Keeping secrets out of what is printed. Knows the names of variables that hold some."""

import os
import re

_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|ACCOUNT_KEY|ACCESS_KEY|SAS|CONN")
_IN_URL = re.compile(r"(://[^/\s:@]*):[^/\s@]+@")
_LEAST = 6  # a shorter value would blot out words
_BLOT = "***"


def hidden(text: str) -> str:
    """Blot out passwords in URLs, and every value of a variable that is named like a secret.

    A variable whose name ends in PATH or FILE holds a place, not a secret.

    >>> hidden("cannot list sftp://me:pass@host/data")
    'cannot list sftp://me:***@host/data'
    """
    text = _IN_URL.sub(rf"\1:{_BLOT}@", text)
    values = {
        value
        for name, value in os.environ.items()
        if _NAMES.search(name.upper()) and not name.upper().endswith(("PATH", "FILE", "URI"))
    }
    for value in sorted(values, key=lambda value: (-len(value), value)):
        if len(value) >= _LEAST:
            text = text.replace(value, _BLOT)
    return text
