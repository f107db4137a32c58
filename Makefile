PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LOCK := requirements/dev.lock
CODE := columnar_kafka native spark_sink tests benchmarks

# Tests start hundreds of Python processes: what those import is compiled once.
unexport PYTHONDONTWRITEBYTECODE

# Many tests wait for a server, so there are more processes than cores.
PARALLEL := --numprocesses 5 --dist loadscope
# All examples, or a Spark that is started many times, may take twice as long as other tests. The
# second limit comes a minute after the first: pyproject.toml says why there are two.
PATIENT := --timeout 1800 --override-ini faulthandler_timeout=1860
# Tests that run fewer combinations of their parameters in `make test`, and none on minio.
COMBINED := $(addprefix tests/integration/test_, \
	compatibility.py partitions.py transactions.py) tests/unit/lake/test_every_table.py \
	tests/unit/ingest/test_habits.py $(wildcard tests/conformance/test_consumer*.py)
# Tests of producers that run without the native core too; those in tests/unit/producing do by a fixture.
PURE := tests/golden $(wildcard tests/conformance/test_producer*.py)
# Minutes each: hundreds of kills, restarts and rebalances, a million records, every metadata, 200
# answers of a store that are lost, queries on a busy machine.
SOAKS := brokers_fail consumer_killed consumer_metadata deep_nesting lost_answers producer_killed \
	rebalances spark_killed spark_starts threads unclosed_while_rebalancing

# From 3.12 on, Python runs code of the user's at other places inside the native core.
NEWER = $(shell PYENV_VERSION=$$(pyenv versions --bare 2>/dev/null | paste -sd: -) \
	python3.13 -c 'import sys; print(sys.executable)' 2>/dev/null)
NEWER_VENV := .venv-3.13
# It is not there without cargo, which CI does not take.
HAS_CORE := "import os; from columnar_kafka import native as n; \
	assert n.enabled or not os.environ.get('CI'), n.reason"

.DEFAULT_GOAL := help
.PHONY: help install demo check format test bare newer-python core integration faults faults-short third-parties \
	profile bench bench-full docs lock versions wheels

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(BIN)/.native  ## make .venv with the locked versions and this project in it

$(BIN)/.installed: $(LOCK) pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(BIN)/.native: $(BIN)/.installed $(shell git ls-files native)
	@rm -f native/core.profdata
	@$(BIN)/python native/build.py
	@touch $@

$(BIN)/.profiled: $(BIN)/.native benchmarks/workload.py
	@$(BIN)/python native/profiled.py
	@test ! -e native/core.profdata || touch $@

demo: install  ## the whole way: produce, read, land, compare every record, write demo-report.html
	$(BIN)/columnar-kafka demo

check: install  ## format, lint, imports, types
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/mypy

format: install  ## format the code, and mend what the linter can
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

test: install  ## all tests but the long ones and third-parties
	$(BIN)/python -m pytest --ignore tests/faults --ignore tests/third_parties $(PARALLEL)
	COLUMNAR_KAFKA_NATIVE=0 $(BIN)/python -m pytest $(PURE) $(PARALLEL)

bare: install  ## `make demo` and `make test` as on a machine without Java and cargo
	$(BIN)/python tests/bare.py

newer-python:  ## the unit and conformance tests on Python 3.13 with the native core, if they are there
	@if test "$(NEWER)"; then \
		$(MAKE) --no-print-directory install VENV=$(NEWER_VENV) PYTHON=$(NEWER) && \
		$(NEWER_VENV)/bin/python -c $(HAS_CORE) && \
		$(NEWER_VENV)/bin/python -m pytest tests/unit tests/conformance $(PARALLEL); \
	else echo "Python 3.13 is not on this machine, on the path or pyenv's"; test -z "$$CI"; fi

core: install  ## the native core's format, lint and own tests, if there is cargo
	@if command -v cargo >/dev/null; then cd native && \
		cargo fmt --check && cargo clippy --quiet -- --deny warnings && cargo test --quiet; fi

integration: install  ## only the tests on real servers
	$(BIN)/python -m pytest tests/integration

faults: install  ## the long ones: processes killed, servers stopped, all examples, all combinations
	$(BIN)/python -m pytest tests/faults --hypothesis-profile long $(PATIENT)
	$(BIN)/python -m pytest tests/unit -m 'hypothesis or long' --hypothesis-profile long $(PATIENT)
	$(BIN)/python -m pytest $(COMBINED) --hypothesis-profile long $(PATIENT)
	@if command -v cargo >/dev/null; then cd native && \
		COLUMNAR_KAFKA_RANDOM_FILES=20000 cargo test --release --quiet random; fi
	$(BIN)/python native/sanitize.py

faults-short: install  ## the long ones but the soaks (SOAKS in the Makefile), with fewer examples
	$(BIN)/python -m pytest tests/faults $(SOAKS:%=--ignore tests/faults/test_%.py) $(PARALLEL) $(PATIENT)
	$(BIN)/python -m pytest $(COMBINED) --hypothesis-profile long $(PARALLEL)
	COLUMNAR_KAFKA_NATIVE=0 $(BIN)/python -m pytest tests/unit tests/conformance tests/integration \
		$(PARALLEL)

third-parties: install  ## tracers and frameworks around our clients, each in an environment of its own
	$(BIN)/pip install --quiet uv
	$(BIN)/python tests/third_parties/run.py

versions: install  ## the tests with the oldest and newest Python and packages
	$(BIN)/pip install --quiet uv
	$(BIN)/python tests/versions.py

wheels: install  ## build both kinds of wheel, and see which one pip takes
	$(BIN)/pip install --quiet uv
	$(BIN)/python tests/wheels.py

profile: $(BIN)/.profiled  ## build the native core as releases have it: compiled by a profile of its work

bench: profile  ## the benchmarks; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks

bench-full: profile  ## the benchmarks, also those that take long
	$(BIN)/python -m benchmarks --full

docs: install  ## run the snippets of README and docs
	$(BIN)/python -m pytest tests/test_docs.py

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-package columnar-kafka --custom-compile-command 'make lock'
APART := requirements/third-parties

lock: install  ## renew the lock files from pyproject.toml and requirements/third-parties
	$(BIN)/pip install --quiet uv
	$(COMPILE) --extra avro --extra delta --extra demo --extra iceberg --extra registry --extra stores --group dev \
		--output-file $(LOCK) pyproject.toml
	for each in $(basename $(wildcard $(APART)/*.in)); do \
		$(COMPILE) $$(test -e $$each.override && echo --override $$each.override) \
			--output-file $$each.lock pyproject.toml $$each.in || exit 1; \
	done
