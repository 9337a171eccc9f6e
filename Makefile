# What a person types. Everything works on a fresh clone with Python 3.11 or newer, git and ssh.
.PHONY: help demo test check simulate format venv clean dist deb
.DEFAULT_GOAL := help

SECONDS ?= 60
ROUNDS ?= 10
# Many tests wait for daemons, servers and quiet files, so a few at once take half the time; JOBS=0 runs one by one.
JOBS ?= 3
VENV := .venv/installed

help:
	@echo "make demo                 two bodies and a git host in a temporary directory, working before your eyes"
	@echo "make test                 every test"
	@echo "make check                form, lint, types, import contracts, house rules, coverage of the core"
	@echo "make simulate SECONDS=60  random schedules of many bodies; a failure prints the seed that replays it"
	@echo "make dist                 the source distribution and the wheel, in dist/"
	@echo "make deb                  the Debian package, in dist/"
	@echo "make torture ROUNDS=10    kills, cuts and starves the real program by the hundred, for half an hour or a night"
	@echo "make faults               lays deliberate faults into copies of the program; the tests have to notice each"
	@echo "make soak COMMITS=10000   years of one soul, and eight bodies that ask for the lease at once, in half an hour"
	@echo "make bench                beside git-annex, Syncthing and others, for an hour; QUICK=1: for half of one"
	@echo "make format               lay out the code"
	@echo "make venv                 the virtual environment that all of these use, .venv"

venv: $(VENV)

$(VENV): pyproject.toml requirements/dev.txt scripts/venv
	@scripts/venv

demo: $(VENV)
	@.venv/bin/soul-bridge demo

test: $(VENV)
	@scripts/test $(JOBS)

check: $(VENV)
	@scripts/check

.PHONY: torture faults
torture: $(VENV)
	@scripts/torture $(ROUNDS)

faults: $(VENV)
	@nice -n 19 .venv/bin/python -m tests.faults $(if $(ONLY),--only '$(ONLY)') $(if $(WRITE),--write)

simulate: $(VENV)
	@.venv/bin/python -m tests.simulation --seconds $(SECONDS)

COMMITS ?= 10000
.PHONY: soak
soak: $(VENV)
	@.venv/bin/python -m tests.soak --commits $(COMMITS)

.PHONY: bench
bench: $(VENV)
	@.venv/bin/python -m bench $(if $(QUICK),--sizes quick)

dist: $(VENV)
	@.venv/bin/python scripts/dist

deb: $(VENV)
	@.venv/bin/python scripts/deb

format: $(VENV)
	@.venv/bin/ruff check --quiet --fix-only . && .venv/bin/ruff format .

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage build dist *.egg-info
