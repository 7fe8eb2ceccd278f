# Everything a person does here, by name. `make help` lists it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first of these that exists makes .venv; any Python from 3.11 on will do.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Written last by an installation that came to its end, and remembers what it installed.
STAMP := .venv/installed.stamp
# What only the site, the notebook and their tests need, a third of all packages, is installed for them.
EXTRAS := connect demo kafka otel pydantic spark test
MORE_EXTRAS := docs notebook
STAMP_MORE := .venv/installed-more.stamp
# The oldest line of Spark that is supported, in an environment of its own; else as the lock says.
SPARK_OLDEST := 4.2.1
OLDEST := .venv-spark-oldest
STAMP_OLDEST := $(OLDEST)/installed.stamp
IMAGE_LOCK := examples/deployment/requirements.txt
# What pip installs with --require-hashes, for the oldest Python that is supported.
LOCK = $(BIN)/uv pip compile --quiet --no-header --python-version 3.11 --strip-extras --annotation-style line --generate-hashes

# Prints what MORE_EXTRAS need, a line each.
MORE = $(BIN)/python -c 'import sys, tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; [print(*extras[each], sep="\n") for each in sys.argv[1:]]' $(MORE_EXTRAS)

# Two workers more than there are cores, since much of what a worker does is to wait; but not many
# Sparks and groups of nodes at once. Who plays what stands in tests/side_by_side.py. For a debugger:
# PYTEST_FLAGS="-n 0".
SIDE_BY_SIDE := -n $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 2))) --maxprocesses 4 --no-loadscope-reorder

# The tests start hundreds of processes: what one of them has compiled, the next ones need not.
export PYTHONDONTWRITEBYTECODE :=

DEMO_FLAGS ?=
PYTEST_FLAGS ?=
SEED ?= 0
SHARE ?= 0.2
SEEDS ?= 200
MINUTES ?= 10
SOAK_MINUTES ?= 30
BENCH_FLAGS ?=
SEEDS_LONG ?= 5000

.PHONY: help
help: ## This list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

.PHONY: demo
demo: $(STAMP) ## Three nodes on this machine, and a tour of what they do (DEMO_FLAGS=).
	$(BIN)/docstore demo $(DEMO_FLAGS)

.PHONY: test
test: $(STAMP) ## The quick tests, in minutes (PYTEST_FLAGS="-k link").
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not thorough and not slow" $(PYTEST_FLAGS) tests

.PHONY: thorough
thorough: $(STAMP_MORE) ## The tests that `make test` leaves out and that take minutes more (PYTEST_FLAGS=).
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m thorough $(PYTEST_FLAGS) tests

.PHONY: check
check: $(STAMP) ## Lint, format, types and the house rules, in under a minute.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict gossip docstore
	$(BIN)/python -m pytest -q tests/test_tidy.py tests/test_tidy_classes.py tests/test_tidy_can_fail.py tests/test_dependencies.py tests/test_seams.py tests/test_rules.py tests/test_pages.py tests/test_plain_english.py

.PHONY: fix
fix: $(STAMP) ## Format, and repair what the linter can repair safely.
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: cover
cover: $(STAMP) ## Branch coverage of the membership protocol, which must not fall below 98 %.
	$(BIN)/python -m coverage run -m pytest -q -m "not slow" tests/gossip --ignore tests/gossip/scenarios
	$(BIN)/python -m coverage report --fail-under=98

.PHONY: sim
sim: $(STAMP) ## Whole clusters in virtual time, from a seed (SEED=0 SEEDS=200).
	$(BIN)/python -m tests.sim --seed $(SEED) --seeds $(SEEDS)
	$(BIN)/python -m tests.sim --streams --seed $(SEED) --seeds $(SEEDS)
	$(BIN)/python -m tests.sim --streams --register --seed $(SEED) --seeds $(SEEDS)
	$(BIN)/python -m tests.sim --sessions --seed $(SEED) --seeds $(SEEDS)
	$(BIN)/python -m tests.sim --sessions --register --seed $(SEED) --seeds $(SEEDS)
	$(BIN)/python -m tests.sim --agendas --seed $(SEED) --seeds $(SEEDS)
	$(BIN)/python -m tests.sim --agendas --register --seed $(SEED) --seeds $(SEEDS)

.PHONY: chaos
chaos: $(STAMP) ## Torture of five real processes (MINUTES=10 SEED=1), with a report.
	$(BIN)/python -m tests.chaos.torture --minutes $(MINUTES) --seed $(SEED) --report $(or $(REPORT),torture.md)

.PHONY: chaos-lines
chaos-lines: $(STAMP) ## Real processes: each reliability line by its number (SHARE=0.2 of what it asks for; FLIGHTS=file.json).
	$(BIN)/python -m tests.chaos.lines --share $(SHARE) --report $(or $(REPORT),lines.md)

.PHONY: soak
soak: $(STAMP) ## Three real processes in long quiet use, in which nothing may grow (SOAK_MINUTES=30).
	$(BIN)/python -m tests.chaos.soak --minutes $(SOAK_MINUTES)

.PHONY: long
long: $(STAMP_MORE) ## The thorough and the slow tests, the oldest Spark, a large simulation (SEEDS_LONG=5000).
	$(BIN)/python -m pytest -m "thorough or slow" $(PYTEST_FLAGS) tests
	$(MAKE) oldest-spark
	$(BIN)/python -m tests.sim --seed $(SEED) --seeds $(SEEDS_LONG)
	$(BIN)/python -m tests.sim --streams --seed $(SEED) --seeds $(SEEDS_LONG)
	$(BIN)/python -m tests.sim --streams --register --seed $(SEED) --seeds $(SEEDS_LONG)
	$(BIN)/python -m tests.sim --sessions --seed $(SEED) --seeds $(SEEDS_LONG)
	$(BIN)/python -m tests.sim --sessions --register --seed $(SEED) --seeds $(SEEDS_LONG)
	$(BIN)/python -m tests.sim --agendas --seed $(SEED) --seeds $(SEEDS_LONG)
	$(BIN)/python -m tests.sim --agendas --register --seed $(SEED) --seeds $(SEEDS_LONG)

.PHONY: oldest-spark
oldest-spark: $(STAMP_OLDEST) ## The pipeline's tests on the oldest Spark that is supported (PYTEST_FLAGS=).
	$(OLDEST)/bin/python -m pytest -m "not slow" $(PYTEST_FLAGS) tests/pipeline

.PHONY: bench
bench: $(STAMP) ## Side by side with etcd; needs etcd and wrk (BENCH_FLAGS=--short).
	$(BIN)/python -m bench $(BENCH_FLAGS)

.PHONY: bench-large
bench-large: $(STAMP) ## docstore with a million documents stored; needs wrk (BENCH_FLAGS="--documents 200000").
	$(BIN)/python -m bench.large $(BENCH_FLAGS)

.PHONY: bench-backup
bench-backup: $(STAMP) ## Backup and restore of 100,000 documents, and PUTs beside; needs wrk (BENCH_FLAGS="--seconds 3").
	$(BIN)/python -m bench.backup $(BENCH_FLAGS)

.PHONY: bench-indexes
bench-indexes: $(STAMP) ## Queries with indexes, and what they cost a write; needs wrk (BENCH_FLAGS=--short).
	$(BIN)/python -m bench.indexes $(BENCH_FLAGS)

.PHONY: bench-connections
bench-connections: $(STAMP) ## One node of three with 2,000 and 10,000 connections; needs wrk (BENCH_FLAGS="--seconds 3").
	$(BIN)/python -m bench.connections $(BENCH_FLAGS)

.PHONY: bench-tls
bench-tls: $(STAMP) ## What TLS costs, beside plain text; needs wrk (BENCH_FLAGS="--rounds 1").
	$(BIN)/python -m bench.tls $(BENCH_FLAGS)

.PHONY: bench-streams
bench-streams: $(STAMP) ## Streams beside NATS JetStream; installs nats-server if it may (BENCH_FLAGS=--short).
	$(BIN)/python -m bench.streams $(BENCH_FLAGS)

.PHONY: bench-owners
bench-owners: $(STAMP) ## Locks and leases beside etcd; installs etcd-server if it may (BENCH_FLAGS=--short).
	$(BIN)/python -m bench.owners $(BENCH_FLAGS)

.PHONY: bench-gossip
bench-gossip: $(STAMP) ## Membership beside what papers and rivals published, half an hour (BENCH_FLAGS=--short).
	$(BIN)/python -m bench.gossip --with-kinship $(BENCH_FLAGS)

.PHONY: bench-spark
bench-spark: $(STAMP) ## The pipeline's goals beside JDBC PostgreSQL and Spark's own readers (BENCH_FLAGS=--short).
	$(BIN)/python -m bench.spark $(BENCH_FLAGS)

.PHONY: docs
docs: $(STAMP_MORE) ## The documentation site, into build/site; a link that leads nowhere is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

.PHONY: lock
lock: $(STAMP) ## Renew both locks, and the image's, from the ranges in pyproject.toml.
	$(BIN)/pip install --quiet uv
	{ grep '^#' requirements.lock; $(LOCK) --upgrade $(EXTRAS:%=--extra %) pyproject.toml; } > requirements.lock.new
	mv requirements.lock.new requirements.lock
	{ grep '^#' requirements-more.lock; $(MORE) | $(LOCK) --upgrade --constraint requirements.lock -; } > requirements-more.lock.new
	mv requirements-more.lock.new requirements-more.lock
	{ grep '^#' $(IMAGE_LOCK); echo 'setuptools>=77' | $(LOCK) --constraint requirements.lock pyproject.toml -; } > $(IMAGE_LOCK).new
	mv $(IMAGE_LOCK).new $(IMAGE_LOCK)

.PHONY: clean
clean: ## Remove .venv, caches and build leftovers; data of nodes is yours and stays.
	rm -rf .venv $(OLDEST) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# From a bare Debian or Ubuntu with Python to an installed project. The lock says exactly what
# goes in, hence --no-deps for ourselves: pip need not think about it again. Without a change of
# the lock or of pyproject.toml nothing here runs, so a second `make` starts at once. Type checkers
# follow the path that editable_mode=compat writes, but not the hook of the default.
$(STAMP): requirements.lock pyproject.toml $(BIN)/python
	@echo "installing what requirements.lock names into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --config-settings editable_mode=compat -e .
	@touch $@

$(STAMP_MORE): requirements-more.lock $(STAMP)
	@echo "installing what requirements-more.lock names into .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-more.lock
	@touch $@

# Only Spark is another one; it brings what it needs beside it. One package without a hash is enough
# for pip to refuse, so the others lose theirs.
$(STAMP_OLDEST): $(STAMP)
	@echo "installing Spark $(SPARK_OLDEST) and the rest of both locks into $(OLDEST)"
	@$(BIN)/python -m venv $(OLDEST)
	@grep -hoE '^[^ #]+==[^ ]+' requirements.lock requirements-more.lock | sort -u | grep -v '^pyspark==' | $(OLDEST)/bin/python -m pip install --quiet \
	  --disable-pip-version-check -r /dev/stdin "pyspark[connect,pipelines]==$(SPARK_OLDEST)"
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --config-settings editable_mode=compat -e .
	@touch $@

# Debian and Ubuntu ship Python without ensurepip; the package pythonX.Y-venv brings it.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: apt-get install python3 python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; $(PYTHON) is $$("$(PYTHON)" -V). Set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@if ! "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null; then \
	  package="$$("$(PYTHON)" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"; \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing $$package"; \
	    apt-get update -qq; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$$package" >/dev/null; \
	  else \
	    echo "$(PYTHON) cannot make virtual environments. As root: apt-get install $$package" >&2; exit 1; \
	  fi; \
	fi
	@"$(PYTHON)" -m venv .venv || { rm -rf .venv; exit 1; }  # Half an environment would look like a whole one.
