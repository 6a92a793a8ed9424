"""Keeping secrets out of what is printed and of what is kept for people.

Takes and gives text. Knows how logins and parameters of URLs look, and the names of environment
variables that hold secrets; a recipe names variables, whose values nobody wrote into it.
"""

import os
import re

_NAMES = re.compile(
    r"TOKEN$|SECRET|PASSWORD|PASSWD|CREDENTIAL|ACCOUNT_KEY|ACCESS_KEY|SAS$|CONNECTION_STRING"
)
_LOGIN = re.compile(r"(://)[^/@\s\"']+@")
_PARAMETER = re.compile(
    r"([?&][^=&\s\"']*(?:sig|token|key|secret|password|credential)[^=&\s\"']*=)[^&\s\"']+",
    re.IGNORECASE,
)
_LEAST = 6  # a shorter value would blot out words
_BLOT = "***"


def is_secret(name: str) -> bool:
    """Tell whether an environment variable of this name holds a secret.

    One whose name ends in PATH, FILE or URI holds a place.

    >>> [is_secret(name) for name in ("HF_TOKEN", "RAY_AUTH_TOKEN_PATH", "MAX_TOKENS")]
    [True, False, False]
    """
    upper = name.upper()
    return bool(_NAMES.search(upper)) and not upper.endswith(("PATH", "FILE", "URI"))


def without_secrets(text: str) -> str:
    """Blot out what looks like a secret.

    That is logins in URLs, parameters of URLs that are named like secrets, and every value of an
    environment variable that `is_secret`.

    >>> without_secrets('paths = ["https://me:pw@host/a?sig=abc&b=1", "s3://${BUCKET}/x"]')
    'paths = ["https://***@host/a?sig=***&b=1", "s3://${BUCKET}/x"]'
    """
    text = _PARAMETER.sub(rf"\g<1>{_BLOT}", _LOGIN.sub(rf"\g<1>{_BLOT}@", text))
    values = {value for name, value in os.environ.items() if is_secret(name)}
    for value in sorted(values, key=lambda value: (-len(value), value)):
        if len(value) >= _LEAST:
            text = text.replace(value, _BLOT)
    return text
