"""What pytest leaves out where a package that is not in the lock is missing, and its plugins."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["nanotok_ray/torch.py", "nanotok_ray/nanochat.py"]

pytest_plugins = ["tests.support.shared_ray"]
