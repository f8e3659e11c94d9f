# `make` alone lists the targets. Everything lives in .venv and .runyard below this folder; no system package is needed.

VENV := .venv
PY := $(VENV)/bin/python
WORKERS ?= 4
# CI puts scripts/ci_tests.py here, which writes down what failed.
PYTEST = $(PY) -m pytest

# Without bytecode every process of a demo or test would compile scikit-learn again; foreign paths would hide our packages.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME

.PHONY: help demo test test-fast test-external test-upgrade soak mlflow-conformance check fix bench studio screenshots docs docs-site trust wheel lock clean

help:
	@echo "make demo           submit a real training run and watch it"
	@echo "make test           the tests (no services needed)"
	@echo "make test-fast      a quick selection of them for the inner loop"
	@echo "make check          format, lint, types, layers"
	@echo "make test-external  tests against real components"
	@echo "make test-upgrade   take over the home of an older version, FROM=v0.1.0"
	@echo "make soak           hours of kills and faults under load, against a ledger"
	@echo "make mlflow-conformance  MLflow's own tests against our server, MLFLOW_SRC=folder"
	@echo "make bench          every figure we promise, measured here"
	@echo "make studio         build the web page from web/"
	@echo "make screenshots    pictures of every page, light and dark"
	@echo "make fix            format and repair what ruff and Biome can"
	@echo "make docs           write the generated reference pages"
	@echo "make docs-site      build the site of the documentation into dist/site"
	@echo "make trust          measure what docs/trust.md publishes; takes an hour, on a quiet machine"
	@echo "make wheel          build the wheel and the sdist into dist/"
	@echo "make lock           newest versions into the lock files"
	@echo "make clean          stop the demo's server, remove .venv and .runyard"

# The demo has a home of its own, so the lines that find its run must name it.
DEMO_RUNYARD = RUNYARD_HOME="$(CURDIR)/.runyard" $(VENV)/bin/runyard
demo: $(VENV)/ready-demo
	@RUNYARD_HOME="$(CURDIR)/.runyard" $(PY) examples/first_run/submit.py
	@echo
	@echo 'This run is kept in $(CURDIR)/.runyard. To see it again, type here:'
	@echo '  $(DEMO_RUNYARD) runs list'
	@echo '  $(DEMO_RUNYARD) studio'

# `make check` runs its own tests; here they would be run twice.
OF_CHECK = tests/test_layers.py tests/test_docs.py
test: $(VENV)/ready-dev
	$(PYTEST) -n $(WORKERS) --dist worksteal $(OF_CHECK:%=--ignore %)

# Whole journeys are left out by folder, so that they are not even read.
JOURNEYS = attacks browser cluster e2e faults rights soak
NOT_FAST = $(JOURNEYS:%=tests/%) $(OF_CHECK)
test-fast: $(VENV)/ready-dev
	$(PYTEST) -q -n auto --dist worksteal -m "not (long or external or soak or slow or processes)" $(NOT_FAST:%=--ignore %)

# Tests of clusters mostly wait, so those in browsers run beside them; what they say is shown at the end.
test-external: $(VENV)/ready-dev
	$(PY) scripts/build_studio.py --required
	@failed=0; said=$$(mktemp); \
	$(PYTEST) -n $(WORKERS) --dist worksteal -m long || failed=1; \
	$(PYTEST) -m external --ignore tests/browser --ignore tests/cluster || failed=1; \
	$(PYTEST) -m external tests/browser >"$$said" 2>&1 & browsers=$$!; \
	$(PYTEST) -m external tests/cluster || failed=1; \
	wait $$browsers || failed=1; cat "$$said"; rm "$$said"; \
	exit $$failed

test-upgrade: $(VENV)/ready-dev
	$(PY) scripts/check_upgrade.py $(or $(FROM),$(error Say which version: make test-upgrade FROM=v0.1.0))

soak: $(VENV)/ready-dev
	$(PY) -m pytest -m soak --timeout 0

mlflow-conformance: $(VENV)/ready-dev
	$(PY) -m tests.mlflow.conformance $(or $(MLFLOW_SRC),$(error Say where MLflow's tests are: make mlflow-conformance MLFLOW_SRC=checkout))

check: $(VENV)/ready-dev
	$(PY) -m ruff format --check
	$(PY) -m ruff check
	$(PY) -m mypy --strict
	$(PY) -m pytest -q $(OF_CHECK)
	$(PY) scripts/build_studio.py --check

fix: $(VENV)/ready-dev
	$(PY) -m ruff check --fix
	$(PY) -m ruff format
	$(PY) scripts/build_studio.py --fix

bench: $(VENV)/ready-dev
	$(PY) benchmarks/run_all.py

studio: $(VENV)/ready-dev
	@$(PY) scripts/build_studio.py --required

screenshots: studio
	$(PY) scripts/screenshots.py

docs: $(VENV)/ready-dev
	$(PY) scripts/write_reference.py

docs-site: $(VENV)/ready-dev
	$(PY) scripts/docs_site.py

trust: $(VENV)/ready-dev
	$(PY) benchmarks/run_all.py --record
	$(PY) scripts/write_reference.py

# A release without its web page would be half of one.
wheel: $(VENV)/ready-dev
	rm -rf dist
	RUNYARD_STUDIO=required $(PY) -m hatchling build

lock: $(VENV)/ready-demo
	sh scripts/lock.sh

clean:
	-@test ! -x $(PY) || RUNYARD_HOME="$(CURDIR)/.runyard" $(PY) -m runyard.cli server stop
	rm -rf $(VENV) .runyard .mypy_cache .ruff_cache .pytest_cache .hypothesis dist web/node_modules src/runyard/studio/static
	find src tests benchmarks examples scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# A venv knows its folder: after the checkout was moved or copied it is made anew.
MOVED := $(if $(filter-out $(CURDIR),$(shell cat $(VENV)/made-for 2>/dev/null || echo nowhere)),moved)
.PHONY: moved

$(VENV)/ready-%: requirements-%.lock requirements-setup.lock pyproject.toml scripts/setup.sh $(MOVED)
	@sh scripts/setup.sh requirements-$*.lock
	@touch $@
