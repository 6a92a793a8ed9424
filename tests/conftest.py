"""Settings of every test run: Ray's environment before anything imports Ray, Hypothesis' sizes.

Authentication is said explicitly: unset, it depends on Ray's version and on what an earlier
session left in the home folder.
"""

import os
import secrets

from hypothesis import settings

os.environ["RAY_AUTH_MODE"] = "token"
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
os.environ["RAY_TMPDIR"] = "/tmp"  # not TMPDIR: the path of a socket has at most 107 bytes

settings.register_profile("fast", max_examples=25, deadline=None)
settings.register_profile("default", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=500, deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
