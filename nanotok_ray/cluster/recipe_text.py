"""The text of a recipe as it may be kept for people: without what looks like a secret.

Takes and gives TOML text. Environment variables stand in it by their names, as nobody expanded
them; this takes care of what was written out.
"""

import re

_HIDDEN = "***"
_LOGIN = re.compile(r"(://)[^/@\s\"']+@")
_PARAMETER = re.compile(
    r"([?&][^=&\s\"']*(?:sig|token|key|secret|password|credential)[^=&\s\"']*=)[^&\s\"']+",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Hide logins in URLs, and parameters of URLs that are named like secrets.

    >>> without_secrets('paths = ["https://me:pw@host/a?sig=abc&b=1", "s3://${BUCKET}/x"]')
    'paths = ["https://***@host/a?sig=***&b=1", "s3://${BUCKET}/x"]'
    """
    return _PARAMETER.sub(rf"\g<1>{_HIDDEN}", _LOGIN.sub(rf"\g<1>{_HIDDEN}@", text))
