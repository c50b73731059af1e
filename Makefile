# `make help` lists the verbs; .ci/run runs `check` and `test`, nothing else.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
PORT ?= 8080
ONLY ?=
ARGS ?=
export PYTHON

VENV := .venv/.stamp
RUN := .venv/bin/python
LOCK := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' Makefile

.PHONY: venv
venv: $(VENV) ## Make .venv with everything in it (PYTHON=python3.12 for another interpreter)

$(VENV): requirements/dev.txt pyproject.toml scripts/bootstrap.sh
	@scripts/bootstrap.sh
	@touch $@

.PHONY: packages
packages:
	@scripts/debian_packages.sh

.PHONY: demo
demo: $(VENV) ## See it all on simulated GPUs at http://localhost:8080 (PORT=8081 for another port, ARGS='--simulate.speed 60')
	@scripts/debian_packages.sh mesa-vulkan-drivers libvulkan1 || true
	$(RUN) -m gpusight up --simulate --web.listen-address 127.0.0.1:$(PORT) $(ARGS)

.PHONY: test
test: $(VENV) packages ## Run the tests (ARGS='-k settings' for some of them)
	$(RUN) -m pytest $(ARGS)

.PHONY: check
check: $(VENV) ## Lint, formatting, types, layers, generated docs in step
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m mypy
	.venv/bin/lint-imports
	$(RUN) scripts/catalog_docs.py --check
	$(RUN) scripts/settings_docs.py --check

.PHONY: bench
bench: $(VENV) ## Run the side-by-side benchmarks (ONLY=name for one)
	$(RUN) -m bench $(if $(ONLY),--only $(ONLY))

.PHONY: docs
docs: $(VENV) ## Write the generated docs anew
	$(RUN) scripts/catalog_docs.py
	$(RUN) scripts/settings_docs.py

.PHONY: lock
lock: ## Write requirements/*.txt anew from pyproject.toml (newest versions: delete them first)
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && "$(PYTHON)" -m venv "$$tools" && \
	"$$tools/bin/pip" --disable-pip-version-check --quiet install uv && \
	"$$tools/bin/uv" $(LOCK) --extra all pyproject.toml --output-file requirements/runtime.txt && \
	"$$tools/bin/uv" $(LOCK) --extra dev pyproject.toml --output-file requirements/dev.txt

.PHONY: clean
clean: ## Remove .venv and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find . -name __pycache__ -prune -exec rm -rf {} +
