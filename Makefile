# brokertwin: `make` lists the targets.

PYTHON ?= $(shell .ci/python)
VENV := .venv
BIN := $(VENV)/bin
LIVE := spark or kafka or browser or site or processes or clients or full
PYTEST := $(BIN)/pytest -n auto
TOOLS := build/tools
FUZZER := atheris==3.0.0
RELEASE_TOOLS := pip-audit==2.10.1 cyclonedx-bom==7.5.0
JAVA_NEEDED := brokertwin needs a Java 17 or newer runtime: apt-get install openjdk-17-jre-headless
PYTHON_NEEDED := brokertwin needs Python 3.11 or newer with venv: apt-get install python3 python3-venv

.DEFAULT_GOAL := help
.PHONY: help setup light demo test test-all fast interpreters record compare exam-record score clauses mutants bench soak fuzz fuzz-guided lock audit release first-hour generate lint types format clean java python

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: java $(VENV)/.installed $(VENV)/.jars ## the virtual environment, the pinned packages and the jars; nothing if all is there

light: python ## audit, explain, page, offsets, gateway and the pytest fixture alone: no Spark, no Java, 150 MB
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check -c .ci/constraints.txt -e .

demo: setup ## real captures through a real Kafka broker and Spark, with a summary
	@$(BIN)/brokertwin demo

test: setup lint types ## lint, types, all quick tests and a few with real processes: ten minutes
	@$(PYTEST) -q -m "everyday or not ($(LIVE))"

test-all: setup lint types ## everything, for a release: an hour; SHARD=1/3 runs a third of it
	@$(PYTEST) -v

fast: $(VENV)/.installed ## the quick tests alone: no Spark, Kafka, browser, wheel, site or long property; no Java
	@$(PYTEST) -q -m "not (long or $(LIVE))"

interpreters: ## the quick tests of the core and the gateway on Python 3.11, 3.12 and 3.13, if present
	@for version in 3.11 3.12 3.13; do \
		python$$version -c 'import ensurepip, venv' 2>/dev/null || { echo "python$$version: not present"; continue; }; \
		echo "python$$version" && python$$version -m venv build/python$$version || exit 1; \
		build/python$$version/bin/pip install -q --disable-pip-version-check -c .ci/constraints.txt \
			hypothesis packaging pytest pytest-timeout pytest-xdist pyyaml -e '.[keystores,oauth]' || exit 1; \
		build/python$$version/bin/pytest -q -n auto -m "not ($(LIVE))" tests/state tests/clients tests/gateway || exit 1; \
	done

record: setup ## ask a real broker and write goldens; NAME=groups/share_walks records one, NAME=said the tools' words
	@case "$(NAME)" in \
		said) SAID=write $(PYTEST) -q $$(grep -rl --include='test_*.py' assert_said tests) ;; \
		score*) $(BIN)/python -m tests.score.record $(NAME) ;; \
		*) GOLDENS=record GOLDEN=$(NAME) $(BIN)/pytest -v -n 2 -m compares ;; \
	esac

compare: setup ## compare with a real broker, not with goldens; EXAMPLES=100 tries other walks, too
	@GOLDENS=compare GOLDEN=$(NAME) $(BIN)/pytest -v -n 2 -m compares
	@$(if $(NAME),true,$(BIN)/python bench/instructions.py --compare)

exam-record: setup ## record goldens of exam scenarios (ARGS: names, or --all; default: those without), then examine a real cluster
	@$(BIN)/python -m tests.exam.record $(ARGS)
	@$(BIN)/python -m tests.exam.steady

score: $(VENV)/.installed ## are statements of audit and live true? SEEDS=1000 simulated clusters and recorded accidents
	@$(BIN)/python -m tests.score.scoring $(or $(SEEDS),200)

clauses: $(VENV)/.installed ## break the clauses of docs/seeds.md one by one: does the named test fail? ONLY="000 002.9"
	@$(BIN)/python -m tests.clauses.check $(ONLY)

mutants: $(VENV)/.installed ## change small things in rooms (ROOMS="recordings/audit"): does a test notice each?
	@$(BIN)/python -m tests.mutants.sample $(or $(ROOMS),$(wildcard state/[a-z]*)) --count $(or $(COUNT),20)

bench: java $(VENV)/.installed $(VENV)/.jars ## logs, an event in the core, the gateway beside a real Kafka: tables and plots
	@mkdir -p build/bench
	@$(BIN)/python bench/logs.py
	@$(BIN)/python bench/core.py --plot build/bench/core.svg
	@$(BIN)/python bench/gateway.py --plot build/bench/gateway.svg

soak: $(VENV)/.installed $(VENV)/.jars ## 20,000 simulated clusters, 100 faults in real processes, six hours of load: a night
	@$(BIN)/brokertwin simulate --seeds 20000
	@mkdir -p build && rm -f build/faults.jsonl
	@$(BIN)/python -m tests.faults --rounds 5 --keep build/faults.jsonl
	@$(BIN)/python -m tests.long_run --hours 6 --keep build/long_run

fuzz: $(VENV)/.installed ## a million inputs that nobody has written, for whatever reads those of others: half an hour
	@$(BIN)/python -m tests.fuzz

fuzz-guided: $(VENV)/.installed build/atheris/.installed ## the same by Atheris, which goes on from inputs that reached new code
	@PYTHONPATH=build/atheris $(BIN)/python -m tests.fuzz.guided

lock: $(VENV)/.installed ## .ci/requirements.lock: the tested set with the hashes of its files
	@$(BIN)/python -m tests.lock_file

audit: $(TOOLS)/.installed ## are faults known of a package of the tested set? what cannot be asked is one, too
	@$(TOOLS)/bin/pip-audit --strict --progress-spinner off --disable-pip --no-deps -r .ci/requirements.lock

release: $(VENV)/.installed $(TOOLS)/.installed ## the wheel, the lock file, an SBOM with licences (CycloneDX), checksums, in dist
	@rm -rf dist && mkdir dist
	@$(BIN)/python -m pip wheel -q --no-deps -w dist .
	@cp .ci/requirements.lock dist/
	@rm -rf build/release && $(PYTHON) -m venv build/release
	@build/release/bin/pip install -q --disable-pip-version-check --require-hashes -r .ci/requirements.lock
	@$(TOOLS)/bin/cyclonedx-py environment build/release/bin/python --pyproject pyproject.toml --of JSON \
		--output-reproducible -o dist/brokertwin.cdx.json
	@cd dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

build/atheris/.installed: Makefile | $(VENV)/.installed
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --upgrade --target build/atheris $(FUZZER)
	@touch $@

$(TOOLS)/.installed: Makefile | python
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/pip install -q --disable-pip-version-check $(RELEASE_TOOLS)
	@touch $@

first-hour: $(VENV)/.installed ## a stranger's first hour, typed in a fresh clone; its transcript is first_hour.txt
	@$(BIN)/python tests/first_hour.py

error-pages: $(VENV)/.installed ## docs/errors, made of the table in recordings/rules
	@$(BIN)/python -m tests.error_pages

generate: $(VENV)/.installed ## brokertwin/protocol/generated, made of Kafka's message schemas
	@$(BIN)/python -m tests.wire

lint: $(VENV)/.installed ## ruff: rules and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

format: $(VENV)/.installed ## let ruff mend what it can
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

types: $(VENV)/.installed ## mypy --strict over the packages and bench
	@$(BIN)/mypy -p brokertwin
	@$(BIN)/mypy bench

site: $(VENV)/.installed ## the documents as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -f .ci/mkdocs.yml
	@echo "build/site/index.html"

clean: ## remove the virtual environment, the jars, caches and everything built
	rm -rf $(VENV) .brokertwin build dist *.egg-info artifacts spark-warehouse .hypothesis .mypy_cache .pytest_cache .ruff_cache

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1); \
	[ "$${version:-0}" -ge 17 ] || { echo "$(JAVA_NEEDED)" >&2; exit 1; }

python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| { echo "$(PYTHON_NEEDED)" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml .ci/constraints.txt | python
	@test -x $(BIN)/python || { echo "setup 1 of 3: a virtual environment in $(VENV), of $(PYTHON)"; $(PYTHON) -m venv $(VENV); }
	@echo "setup 2 of 3: the packages of .ci/constraints.txt, 500 MB to fetch, 1.7 GB on disk"
	@$(BIN)/python -m pip install --disable-pip-version-check -c .ci/constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.jars: $(VENV)/.installed
	@echo "setup 3 of 3: the jars of Apache Kafka and of Spark's connector, 60 MB to fetch, then both run once: half a minute"
	@$(BIN)/brokertwin setup $(SETUP)
	@touch $@
