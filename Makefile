# Angelia: 'make' alone explains itself.
#
# Everything lives in .venv beside this file; nothing is installed elsewhere. The lock files
# name every package with its hashes and no package host. Once the stamps are fresh, no
# target needs the network.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

# Half of 'make test' waits for processes: three workers keep two cores busy, and whoever is done
# first takes from the others, because the slow tests stand together.
WORKERS ?= 3
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input

# One virtual environment: two installations into it at the same time would break it.
.NOTPARALLEL:

.PHONY: help run test check sim soak canaries bench fmt docs lock browser clean

help: ## Say what can be made
	@echo 'Angelia, a messaging gateway that does not lose answers.'
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'PYTHON=/path/to/python3 chooses another Python (3.11 or newer).'
	@echo 'ANGELIA_HOME=/path chooses another home than ~/.angelia.'

run: $(VENV)/.run ## Start the gateway and its chat page (makes a home on first use)
	@test -e "$${ANGELIA_HOME:-$$HOME/.angelia}/config.yaml" || $(BIN)/angelia init | grep '^wrote '
	@exec $(BIN)/angelia run --any-port

test: $(VENV)/.test browser ## Install what the tests need and run all of them
	@failed=0; \
	$(MAKE) --no-print-directory style || failed=1; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS) || failed=1; \
	exit $$failed

check: $(VENV)/.test ## Only style, types and the fast tests (20 seconds)
	@$(MAKE) --no-print-directory style
	@$(BIN)/python -m pytest -n $(WORKERS) $(wildcard tests/unit tests/exhaustive tests/tidy)

.PHONY: style
style: # All four speak, so that one run tells everything.
	@failed=0; \
	$(BIN)/ruff check . || failed=1; \
	$(BIN)/ruff format --check . || failed=1; \
	$(BIN)/mypy || failed=1; \
	$(BIN)/lint-imports --no-logo || failed=1; \
	exit $$failed

sim: $(VENV)/.test ## Replay one simulated world: make sim SEED=n
	@exec $(BIN)/python -m tests.simulation $(SEED)

soak: $(VENV)/.test ## Kill it at random for MINUTES=n, then at every point of every recovery
	@$(BIN)/python -m tests.soak $(or $(MINUTES),5) $(SEED)
	@$(BIN)/python -m pytest -n $(WORKERS) -m soak

canaries: $(VENV)/.test ## Plant known bugs and see which rings find them (an hour or two)
	@exec $(BIN)/python -m tests.canaries $(CANARY_ARGS)

bench: $(VENV)/.test ## Measure the ledger and the gateway beside their peers
	@exec $(BIN)/python -m bench

fmt: $(VENV)/.test ## Put the sources into their form
	@$(BIN)/ruff check --fix --exit-zero .
	@$(BIN)/ruff format .

docs: $(VENV)/.run ## Write the generated pages of docs/reference anew
	@$(BIN)/python -m angelia.gateway.reference docs/reference/settings.md
	@$(BIN)/python -m angelia.cli.reference docs/reference

clean: ## Remove .venv and caches; homes are not touched
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

# -- what the targets stand on ----------------------------------------------------------------

$(VENV)/.made:
	@command -v '$(PYTHON)' >/dev/null || { \
	  echo "make: there is no '$(PYTHON)'. Install Python 3.11 or newer (Debian: apt-get install python3 python3-venv), or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: '$(PYTHON)' is $$('$(PYTHON)' -V 2>&1); Angelia needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@'$(PYTHON)' -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: '$(PYTHON)' cannot make virtual environments (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || '$(PYTHON)' -m venv --clear $(VENV)
	@touch $@

# The project itself is installed editable and without dependencies: those come hashed.
INSTALL_SELF = $(PIP) install --quiet --no-deps --no-build-isolation --editable .

$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/.made
	@echo 'Installing what the gateway needs into $(VENV); this takes a minute, once …' >&2
	@$(PIP) install --quiet --require-hashes --requirement requirements.lock
	@$(INSTALL_SELF)
	@touch $@

# What the tests need holds what the gateway needs: a 'make run' beside or among the tests
# finds nothing left to install.
$(VENV)/.test: requirements-test.lock requirements.lock pyproject.toml | $(VENV)/.made
	@echo 'Installing what the tests need into $(VENV) …' >&2
	@$(PIP) install --quiet --require-hashes --requirement requirements-test.lock
	@$(INSTALL_SELF)
	@touch $(VENV)/.run $@

# The page is driven in the distribution's Chromium. Without root it is not installed.
browser:
	@if command -v chromium >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'Installing Chromium for the browser tests …' >&2; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get -qq update >/dev/null && apt-get -qq install --yes --no-install-recommends chromium >/dev/null; \
	else \
	  echo 'There is no Chromium, and installing it needs root: the browser tests will be reported as not run.' >&2; \
	fi

# Needs uv. The files must name no package host: --no-emit-index-url, and a tidy test looks.
LOCK := uv pip compile pyproject.toml --no-config --universal --python-version 3.11 --generate-hashes \
  --no-emit-index-url --no-emit-find-links --no-header --quiet --group build

lock: ## Choose the packages anew and write both lock files (needs uv)
	@command -v uv >/dev/null || { echo "make: 'make lock' needs uv (pip install uv)" >&2; exit 1; }
	@$(LOCK) --upgrade --output-file requirements.lock >/dev/null
	@$(LOCK) --upgrade --extra test --constraint requirements.lock --output-file requirements-test.lock >/dev/null
