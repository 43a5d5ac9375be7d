# Everything runs in .venv, made from requirements.lock: the versions and hashes that CI uses.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PORT ?= 10061
JOBS ?= auto

.PHONY: help demo test detection test-system test-torch lint format lock docs clean

help:
	@echo 'make demo          the real daemon on a simulated 8 x H200 host (PORT=10061, Ctrl-C ends it)'
	@echo 'make demo ONCE=1   the same, ends by itself after the first sweep, with a summary'
	@echo 'make test          lint, types, layers, unit and component tests; no root, a few minutes'
	@echo 'make detection     the judge against years of simulated nights, compared with docs/results.md; a minute'
	@echo 'make test-torch    the torch benchmark on CPUs; makes an environment with torch of its own'
	@echo 'make test-system   daemon, Prometheus, systemd, ... on Debian, as root'
	@echo 'make docs          write the generated pages and dashboards again'
	@echo 'make lock          resolve requirements.lock again (needs uv)'

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'gpumond needs Python 3.11 or newer: make PYTHON=python3.12 ...' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

demo: $(STAMP)
	@$(BIN)/gpumond demo --port $(PORT) $(if $(ONCE),--once)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: lint
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(JOBS) -m 'not system and not gpu and not torch' tests
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=90

detection: $(STAMP)
	$(BIN)/python bench/detection.py --check

# torch is big, and most who run the tests need not have it: an interpreter of its own, as a user's would be.
TORCH := .venv-torch
TORCH_REQUIREMENT ?= torch==2.13.0
$(TORCH)/.installed:
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --disable-pip-version-check '$(TORCH_REQUIREMENT)'
	@touch $@

test-torch: $(STAMP) $(TORCH)/.installed
	$(BIN)/python -m pytest -m torch tests

test-system: $(STAMP)
	tests/system/install-packages
	$(BIN)/python -m pytest -m system tests/system

docs: $(STAMP)
	$(BIN)/python -m gpumond.config.document > docs/configuration.md
	$(BIN)/python -m gpumond.exporter.document > docs/metrics.md
	$(BIN)/python tools/alert_table.py
	$(BIN)/python tools/dashboards.py

lock:
	uv pip compile pyproject.toml --group dev --generate-hashes --no-emit-index-url --no-annotate --universal \
		--python-version 3.11 --custom-compile-command 'make lock' -o requirements.lock

clean:
	rm -rf $(VENV) $(TORCH) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* htmlcov
