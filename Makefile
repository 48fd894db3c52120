# Each target sets up .venv by itself: a fresh machine needs python3 (3.11 or newer), pip and a network, nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
HTA    := .venv-hta
DEEPSPEED := .venv-deepspeed
# Set one of these to pass options on: make test PYTEST="-k overlap", make bench BENCH="html --json out/bench.json"
PYTEST ?=
BENCH  ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format schemas types bench docs dist clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null \
		|| sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1: \2/p' Makefile

setup: $(VENV)/.ready ## make .venv, with weftrace (editable) and the tools that develop it

# Dependency groups need pip 25.1, so the venv's own pip is brought up first.
$(VENV)/.ready: pyproject.toml constraints.txt src/weftrace/version.py
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "weftrace needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.12" % v[:2])'
	@echo "setting up $(VENV) (once; about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt pip
	@$(BIN)/python -m pip install --quiet -c constraints.txt --editable . --group dev
	@touch $@

# HolisticTraceAnalysis needs an older pandas, so it lives apart.
$(HTA)/.ready: constraints.txt | $(VENV)/.ready
	@echo "setting up $(HTA), the environment of the tool that weftrace is compared with (once; some minutes)"
	@test -x $(HTA)/bin/python || $(PYTHON) -m venv $(HTA)
	@$(HTA)/bin/python -m pip install --quiet --upgrade -c constraints.txt pip
	@$(HTA)/bin/python -m pip install --quiet -c constraints.txt --group hta
	@touch $@

# DeepSpeed is optional: `make .venv-deepspeed/.ready`, then `make bench` compares with it. It comes as source, whose
# set-up imports torch, so torch comes first; no operator of its own is compiled.
$(DEEPSPEED)/.ready: constraints.txt | $(VENV)/.ready
	@echo "setting up $(DEEPSPEED), the environment of the profiler that weftrace is compared with (once; some minutes)"
	@test -x $(DEEPSPEED)/bin/python || $(PYTHON) -m venv $(DEEPSPEED)
	@$(DEEPSPEED)/bin/python -m pip install --quiet --upgrade -c constraints.txt pip setuptools wheel torch
	@DS_BUILD_OPS=0 $(DEEPSPEED)/bin/python -m pip install --quiet -c constraints.txt --no-build-isolation --group deepspeed
	@touch $@

demo: $(VENV)/.ready ## simulate DeepSeek-V3's training chunk and write out/demo.html
	@mkdir -p out
	@$(BIN)/weftrace demo -o out/demo.html -o out/demo.json -o out/demo.trace.json.gz
	@echo "open out/demo.html in a browser, and out/demo.trace.json.gz in Perfetto or chrome://tracing"

test: $(VENV)/.ready ## run the tests
	@$(BIN)/python -m pytest $(PYTEST)

# Tools that check the pages' JavaScript: for developers only, no page is built.
node_modules/.ready: package.json package-lock.json
	@command -v npm >/dev/null || { echo "the pages' code is checked with Node's tools: install nodejs (20 or newer) and npm" >&2; exit 1; }
	@npm ci --silent
	@touch $@

lint: $(VENV)/.ready node_modules/.ready ## ruff, mypy, the rule that imports point down, and the pages' JavaScript
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	npx --no biome ci

format: $(VENV)/.ready node_modules/.ready ## put the code in the house's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	npx --no biome check --write

types: $(VENV)/.ready ## write the types of documents that the pages' JavaScript is checked by
	@$(BIN)/python -m tests.page_types

schemas: $(VENV)/.ready ## write the JSON Schema of each document from its type
	@$(BIN)/python -m weftrace.files.schemas

bench: $(VENV)/.ready $(HTA)/.ready ## measure speed, memory and page size against their targets
	@$(BIN)/python -m benchmarks --hta $(HTA)/bin/python --deepspeed $(DEEPSPEED)/bin/python $(BENCH)

docs: $(VENV)/.ready ## check the documents: every command and example runs, every link leads somewhere
	@$(BIN)/python -m pytest tests/test_docs.py $(PYTEST)

dist: $(VENV)/.ready ## build a wheel into dist/
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## remove everything that make made, the environments included
	rm -rf $(VENV) $(HTA) $(DEEPSPEED) node_modules out dist build benchmarks/.cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
