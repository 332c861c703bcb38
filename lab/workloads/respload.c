// SPDX-License-Identifier: GPL-2.0
/*
 * respload: load and read a Redis server over its unix socket.
 *
 *   respload bulk --keys N            store N values, pipelined
 *   respload run  --keys N --ops M    read them, Zipf-distributed
 *
 * A value is a stream of random numbers seeded with its key's number, so every
 * value is different, does not compress, and can be checked by whoever knows
 * the key.  Hot keys are scattered over the key space.  Two batches are kept
 * in flight, so the server has work while the client prepares the next one.
 */
#include "common.h"
#include <sys/socket.h>
#include <sys/un.h>

enum {
	KEY_LEN = 12,			/* "key:00000000" */
	MAX_SIZE = 65536,
	MAX_BATCH = 1024,
};

static struct {
	uint64_t keys, size, ops, pipeline, seed, verify;
	double theta, seconds;
	const char *sock;
} cfg = {
	.keys = 262144, .size = 1024, .pipeline = 32, .seed = 1, .verify = 64,
	.theta = 0.99, .sock = "/tmp/r.sock",
};

static const struct opt opts[] = {
	{ "keys", OPT_U64, &cfg.keys, "number of keys" },
	{ "size", OPT_U64, &cfg.size, "bytes per value, a multiple of 8" },
	{ "theta", OPT_F64, &cfg.theta, "run: Zipf exponent" },
	{ "ops", OPT_U64, &cfg.ops, "run: GETs (0: use --seconds)" },
	{ "seconds", OPT_F64, &cfg.seconds, "run: time" },
	{ "pipeline", OPT_U64, &cfg.pipeline, "commands per batch" },
	{ "seed", OPT_U64, &cfg.seed, "random seed" },
	{ "verify", OPT_U64, &cfg.verify, "run: check every Nth value in full" },
	{ "sock", OPT_STR, &cfg.sock, "unix socket of the server" },
	{ NULL, OPT_U64, NULL, NULL },
};

static int fd;
static char *out, *in, *expect;
static size_t reply_len, head_len;
static char head[32];

static void fill_value(char *to, uint32_t key)
{
	struct rng r;

	rng_seed(&r, 0x76616c0000000000ULL + key);
	for (size_t i = 0; i < cfg.size; i += 8) {
		uint64_t x = rng_next(&r);

		memcpy(to + i, &x, 8);
	}
}

static char *put_key(char *p, uint32_t key)
{
	memcpy(p, "$12\r\nkey:", 9);
	for (int i = 16; i >= 9; i--, key /= 10)
		p[i] = (char)('0' + key % 10);
	memcpy(p + 17, "\r\n", 2);
	return p + 19;
}

static void send_all(const char *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			die("write to the server: %s", strerror(errno));
		p += k;
		n -= (size_t)k;
	}
}

static void recv_all(char *p, size_t n)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = read(fd, p + got, n - got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			die("server closed the connection");
		got += (size_t)k;
		/* An error reply is shorter than what we wait for: say it now. */
		if (p[0] == '-')
			die("server: %.*s", (int)strcspn(p, "\r"), p);
	}
}

static void connect_server(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	if (strlen(cfg.sock) >= sizeof(sa.sun_path))
		die("socket path too long: %s", cfg.sock);
	strcpy(sa.sun_path, cfg.sock);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		die("cannot connect to %s: %s", cfg.sock, strerror(errno));
}

static void bulk_replies(uint64_t n)
{
	recv_all(in, n * 5);
	for (uint64_t i = 0; i < n; i++)
		if (memcmp(in + i * 5, "+OK\r\n", 5))
			die("server did not store a value: %.20s", in + i * 5);
}

static void bulk(void)
{
	uint64_t key = 0, owed = 0;
	double t0 = now_s(), next = t0 + 1;

	while (key < cfg.keys) {
		char *p = out;
		uint64_t n;

		for (n = 0; n < cfg.pipeline && key < cfg.keys; n++, key++) {
			memcpy(p, "*3\r\n$3\r\nSET\r\n", 13);
			p = put_key(p + 13, (uint32_t)key);
			memcpy(p, head, head_len);
			fill_value(p + head_len, (uint32_t)key);
			p += head_len + cfg.size;
			memcpy(p, "\r\n", 2);
			p += 2;
		}
		send_all(out, (size_t)(p - out));
		bulk_replies(owed);
		owed = n;
		if (now_s() >= next) {
			progress(now_s() - t0, key);
			next += 1;
		}
	}
	bulk_replies(owed);
	printf("RESULT {\"keys\":%llu,\"size\":%llu,\"seconds\":%.3f}\n",
	       (unsigned long long)cfg.keys, (unsigned long long)cfg.size, now_s() - t0);
}

static void run_send(uint32_t *keys, uint64_t n, const struct alias *zipf,
		     const uint32_t *perm, struct rng *r)
{
	char *p = out;

	for (uint64_t i = 0; i < n; i++) {
		keys[i] = perm[zipf_draw(zipf, r)];
		memcpy(p, "*2\r\n$3\r\nGET\r\n", 13);
		p = put_key(p + 13, keys[i]);
	}
	send_all(out, (size_t)(p - out));
}

static uint64_t run_replies(const uint32_t *keys, uint64_t n)
{
	static uint64_t seen;
	uint64_t checked = 0;

	recv_all(in, n * reply_len);
	for (uint64_t i = 0; i < n; i++) {
		const char *v = in + i * reply_len;

		if (memcmp(v, head, head_len))
			die("key %u: the server answered %.*s", keys[i],
			    (int)strcspn(v, "\r"), v);
		if (cfg.verify && !(seen++ % cfg.verify)) {
			fill_value(expect, keys[i]);
			if (memcmp(v + head_len, expect, cfg.size))
				die("CORRUPTION: key %u has another value", keys[i]);
			checked++;
		}
	}
	return checked;
}

static void run(void)
{
	static uint32_t keys[2][MAX_BATCH];
	uint64_t owed = 0, sent = 0, done = 0, checked = 0, batch = 0;
	uint32_t *perm = scatter((uint32_t)cfg.keys, cfg.seed);
	struct alias zipf;
	struct rng r;
	double t0, t, next;

	if (!cfg.ops == !cfg.seconds)
		die("give either --ops or --seconds");
	zipf_init(&zipf, (uint32_t)cfg.keys, cfg.theta);
	rng_seed(&r, cfg.seed);
	ready_and_wait();
	lab_start();
	t0 = t = now_s();
	next = t0 + 1;
	for (;;) {
		uint64_t n = cfg.pipeline;

		if (cfg.ops && n > cfg.ops - sent)
			n = cfg.ops - sent;
		if (cfg.seconds && t >= t0 + cfg.seconds)
			n = 0;
		if (n)
			run_send(keys[batch % 2], n, &zipf, perm, &r);
		sent += n;
		if (owed)
			checked += run_replies(keys[(batch + 1) % 2], owed);
		done += owed;
		owed = n;
		batch++;
		t = now_s();
		if (t >= next) {
			progress(t - t0, done);
			next += 1;
		}
		if (!n)
			break;
	}
	lab_stop();
	printf("DONE\n");
	printf("RESULT {\"ops\":%llu,\"seconds\":%.3f,\"values_checked\":%llu,"
	       "\"verified\":true}\n", (unsigned long long)done, t - t0,
	       (unsigned long long)checked);
}

int main(int argc, char **argv)
{
	bool is_bulk = argc > 1 && !strcmp(argv[1], "bulk");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!is_bulk && !(argc > 1 && !strcmp(argv[1], "run")))
		opt_usage(opts, "first word must be 'bulk' or 'run', not",
			  argc > 1 ? argv[1] : "");
	opt_parse(argc - 2, argv + 2, opts);
	if (!cfg.keys || cfg.keys > 99999999)
		die("--keys must be 1..99999999");
	if (!cfg.size || cfg.size % 8 || cfg.size > MAX_SIZE)
		die("--size must be a multiple of 8 up to %d", MAX_SIZE);
	if (!cfg.pipeline || cfg.pipeline > MAX_BATCH)
		die("--pipeline must be 1..%d", MAX_BATCH);
	head_len = (size_t)snprintf(head, sizeof(head), "$%llu\r\n",
				    (unsigned long long)cfg.size);
	reply_len = head_len + cfg.size + 2;
	out = malloc(cfg.pipeline * (cfg.size + 64));
	in = malloc(cfg.pipeline * reply_len);
	expect = malloc(cfg.size);
	if (!out || !in || !expect)
		die("no memory for buffers");
	connect_server();
	if (is_bulk)
		bulk();
	else
		run();
	return 0;
}
