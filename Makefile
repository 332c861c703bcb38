# SPDX-License-Identifier: GPL-2.0
# Thin calls into the lab (lab/), which bootstrap.sh makes able to run.
# `make help` lists what there is.

MAKEFLAGS += --no-print-directory
LAB = venv=$$(./bootstrap.sh) && "$$venv/bin/python" -m lab
TEST = venv=$$(./bootstrap.sh) && "$$venv/bin/python" -m pytest

.PHONY: help setup run kernels test soak models refault readcost thp policycost zap shares summary migrc migrc-curve bench sweep repeats curves shell tree refresh series check

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' Makefile

setup:  ## install what the lab needs (packages, virtual environment)
	@./bootstrap.sh

run:  ## the main job: Redis on a two-tier machine, three kinds of tiering compared
	@$(LAB) run

kernels:  ## build all four kernels; print NAME=PATH of the bootable images
	@$(LAB) kernels

test:  ## everything that CI runs
	@$(TEST) -n 2 --dist loadgroup tests

soak:  ## long torture runs; writes docs/results/soak.* and migrc-faults.*
	@$(TEST) -m long tests
	@$(LAB) soak --seconds $(or $(SECONDS),120)
	@$(LAB) migrc-faults

models:  ## Promela models and their mutations (Spin); writes docs/results/models.*
	@$(LAB) models

refault:  ## refaults and swap-ins, kmmscand on and off; writes docs/results/refault.*
	@$(LAB) refault $(if $(LRU),--lru $(LRU))

bench:  ## every scenario, A/B; writes docs/results/
	@$(LAB) bench

curves:  ## what the scanner costs, by size and processes; writes docs/results/scanner.*
	@$(LAB) curves
readcost:  ## what read(2) costs, kmmscand on and off; writes docs/results/readcost.*
	@$(LAB) readcost
thp:  ## large folios before and after promotion; writes docs/results/thp.*
	@$(LAB) thp

policycost:  ## what asking memory policies costs at each promotion; writes docs/results/policycost.md
	@$(LAB) policycost

zap:  ## what unmapping costs, batched and not; writes docs/results/zap.*
	@$(LAB) zap

shares:  ## what is promoted of memory control groups under a limit; writes docs/results/shares.*
	@$(LAB) shares

summary:  ## one page about all results of kmmscand; measures nothing, writes docs/results/summary.md
	@$(LAB) summary

migrc:  ## flushes with MIGRC and without, growth, cost (PARTS="migrc ..."); writes docs/results/migrc*
	@$(LAB) migrc $(PARTS)
migrc-curve:  ## flushes saved against memory held and age; writes docs/results/migrc-curve.*
	@$(LAB) migrc-curve

sweep:  ## rivals with other tunables (SCENARIOS="zipf-4k ..."); writes docs/results/sweep-*
	@$(LAB) sweep $(or $(SCENARIOS),zipf-4k hotcold-4k)

repeats:  ## the same comparison some times over (SCENARIOS="zipf-4k ..."); docs/results/repeats-*
	@$(LAB) repeats $(or $(SCENARIOS),hotcold-4k zipf-4k uniform hotcold-4g)

shell:  ## an interactive guest: make shell KERNEL=tiershift TOPOLOGY=two-tier
	@$(LAB) shell --kernel $(or $(KERNEL),tiershift) --topology $(or $(TOPOLOGY),two-tier)

tree:  ## the kernel tree with our commits, for editing
	@$(LAB) tree

refresh:  ## write the edited kernel tree back into linux/
	@$(LAB) refresh

series:  ## export the patch series for git am --empty=drop
	@$(LAB) series $(if $(OUT),--out $(OUT))

check:  ## static checks only (ruff, mypy, shellcheck, checkpatch, sparse, W=1)
	@$(TEST) tests/test_static.py
