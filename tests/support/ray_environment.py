"""Ray's environment for all that runs Ray in tests: import it before anything that imports Ray.

Authentication is said explicitly: unset, it depends on Ray's version and on what an earlier
session left in the home folder. Drivers that are started from here inherit the token.
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
