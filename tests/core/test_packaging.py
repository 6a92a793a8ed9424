"""Versions, metadata, the lock, wheels, and what an import costs."""

import importlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import nanotok_ray
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


def cargo(*folders):
    return tomllib.loads(ROOT.joinpath("rust", *folders, "Cargo.toml").read_text())


VERSION = cargo()["workspace"]["package"]["version"]

VERSIONS_IN_TEXT = {
    "CHANGELOG.md": r"^## \[?(\d+\.\d+\.\d+)",
    "CITATION.cff": r"^version: (.+)$",
    "README.md": r"\*\*nanotok_ray (\S+)\*\*",
    "cluster.yaml": r"/nanotok:([0-9.]+)-ray",
    "deploy/*": r"/nanotok:([0-9.]+)-ray",
    "docs/*.md": r"nanotok_ray-([0-9.]+)-",
    "rust/Cargo.lock": r'name = "nanotok.*"\nversion = "(.+)"',
    "rust/fuzz/Cargo.lock": r'name = "nanotok.*"\nversion = "(.+)"',
}
"""Where a file repeats the version; of CHANGELOG.md, the newest one that has a section."""


def test_the_version_is_that_of_the_rust_workspace(project):
    assert "version" not in project
    assert project["dynamic"] == ["version"]
    assert nanotok_ray.__version__ == VERSION
    core = importlib.import_module("nanotok_ray._core")
    assert core.__build__.split()[0] == VERSION
    assert cargo("fuzz")["package"]["version"] == VERSION
    done = subprocess.run(["make", "-s", "version"], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.decode() == f"{VERSION}\n"


@pytest.mark.parametrize("name", VERSIONS_IN_TEXT)
def test_a_file_that_repeats_the_version_has_the_same(name):
    texts = [path.read_text("utf-8") for path in ROOT.glob(name) if path.is_file()]
    stated = re.findall(VERSIONS_IN_TEXT[name], "\n".join(texts), re.MULTILINE)
    assert {*(stated[:1] if name == "CHANGELOG.md" else stated)} == {VERSION}


def test_the_license_is_the_same_everywhere(project):
    assert project["license"] == cargo()["workspace"]["package"]["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


def test_a_node_installs_the_tested_packages_and_no_development_tools(project):
    runtime, cluster = pins("runtime.txt"), pins("cluster.txt")
    assert names(project["dependencies"]) <= runtime.keys()
    assert runtime.items() <= pins("lock.txt").items()
    assert runtime.items() <= cluster.items()
    assert not {"pytest", "mypy", "ruff"} & (runtime.keys() | cluster.keys())


NOT_LOCKED = {"bench", "torch"}
"""Extras that no test installs; the lock does not contain them."""

LOCKED = {
    *("all-stores", "azure", "dev", "gcs", "hf", "http", "plots", "report", "s3", "sentencepiece"),
    *("test", "tokenizers"),
}


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
    assert set(extras) == NOT_LOCKED | LOCKED | {"cluster"}
    for name in LOCKED:
        assert expanded(extras, name) <= pins("lock.txt").keys(), name
    for name in ("cluster", "gcs", "s3"):
        assert expanded(extras, name) <= pins("cluster.txt").keys(), name
    for name in NOT_LOCKED:
        assert not expanded(extras, name) & pins("lock.txt").keys(), name
    stores = (expanded(extras, name) for name in ("azure", "gcs", "hf", "http", "s3"))
    assert expanded(extras, "all-stores") == set().union(*stores)
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
    assert {*",".join(lists).split(","), *names} <= extras


def test_no_text_suggests_installing_from_an_index():
    def plain(path):
        return " ".join(path.read_text("utf-8").replace('"', " ").split())

    index = re.compile(r"pip install ['`]*nanotok_ray\[")
    assert [path for path in [*PAGES, *SOURCES] if index.search(plain(path))] == []


def test_without_torch_the_error_names_what_to_install(monkeypatch):
    modules = ("nanotok_ray.nanochat", "nanotok_ray.torch")
    for name in modules:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    message = r"pip install '\.\[torch\]' in a checkout.*\.whl\[torch\]'"
    for name in modules:
        with pytest.raises(ModuleNotFoundError, match=message):
            importlib.import_module(name)
    with pytest.raises(ModuleNotFoundError, match=r"token_bytes\(\), or .*'\.\[torch\]'"):
        nanotok_ray.get_token_bytes()


@pytest.mark.parametrize("name", ["lock.txt", "runtime.txt", "cluster.txt", "site.txt"])
def test_every_pin_has_a_hash(name):
    text = (ROOT / "requirements" / name).read_text()
    blocks = re.split(r"\n(?=\S)", text)
    assert all("--hash=sha256:" in block for block in blocks if "==" in block.split("\n")[0])


def test_no_committed_file_names_a_registry():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    texts = [path for path in paths if path.name != "Cargo.lock" and path.is_file()]
    assert texts
    hosts = re.compile("|".join(map(re.escape, REGISTRY_HOSTS)).encode())
    assert [path.name for path in texts if hosts.search(path.read_bytes())] == []


@pytest.mark.parametrize("name", ["demo", "nanochat", "nanochat-experiment"])
def test_a_shipped_recipe_is_valid(name, monkeypatch, tmp_path):
    for variable in ("NANOTOK_DEMO_DIR", "NANOCHAT_BASE_DIR"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setenv("NANOCHAT_DATASET", "mine")
    monkeypatch.setenv("NANOCHAT_EXPERIMENT", "wide")
    recipe = load_recipe(str(ROOT / "jobs" / "recipes" / f"{name}.toml"))
    paths = [path for source in recipe.sources for path in source.paths]
    assert all(path.startswith(f"{tmp_path}/") for path in [*paths, recipe.output.path])
    if name == "nanochat-experiment":
        assert paths[0] == f"{tmp_path}/datasets/mine/*.parquet"
        assert recipe.output.path == f"{tmp_path}/experiments/wide/nanotok"
    if name != "demo":
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


HEAVY = {
    *("adlfs", "fsspec", "gcsfs", "matplotlib", "numpy", "pyarrow", "pydantic", "ray", "s3fs"),
    *("tiktoken", "torch", "tqdm"),
}


def imported(code):
    """Return the heavy modules that a fresh process has imported after some code."""
    tail = f"\nimport sys; print(sorted({HEAVY} & sys.modules.keys()), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, text=True, check=True
    )
    return set(eval(done.stderr.splitlines()[-1]))


def command(*words):
    return (
        "from nanotok_ray.cli import main\n"
        f"try:\n    main({list(words)!r})\nexcept SystemExit:\n    pass"
    )


IMPORTS = "import nanotok_ray; assert nanotok_ray.__version__; dir(nanotok_ray)"
COMMANDS = [command("--help"), command("--version"), command("doctor", "--help")]


@pytest.mark.parametrize("code", [IMPORTS, "import nanotok_ray.cli", *COMMANDS])
def test_no_large_package_is_imported(code):
    assert imported(code) == set()


def test_reading_shards_and_tokenizers_imports_only_numpy(tmp_path):
    assert imported("from nanotok_ray import open_shards") == {"numpy"}
    learn = "Tokenizer.train_from_iterator(['ab ab'], 267)"
    load = f"Tokenizer.load({str(tmp_path)!r}).encode(['ab']) == [[256]]"
    code = f"from nanotok_ray import Tokenizer; {learn}.save({str(tmp_path)!r}); assert {load}"
    assert imported(code) == {"numpy"}


@pytest.mark.parametrize(
    "name",
    ["prepare", "train", "tokenize", "plan", "verify", "inspect", "pack", "export", "learn", "gc"],
)
def test_the_help_of_no_command_imports_ray(name):
    assert "ray" not in imported(command(name, "--help"))


def test_a_checkout_without_its_core_names_the_remedy(tmp_path):
    core = Path(nanotok_ray.__path__[0]).glob("_core*")
    ignored = shutil.ignore_patterns("__pycache__", *(path.name for path in core))
    shutil.copytree(nanotok_ray.__path__[0], tmp_path / "nanotok_ray", ignore=ignored)
    command = [sys.executable, "-c", "import nanotok_ray; nanotok_ray.Tokenizer"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("run Python in another folder")
    assert "make setup" in done.stderr
