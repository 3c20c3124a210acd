# Playhead. `make demo` and `make test` do all of their own set-up; `make help` lists the rest.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
UV := $(shell command -v uv 2>/dev/null)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Other arguments for pytest, such as paths: then `make test` is one run of pytest with them.
PYTEST_ARGS ?=
PYTEST := $(BIN)/python -u -X faulthandler -m pytest --durations=25
# The seed of the commit chooses a test of the torture suite for each run.
QUICK := -m 'not torture or sample'
# With it, each of the hundreds of commands that the tests start would compile the modules again.
unexport PYTHONDONTWRITEBYTECODE
# The fuzzer plays for so long where it is that test; `make torture` gives it 15 minutes.
test check test-unit: export PLAYHEAD_FUZZ_SECONDS ?= 60
# Runs targets beside one another, each argument a lane of its own.
LANES := @MAKE='$(MAKE)' $(BIN)/python tools/lanes.py
# How long `make simulate` plays schedules; SEED=… repeats a series, or one schedule of it.
SECONDS_OF_SIMULATION = $(or $(SECONDS),60)

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

.PHONY: demo
demo: setup ## the story on real servers, end to end
	@$(BIN)/playhead demo $(DEMO_ARGS)

.PHONY: test
test: setup ## every test but the long ones
ifdef PYTEST_ARGS
	@$(PYTEST) $(QUICK) $(PYTEST_ARGS)
else
	$(LANES) 'test-unit test-postgres' test-engine test-sandbox
endif

# The tests of tests/sandbox whose replays and pipelines need an engine: not beside those of tests/spark, of
# which some put a damaged start-up cache into the place of the whole one. Then those of tables, and the rest.
WITH_ENGINE := $(wildcard $(addprefix tests/sandbox/,test_demo.py test_engine_gone.py test_front_page.py \
	test_groups.py test_live_kill.py test_replay_*.py test_sqlite*.py test_standby_kill.py test_terms.py \
	test_time_span.py test_tutorial.py test_umask.py))
OF_TABLES := $(wildcard tests/sandbox/test_postgres_*.py)
# What `make torture` takes out of the longest lane.
OF_PIPELINES := $(wildcard $(addprefix tests/sandbox/,test_demo.py test_live_kill.py test_standby_kill.py))

.PHONY: test-unit test-engine test-postgres test-sandbox
test-unit: setup ## the tests that need neither an engine nor a server
	@$(PYTEST) $(QUICK) --hypothesis-profile=ci tests/unit $(PYTEST_ARGS)

test-engine: setup ## the tests of the engine and of what runs in it, in one session
	@$(PYTEST) $(QUICK) tests/spark $(WITH_ENGINE) $(PYTEST_ARGS)

test-postgres: setup ## the tests of tables
	@$(PYTEST) $(QUICK) $(OF_TABLES) $(PYTEST_ARGS)

test-sandbox: setup ## the other tests on real servers
	@$(PYTEST) $(QUICK) tests/sandbox $(addprefix --ignore=,$(WITH_ENGINE) $(OF_TABLES)) $(PYTEST_ARGS)

.PHONY: check
check: setup ## all that CI checks
	$(LANES) --repeat 3 'lint types layers budgets supply generated test-unit simulate test-postgres' test-engine test-sandbox

.PHONY: setup
setup: $(READY) ## everything the project needs, into .venv and the user's cache

$(READY): requirements.lock build.lock pyproject.toml src/playhead/host/jars.lock
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or later is needed, and none was found" >&2; \
		echo "hint: install one, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
ifdef UV
	@test -x $(BIN)/python || $(UV) venv -q --python $(PYTHON) $(VENV)
	@$(UV) pip install -q --python $(BIN)/python --require-hashes -r build.lock
	@$(UV) pip install -q --python $(BIN)/python --no-build-isolation --require-hashes -r requirements.lock
	@$(UV) pip install -q --python $(BIN)/python --no-build-isolation --no-deps -e .
else
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
		echo "hint: on Debian and Ubuntu: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 1; }
	@echo "installing the locked packages (about 700 MB on disk, once)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r build.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --use-pep517 --no-build-isolation --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e .
endif
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true
	@$(BIN)/python tools/fetch.py
	@$(BIN)/python -m playhead.replay.engine_warmup || \
		echo "note: engines start without it, more slowly; the first command with one makes it in the background"
	@touch $(READY)

.PHONY: lint
lint: setup ## style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

.PHONY: format
format: setup ## put the style right
	@$(BIN)/ruff check --fix -q . || true
	@$(BIN)/ruff format .

.PHONY: types
types: setup ## mypy --strict
	@$(BIN)/mypy

.PHONY: layers
layers: setup ## who may import whom
	@$(BIN)/lint-imports --no-logo

.PHONY: budgets
budgets: setup ## sizes of functions and modules
	@$(BIN)/python tools/budgets.py src tests bench tools simulation

.PHONY: supply
supply: setup ## known holes, licences and hashes of all that is locked; no network
	@$(BIN)/python tools/supply.py

.PHONY: audit
audit: setup ## ask osv.dev about every locked version, then as supply
	@$(BIN)/python tools/supply.py --ask

.PHONY: docs
docs: setup ## write the generated pages again
	@$(BIN)/python tools/generate.py

.PHONY: site
site: setup ## the documentation as a site, in build/site; no network
	@$(BIN)/python tools/build_site.py build/site

.PHONY: generated
generated: setup ## the generated pages are what the code says
	@$(BIN)/python tools/generate.py --check

.PHONY: bench
bench: setup ## every number, ours against its baseline in the same run
	@$(BIN)/python -m bench $(BENCH_ARGS)

.PHONY: simulate
simulate: setup ## model servers, faults and an oracle for SECONDS; SEED=… plays one again; JOBS=… at once
	@$(BIN)/python -m simulation --seconds $(SECONDS_OF_SIMULATION) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(SIMULATE_ARGS)

.PHONY: torture torture-unit torture-laws torture-sandbox torture-pipelines torture-engine
torture: setup ## every kill point, soak and fuzz; long
ifdef PYTEST_ARGS
	@$(PYTEST) -m torture $(PYTEST_ARGS)
else
	$(LANES) 'torture-sandbox torture-pipelines torture-unit torture-laws' torture-engine
endif

torture-unit: setup
	@$(PYTEST) -m torture tests/unit

torture-laws: setup
	@$(PYTEST) -m 'hypothesis and not torture' --hypothesis-profile=torture tests/unit

torture-sandbox: setup
	@$(PYTEST) -m torture tests/sandbox $(addprefix --ignore=,$(WITH_ENGINE))

torture-pipelines: setup
	@$(PYTEST) -m torture $(OF_PIPELINES)

torture-engine: setup
	@$(PYTEST) -m torture tests/spark $(filter-out $(OF_PIPELINES),$(WITH_ENGINE))

.PHONY: lock
lock: ## resolve the Python packages anew (needs uv)
	@test -n "$(UV)" || { echo "error: make lock needs uv" >&2; exit 1; }
	@$(UV) pip compile -q pyproject.toml --all-extras --group dev --universal --generate-hashes --no-emit-find-links \
		--python-version 3.11 --custom-compile-command "make lock" -o requirements.lock
	@$(UV) pip compile -q --group build --constraints requirements.lock --universal --generate-hashes \
		--no-emit-find-links --python-version 3.11 --custom-compile-command "make lock" -o build.lock

.PHONY: clean
clean: ## remove what was built here; the user's cache and state stay
	@rm -rf $(VENV) dist build bench/results .mypy_cache .ruff_cache .hypothesis .import_linter_cache
