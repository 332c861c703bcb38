// SPDX-License-Identifier: GPL-2.0
/*
 * pause.so: a vCPU that waits for another one lets it have its host CPU.
 *
 * Measures nothing.  Where there are more busy vCPUs than host CPUs, one that waits (for
 * others to answer an interrupt and flush their TLB, or for a lock) would spin while the one
 * that it waits for does not run.  That takes as long as a turn on the host, some milliseconds,
 * and not some microseconds as on hardware, and what else runs goes on meanwhile.  So each
 * PAUSE, which every loop that waits executes, sleeps for SLEEP_NS.  With the short turns
 * that guest.py asks the host for, a flush takes 0.1 to 1 ms instead of 2 to 12.
 *
 * No arguments.
 */
#define PLUGIN_NAME "pause"
#include "common.h"

int qemu_plugin_version = LAB_PLUGIN_API;

#define SLEEP_NS	20000

static void on_pause(unsigned int cpu, void *udata)
{
	const struct timespec time = { .tv_nsec = SLEEP_NS };

	(void)cpu;
	(void)udata;
	nanosleep(&time, NULL);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	static const uint8_t pause[] = { 0xf3, 0x90 };
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_size(insn) == sizeof(pause) &&
		    !memcmp(qemu_plugin_insn_data(insn), pause, sizeof(pause)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_pause,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
			char **argv)
{
	if (!plugin_check_qemu(info))
		return -1;
	if (argc) {
		complain("bad argument \"%s\"", argv[0]);
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	return 0;
}
