/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tar is, and what is refused.  Archives are built here by hand: a table of
 * headers, some of them wrong in one place.
 */
#include <stdio.h>

#include "archive/gz.h"
#include "archive/tar-internal.h"
#include "unit.h"

struct memory {
	const char *p;
	size_t n, at, step;
};

static ssize_t from_memory(void *arg, void *p, size_t n, struct cay_err *)
{
	struct memory *m = arg;
	size_t some = m->n - m->at;

	some = some < n ? some : n;
	if (m->step && some > m->step)
		some = m->step;
	memcpy(p, m->p + m->at, some);
	m->at += some;
	return (ssize_t)some;
}

static int to_buf(void *arg, const void *p, size_t n, struct cay_err *)
{
	return buf_append(arg, p, n);
}

static void seal(uint8_t *block)
{
	char text[8];

	assert_int_equal(snprintf(text, sizeof(text), "%06o", tar_checksum(block)), 6);
	memcpy(block + AT_SUM, text, 7);
	block[AT_SUM + 7] = ' ';
}

static void head(uint8_t *block, char type, const char *name, const char *link, const char *size)
{
	memset(block, 0, TAR_BLOCK);
	memcpy(block + AT_NAME, name, strnlen(name, LEN_NAME));
	memcpy(block + AT_LINK, link, strnlen(link, LEN_NAME));
	memcpy(block + AT_MODE, "0000644", 8);
	memcpy(block + AT_SIZE, size, strnlen(size, LEN_NUMBER));
	memcpy(block + AT_MTIME, "00000000001", 12);
	memcpy(block + AT_MAGIC, "ustar", 6);
	memset(block + AT_MAGIC + 6, '0', 2);
	block[AT_TYPE] = (uint8_t)type;
	seal(block);
}

static void add(struct buf *b, char type, const char *name, const char *link, const char *size,
		const char *data)
{
	static const char zeros[TAR_BLOCK];
	uint8_t block[TAR_BLOCK];
	size_t n = strlen(data);

	head(block, type, name, link, size);
	assert_int_equal(buf_append(b, block, sizeof(block)), 0);
	assert_int_equal(buf_append(b, data, n), 0);
	assert_int_equal(buf_append(b, zeros, tar_padding_len(n)), 0);
}

static void end(struct buf *b)
{
	static const char zeros[2 * TAR_BLOCK];

	assert_int_equal(buf_append(b, zeros, sizeof(zeros)), 0);
}

/* All of an archive as text: "type name [link] size;" each. */
static int tell_all(const char *p, size_t n, size_t step, struct buf *ret, struct cay_err *err)
{
	struct memory m = { p, n, 0, step };
	struct tar_reader t;
	struct tar_entry e;
	int r;

	tar_reader_init(&t, from_memory, &m);
	while ((r = tar_read_entry(&t, &e, err)) > 0) {
		char chunk[7];
		uint64_t seen = 0;
		ssize_t some;

		assert_int_equal(
			buf_printf(ret, "%u %s %s %d;", e.type, e.name, e.link, (int)e.size), 0);
		while ((some = tar_read_data(&t, chunk, sizeof(chunk), err)) > 0)
			seen += (uint64_t)some;
		if (some < 0) {
			r = (int)some;
			break;
		}
		assert_int_equal(seen, e.size);
	}
	tar_reader_fini(&t);
	return r;
}

static void test_one_header(void **)
{
	static const struct {
		char type;
		const char *name, *link, *size, *data;
		const char *want, *why; /* the telling, or a part of the refusal */
	} rows[] = {
		{ '0', "a", "", "00000000003", "xyz", "0 a  3;", NULL },
		{ 0, "a", "", "          3 ", "xyz", "0 a  3;", NULL },
		{ '7', "a", "", "3", "xyz", "0 a  3;", NULL },
		{ 0, "a/", "", "0", "", "1 a  0;", NULL },
		{ '5', "./", "", "0", "", "1   0;", NULL },
		{ '5', "./a//b/.//", "", "", "", "1 a/b  0;", NULL },
		{ '5', "a", "", "7", "", "1 a  0;", NULL },
		{ '2', "l", "/etc/../x", "0", "", "2 l /etc/../x 0;", NULL },
		{ '1', "l", "./a//b", "0", "", "3 l a/b 0;", NULL },
		{ '3', "dev", "", "0", "", "4 dev  0;", NULL },
		{ '6', "fifo", "", "0", "", "4 fifo  0;", NULL },
		{ 'Z', "what", "", "3", "xyz", "4 what  3;", NULL },
		{ '0', "a..", "", "0", "", "0 a..  0;", NULL },
		{ '0', "...", "", "0", "", "0 ...  0;", NULL },
		{ '0', "/a", "", "0", "", NULL, "'/a' is absolute" },
		{ '0', "../a", "", "0", "", NULL, "'../a' leads out" },
		{ '0', "a/..", "", "0", "", NULL, "leads out" },
		{ '0', "a/../b", "", "0", "", NULL, "leads out" },
		{ '0', "..", "", "0", "", NULL, "leads out" },
		{ '0', "", "", "0", "", NULL, "is empty" },
		{ '0', ".", "", "0", "", NULL, "no name" },
		{ '0', "\x1b]0;x/../", "", "0", "", NULL, "'\\x1b]0;x/../'" },
		{ '1', "l", "../a", "0", "", NULL, "a link '../a' leads out" },
		{ '1', "l", "/a", "0", "", NULL, "absolute" },
		{ '1', "l", "", "0", "", NULL, "a link is empty" },
		{ '2', "l", "", "0", "", NULL, "to nothing" },
		{ 'S', "a", "", "0", "", NULL, "sparse" },
		{ 'M', "a", "", "0", "", NULL, "volumes" },
		{ '0', "a", "", "0000000000x", "", NULL, "no number" },
		{ '0', "a", "", "-1", "", NULL, "no number" },
		{ '0', "a", "", "08", "", NULL, "no number" },
		{ '0', "a", "", "1 1", "", NULL, "no number" },
		{ '0', "a", "", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "", NULL,
		  "no number" },
		{ '0', "a", "", "\x80\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01", "", NULL,
		  "no number" },
		{ '0', "a", "", "77777777777", "", NULL, "in the middle" },
		{ 'x', "pax", "", "77777777777", "", NULL, "too long" },
		{ 'x', "pax", "", "0", "", NULL, "empty or too long" },
		{ 'L', "long", "", "00000010001", "", NULL, "too long" },
		{ 'K', "long", "", "77777777777", "", NULL, "too long" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf b = BUF_INIT(KIB(64)), told = BUF_INIT(KIB(64));
		struct cay_err err = {};
		int r;

		add(&b, rows[i].type, rows[i].name, rows[i].link, rows[i].size, rows[i].data);
		end(&b);
		r = tell_all(b.data, b.len, i % 2 ? 100 : 0, &told, &err);
		if (rows[i].want) {
			assert_int_equal(r, 0);
			assert_string_equal(buf_str(&told), rows[i].want);
		} else {
			assert_true(r < 0);
			assert_int_equal(err.code, CAY_E_INVALID);
			assert_non_null(strstr(err.msg, rows[i].why));
		}
	}
}

static void test_pax(void **)
{
	static const struct {
		char type;
		const char *pax, *want, *why;
	} rows[] = {
		{ 'x', "12 path=b/c\n", "0 b/c  3;", NULL },
		{ 'x', "10 size=3\n", "0 a  3;", NULL },
		{ 'x', "12 path=b/c\n12 path=d/e\n", "0 d/e  3;", NULL },
		{ 'x', "16 mtime=12.345\n11 uid=999\n", "0 a  3;", NULL },
		{ 'x', "12 mtime=-1\n", "0 a  3;", NULL },
		{ 'g', "15 comment=hey\n", "0 a  3;", NULL },
		{ 'x', "13 path=../x\n", NULL, "leads out" },
		{ 'x', "11 path=/x\n", NULL, "absolute" },
		{ 'x', "8 path=\n", NULL, "wrong" },
		{ 'x', "11 path=b/c\n", NULL, "wrong" },
		{ 'x', "13 path=b/c\n", NULL, "wrong" },
		{ 'x', "012 path=b/c\n", NULL, "wrong" },
		{ 'x', "99999999999999999999 path=b/c\n", NULL, "wrong" },
		{ 'x', "0 path=b\n", NULL, "wrong" },
		{ 'x', "3 \n", NULL, "wrong" },
		{ 'x', "4 =\n", NULL, "wrong" },
		{ 'x', "5 =a\n", NULL, "wrong" },
		{ 'x', "nothing", NULL, "wrong" },
		{ 'x', "11 size=-3\n", NULL, "wrong" },
		{ 'x', "28 size=9223372036854775808\n", NULL, "wrong" },
		{ 'x', "12 size=0x3\n", NULL, "wrong" },
		{ 'x', "11 mtime=x\n", NULL, "wrong" },
		{ 'x', "22 GNU.sparse.major=1\n", NULL, "sparse" },
		{ 'g', "12 path=b/c\n", NULL, "for all" },
		{ 'g', "10 size=3\n", NULL, "for all" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf b = BUF_INIT(KIB(64)), told = BUF_INIT(KIB(64));
		struct cay_err err = {};
		char size[12];
		int r;

		assert_true(snprintf(size, sizeof(size), "%o", (unsigned)strlen(rows[i].pax)) < 12);
		add(&b, rows[i].type, "pax", "", size, rows[i].pax);
		add(&b, '0', "a", "", "3", "xyz");
		end(&b);
		r = tell_all(b.data, b.len, 1000, &told, &err);
		if (rows[i].want) {
			assert_int_equal(r, 0);
			assert_string_equal(buf_str(&told), rows[i].want);
		} else {
			assert_true(r < 0);
			assert_non_null(strstr(err.msg, rows[i].why));
		}
	}
}

/* A zero in a name would make the kernel see another one than we have looked at. */
static void test_zero_in_a_pax_name(void **)
{
	uint8_t block[TAR_BLOCK] = "11 path=a\0b\n";
	auto_buf b = BUF_INIT(KIB(64)), told = BUF_INIT(KIB(64));
	struct cay_err err = {};
	uint8_t h[TAR_BLOCK];

	block[0] = '1';
	block[1] = '2';
	head(h, 'x', "pax", "", "14");
	assert_int_equal(buf_append(&b, h, sizeof(h)), 0);
	assert_int_equal(buf_append(&b, block, sizeof(block)), 0);
	add(&b, '0', "a", "", "0", "");
	end(&b);
	assert_true(tell_all(b.data, b.len, 0, &told, &err) < 0);
	assert_non_null(strstr(err.msg, "zero byte"));
}

static void test_prefix_and_long_names(void **)
{
	auto_buf b = BUF_INIT(KIB(64)), told = BUF_INIT(KIB(64));
	struct cay_err err = {};
	uint8_t block[TAR_BLOCK];

	head(block, '0', "name", "", "0");
	memcpy(block + AT_PREFIX, "some/where", 11);
	seal(block);
	assert_int_equal(buf_append(&b, block, sizeof(block)), 0);
	/* GNU's magic: what lies there is something else */
	memcpy(block + AT_MAGIC, "ustar  ", 8);
	seal(block);
	assert_int_equal(buf_append(&b, block, sizeof(block)), 0);
	add(&b, 'L', "././@LongLink", "", "11", "long/name");
	add(&b, 'K', "././@LongLink", "", "4", "long");
	add(&b, '2', "short", "short", "0", "");
	add(&b, '0', "next", "", "0", "");
	end(&b);
	assert_int_equal(tell_all(b.data, b.len, 0, &told, &err), 0);
	assert_string_equal(buf_str(&told),
			    "0 some/where/name  0;0 name  0;2 long/name long 0;0 next  0;");
}

static void test_broken_ends(void **)
{
	auto_buf b = BUF_INIT(MIB(4)), told = BUF_INIT(MIB(4));
	struct cay_err err = {};

	add(&b, '0', "a", "", "3", "xyz");
	end(&b);
	/* cut anywhere before the first block of zeros is whole, it is not an archive */
	for (size_t n = 0; n < 3ul * TAR_BLOCK; n += 64) {
		err = (struct cay_err){};
		assert_true(tell_all(b.data, n, 0, &told, &err) < 0);
		assert_int_equal(err.code, CAY_E_INVALID);
	}
	assert_int_equal(tell_all(b.data, 3ul * TAR_BLOCK, 0, &told, &err), 0);
	b.data[700] ^= 1; /* of the content: tar has no sum for it */
	assert_int_equal(tell_all(b.data, b.len, 0, &told, &err), 0);
	b.data[3] ^= 1;
	err = (struct cay_err){};
	assert_true(tell_all(b.data, b.len, 0, &told, &err) < 0);
	assert_non_null(strstr(err.msg, "no tar"));
}

static void test_too_much_of_nothing(void **)
{
	auto_buf b = BUF_INIT(MIB(4)), told = BUF_INIT(KIB(64));
	auto_free char *zeros = calloc(1, TAR_TAIL_MAX + 1);
	struct cay_err err = {};

	add(&b, '0', "a", "", "3", "xyz");
	end(&b);
	assert_int_equal(buf_append(&b, zeros, TAR_TAIL_MAX + 1), 0);
	assert_true(tell_all(b.data, b.len, 0, &told, &err) < 0);
	assert_non_null(strstr(err.msg, "follows"));
	buf_clear(&b);
	for (unsigned i = 0; i < 100; i++)
		add(&b, 'g', "pax", "", "17", "15 comment=hey\n");
	add(&b, '0', "a", "", "3", "xyz");
	end(&b);
	err = (struct cay_err){};
	assert_true(tell_all(b.data, b.len, 0, &told, &err) < 0);
	assert_non_null(strstr(err.msg, "headers only"));
}

static void test_what_is_written_is_read(void **)
{
	char name[301], link[4001];
	auto_buf b = BUF_INIT(MIB(1)), told = BUF_INIT(MIB(1)), want = BUF_INIT(MIB(1));
	struct cay_err err = {};
	struct tar_writer t;

	memset(name, 'n', 300);
	memset(link, 'l', 4000);
	name[300] = link[4000] = 0;
	tar_writer_init(&t, to_buf, &b);
	/* every length around where ustar ends and where a pax record gains a digit */
	for (unsigned n = 1; n <= 300; n++) {
		struct tar_entry e = { .type = TAR_SYMLINK,
				       .name = name + 300 - n,
				       .link = link + (n % 2 ? 3900 + n % 100 : n * 13) };

		assert_int_equal(tar_write_entry(&t, &e, &err), 0);
		assert_int_equal(buf_printf(&want, "2 %s %s 0;", e.name, e.link), 0);
	}
	assert_int_equal(tar_write_end(&t, &err), 0);
	tar_writer_fini(&t);
	assert_int_equal(b.len % TAR_BLOCK, 0);
	assert_int_equal(tell_all(b.data, b.len, 777, &told, &err), 0);
	assert_string_equal(buf_str(&told), buf_str(&want));
}

static void test_large_sizes(void **)
{
	auto_buf b = BUF_INIT(KIB(8));
	struct tar_entry e = { .name = "a", .size = 1ULL << 40, .mtime = 1LL << 34 }, got;
	struct cay_err err = {};
	struct tar_writer w;
	struct tar_reader t;
	struct memory m;

	tar_writer_init(&w, to_buf, &b);
	assert_int_equal(tar_write_entry(&w, &e, &err), 0);
	tar_writer_fini(&w);
	m = (struct memory){ b.data, b.len, 0, 0 };
	tar_reader_init(&t, from_memory, &m);
	assert_int_equal(tar_read_entry(&t, &got, &err), 1);
	assert_true(got.size == e.size && got.mtime == e.mtime);
	tar_reader_fini(&t);
}

static void zip(const char *p, size_t n, struct buf *ret)
{
	struct cay_err err = {};
	struct gz_writer w;

	assert_int_equal(gz_writer_init(&w, to_buf, ret, &err), 0);
	assert_int_equal(gz_write(&w, p, n, &err), 0);
	assert_int_equal(gz_finish(&w, &err), 0);
	gz_writer_fini(&w);
}

static int unzip(const char *p, size_t n, struct buf *ret, struct cay_err *err)
{
	struct memory m = { p, n, 0, 700 };
	struct gz_reader g;
	char chunk[1000];
	ssize_t r;

	assert_int_equal(gz_reader_init(&g, from_memory, &m, err), 0);
	while ((r = gz_read(&g, chunk, sizeof(chunk), err)) > 0)
		assert_int_equal(buf_append(ret, chunk, (size_t)r), 0);
	gz_reader_fini(&g);
	return (int)r;
}

static void test_gzip(void **)
{
	auto_buf plain = BUF_INIT(MIB(1)), zipped = BUF_INIT(MIB(1)), back = BUF_INIT(MIB(1));
	struct cay_err err = {};
	size_t first;

	for (unsigned i = 0; i < 100000; i++)
		assert_int_equal(buf_putc(&plain, (char)(i * i >> 7)), 0);
	zip(plain.data, plain.len, &zipped);
	assert_int_equal(unzip(zipped.data, zipped.len, &back, &err), 0);
	assert_true(back.len == plain.len && memcmp(back.data, plain.data, back.len) == 0);
	/* cut or changed anywhere it is not taken */
	for (size_t n = 0; n < zipped.len; n += 97) {
		buf_clear(&back);
		err = (struct cay_err){};
		assert_true(unzip(zipped.data, n, &back, &err) < 0);
		assert_int_equal(err.code, CAY_E_INVALID);
	}
	first = zipped.len;
	zip("more", 4, &zipped);
	buf_clear(&back);
	assert_int_equal(unzip(zipped.data, zipped.len, &back, &err), 0);
	assert_int_equal(back.len, plain.len + 4);
	zipped.data[first - 5] ^= 1;
	buf_clear(&back);
	assert_true(unzip(zipped.data, zipped.len, &back, &err) < 0);
	assert_int_equal(buf_append(&zipped, "trailing", 8), 0);
	zipped.data[first - 5] ^= 1;
	assert_true(unzip(zipped.data, zipped.len, &back, &err) < 0);
}

static void test_quoted(void **)
{
	char ret[TAR_QUOTED_MAX + 1], all[256];

	assert_string_equal(tar_quote_name("a\x1b[2J\n\\\xff", ret), "a\\x1b[2J\\x0a\\x5c\\xff");
	memset(all, '\n', 255);
	all[255] = 0;
	assert_int_equal(strlen(tar_quote_name(all, ret)), TAR_QUOTED_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_header),
		cmocka_unit_test(test_pax),
		cmocka_unit_test(test_zero_in_a_pax_name),
		cmocka_unit_test(test_prefix_and_long_names),
		cmocka_unit_test(test_broken_ends),
		cmocka_unit_test(test_too_much_of_nothing),
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_large_sizes),
		cmocka_unit_test(test_gzip),
		cmocka_unit_test(test_quoted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
