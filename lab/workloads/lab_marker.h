/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Markers: how a guest program tells the lab's instruments (lab/plugin) where
 * a measurement starts, stops, and changes its phase.
 *
 * A marker is a seven-byte NOP whose 32-bit displacement is a magic number.
 * It does nothing, needs no privilege and no device, and is exact to one
 * instruction; natively, and in a guest without plugins, it stays a NOP. The
 * plugins look for the bytes when QEMU translates user code.
 *
 * LAB_CAL is different: it is a real load, of one byte, whose displacement is
 * magic. The program says with it "this byte is on node n", and the plugin
 * compares that with where it would have counted the load.
 *
 * Markers are global: they switch counting for all vCPUs, whoever ran them.
 *   lab_start()	counters to zero, phase 0, count from here
 *   lab_stop()		counters keep their value from here
 *   lab_phase(n)	what follows belongs to phase n, 0..15
 *   lab_cal(p, n)	load *p, which is known to be on node n, 0..15
 *
 * The plugins include this file too: the numbers exist once.
 */
#ifndef LAB_MARKER_H
#define LAB_MARKER_H

#define LAB_MAGIC	0x71e50000
#define LAB_MAGIC_MASK	0xffff0000
#define LAB_CODE_START	0x0100
#define LAB_CODE_STOP	0x0200
#define LAB_CODE_PHASE	0x0300		/* + phase */
#define LAB_CODE_CAL	0x0400		/* + node */
#define LAB_CODE_KIND	0xff00
#define LAB_CODE_ARG	0x000f
#define LAB_MAX_PHASES	16
#define LAB_MAX_NODES	16

/* nopl disp32(%rax) */
#define LAB_MARKER_OPCODE { 0x0f, 0x1f, 0x80 }
/* movb disp32(%rdx), %al */
#define LAB_CAL_OPCODE { 0x8a, 0x82 }

#ifdef __x86_64__

#define LAB_MARK(code) \
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80\n\t.long %c0" \
			 : : "i"(LAB_MAGIC | (code)) : "memory")

static inline void lab_start(void)
{
	LAB_MARK(LAB_CODE_START);
}

static inline void lab_stop(void)
{
	LAB_MARK(LAB_CODE_STOP);
}

/* The number is part of the instruction, hence one instruction per number. */
#define LAB_FOR_16(X) \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) \
	X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

static inline void lab_phase(unsigned int phase)
{
#define LAB_PHASE_CASE(n) \
	case n: LAB_MARK(LAB_CODE_PHASE | n); break;
	switch (phase & LAB_CODE_ARG) {
	LAB_FOR_16(LAB_PHASE_CASE)
	}
#undef LAB_PHASE_CASE
}

static inline unsigned char lab_cal(const volatile void *p, unsigned int node)
{
	/* The magic displacement is taken off first, so that *p is loaded. */
	const volatile char *biased = (const volatile char *)p - LAB_MAGIC -
				      LAB_CODE_CAL - (node & LAB_CODE_ARG);
	unsigned char byte = 0;

#define LAB_CAL_CASE(n) \
	case n: \
		__asm__ volatile(".byte 0x8a, 0x82\n\t.long %c2" \
				 : "=a"(byte) \
				 : "d"(biased), "i"(LAB_MAGIC | LAB_CODE_CAL | n) \
				 : "memory"); \
		break;
	switch (node & LAB_CODE_ARG) {
	LAB_FOR_16(LAB_CAL_CASE)
	}
#undef LAB_CAL_CASE
	return byte;
}

#else	/* the plugins know x86-64 only: elsewhere a marker is nothing */

static inline void lab_start(void) { }
static inline void lab_stop(void) { }

static inline void lab_phase(unsigned int phase)
{
	(void)phase;
}

static inline unsigned char lab_cal(const volatile void *p, unsigned int node)
{
	(void)node;
	return *(const volatile unsigned char *)p;
}

#endif
#endif
