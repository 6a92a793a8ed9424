"""Ray's environment for all tests with Ray: import this before modules that import Ray.

Authentication is set explicitly: its default depends on Ray's version and on files of earlier
sessions in the home folder. Drivers that are started from tests inherit the token.
"""

import os
import secrets

os.environ |= {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_TMPDIR": "/tmp",  # not TMPDIR: the path of a socket has at most 107 bytes
}
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
