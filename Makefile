# Everything runs in .venv, which is made on first use and brought up to date whenever
# pyproject.toml changes. Needed beforehand: Python 3.11 or newer with venv and pip.

PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=
TORCH ?= torch==2.13.0 triton
export MPLBACKEND ?= Agg

VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.NOTPARALLEL:  # two installs at once would trip over each other
.PHONY: help demo test test-all test-bits test-slow test-interpreter test-browser bench lint format clean

help:
	@echo "make demo     compare methods on scikit-learn's digits; pages to look at in demo_output/"
	@echo "make test     run the tests       (PYTEST_ARGS='-k omp' passes options to pytest)"
	@echo "make test-all    the slow tests, and those of bits for every kind of processor"
	@echo "make test-slow   what takes longest, before a release"
	@echo "make test-interpreter  the GPU kernels without a GPU   (installs PyTorch and Triton)"
	@echo "make test-browser   open the report in headless Chromium, which it installs if need be"
	@echo "make lint     ruff and mypy"
	@echo "make format   let ruff repair what it can"
	@echo "make bench    speed and memory    (BENCH_ARGS passes options on)"
	@echo "make clean    remove .venv, caches and outputs"
	@echo "PYTHON=python3.12 chooses the Python that .venv is made with."

DEMO_METHODS := DBDL,DBDL unlearned,DLSI,FDDL,SRC,CRC,LC-KSVD2,linear SVM,ridge,1-NN
demo: $(VENV)/.installed
	$(RUN) -m dbdl compare digits --quick --folds 2 -m "$(DEMO_METHODS)" -o demo_output

test: $(VENV)/.installed-test
	$(RUN) -m pytest -n auto -m "not slow and not release" $(PYTEST_ARGS)

# What make test leaves out, and the tests of bits for every kind of processor.
test-all: $(VENV)/.installed-test test-bits
	$(RUN) -m pytest -n auto -m slow $(PYTEST_ARGS)

# OPENBLAS_CORETYPE and the like: the same bits, whatever kernels a processor would choose.
test-bits: $(VENV)/.installed-test
	$(RUN) tests/every_processor.py -n auto $(PYTEST_ARGS)

# Hours of damaged files and generated calls, before a release.
test-slow: $(VENV)/.installed-test
	$(RUN) -m pytest -n auto -m release $(PYTEST_ARGS)

# The GPU backend without a GPU: its kernels in Triton's interpreter, PyTorch built for the CPU.
test-interpreter: $(VENV)/.installed-test $(VENV)/.installed-torch
	TRITON_INTERPRET=1 $(RUN) -m pytest -n auto tests/backends/test_torch_backend.py $(PYTEST_ARGS)

test-browser: $(VENV)/.installed-browser
	$(RUN) tests/browser/chromium.py
	DBDL_NEEDS_BROWSER=1 $(RUN) -m pytest tests/browser $(PYTEST_ARGS)

bench: $(VENV)/.installed-bench
	$(RUN) -m benchmarks $(BENCH_ARGS)

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(VENV)/.installed-dev
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	rm -rf demo_output benchmarks/output browser_output
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
