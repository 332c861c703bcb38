# SPDX-License-Identifier: GPL-2.0
# Thin calls into the lab (lab/), which bootstrap.sh makes able to run.
# `make help` lists what there is.  Times are of two cores; "first" is with nothing built.

MAKEFLAGS += --no-print-directory
LAB = venv=$$(./bootstrap.sh) && "$$venv/bin/python" -m lab
TEST = venv=$$(./bootstrap.sh) && "$$venv/bin/python" -m pytest -n 2 --dist loadgroup --no-loadscope-reorder

.PHONY: help look run test check soak study report shell deb repo tree refresh series

help:  ## this list (at once)
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

look:  ## a recorded run in `tierctl watch`; nothing is built or downloaded (at once)
	@python3 -m tierctl --from results/recorded-run.json.gz watch

run:  ## the main job: Redis and a virtual machine, tierings compared (3 to 5 min, first 7 to 15 min)
	@$(LAB) run

test:  ## all that CI runs: tests/unit and tests/boot (15 min, first 42 min)
	@$(TEST) tests

check:  ## static checks and tests/unit (2 min, first 15 min; without a kernel: pytest tests/unit, 1 min)
	@$(TEST) tests/unit tests/boot/test_kernel_static.py

soak:  ## tests/long, then the study soak (hours; the study alone 1 h)
	@./bootstrap.sh lab/packages-soak.txt >/dev/null
	@$(TEST) -n 0 -m long tests
	@$(LAB) study soak --seconds $(or $(SECONDS),120)

study:  ## measure NAME=... with ARGS=...; without NAME tell all studies and their times (1 to 80 min each)
	@$(LAB) $(if $(NAME),study $(NAME) $(ARGS),status)

report:  ## report.html and docs/results.md, from results/ledger.ndjson (10 s)
	@$(LAB) report $(ARGS)

shell:  ## an interactive guest: make shell KERNEL=tiershift TOPOLOGY=two-tier (1 min)
	@$(LAB) shell --kernel $(or $(KERNEL),tiershift) --topology $(or $(TOPOLOGY),two-tier)

deb:  ## packages of a kernel and of tierctl: FLAVOUR=amd64|cloud|none VERSION= KEY= CERT= (first 20 to 30 min)
	@$(LAB) deb --flavour $(or $(FLAVOUR),amd64) --modules $(or $(MODULES),debian) \
		$(if $(VERSION),--base $(VERSION)) $(if $(KEY),--key "$(KEY)") $(if $(CERT),--cert "$(CERT)")

repo:  ## a directory for apt with all packages: OUT=... KEY=... (30 s; after make deb)
	@$(LAB) repo $(if $(OUT),--out $(OUT)) $(if $(KEY),--key $(KEY))

tree:  ## the kernel tree with our commits, for editing (30 s, first 3 min)
	@$(LAB) tree

refresh:  ## write the edited kernel tree back into linux/ (10 s)
	@$(LAB) refresh

series:  ## export the patch series for git am --empty=drop (10 s)
	@$(LAB) series $(if $(OUT),--out $(OUT))
