# Every target does its own set-up: a virtual environment in .venv, made anew whenever pyproject.toml changes.

VENV := .venv
PYTHON := $(VENV)/bin/python
READY := $(VENV)/ready
PROTO := $(shell find proto -name '*.proto')

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-peers oxia-bin load bench bench-peers bench-curves bench-pages soak soak-judge profile lint \
	proto clean

help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## Start it all, use it, break it, let a topic split and merge, and show that nothing was lost
	$(PYTHON) -m metastore.demo
	$(PYTHON) -m controller.demo

test: lint ## Check style and types, then run the tests (PYTEST_ARGS adds options)
	@sh .ci/find-chromium >/dev/null
	$(PYTHON) -m pytest $(PYTEST_ARGS)

# How many times over the randomised tests run: at 200 they take hours.
LONG := 200

test-long: $(READY) ## Run the randomised tests LONG times over (PYTEST_ARGS adds options)
	TIDEMARK_TXN_ROUNDS=$(LONG) TIDEMARK_CRASH_ROUNDS=$(LONG) TIDEMARK_WATCH_ROUNDS=$(LONG) \
		TIDEMARK_TOPIC_ROUNDS=$(LONG) $(PYTHON) -m pytest -s tests/txn_histories tests/txn_scenarios tests/watch_contract \
		tests/faults tests/topics_simulation tests/topics_end_to_end $(PYTEST_ARGS)

test-peers: oxia-bin $(READY) ## Compare with a real Oxia server (OXIA_BIN names its binary)
	OXIA_BIN="$(OXIA_BIN)" $(PYTHON) -m pytest -m peers $(PYTEST_ARGS)

oxia-bin:
	@test -x "$(OXIA_BIN)" || { echo 'OXIA_BIN must name the binary of an Oxia server' >&2; exit 2; }

load: $(READY) ## Load a service of its own for two minutes, and write a report to build/load (LOAD_ARGS adds options)
	$(PYTHON) -m loadtest.command.making $(LOAD_ARGS)

bench: $(READY) ## Measure, beside a real Oxia server where OXIA_BIN names one (BENCH_ARGS adds options)
	$(PYTHON) -m loadtest.bench $(BENCH_ARGS)

bench-peers: oxia-bin $(READY) ## The same work on Tidemark, Oxia (OXIA_BIN), etcd and ZooKeeper (BENCH_ARGS adds options)
	OXIA_BIN="$(OXIA_BIN)" $(PYTHON) -m loadtest.bench --peers $(BENCH_ARGS)

bench-curves: $(READY) ## Resource curves, and what becomes of twice the load it can bear (BENCH_ARGS adds options)
	$(PYTHON) -m loadtest.bench --curves $(BENCH_ARGS)

bench-pages: $(READY) ## Write the tables and charts of docs/benchmarks anew, from the stored runs
	$(PYTHON) -m loadtest.bench.pages

# How long the soak takes, in minutes; most of it under kills and restarts, the rest of it looking for leaks.
SOAK_MINUTES ?= 60

soak: $(READY) ## Everything at once for SOAK_MINUTES, under kills; then all checkers, and what grew (SOAK_SEED begins elsewhere)
	SOAK_MINUTES=$(SOAK_MINUTES) $(PYTHON) -m pytest -s tests/soak $(PYTEST_ARGS)

soak-judge: $(READY) ## Judge the notes of a failed epoch of the soak once more (NOTES names the file)
	PYTHONPATH=tests $(PYTHON) -m soak.judging $(NOTES)

profile: $(READY) ## Where the processors' time goes on the four hottest paths (PROFILE_ARGS names other lines)
	$(PYTHON) -m loadtest.profiling $(PROFILE_ARGS)

# pytest wants a conftest.py in several folders, and mypy takes only one module of a name at a time: those folders are
# checked one by one, once more.
CONFTESTS := $(shell find tests -name conftest.py)

lint: $(READY) ## Check style (ruff) and types (mypy, strict)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check --quiet .
	$(PYTHON) -m mypy --exclude '/conftest\.py$$' $(wildcard metastore txn controller loadtest tests)
	@for folder in $(dir $(CONFTESTS)); do $(PYTHON) -m mypy $$folder*.py || exit 1; done

proto: $(READY) ## Generate the message classes from proto/
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PYTHON) -m grpc_tools.protoc \
		--proto_path=proto --python_out=. --mypy_out=. $(PROTO)

clean: ## Remove what make made
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@echo 'Setting up $(VENV) (a minute or two where nothing is cached)'
	@sh .ci/find-java
	@python=$$(sh .ci/find-python) && "$$python" -m venv --clear $(VENV)
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
