# Windlass: everything a developer or a build server runs. `make` alone prints the targets.

SHELL := /bin/sh
BIN := .venv/bin
STAMP := .venv/.stamp
# Most tests wait for processes more than they compute: one more at a time than there are cores.
TESTERS = $(shell expr $(CORES) + 1)
CORES = $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
RESULTS := .cache/results
GROUP = embedded
SOURCES = src tests bench scripts examples

# Which Python makes the virtual environment: set it, or the first one that fits is taken.
PYTHON ?=
CANDIDATES = python3 python3.15 python3.14 python3.13 python3.12 python3.11 $(wildcard $(HOME)/.pyenv/versions/*/bin/python3)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PIP_ROOT_USER_ACTION := ignore
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PYRIGHT_PYTHON_CACHE_DIR := $(CURDIR)/.cache/pyright

.DEFAULT_GOAL := help
.PHONY: help venv demo test check format soak bars race anatomy mutants site dist clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

venv: $(STAMP) ## make .venv with the project and all tools (again only when pyproject or constraints changed)

$(STAMP): pyproject.toml constraints.txt
	@fits='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'; \
	if [ -x $(BIN)/python ] && $(BIN)/python -c "$$fits" 2>/dev/null && $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		:; \
	else \
		python=''; \
		for candidate in $(or $(PYTHON),$(CANDIDATES)); do \
			if "$$candidate" -c "$$fits" >/dev/null 2>&1; then python="$$candidate"; break; fi; \
		done; \
		if [ -z "$$python" ]; then \
			echo "Windlass needs Python 3.11 or newer with venv and ensurepip (Debian: python3-venv); $(if $(PYTHON),$(PYTHON) is not such a one,none was found: name one by PYTHON=/path/to/python)." >&2; \
			exit 1; \
		fi; \
		echo "making .venv with $$("$$python" --version)"; \
		rm -rf .venv && "$$python" -m venv .venv; \
	fi
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' > .venv/dev.txt
	@$(BIN)/python -m pip -qq install -c constraints.txt -r .venv/dev.txt
	@$(BIN)/python -m pip -qq install -c constraints.txt --no-build-isolation -e .
	@touch $(STAMP)

demo: $(STAMP) ## show workers, queues and jobs live for a minute (DEMO_SECONDS, DEMO_KEEP=1, DEMO_PICTURE=file.svg)
	@$(BIN)/python examples/demo

test: $(STAMP) ## run all tests but the long ones, then the conformance suite on every other Python found
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	@status=0; \
	$(BIN)/python -m pytest -q -n $(TESTERS) --dist loadgroup --junitxml=$(RESULTS)/main.xml tests || status=1; \
	$(BIN)/python scripts/test_pythons.py $(RESULTS) || status=1; \
	$(BIN)/python scripts/count_tests.py $(RESULTS) || status=1; \
	exit $$status

check: $(STAMP) ## lint, format, types, layers, spelling, and every Python block of README and docs
	@status=0; \
	run() { echo "+ $$*"; "$$@" || status=1; }; \
	run $(BIN)/ruff check $(wildcard $(SOURCES)); \
	run $(BIN)/ruff format --check $(wildcard $(SOURCES)); \
	run $(BIN)/pyright --project pyproject.toml; \
	run $(BIN)/pyright --project pyproject.toml --pythonplatform Windows src; \
	run $(BIN)/pyright --project pyproject.toml --pythonplatform Darwin src; \
	run $(BIN)/lint-imports --cache-dir .cache/import_linter; \
	run $(BIN)/codespell; \
	run $(BIN)/python scripts/check_docs.py; \
	exit $$status

format: $(STAMP) ## format the code and repair what ruff can repair
	$(BIN)/ruff check --fix $(wildcard $(SOURCES))
	$(BIN)/ruff format $(wildcard $(SOURCES))

soak: $(STAMP) ## run the long tests whole and write docs/evidence/<name>.json
	@$(BIN)/python -m tests.soak

bars: $(STAMP) ## run the benchmarks of bench/bars.toml: measured, bar, pass
	@$(BIN)/python -m bench

race: $(STAMP) ## race the embedded queues, or with GROUP=redis those on a server, and write docs/benchmarks.md
	@$(BIN)/python -m bench.race --group $(GROUP)

anatomy: $(STAMP) ## measure where the microseconds of a job on a server go and write docs/benchmarks.md
	@$(BIN)/python -m bench.anatomy

mutants: $(STAMP) ## put each known bug back and show that the suite catches it
	@$(BIN)/python -m tests.mutants

site: $(STAMP) ## build the documentation into site/; a broken link fails it
	@$(BIN)/zensical build --strict --config-file mkdocs.yml

dist: $(STAMP) ## build wheel and sdist into dist/ and check what they hold
	@rm -rf dist && mkdir -p .cache
	@$(BIN)/python -m build --no-isolation --outdir dist . > .cache/build.log 2>&1 || { cat .cache/build.log; exit 1; }
	@$(BIN)/python scripts/check_dist.py dist

clean: ## remove everything make has made, .venv included
	@rm -rf .venv .cache dist site .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
