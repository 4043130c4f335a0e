# What people do with this project. It takes Python 3.11 or newer, and make: the rest goes into .venv.

PYTHON ?= python3
ARGS ?=
export HOMEPORT_SHARED ?= ../shared
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help up test check fmt bench engines test-captures test-real long docs

help: ## list these recipes
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name about; do \
	  printf 'make %-14s %s\n' "$$name" "$$about"; done

up: .venv/run ## run a simulated fleet: engines, gateway, agents (ARGS="--for 20")
	$(BIN)/homeport up $(ARGS)

test: .venv/test ## every test that needs nothing else on the machine
	$(BIN)/pytest $(ARGS)
	@echo "beside these: make test-captures, make test-real, make long"

check: .venv/dev ## format, lint, types, import layers, tidiness
	$(BIN)/ruff format --check . && $(BIN)/ruff check .
	$(BIN)/pyright && $(BIN)/lint-imports
	$(BIN)/pytest tests/test_tidy.py

fmt: .venv/dev ## format, and mend what lint can mend
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: .venv/run ## the project's own benchmarks, short form
	for each in route index relay; do $(BIN)/homeport bench $$each || exit 1; done

engines: ## build real engines for test-real, into .engines (takes minutes and gigabytes)
	$(HOMEPORT_SHARED)/engines/install_vllm.sh .engines

test-captures: .venv/test ## tests on captured bytes and traces
	@if [ ! -d "$(HOMEPORT_SHARED)/fixtures" ]; then echo "not run: tests/captures (no $(HOMEPORT_SHARED)/fixtures)"; \
	else $(BIN)/pytest tests/captures; fi

test-real: .venv/test ## tests on real engines (first: make engines)
	@if [ ! -d "$(HOMEPORT_SHARED)/engines" ]; then echo "not run: tests/real (no $(HOMEPORT_SHARED)/engines)"; \
	elif [ ! -x .engines/vllm/bin/vllm ]; then echo "not run: tests/real (no engine: make engines)"; \
	else $(BIN)/pytest tests/real; fi

long: .venv/test ## soak, many seeds, repeated kills
	@if [ ! -d tests/long ]; then echo "not run: there is no tests/long yet"; else $(BIN)/pytest tests/long; fi

docs: .venv/run ## make the reference anew
	$(BIN)/homeport check --markdown > docs/reference/config.md

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, not " + sys.version)'
	$(PYTHON) -m venv .venv

.venv/run: pyproject.toml | .venv/bin/python
	$(BIN)/pip install -q -e . && touch $@

.venv/test: pyproject.toml | .venv/bin/python
	$(BIN)/pip install -q -e '.[test]' && touch $@ .venv/run

.venv/dev: pyproject.toml | .venv/bin/python
	$(BIN)/pip install -q -e '.[dev]' && touch $@ .venv/test .venv/run
