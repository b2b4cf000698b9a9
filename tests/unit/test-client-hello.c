/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>

#include "base/endian.h"
#include "base/spawn.h"
#include "egress/client-hello.h"
#include "unit.h"

static enum client_hello_result read_exact(const uint8_t *p, size_t n, struct client_hello *ret)
{
	auto_free uint8_t *exact = malloc(n ? n : 1);

	memcpy(exact, p, n);
	return client_hello_read(exact, n, ret);
}

/* A message under construction, without the head of a record. */
struct hello {
	uint8_t p[CLIENT_HELLO_MAX];
	size_t n;
	size_t extensions; /* where their length is */
};

static void hello_put(struct hello *h, const void *p, size_t n)
{
	assert_true(n <= sizeof(h->p) - h->n);
	memcpy(h->p + h->n, p, n);
	h->n += n;
}

#define hello_lit(h, lit) hello_put(h, lit, sizeof(lit) - 1)

/* The lengths agree; tests break them. */
static void hello_end(struct hello *h)
{
	if (h->extensions)
		be16_put(h->p + h->extensions, (uint16_t)(h->n - h->extensions - 2));
	be16_put(h->p + 2, (uint16_t)(h->n - 4));
}

static void hello_begin(struct hello *h)
{
	*h = (struct hello){};
	hello_lit(h, "\1\0\0\0\3\3");
	h->n += 32;
	hello_lit(h, "\2id\0\4\x13\1\x13\2\1\0");
	hello_end(h);
}

static void hello_begin_extensions(struct hello *h)
{
	hello_begin(h);
	h->extensions = h->n;
	hello_lit(h, "\0\0");
	hello_lit(h, "\0\x17\0\0"); /* extended_master_secret */
}

/* As records of at most `each` bytes. */
static size_t hello_records(const struct hello *h, size_t each, uint8_t *out)
{
	size_t n = 0;

	for (size_t at = 0; at < h->n; at += each) {
		size_t part = h->n - at < each ? h->n - at : each;

		out[n] = 22;
		out[n + 1] = 3;
		out[n + 2] = 1;
		be16_put(out + n + 3, (uint16_t)part);
		memcpy(out + n + 5, h->p + at, part);
		n += 5 + part;
	}
	return n;
}

static enum client_hello_result hello_read(const struct hello *h, struct client_hello *ret)
{
	auto_free uint8_t *out = malloc(2 * CLIENT_HELLO_MAX);

	return read_exact(out, hello_records(h, KIB(16), out), ret);
}

#define SNI \
	"\0\0\0\x14\0\x12\0\0\x0f" \
	"api.example.com"
#define ECH "\xfe\x0d\0\1x"

static void what_a_hello_says(void **)
{
	static const struct {
		const char *extensions;
		size_t n;
		enum client_hello_result result;
		enum client_hello_sni sni;
		bool ech;
	} cases[] = {
#define ROW(lit) lit, sizeof(lit) - 1
		{ ROW(SNI), CLIENT_HELLO_DONE, CLIENT_HELLO_SNI_PRESENT, false },
		{ ROW(SNI ECH), CLIENT_HELLO_DONE, CLIENT_HELLO_SNI_PRESENT, true },
		{ ROW(ECH SNI), CLIENT_HELLO_DONE, CLIENT_HELLO_SNI_PRESENT, true },
		{ ROW(ECH), CLIENT_HELLO_DONE, CLIENT_HELLO_SNI_ABSENT, true },
		{ ROW(""), CLIENT_HELLO_DONE, CLIENT_HELLO_SNI_ABSENT, false },
		{ ROW("\0\0\0\7\0\5\0\0\2ab"), CLIENT_HELLO_DONE, CLIENT_HELLO_SNI_INVALID, false },
		{ ROW("\0\0\0\x0c\0\x0a\0\0\7a.b\0c.d"), CLIENT_HELLO_DONE,
		  CLIENT_HELLO_SNI_INVALID, false },
		{ ROW(SNI SNI), CLIENT_HELLO_MALFORMED },
		{ ROW("\0\0\0\7\0\5\0\0\2ab" SNI), CLIENT_HELLO_MALFORMED },
		{ ROW("\0\0\0\0"), CLIENT_HELLO_MALFORMED },
		{ ROW("\0\0\0\2\0\0"), CLIENT_HELLO_MALFORMED },         /* no name */
		{ ROW("\0\0\0\5\0\3\0\0\0"), CLIENT_HELLO_MALFORMED },   /* an empty one */
		{ ROW("\0\0\0\7\0\5\1\0\2ab"), CLIENT_HELLO_MALFORMED }, /* of another kind */
		{ ROW("\0\0\0\x0e\0\x0c\0\0\3a.b\0\0\3c.d"), CLIENT_HELLO_MALFORMED }, /* two */
		{ ROW("\0\0\0\x0e\0\6\0\0\3a.b\0\0\3c.d"), CLIENT_HELLO_MALFORMED },
		{ ROW("\0\0\0\x09\0\7\0\0\3a.bx"), CLIENT_HELLO_MALFORMED }, /* a byte after it */
		{ ROW("\0\0\0\x09\0\6\0\0\3a.bx"), CLIENT_HELLO_MALFORMED },
		{ ROW("\0\0\0\x08\0\6\0\0\4a.b"), CLIENT_HELLO_MALFORMED },
		{ ROW("\0\0\0\x08\0\7\0\0\3a.b"), CLIENT_HELLO_MALFORMED },
		{ ROW(SNI "\0"), CLIENT_HELLO_MALFORMED },
		{ ROW(SNI "\0\x10\0\1"), CLIENT_HELLO_MALFORMED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client_hello got;
		struct hello h;

		hello_begin_extensions(&h);
		hello_put(&h, cases[i].extensions, cases[i].n);
		hello_end(&h);
		row_check(i, hello_read(&h, &got) == cases[i].result);
		if (cases[i].result != CLIENT_HELLO_DONE)
			continue;
		row_check(i, got.sni == cases[i].sni && got.has_ech == cases[i].ech);
		row_check(i, got.sni != CLIENT_HELLO_SNI_PRESENT ||
				     host_name_eq(&got.name, SLICE("api.example.com")));
	}
}

static void without_extensions(void **)
{
	struct client_hello got;
	struct hello h;

	hello_begin(&h);
	assert_int_equal(hello_read(&h, &got), CLIENT_HELLO_DONE);
	assert_int_equal(got.sni, CLIENT_HELLO_SNI_ABSENT);
	hello_lit(&h, "\0");
	hello_end(&h);
	assert_int_equal(hello_read(&h, &got), CLIENT_HELLO_MALFORMED);
}

/* Every length, one more and one less, with the lengths around it left alone. */
static void lengths_that_disagree(void **)
{
	/* of session, ciphers, compressions, extensions, one without data, SNI, its list, its name
	 */
	static const unsigned lengths[] = { 38, 42, 47, 50, 54, 58, 60, 63 };
	struct client_hello got;
	struct hello h;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++)
		for (int by = -1; by <= 1; by += 2) {
			hello_begin_extensions(&h);
			hello_lit(&h, SNI);
			hello_end(&h);
			row_check(i, hello_read(&h, &got) == CLIENT_HELLO_DONE);
			h.p[lengths[i]] = (uint8_t)(h.p[lengths[i]] + by);
			row_check(i, hello_read(&h, &got) == CLIENT_HELLO_MALFORMED);
		}
}

static void other_bytes(void **)
{
	static const struct {
		const char *p;
		size_t n;
		enum client_hello_result result;
	} cases[] = {
		{ ROW(""), CLIENT_HELLO_MORE },
		{ ROW("\x16"), CLIENT_HELLO_MORE },
		{ ROW("\x16\3\1\2\0"), CLIENT_HELLO_MORE },
		{ ROW("\x16\3\1\2\0\1\0\1\xfc"), CLIENT_HELLO_MORE },
		{ ROW("G"), CLIENT_HELLO_NOT_TLS },
		{ ROW("SSH-2.0-x\r\n"), CLIENT_HELLO_NOT_TLS },
		{ ROW("\x80\x2e\1\3\1"), CLIENT_HELLO_NOT_TLS }, /* of SSL 2 */
		{ ROW("\x16\2"), CLIENT_HELLO_NOT_TLS },
		{ ROW("\x17\3\3\0\1x"), CLIENT_HELLO_NOT_TLS },
		{ ROW("\x16\3\1\0\0"), CLIENT_HELLO_MALFORMED },         /* an empty record */
		{ ROW("\x16\3\1\x40\1"), CLIENT_HELLO_MALFORMED },       /* a long one */
		{ ROW("\x16\3\1\2\0\2"), CLIENT_HELLO_MALFORMED },       /* a server's hello */
		{ ROW("\x16\3\1\0\4\1\1\0\0"), CLIENT_HELLO_MALFORMED }, /* 64 KiB */
		{ ROW("\x16\3\1\0\2\1\0\x17"), CLIENT_HELLO_MALFORMED }, /* data in between */
		{ ROW("\x16\3\1\0\2\1\0\x16\2"), CLIENT_HELLO_MALFORMED },
		{ ROW("\x16\3\1\0\4\1\0\0\0"), CLIENT_HELLO_MALFORMED }, /* without a body */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client_hello got;

		row_check(i, read_exact((const uint8_t *)cases[i].p, cases[i].n, &got) ==
				     cases[i].result);
	}
}

static void at_most_16_kib(void **)
{
	auto_free uint8_t *out = calloc(2, CLIENT_HELLO_MAX);
	struct client_hello got;
	struct hello h;
	size_t n;

	hello_begin_extensions(&h);
	hello_lit(&h, SNI "\0\x15"); /* padding */
	n = CLIENT_HELLO_MAX - 5 - h.n - 2;
	be16_put(h.p + h.n, (uint16_t)n);
	h.n += 2 + n;
	hello_end(&h);
	n = hello_records(&h, KIB(16), out);
	assert_int_equal(n, CLIENT_HELLO_MAX);
	assert_int_equal(read_exact(out, n - 1, &got), CLIENT_HELLO_MORE);
	assert_int_equal(read_exact(out, n, &got), CLIENT_HELLO_DONE);
	assert_int_equal(read_exact(out, n + 100, &got), CLIENT_HELLO_DONE);
	/* one record more, and it does not fit */
	n = hello_records(&h, KIB(15), out);
	assert_int_equal(read_exact(out, CLIENT_HELLO_MAX - 1, &got), CLIENT_HELLO_MORE);
	assert_int_equal(read_exact(out, CLIENT_HELLO_MAX, &got), CLIENT_HELLO_MALFORMED);
	assert_int_equal(read_exact(out, n, &got), CLIENT_HELLO_MALFORMED);
}

static void nothing_in_the_last_record(void **)
{
	struct client_hello got;
	uint8_t out[1024];
	struct hello h;
	size_t n;

	hello_begin_extensions(&h);
	hello_lit(&h, SNI);
	hello_end(&h);
	n = hello_records(&h, KIB(16), out);
	/* other records may follow, of any kind */
	memset(out + n, 0x17, 50);
	assert_int_equal(read_exact(out, n + 50, &got), CLIENT_HELLO_DONE);
	/* a second message may not */
	hello_lit(&h, "\1\0\0\0");
	n = hello_records(&h, KIB(16), out);
	assert_int_equal(read_exact(out, n, &got), CLIENT_HELLO_MALFORMED);
	assert_int_equal(read_exact(out, n - 4, &got), CLIENT_HELLO_MALFORMED);
}

static void bytes_after_the_extensions(void **)
{
	struct client_hello got;
	struct hello h;

	hello_begin_extensions(&h);
	hello_lit(&h, SNI);
	hello_end(&h);
	hello_lit(&h, SNI);
	be16_put(h.p + 2, (uint16_t)(h.n - 4)); /* the message has them, its extensions do not */
	assert_int_equal(hello_read(&h, &got), CLIENT_HELLO_MALFORMED);
}

/* What one real client wrote: cut at every byte, and in records of every size. */
static void check_captured(size_t row, enum client_hello_sni sni, struct slice name,
			   const uint8_t *p, size_t n)
{
	static uint8_t out[8 * CLIENT_HELLO_MAX];
	struct client_hello got;
	struct hello h = {};

	for (size_t i = 0; i < n; i++)
		row_check(row, read_exact(p, i, &got) == CLIENT_HELLO_MORE);
	row_check(row, read_exact(p, n, &got) == CLIENT_HELLO_DONE);
	row_check(row, got.sni == sni && !got.has_ech);
	row_check(row, sni != CLIENT_HELLO_SNI_PRESENT || host_name_eq(&got.name, name));
	for (size_t at = 0; at < n; at += 5u + be16_get(p + at + 3))
		hello_put(&h, p + at + 5, be16_get(p + at + 3));
	for (size_t each = 1; each <= h.n; each = each < 20 ? each + 1 : each * 2) {
		size_t all = hello_records(&h, each, out);
		bool fits = all <= CLIENT_HELLO_MAX;

		for (size_t i = 0; i < all && fits; i += 1 + all / 500)
			row_check(row, read_exact(out, i, &got) == CLIENT_HELLO_MORE);
		row_check(row, read_exact(out, all, &got) ==
				       (fits ? CLIENT_HELLO_DONE : CLIENT_HELLO_MALFORMED));
		row_check(row, !fits || sni != CLIENT_HELLO_SNI_PRESENT ||
				       host_name_eq(&got.name, name));
	}
}

static void read_all(FILE *in, void *to, size_t n)
{
	assert_int_equal(fread(to, 1, n, in), n);
}

static void real_clients(void **)
{
	static uint8_t bytes[CLIENT_HELLO_MAX];
	auto_buf script = BUF_INIT(4096);
	const char *argv[] = { "python3", NULL, NULL }, *const env[] = { "PATH=/usr/bin:/bin",
									 "HOME=/tmp", NULL };
	struct spawn s = SPAWN_INIT("/usr/bin/python3", argv);
	auto_child child = CHILD_INIT;
	uint8_t head[2], length[4];
	int fds[2], status;
	size_t rows = 0;
	FILE *in;

	assert_int_equal(buf_printf(&script, "%s/tests/unit/client-hello.py", getenv("CAY_SOURCE")),
			 0);
	argv[1] = buf_str(&script);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	s.env = env;
	s.fds[0] = -1;
	s.fds[1] = fds[1];
	s.fds[2] = STDERR_FILENO;
	s.n_fds = 3;
	assert_int_equal(child_start(&s, &child, NULL), 0);
	(void)close(fds[1]);
	in = fdopen(fds[0], "r");
	assert_non_null(in);
	for (; fread(head, sizeof(head), 1, in) == 1; rows++) {
		char name[256];

		read_all(in, name, head[1]);
		read_all(in, length, sizeof(length));
		assert_true(be32_get(length) <= sizeof(bytes));
		read_all(in, bytes, be32_get(length));
		check_captured(rows, (enum client_hello_sni)head[0],
			       (struct slice){ name, head[1] }, bytes, be32_get(length));
	}
	(void)fclose(in);
	assert_int_equal(child_wait(&child, &status), 0);
	assert_int_equal(status, 0);
	assert_int_equal(rows, 14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_hello_says),
		cmocka_unit_test(without_extensions),
		cmocka_unit_test(lengths_that_disagree),
		cmocka_unit_test(bytes_after_the_extensions),
		cmocka_unit_test(other_bytes),
		cmocka_unit_test(at_most_16_kib),
		cmocka_unit_test(nothing_in_the_last_record),
		cmocka_unit_test(real_clients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
