"""Settings of every test run: Ray's environment, before anything imports Ray.

Authentication is said explicitly: unset, it depends on Ray's version and on what an earlier
session left in the home folder.
"""

import os
import secrets

os.environ["RAY_AUTH_MODE"] = "token"
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
