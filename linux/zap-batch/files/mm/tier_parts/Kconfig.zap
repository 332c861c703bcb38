# SPDX-License-Identifier: GPL-2.0

config ZAP_BATCH
	bool "Batched unmapping of order-0 pages"
	depends on TIER_PARTS && MMU && !MMU_GATHER_NO_GATHER
	help
	  When many pages of order 0 are unmapped at once (munmap, exit,
	  MADV_DONTNEED, the OOM reaper), keep statistics, LRU sizes and
	  charges for runs of pages instead of each one.  This is the part zap
	  of /sys/kernel/mm/tier/.

	  See Documentation/mm/zap_batch.rst.

config ZAP_BATCH_KUNIT_TEST
	bool "KUnit tests of batched unmapping" if !KUNIT_ALL_TESTS
	depends on ZAP_BATCH && KUNIT=y
	default KUNIT_ALL_TESTS
	help
	  Tests while booting what is gathered for runs of pages, and how
	  much is freed between two points at which others may run.  The
	  results are in the kernel's log.

	  If unsure, say N.

config ZAP_BATCH_DEBUG
	bool "Let tests break batched unmapping"
	depends on ZAP_BATCH && DEBUG_FS && DEBUG_KERNEL
	select TIER_FAULTS
	help
	  Adds faults to /sys/kernel/debug/tier/faults/ that lose what has
	  been gathered, for tests that must notice it.

	  While a fault is 1:
	  zap_stat: pages of a run that are unmapped stay counted as mapped
	  zap_lru: pages of a run stay counted in the sizes of their list and
	      generation
	  zap_charge: pages of a run stay charged to their group
	  zap_free: a page of a run is not freed

	  If unsure, say N.
