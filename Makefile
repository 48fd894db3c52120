# Each target sets up what it needs by itself: a fresh machine needs python3 (3.11 or newer), make and a network, nothing
# else. .venv comes in two steps: weftrace and what it needs (.ready, enough for the demo), then the tools that develop
# it, with torch and transformers (.ready-dev, some 2 GB).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
HTA    := .venv-hta
DEEPSPEED := .venv-deepspeed
LOWEST := .venv-lowest
# Set one of these to pass options on: make test PYTEST="-k overlap", make bench BENCH="html --json out/bench.json"
PYTEST ?=
BENCH  ?=
SINCE  ?= HEAD

# How the tests share the processors: a process each; who is done early takes tests from another. PYTEST="-n 0" is one.
PARALLEL := --numprocesses auto --dist worksteal

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The tests start Python some hundred times. Where bytecode may not be kept, as in many containers, each start compiles all
# that it imports: of torch alone more than four seconds. So it is kept.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo shell test thorough times fuzz fuzz-documents environments lowest lint format schemas types glossary bench counts docs site dist clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1|\2/p' Makefile | column -t -s '|' 2>/dev/null \
		|| sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1: \2/p' Makefile

setup: $(VENV)/.ready-dev ## make .venv, with weftrace (editable) and the tools that develop it

# No bytecode is compiled ahead: most of what is installed is never imported, and Python compiles what is. Weftrace is built
# in the environment itself: one of its own would hold all that weftrace needs a second time (pyproject.toml says why).
INSTALL := -m pip install --quiet --no-compile -c constraints.txt

$(VENV)/.ready: pyproject.toml constraints.txt src/weftrace/version.py
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "weftrace needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.12" % v[:2])'
	@echo "setting up $(VENV) (once; less than half a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(INSTALL) hatchling
	@$(BIN)/python $(INSTALL) --no-build-isolation --editable .
	@touch $@

# Dependency groups need pip 25.1, so the venv's own pip is brought up first.
$(VENV)/.ready-dev: $(VENV)/.ready
	@echo "adding the tools that develop weftrace to $(VENV) (once; about a minute)"
	@$(BIN)/python $(INSTALL) --upgrade pip
	@$(BIN)/python $(INSTALL) --group dev
	@touch $@

# HolisticTraceAnalysis needs an older pandas, so it lives apart.
$(HTA)/.ready: constraints.txt | $(VENV)/.ready-dev
	@echo "setting up $(HTA), the environment of the tool that weftrace is compared with (once; some minutes)"
	@test -x $(HTA)/bin/python || $(PYTHON) -m venv $(HTA)
	@$(HTA)/bin/python $(INSTALL) --upgrade pip
	@$(HTA)/bin/python $(INSTALL) --group hta
	@touch $@

# DeepSpeed is optional: `make .venv-deepspeed/.ready`, then `make bench` compares with it. It comes as source, whose
# set-up imports torch, so torch comes first; no operator of its own is compiled.
$(DEEPSPEED)/.ready: constraints.txt | $(VENV)/.ready-dev
	@echo "setting up $(DEEPSPEED), the environment of the profiler that weftrace is compared with (once; some minutes)"
	@test -x $(DEEPSPEED)/bin/python || $(PYTHON) -m venv $(DEEPSPEED)
	@$(DEEPSPEED)/bin/python $(INSTALL) --upgrade pip setuptools wheel torch
	@DS_BUILD_OPS=0 $(DEEPSPEED)/bin/python $(INSTALL) --no-build-isolation --group deepspeed
	@touch $@

demo: $(VENV)/.ready ## simulate DeepSeek-V3's training chunk and ask its critical path, DualPipe beside 1F1B, the three published profiles; pages in out/
	@mkdir -p out
	@$(BIN)/weftrace demo -o out/demo.html -o out/demo.json -o out/demo.trace.json.gz
	@$(BIN)/weftrace critical-path out/demo.trace.json.gz -q -o out/path.html
	@$(BIN)/weftrace whatif out/demo.trace.json.gz --scale communication=1.25 -q -o out/whatif.html
	@echo
	@$(BIN)/weftrace pipeline show 1f1b --stages 8 --micro-batches 20
	@echo
	@$(BIN)/weftrace pipeline show dualpipe --stages 8 --micro-batches 20
	@echo
	@$(BIN)/weftrace pipeline compare --stages 8 --micro-batches 20 -q -o out/pipelines.html
	@for kind in train prefill decode; do \
		$(BIN)/weftrace profile $$kind -q -o out/$$kind.html -o out/$$kind/ || exit 1; \
	done
	@echo
	@echo "open out/demo.html, out/path.html, out/whatif.html, out/pipelines.html, out/train.html, out/prefill.html"
	@echo "and out/decode.html in a browser,"
	@echo "and out/demo.trace.json.gz, or the traces in out/train, out/prefill and out/decode, in Perfetto or chrome://tracing"
	@echo "to call weftrace yourself: make shell, or source $(VENV)/bin/activate"

shell: $(VENV)/.ready ## open a shell in which .venv is activated and weftrace is on the path
	@echo "weftrace is on the path of this shell; leave it with exit"
	@VIRTUAL_ENV="$(abspath $(VENV))" PATH="$(abspath $(BIN)):$$PATH" $${SHELL:-/bin/sh}

test: $(VENV)/.ready-dev ## run the tests
	@$(BIN)/python -m pytest $(PARALLEL) $(PYTEST)

thorough: $(VENV)/.ready-dev ## run the tests with all their cases and examples: three times as long
	@WEFTRACE_FUZZ_CASES=1200 $(BIN)/python -m pytest $(PARALLEL) $(PYTEST)

times: $(VENV)/.ready-dev ## run the tests, then say where the processor time went
	@$(BIN)/python -m pytest $(PARALLEL) --junitxml=out/tests.xml $(PYTEST); $(BIN)/python -m tests.times out/tests.xml

fuzz: $(VENV)/.ready-dev ## read 24,000 damaged trace files and run 20,000 plans, where `make test` tries 200 and 167
	@WEFTRACE_FUZZ_CASES=24000 $(BIN)/python -m pytest $(PARALLEL) tests/trace/chrome/test_reader_fuzz.py \
		tests/plan/test_oracle.py $(PYTEST)

fuzz-documents: $(VENV)/.ready-dev ## damage 100,000 saved documents, and give 1,200 hostile files to commands; `make test`: 1,000 and 12
	@WEFTRACE_FUZZ_CASES=20000 $(BIN)/python -m pytest $(PARALLEL) tests/test_documents_fuzz.py tests/cli/test_hostile_files.py

environments: $(VENV)/.ready-dev ## each command without a home, a cache or Unicode, with each kind of broken stream; `make test`: five of 140
	@WEFTRACE_FUZZ_CASES=1200 $(BIN)/python -m pytest $(PARALLEL) tests/cli/test_environments.py $(PYTEST)

# Every dependency of pyproject.toml at the lowest version that it names; torch and the tests' tools are those of .venv.
$(LOWEST)/.ready: pyproject.toml | $(VENV)/.ready-dev
	@echo "setting up $(LOWEST), with the lowest versions that weftrace asks for (once; about a minute)"
	@test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	@$(PYTHON) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print("\n".join(p["dependencies"] + p["optional-dependencies"]["notebook"]).replace(">=", "=="))' >$(LOWEST)/lowest.txt
	@$(LOWEST)/bin/python -m pip install --quiet --no-compile --constraint $(LOWEST)/lowest.txt --editable '.[notebook]'
	@echo $(abspath $(VENV))/lib/python*/site-packages >$$(echo $(LOWEST)/lib/python*/site-packages)/dev.pth
	@touch $@

lowest: $(LOWEST)/.ready ## run the tests with the lowest versions of all dependencies that pyproject.toml names
	@NUMBA_CACHE_DIR=$(abspath $(LOWEST))/numba $(LOWEST)/bin/python -m pytest $(PARALLEL) --ignore=tests/test_distribution.py $(PYTEST)

# Tools that check the pages' JavaScript: for developers only, no page is built.
node_modules/.ready: package.json package-lock.json
	@command -v npm >/dev/null || { echo "the pages' code is checked with Node's tools: install nodejs (20 or newer) and npm" >&2; exit 1; }
	@npm ci --silent
	@touch $@

lint: $(VENV)/.ready-dev node_modules/.ready types ## ruff, mypy, the rule that imports point down, and the pages' JavaScript
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@$(BIN)/python -m tests.snippets
	$(BIN)/mypy out/snippets
	$(BIN)/lint-imports
	node_modules/.bin/biome ci
	node_modules/.bin/tsc

format: $(VENV)/.ready-dev node_modules/.ready ## put the code in the house's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	node_modules/.bin/biome check --write

types: $(VENV)/.ready-dev ## write types/documents.d.ts, the types of documents that the pages' JavaScript is checked by
	@$(BIN)/python -m tests.page_types

glossary: $(VENV)/.ready-dev ## write the definitions in docs/glossary.md from the wings' words.py
	@$(BIN)/python -m tests.glossary

schemas: $(VENV)/.ready ## write the JSON Schema of each document into out/schemas/
	@mkdir -p out/schemas
	@$(BIN)/python -m weftrace.files.schemas --to out/schemas

bench: $(VENV)/.ready-dev $(HTA)/.ready ## measure speed, memory and page size against their targets
	@$(BIN)/python -m benchmarks --hta $(HTA)/bin/python --deepspeed $(DEEPSPEED)/bin/python $(BENCH)

counts: $(VENV)/.ready-dev ## count lines of code and what is written twice, at a revision and now: make counts SINCE=main
	@$(BIN)/python -m tests.house_counts $(SINCE) .

docs: $(VENV)/.ready-dev ## check the documents: every command and example runs, every link leads somewhere, the English is plain
	@$(BIN)/python -m pytest tests/test_docs.py tests/test_paste.py tests/test_readme.py tests/test_translations.py tests/test_glossary.py \
		tests/test_coming_from.py tests/test_plain_english.py $(PYTEST)

$(VENV)/.ready-site: pyproject.toml $(VENV)/.ready
	@echo "adding the tools that build the site to $(VENV) (once; less than half a minute)"
	@$(BIN)/python $(INSTALL) --upgrade pip
	@$(BIN)/python $(INSTALL) --group site
	@touch $@

site: $(VENV)/.ready-site ## build the documentation site, with search and live examples, into out/site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --config-file website/mkdocs.yml
	@echo "open out/site/index.html in a browser; it needs no server and no network"

dist: $(VENV)/.ready ## build a wheel into dist/
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

clean: ## remove everything that make made, the environments included
	rm -rf $(VENV) $(HTA) $(DEEPSPEED) $(LOWEST) node_modules out dist build benchmarks/.cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
