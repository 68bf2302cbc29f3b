# `make demo` and `make test` need nothing but Python 3.11 or newer: each builds .venv first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Chains, restarts and tests run as processes; leave each its own thread count.
JOBS   ?= 2

.PHONY: help install demo test test-fast test-browser dist-test docs lint format types bench bench-default bench-env clean

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

# uv installs in seconds, linked to its cache; pip fetches uv if there is none. uv does not read pip's settings: where it
# finds no packages, pip installs them (from another Python, or, if that has no pip or one older than 22.3, from one of
# the environment's own). Nothing is compiled beforehand.
PIP       = -m pip --disable-pip-version-check
installed = { uv=$$(command -v uv) || { uv=$(BIN)/uv && { test -x $$uv || \
	$(PYTHON) $(PIP) --python $(BIN)/python install --quiet --no-compile uv; }; } && \
	$$uv pip install --python $(BIN)/python --quiet $(1); } || \
	$(PYTHON) $(PIP) --python $(BIN)/python install --quiet --no-compile $(1) || \
	{ $(BIN)/python -m ensurepip --upgrade >/dev/null && $(BIN)/python $(PIP) install --quiet --no-compile $(1); }

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(call installed,--editable '.[dev]')
	touch $@

install: $(STAMP) ## make .venv with the package and its development tools

# The demonstration needs no tools.
$(VENV)/.demo: pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv --without-pip $(VENV)
	test -f $(STAMP) || $(call installed,--editable '.[plot]' jinja2)
	touch $@

demo: $(VENV)/.demo ## fit every method on one problem and write demo/report.html
	$(BIN)/python -m gpclass.report.demo --out demo

test: $(STAMP)   ## run the tests (make test-browser has those that need Chromium)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --ignore tests/report/test_browser.py

test-fast: $(STAMP) ## run the tests that take about half a second at most, in two minutes
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not slow' -n $(JOBS)

test-browser: $(STAMP) ## open the report in headless Chromium, which must be installed
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		{ echo 'no Chromium here: install it first (Debian: sudo apt-get install chromium)'; exit 1; }
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/report/test_browser.py

dist-test: $(STAMP) ## build wheel and sdist, install both in clean environments, lowest and newest versions
	$(BIN)/python .ci/dist_test.py

$(VENV)/.docs: pyproject.toml
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(call installed,--editable '.[docs]')
	touch $@

docs: $(VENV)/.docs ## run the gallery and build docs/_build/html; a warning is an error (make test runs the doctests)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

lint: $(STAMP)   ## ruff, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP) ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-env:       ## an environment of its own for the peers (GPy, GPyTorch), beside the package
	test -d .venv-bench || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --editable . -r benchmarks/requirements.txt

bench: bench-env ## side by side with the peers; prints ratios
	.venv-bench/bin/python -m benchmarks

bench-default: $(STAMP) ## the default fit and prediction beside scikit-learn; writes docs/speed.md (an hour)
	$(BIN)/python -m benchmarks.default_speed

clean:
	rm -rf $(VENV) .venv-bench demo docs/_build docs/api docs/auto_examples .mypy_cache .ruff_cache .pytest_cache
