/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's TCG plugin interface, version 1 (QEMU 4.2 to 8.1), that
 * the lab's instruments use.
 *
 * Debian's QEMU loads plugins but ships no header for them, so the few
 * functions we call are declared here. Only declare what is used: each line is
 * a promise about the ABI of a binary that the compiler cannot check.
 * The version check is in plugin_check_qemu() (common.h): another version of
 * the interface has other names and other meanings, and is refused.
 */
#ifndef LAB_QEMU_PLUGIN_ABI_H
#define LAB_QEMU_PLUGIN_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAB_PLUGIN_API 1
#define LAB_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

struct qemu_plugin_tb;		/* a translation block, while being translated */
struct qemu_plugin_insn;	/* one guest instruction of it */
struct qemu_plugin_hwaddr;	/* a translated address; valid in the callback */

/* What QEMU tells a plugin about itself. */
typedef struct {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
} qemu_info_t;

/* Whether a callback reads guest registers. Ours never do. */
enum qemu_plugin_cb_flags {
	QEMU_PLUGIN_CB_NO_REGS,
};

enum qemu_plugin_mem_rw {
	QEMU_PLUGIN_MEM_RW = 3,
};

typedef void (*plugin_tb_trans_cb)(qemu_plugin_id_t id,
				   struct qemu_plugin_tb *tb);
typedef void (*plugin_exec_cb)(unsigned int vcpu, void *udata);
typedef void (*plugin_mem_cb)(unsigned int vcpu, qemu_plugin_meminfo_t info,
			      uint64_t vaddr, void *udata);
typedef void (*plugin_exit_cb)(qemu_plugin_id_t id, void *udata);

/* Provided by the plugin. */
LAB_EXPORT extern int qemu_plugin_version;
LAB_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
				   int argc, char **argv);

/* Provided by QEMU. */
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   plugin_tb_trans_cb cb);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    plugin_exec_cb cb,
					    enum qemu_plugin_cb_flags flags,
					    void *udata);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      plugin_mem_cb cb,
				      enum qemu_plugin_cb_flags flags,
				      enum qemu_plugin_mem_rw rw, void *udata);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, plugin_exit_cb cb,
				    void *udata);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t idx);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info,
						  uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr);

#endif
