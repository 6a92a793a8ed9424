"""The distribution: versions, license, lock, extras, recipes, and the contents of the wheel."""

import importlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import nanotok_ray
from nanotok_ray.errors import how_to_install
from nanotok_ray.job.doctor import PACKAGES
from nanotok_ray.recipe import load_recipe
from nanotok_ray.recipe.text import tomllib  # tomli on Python 3.10

ROOT = Path(__file__).parents[2]

REGISTRY_HOSTS = [
    ".".join(name)
    for name in (("pypi", "org"), ("pythonhosted", "org"), ("crates", "io"), ("debian", "org"))
]
"""Concatenated, so that this file does not contain them."""

SHIPPED = {".css", ".html", ".py", ".pyi", ".typed", ".toml"}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def workspace():
    return tomllib.loads((ROOT / "rust" / "Cargo.toml").read_text())["workspace"]["package"]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name):
    """Return the version of every package that a file of requirements/ pins."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    found = [re.match(r"([A-Za-z0-9._-]+)(?:\[.*\])?==(\S+)", line) for line in lines]
    return {normal(match[1]): match[2] for match in found if match}


def names(requirements):
    """Return the package names of requirements, without this package and those of old Pythons."""
    requirements = [text for text in requirements if "python_version <" not in text]
    found = {normal(re.match(r"[A-Za-z0-9._-]+", text)[0]) for text in requirements}
    return found - {"nanotok-ray"}


def test_the_version_is_the_same_everywhere(project, workspace):
    assert project["version"] == nanotok_ray.__version__ == workspace["version"]


def test_the_license_is_the_same_everywhere(project, workspace):
    assert project["license"] == workspace["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


def test_the_lock_pins_every_direct_dependency(project):
    extras = project["optional-dependencies"]
    assert (
        names(project["dependencies"] + extras["test"] + extras["dev"]) <= pins("lock.txt").keys()
    )


def test_a_node_installs_the_tested_packages_and_no_development_tools(project):
    runtime = pins("runtime.txt")
    assert names(project["dependencies"]) <= runtime.keys()
    assert runtime.items() <= pins("lock.txt").items()
    assert not {"pytest", "mypy", "ruff"} & runtime.keys()


def test_the_image_contains_the_packages_of_a_node_the_stores_and_the_launchers(project):
    cluster = pins("cluster.txt")
    assert cluster.items() >= pins("runtime.txt").items()
    extras = project["optional-dependencies"]
    assert names(extras["cluster"] + extras["gcs"] + extras["s3"]) <= cluster.keys()
    assert not {"pytest", "mypy", "ruff"} & cluster.keys()


NOT_LOCKED = {"azure", "bench", "torch"}
"""Extras that no test installs; the lock does not contain them."""

LOCKED = {"dev", "hf", "http", "plots", "report", "s3", "test"}


def expanded(extras, name):
    """Return the packages of an extra, including those of other extras."""
    found = set()
    for requirement in extras[name]:
        inner = re.fullmatch(r"nanotok_ray\[(.+)\]", requirement)
        if inner is None:
            found |= names([requirement])
        else:
            found |= {each for part in inner[1].split(",") for each in expanded(extras, part)}
    return found


def test_every_extra_resolves_to_locked_packages(project):
    extras = project["optional-dependencies"]
    together = {"all-stores", "cluster", "gcs"}
    assert set(extras) == NOT_LOCKED | LOCKED | together
    for name in LOCKED:
        assert expanded(extras, name) <= pins("lock.txt").keys(), name
    for name in ("cluster", "gcs", "s3"):
        assert expanded(extras, name) <= pins("cluster.txt").keys(), name
    for name in NOT_LOCKED:
        assert not expanded(extras, name) & pins("lock.txt").keys(), name
    assert expanded(extras, "all-stores") == {
        package
        for name in ("azure", "gcs", "hf", "http", "s3")
        for package in expanded(extras, name)
    }
    assert expanded(extras, "report") == {"matplotlib"}


PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/*.md")]
SOURCES = sorted(ROOT.glob("nanotok_ray/**/*.py"))


def test_every_extra_named_in_pages_and_messages_exists(project):
    text = "".join(path.read_text("utf-8") for path in [*PAGES, *SOURCES])
    lists = re.findall(r"'(?:\.|[^' ]*whl)\[([a-z0-9,-]+)\]'", text)
    names = re.findall(r"how_to_install\(['\"](\w+)", text)
    assert lists
    assert names
    extras = project["optional-dependencies"].keys()
    assert {*",".join(lists).split(","), *names, *PACKAGES} <= extras


def test_no_text_suggests_installing_from_an_index():
    def plain(path):
        return " ".join(path.read_text("utf-8").replace('"', " ").split())

    index = re.compile(r"pip install ['`]*nanotok_ray\[")
    assert [path for path in [*PAGES, *SOURCES] if index.search(plain(path))] == []


def test_a_checkout_and_a_wheel_are_named():
    reported = how_to_install("gcs")
    assert "pip install '.[gcs]' in a checkout" in reported
    assert ".whl[gcs]'" in reported


@pytest.mark.parametrize("module", ["nanotok_ray.nanochat", "nanotok_ray.torch"])
def test_without_torch_the_error_names_what_to_install(module, monkeypatch):
    for name in ("nanotok_ray.nanochat", "nanotok_ray.torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[torch\]' in a checkout"):
        importlib.import_module(module)


def test_get_token_bytes_without_torch_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModuleNotFoundError, match=r"token_bytes\(\), or .*'\.\[torch\]'"):
        nanotok_ray.get_token_bytes()


@pytest.mark.parametrize("name", ["lock.txt", "runtime.txt", "cluster.txt"])
def test_every_pin_has_a_hash(name):
    text = (ROOT / "requirements" / name).read_text()
    blocks = re.split(r"\n(?=\S)", text)
    assert all("--hash=sha256:" in block for block in blocks if "==" in block.split("\n")[0])


def test_no_committed_file_names_a_registry():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    texts = {
        path: path.read_bytes() for path in paths if path.name != "Cargo.lock" and path.is_file()
    }
    assert texts
    hosts = re.compile("|".join(map(re.escape, REGISTRY_HOSTS)).encode())
    assert [path.name for path, text in texts.items() if hosts.search(text)] == []


@pytest.mark.parametrize("name", ["demo", "nanochat", "nanochat-experiment"])
def test_a_shipped_recipe_is_valid(name, monkeypatch, tmp_path):
    monkeypatch.setenv("NANOTOK_DEMO_DIR", str(tmp_path))
    monkeypatch.setenv("NANOCHAT_BASE_DIR", str(tmp_path))
    recipe = load_recipe(str(ROOT / "jobs" / "recipes" / f"{name}.toml"))
    paths = [path for source in recipe.sources for path in source.paths]
    assert all(path.startswith(f"{tmp_path}/") for path in [*paths, recipe.output.path])


def test_the_recipe_of_an_experiment_reads_its_dataset(monkeypatch, tmp_path):
    monkeypatch.setenv("NANOCHAT_BASE_DIR", str(tmp_path))
    monkeypatch.setenv("NANOCHAT_DATASET", "mine")
    monkeypatch.setenv("NANOCHAT_EXPERIMENT", "wide")
    recipe = load_recipe(str(ROOT / "jobs" / "recipes" / "nanochat-experiment.toml"))
    assert recipe.sources[0].paths == (f"{tmp_path}/datasets/mine/*.parquet",)
    assert recipe.output.path == f"{tmp_path}/experiments/wide/nanotok"


@pytest.mark.parametrize("name", ["nanochat", "nanochat-experiment"])
def test_the_nanochat_recipes_have_the_limits_of_nanochat(name):
    recipe = load_recipe(str(ROOT / "jobs" / "recipes" / f"{name}.toml"))
    assert recipe.tokenizer.vocab_size == 32768
    assert recipe.limits.doc_cap == 10_000
    assert recipe.limits.max_chars == 2_000_000_000


@pytest.mark.slow
@pytest.mark.timeout(600)  # a full build takes minutes; after `make build` it takes seconds
def test_the_wheel_contains_both_packages_and_nothing_else(tmp_path):
    maturin = Path(sys.executable).with_name("maturin")
    command = [maturin, "build", "--release", "--locked", "--quiet", "--out", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True)
    (wheel,) = tmp_path.iterdir()
    assert re.search(r"-cp310-abi3-manylinux_\d+_\d+_[a-z0-9_]+\.whl$", wheel.name)
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    kept = [path for package in ("nanotok_ray", "jobs") for path in (ROOT / package).rglob("*.*")]
    source = {path.relative_to(ROOT).as_posix() for path in kept if path.suffix in SHIPPED}
    assert held == source | {"nanotok_ray/_core.abi3.so"}
    assert {f"nanotok_ray/report/templates/{name}" for name in ("base.html", "style.css")} <= held
