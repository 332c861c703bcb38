// SPDX-License-Identifier: GPL-2.0
/*
 * respload: load and read a Redis or memcached server over its unix socket.
 *
 *   respload bulk --keys N            store N values, pipelined
 *   respload run  --keys N --ops M    read them, Zipf-distributed
 *
 * With --write-pct so many of the batches store their keys anew, with the same values.
 *
 * A value is a stream of random numbers seeded with its key's number, so every
 * value is different, does not compress, and can be checked by whoever knows
 * the key.  Hot keys are scattered over the key space.  Two batches are kept
 * in flight, so the server has work while the client prepares the next one.
 *
 * --protocol is redis (RESP) or memcached (its text protocol).  In both, all
 * good replies of one kind have the same length, which is what the client reads
 * by; anything else, such as a value that the server has dropped, is an error.
 */
#include "common.h"
#include <sys/socket.h>
#include <sys/un.h>

enum {
	MAX_SIZE = 65536,
	MAX_BATCH = 1024,
	SAID = 96,			/* how much of an error to show */
};

static struct {
	uint64_t keys, size, ops, pipeline, seed, verify, write_pct;
	double theta, seconds;
	const char *sock, *protocol;
} cfg = {
	.keys = 262144, .size = 1024, .pipeline = 32, .seed = 1, .verify = 64,
	.theta = 0.99, .sock = "/tmp/r.sock", .protocol = "redis",
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
	{ "write-pct", OPT_U64, &cfg.write_pct, "run: batches that store, in percent" },
	{ "sock", OPT_STR, &cfg.sock, "unix socket of the server" },
	{ "protocol", OPT_STR, &cfg.protocol, "redis or memcached" },
	{ NULL, OPT_U64, NULL, NULL },
};

/*
 * A command or reply around a value.  At @key, if not 0, are the eight digits of
 * the key's number.
 */
struct text {
	char s[64];
	size_t len, key;
};

static struct {
	struct text set, get;		/* commands, up to the value */
	struct text stored, head, tail;	/* replies: to set; around what get got */
	size_t fixed;			/* bytes of the head that no key changes */
} proto;

static int fd;
static char *out, *in, *expect;
static size_t reply_len;

__attribute__((format(printf, 2, 3)))
static void text_set(struct text *t, const char *fmt, ...)
{
	const char *digits;
	va_list ap;

	va_start(ap, fmt);
	t->len = (size_t)vsnprintf(t->s, sizeof(t->s), fmt, ap);
	va_end(ap);
	digits = strstr(t->s, "key:");
	t->key = digits ? (size_t)(digits - t->s) + 4 : 0;
}

static char *text_put(char *p, const struct text *t, uint32_t key)
{
	memcpy(p, t->s, t->len);
	if (t->key)
		for (size_t i = t->key + 8; i-- > t->key; key /= 10)
			p[i] = (char)('0' + key % 10);
	return p + t->len;
}

static void choose_protocol(void)
{
	unsigned long long size = cfg.size;

	if (!strcmp(cfg.protocol, "redis")) {
		text_set(&proto.set, "*3\r\n$3\r\nSET\r\n$12\r\nkey:00000000\r\n$%llu\r\n", size);
		text_set(&proto.get, "*2\r\n$3\r\nGET\r\n$12\r\nkey:00000000\r\n");
		text_set(&proto.stored, "+OK\r\n");
		text_set(&proto.head, "$%llu\r\n", size);
		text_set(&proto.tail, "\r\n");
	} else if (!strcmp(cfg.protocol, "memcached")) {
		text_set(&proto.set, "set key:00000000 0 0 %llu\r\n", size);
		text_set(&proto.get, "get key:00000000\r\n");
		text_set(&proto.stored, "STORED\r\n");
		text_set(&proto.head, "VALUE key:00000000 0 %llu\r\n", size);
		text_set(&proto.tail, "\r\nEND\r\n");
	} else {
		die("--protocol must be redis or memcached");
	}
	proto.fixed = proto.head.key ? proto.head.key : proto.head.len;
	reply_len = proto.head.len + cfg.size + proto.tail.len;
}

static void fill_value(char *to, uint32_t key)
{
	struct rng r;

	rng_seed(&r, 0x76616c0000000000ULL + key);
	for (size_t i = 0; i < cfg.size; i += 8) {
		uint64_t x = rng_next(&r);

		memcpy(to + i, &x, 8);
	}
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

/* Say what the server answered, of which @have bytes are at @p. */
__attribute__((noreturn))
static void refused(const char *p, size_t have, const char *want)
{
	char text[SAID];
	size_t n = have < SAID ? have : SAID;
	ssize_t more;

	memcpy(text, p, n);
	more = recv(fd, text + n, SAID - n, MSG_DONTWAIT);
	n += more > 0 ? (size_t)more : 0;
	for (size_t i = 0; i < n; i++)
		if (text[i] == '\r')
			n = i;
	die("the server answered '%.*s' instead of '%.*s'", (int)n, text,
	    (int)strcspn(want, "\r"), want);
}

/*
 * Read @n replies of @len bytes each, which begin with @want.  Another one may be
 * shorter than what we wait for, so it is noticed when its first bytes are there.
 */
static void recv_replies(uint64_t n, size_t len, const char *want, size_t want_len)
{
	size_t got = 0, begin = 0;

	while (got < n * len) {
		ssize_t k = read(fd, in + got, n * len - got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			die("server closed the connection");
		got += (size_t)k;
		for (; begin < got; begin += len) {
			size_t have = got - begin;

			if (memcmp(in + begin, want, have < want_len ? have : want_len))
				refused(in + begin, have, want);
			if (have < want_len)
				break;
		}
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
	recv_replies(n, proto.stored.len, proto.stored.s, proto.stored.len);
}

static char *put_set(char *p, uint32_t key)
{
	p = text_put(p, &proto.set, key);
	fill_value(p, key);
	p += cfg.size;
	memcpy(p, "\r\n", 2);
	return p + 2;
}

static void bulk(void)
{
	uint64_t key = 0, owed = 0;
	double t0 = now_s(), next = t0 + 1;

	while (key < cfg.keys) {
		char *p = out;
		uint64_t n;

		for (n = 0; n < cfg.pipeline && key < cfg.keys; n++, key++)
			p = put_set(p, (uint32_t)key);
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

/* True if these are stored, else they are read. */
static bool run_send(uint32_t *keys, uint64_t n, const struct alias *zipf,
		     const uint32_t *perm, struct rng *r)
{
	bool store = cfg.write_pct && rng_below(r, 100) < cfg.write_pct;
	char *p = out;

	for (uint64_t i = 0; i < n; i++) {
		keys[i] = perm[zipf_draw(zipf, r)];
		p = store ? put_set(p, keys[i]) : text_put(p, &proto.get, keys[i]);
	}
	send_all(out, (size_t)(p - out));
	return store;
}

static uint64_t run_replies(const uint32_t *keys, uint64_t n)
{
	static uint64_t seen;
	uint64_t checked = 0;
	char head[sizeof(proto.head.s)];

	recv_replies(n, reply_len, proto.head.s, proto.fixed);
	for (uint64_t i = 0; i < n; i++) {
		const char *v = in + i * reply_len;

		text_put(head, &proto.head, keys[i]);
		if (memcmp(v, head, proto.head.len))
			die("key %u: the server answered %.*s", keys[i], (int)proto.head.len, v);
		v += proto.head.len;
		if (memcmp(v + cfg.size, proto.tail.s, proto.tail.len))
			die("key %u: the value does not end where it should", keys[i]);
		if (cfg.verify && !(seen++ % cfg.verify)) {
			fill_value(expect, keys[i]);
			if (memcmp(v, expect, cfg.size))
				die("CORRUPTION: key %u has another value", keys[i]);
			checked++;
		}
	}
	return checked;
}

static void run(void)
{
	static uint32_t keys[2][MAX_BATCH];
	uint64_t owed = 0, sent = 0, done = 0, checked = 0, batch = 0, stored = 0;
	uint32_t *perm = scatter((uint32_t)cfg.keys, cfg.seed);
	bool store[2] = { false, false };
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
			store[batch % 2] = run_send(keys[batch % 2], n, &zipf, perm, &r);
		sent += n;
		if (owed && store[(batch + 1) % 2]) {
			bulk_replies(owed);
			stored += owed;
		} else if (owed) {
			checked += run_replies(keys[(batch + 1) % 2], owed);
		}
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
	       "\"stored\":%llu,\"verified\":true}\n", (unsigned long long)done, t - t0,
	       (unsigned long long)checked, (unsigned long long)stored);
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
	choose_protocol();
	out = malloc(cfg.pipeline * (cfg.size + sizeof(proto.set.s) + 2));
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
