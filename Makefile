# Thin: each target is a script in scripts/. PYTHON= chooses the interpreter, VENV= the environment,
# ARGS= goes to the command behind demo, test and quick.

# By the shell, because make's own functions split a path at its blanks.
ROOT := $(shell cd "$$(dirname "$(strip $(MAKEFILE_LIST))")" && pwd)
RUN := @bash "$(ROOT)/scripts

.DEFAULT_GOAL := help
.PHONY: help demo test quick lint type format clean simulate mutants

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' "$(ROOT)/Makefile" | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

demo: ## see it work: a few instances share one schedule on this machine
	$(RUN)/demo.sh" $(ARGS)

test: ## everything: lint, types, all tests
	$(RUN)/test.sh" $(ARGS)

quick: ## a minute or two: unit tests, properties, memory and SQLite
	$(RUN)/quick.sh" $(ARGS)

simulate: ## whole clusters in virtual time: SEEDS= how many, or SEED= one in full
	$(RUN)/simulate.sh" $(ARGS)

mutants: ## for a night: which changed lines of the engine does no fast test notice
	$(RUN)/mutants.sh" $(ARGS)

lint: ## ruff, formatting, import contracts
	$(RUN)/lint.sh"

type: ## mypy and pyright, both strict
	$(RUN)/type.sh"

format: ## rewrite the sources the way `make lint` wants them
	$(RUN)/format.sh"

clean: ## remove environments and caches
	$(RUN)/clean.sh"
