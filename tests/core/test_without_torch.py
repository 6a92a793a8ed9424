"""What needs torch says what to install where there is none."""

import importlib
import sys

import pytest


@pytest.mark.parametrize("module", ["nanotok_ray.nanochat", "nanotok_ray.torch"])
def test_without_torch_it_is_said_what_to_install(module, monkeypatch):
    for name in ("nanotok_ray.nanochat", "nanotok_ray.torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[torch\]' in a checkout"):
        importlib.import_module(module)
