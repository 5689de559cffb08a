# Everything runs in .venv, which is created on first use and updated whenever
# pyproject.toml changes. You need Python 3.11 or newer with venv and pip.

WINDOWS := $(filter Windows_NT,$(OS))
PYTHON ?= $(if $(WINDOWS),python,python3)
PYTEST_ARGS ?=
BENCH_ARGS ?=
TORCH ?= torch==2.13.0 triton
export MPLBACKEND ?= Agg

BIN := $(if $(WINDOWS),Scripts,bin)
VENV := .venv
LOWEST := .venv-lowest
RUN := $(VENV)/$(BIN)/python
PIP := $(RUN) -m pip --disable-pip-version-check
FAST := -n auto -m "not slow and not release"

.DEFAULT_GOAL := help
.NOTPARALLEL:  # two installations at once would disturb each other
.PHONY: help demo test test-all test-bits test-slow test-interpreter test-browser test-lowest bench docs
.PHONY: coverage lint format hooks release-check new-version clean

help:
	@echo "make demo     compare methods on scikit-learn's digits; writes pages to demo_output/"
	@echo "make test     run the tests       (PYTEST_ARGS='-k omp' passes options to pytest)"
	@echo "make test-all    run the slow tests, and those of bits for every kind of processor"
	@echo "make test-slow   run the tests that take longest, before a release"
	@echo "make test-interpreter  test the GPU kernels without a GPU   (installs PyTorch and Triton)"
	@echo "make test-browser   open the report in headless Chromium, and install that if needed"
	@echo "make test-lowest   run the tests with the lowest versions of all packages   (.venv-lowest)"
	@echo "make coverage    run the tests and say which lines they do not reach"
	@echo "make release-check   build, install and test what a release would contain"
	@echo "make new-version VERSION=0.3.0   turn Unreleased in the changelog into a version"
	@echo "make docs     build the site, and run its gallery; writes docs/_build/html/"
	@echo "make lint     run ruff and mypy, look for misspelt words, check workflows and forms"
	@echo "make hooks    let git run the quick checks before each commit"
	@echo "make format   let ruff fix what it can"
	@echo "make bench    measure speed and memory    (BENCH_ARGS passes options)"
	@echo "make clean    remove .venv, caches and outputs"
	@echo "PYTHON=python3.12 chooses the Python of a new .venv."

DEMO_METHODS := DBDL,DBDL unlearned,DLSI,FDDL,SRC,CRC,LC-KSVD2,linear SVM,ridge,1-NN
demo: $(VENV)/.installed
	$(RUN) -m dbdl compare digits --quick --folds 2 -m "$(DEMO_METHODS)" -o demo_output

test: $(VENV)/.installed-test
	$(RUN) -m pytest $(FAST) $(PYTEST_ARGS)

# The tests that make test leaves out, and the tests of bits for every kind of processor.
test-all: $(VENV)/.installed-test test-bits
	$(RUN) -m pytest -n auto -m slow $(PYTEST_ARGS)

# The same bits with whatever kernels a processor would choose (OPENBLAS_CORETYPE and others).
test-bits: $(VENV)/.installed-test
	$(RUN) tests/every_processor.py -n auto $(PYTEST_ARGS)

# Damaged files and generated calls for hours, before a release.
test-slow: $(VENV)/.installed-test
	$(RUN) -m pytest -n auto -m release $(PYTEST_ARGS)

# The GPU backend without a GPU: its kernels run in Triton's interpreter, with PyTorch for the CPU.
test-interpreter: $(VENV)/.installed-test $(VENV)/.installed-torch
	TRITON_INTERPRET=1 $(RUN) -m pytest -n auto tests/backends/test_torch_backend.py \
	    tests/backends/test_torch_views.py $(PYTEST_ARGS)

test-browser: $(VENV)/.installed-browser
	$(RUN) tests/browser/chromium.py
	DBDL_NEEDS_BROWSER=1 $(RUN) -m pytest tests/browser $(PYTEST_ARGS)

# In a virtual environment of its own; PYTHON should be 3.11, for which all of them have wheels. An
# old numba may not read what a new one has compiled, so its cache is elsewhere.
test-lowest: $(LOWEST)/.installed
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/numba $(LOWEST)/$(BIN)/python -m pytest $(FAST) $(PYTEST_ARGS)

# The floor is fail_under in pyproject.toml; lines of compiled kernels are not counted.
coverage: $(VENV)/.installed-coverage
	$(RUN) -m pytest $(FAST) --cov --cov-report=term $(PYTEST_ARGS)

bench: $(VENV)/.installed-bench
	$(RUN) -m benchmarks $(BENCH_ARGS)

# From an empty cache and without the network: warnings are errors, and every example of the gallery runs.
docs: $(VENV)/.installed-docs
	rm -rf docs/_build docs/api docs/generated docs/gallery
	$(RUN) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(RUN) docs/dbdl_site/links.py docs/_build/html
	@echo "open docs/_build/html/index.html"

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m codespell_lib
	$(RUN) -m check_jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RUN) -m check_jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(RUN) -m check_jsonschema --builtin-schema vendor.citation-file-format CITATION.cff

format: $(VENV)/.installed-dev
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

hooks: $(VENV)/.installed-dev
	$(RUN) -m pre_commit install

# Builds into dist/. CHECK_ARGS=--quick leaves out the tests.
release-check: $(VENV)/.installed-release
	$(RUN) tools/release_check.py $(CHECK_ARGS)

new-version:
	$(PYTHON) tools/new_version.py $(VERSION)

clean:
	rm -rf $(VENV) $(LOWEST) .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	rm -rf demo_output benchmarks/output browser_output
	rm -rf docs/_build docs/api docs/generated docs/gallery
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    "dbdl needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.made
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-torch: | $(VENV)/.made
	$(PIP) install --quiet $(TORCH)
	@touch $@

$(VENV)/.installed-%: pyproject.toml | $(VENV)/.made
	$(PIP) install --quiet --editable ".[$*]"
	@touch $@

$(LOWEST)/.installed: pyproject.toml tools/lowest.py
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) tools/lowest.py test > $(LOWEST)/lowest.txt
	$(LOWEST)/$(BIN)/python -m pip --disable-pip-version-check install --quiet \
	    --constraint $(LOWEST)/lowest.txt --editable ".[test]"
	@touch $@
