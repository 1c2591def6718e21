# freepull: `make run`, `make quick` and `make test` are the ones to know; each sets up what it needs first.
PYTHON ?= python3
BIN := .venv/bin
# compiled modules are kept, also where the environment says otherwise: without them every start takes a second longer
export PYTHONDONTWRITEBYTECODE :=
READY := .venv/ready
# what the example needs, compiled in as many processes as there are cores, once
WARM := .venv/warm
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
UPDATE = $(AS_ROOT) apt-get update -qq

.DEFAULT_GOAL := help
PARALLEL := -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# tests with servers mostly wait, so there are two of them for every core
WAITING := -n $(shell $(PYTHON) -c "import os; print(min(6, 2 * (os.cpu_count() or 1)))") --dist loadfile --no-loadscope-reorder
.PHONY: help run quick test whole deep programs lint types bench verify calibrate reproduce chaos load serve package docs lock clean

help: ## what each target does
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(WARM): $(READY)
	$(BIN)/freepull warm certified paper passive
	@touch $@

run: $(WARM) ## the paper's game under four principals: a table, and a picture in out/
	$(BIN)/python examples/toy.py

quick: $(READY) ## the tests that start no program, server or browser, with fewer examples: for every save
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" --hypothesis-profile quick

test: $(READY) programs lint ## everything that must hold: lint, types, import order, all tests; nothing may be left out
	@$(MAKE) --no-print-directory -j2 types whole

whole: $(READY) # all tests, beside the types; their files, which live for seconds, in memory where there are 4 GB of it
	@if [ -w /dev/shm ] && [ "$$(df --output=avail /dev/shm | tail -n 1)" -gt 4000000 ]; then \
	  TMPDIR=$$(mktemp -d -p /dev/shm freepull.XXXXXX); chmod 755 "$$TMPDIR"; export TMPDIR; trap 'rm -rf "$$TMPDIR"' EXIT INT TERM; fi; \
	$(BIN)/python -m pytest $(WAITING) --everything

deep: $(READY) programs ## the property tests with ten times their examples: before a release (an hour)
	$(BIN)/python -m pytest $(WAITING) --hypothesis-profile deep $$(grep -rlE "hypothesis|support.examples" tests --include="test_*.py")

programs: $(READY) # what tests need beside Python: a browser, systemd's checker, and the one of rules for alerts, which is only unpacked
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { $(UPDATE) && $(AS_ROOT) apt-get install -y -qq chromium; }
	@command -v systemd-analyze >/dev/null || { $(UPDATE) && $(AS_ROOT) apt-get install -y -qq systemd; }
	@command -v promtool >/dev/null || command -v $(BIN)/promtool >/dev/null || { $(UPDATE) && mkdir -p out/promtool && cd out/promtool && \
	  apt-get download -qq prometheus && dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract --strip-components=3 ./usr/bin/promtool && \
	  install promtool ../../$(BIN)/promtool; }

lint: $(READY) ## ruff and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(READY) ## mypy --strict
	$(BIN)/mypy

bench: $(READY) ## how fast it is, side by side with C and others; writes docs/benchmarks.md
	$(BIN)/python -m benchmarks

verify: $(READY) ## error rates, displayed bounds and costs; writes docs/verification.md (half an hour on two cores)
	$(BIN)/python -m verification

chaos: $(READY) ## crashes, power cuts, faults, two writers, corruption: what a campaign survives (a quarter of an hour)
	$(BIN)/python -m chaos

calibrate: $(READY) ## whether plans hold what they say; writes docs/calibration.md (20 minutes on two cores)
	$(BIN)/python -m verification.calibrate

reproduce: $(READY) ## the paper's experiments in three settings; a report in out/reproduction (minutes)
	$(BIN)/freepull reproduce

load: $(READY) ## the service under load and under attack, on both stores; writes docs/load.md (half an hour)
	$(BIN)/python -m load

serve: $(READY) ## the service on trial.db, at http://127.0.0.1:8000; a first token is printed once
	$(BIN)/freepull serve --store sqlite:///trial.db --first-token

package: ## the wheel and the sdist, built and tried with the lowest and the newest dependencies, in out/package (minutes)
	$(PYTHON) deploy/try_package.py

docs: $(READY) ## the site with its tutorials and gallery, which are run, in docs/_build/html
	$(BIN)/python -m sphinx -W -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

lock: ## write requirements.txt anew from pyproject.toml (needs uv)
	uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  --group dev --extra live --extra oidc --extra otel --extra cluster --extra docs --extra envs \
	  --output-file requirements.txt --quiet pyproject.toml

clean: ## remove what was made here
	rm -rf .venv out docs/_build docs/tutorials docs/gallery .mypy_cache .ruff_cache .pytest_cache .hypothesis
