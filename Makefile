# `make run` and `make test` are all a newcomer needs; `make help` lists the rest.

VENV     := .venv
BIN      := $(VENV)/bin
PYTHON3  ?= python3
DATA_DIR ?= ./tocsin-data
# More options for the server or the tests, e.g. make run ARGS="--port 7200", make test ARGS="-k journal".
ARGS     ?=
MINUTES  ?= 1
SEED     ?= 1
CASES    ?= 5000
TARGET   ?=
JOBS     ?= $(shell nproc 2>/dev/null || echo 2)

.DEFAULT_GOAL := help
.PHONY: help run cluster test test-long simulate fuzz check format bench bench-spark clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# pip refuses to work outside the environment, should $(VENV) be anything but one.
PIP := $(BIN)/python -m pip --require-virtualenv --disable-pip-version-check --quiet
# A stamp is newer than pyproject.toml once everything it lists is installed, so a second run starts at once.
RUN_STAMP := $(VENV)/.installed-run
DEV_STAMP := $(VENV)/.installed-dev
TOO_OLD   := "tocsin needs Python 3.11 or newer; name one with: make PYTHON3=python3.12 (an older $(VENV) goes with make clean)."

$(BIN)/python:
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo $(TOO_OLD) >&2; exit 1; }
	$(PYTHON3) -m venv $(VENV)

$(RUN_STAMP): pyproject.toml | $(BIN)/python
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo $(TOO_OLD) >&2; exit 1; }
	$(PIP) install --editable .
	@touch $@

$(DEV_STAMP): pyproject.toml | $(BIN)/python
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo $(TOO_OLD) >&2; exit 1; }
	$(PIP) install --editable '.[dev]'
	@touch $@ $(RUN_STAMP)

# On a terminal the server gets a process group of its own (set -m), so Ctrl-C reaches the server and not make:
# the server stops cleanly and make ends with the server's own exit status. Without a terminal the server takes
# the shell's place, so that a signal to the recipe is a signal to the server.
run: $(RUN_STAMP) ## install what is needed and start a server on this machine
	@if [ -t 0 ]; then set -m; $(BIN)/tocsin serve --data-dir $(DATA_DIR) $(ARGS); \
	else exec $(BIN)/tocsin serve --data-dir $(DATA_DIR) $(ARGS); fi

cluster: $(RUN_STAMP) ## the same with a cluster of six processes, shown live
	@if [ -t 0 ]; then set -m; $(BIN)/tocsin cluster up $(ARGS); else exec $(BIN)/tocsin cluster up $(ARGS); fi

# Those of Spark share one session, so they are one process, and wait for Java a good part of their time: they run beside
# the others, and what they say comes at the end. What a chosen few tests are run for is seldom Spark, so with ARGS there
# is one run.
BESIDE := build/test-spark.log

test: check ## all checks, then all tests but the long ones
ifdef ARGS
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)
else
	@mkdir -p build
	@trap 'trap - TERM; kill 0' INT TERM; \
	$(BIN)/python -m pytest tests/spark > $(BESIDE) 2>&1 & beside=$$!; \
	echo "The tests of Spark run beside the others; see $(BESIDE)."; \
	$(BIN)/python -m pytest -n 3 --dist worksteal --ignore=tests/spark; main=$$?; \
	wait $$beside; beside=$$?; cat $(BESIDE); exit $$((main + beside))
endif

test-long: $(DEV_STAMP) ## the tests that take minutes; those of JMS again, against a cluster
	$(BIN)/python -m pytest -m long --timeout 3600 $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m pytest --cluster tests/jms tests/cli/commands)

# A fifth of the time goes to groups alone, without clients: their seeds are quick, and find what is rare.
simulate: $(DEV_STAMP) ## whole clusters under faults in simulated time, e.g. make simulate MINUTES=10
	$(BIN)/python -m tocsin.testing.simulate --minutes $$(($(MINUTES) * 20))e-2 --jobs $(JOBS) $(ARGS)
	$(BIN)/python -m tocsin.testing.simulate_clusters --minutes $$(($(MINUTES) * 80))e-2 --jobs $(JOBS) $(ARGS)

# Without a target all of them are fuzzed in turn. A seed gives the same cases anywhere.
fuzz: $(DEV_STAMP) ## hostile input to whole machines, e.g. make fuzz SEED=7 CASES=20000 MINUTES=10 TARGET=lone
	$(BIN)/python -m tests.fuzz.campaign --seed $(SEED) --cases $(CASES) --minutes $(MINUTES) \
	$(if $(TARGET),--target $(TARGET)) $(ARGS)

check: $(DEV_STAMP) ## format, lint, types and layers, without changing a file
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_STAMP) ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV_STAMP) ## run the benchmarks
	$(BIN)/tocsin bench $(ARGS)

bench-spark: $(DEV_STAMP) ## Spark on a topic against Spark on Parquet; figures in build/bench-spark.json
	$(BIN)/python -m benchmarks.spark $(ARGS)

clean: ## remove the environment, builds and caches; data directories stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
