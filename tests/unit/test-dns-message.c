/* SPDX-License-Identifier: Apache-2.0 */
/* The other side of every message is glibc's resolver: its questions are read, it reads the answers
 * and the queries, and it reads every response that dns_response_read() takes. */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <resolv.h>
#include <sys/socket.h>

#include "base/endian.h"
#include "egress/dns-message.h"
#include "unit.h"

#define OPT "\0\0\x29\x04\xd0\0\0\0\0\0\0" /* 1,232 bytes, version 0 */
#define WWW "\3wWw\7eXample\3cOm\0"
#define BYTES(lit) (const uint8_t *)(lit), sizeof(lit) - 1

static struct host_name name_of(const char *text)
{
	struct host_name name = {};

	assert_int_equal(host_name_parse(slice_of(text), &name), 0);
	return name;
}

/* Questions */

static void glibc_asks(void **)
{
	struct __res_state st = {};
	static const unsigned types[] = { ns_t_a, ns_t_aaaa, ns_t_ptr, ns_t_any, 65 };

	assert_int_equal(res_ninit(&st), 0);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		uint8_t m[512];
		struct dns_question q;
		int n = res_nmkquery(&st, ns_o_query, "Api.Example.COM", ns_c_in, (int)types[i],
				     NULL, 0, NULL, m, sizeof(m));

		assert_true(n > DNS_HEAD_LEN);
		row_check(i, dns_question_read(m, (size_t)n, &q) == 0);
		row_check(i, q.id == be16_get(m) && q.type == types[i] && !q.has_opt);
		row_check(i, host_name_eq(&q.name, SLICE("api.example.com")));
		row_check(i, q.room == 512 && q.n == n - DNS_HEAD_LEN &&
				     memcmp(q.bytes, m + DNS_HEAD_LEN, q.n) == 0);
	}
	res_nclose(&st);
}

#define HEAD(flags, counts) "\x12\x34" flags counts
#define PLAIN HEAD("\1\0", "\0\1\0\0\0\0\0\0")
#define PLUS_ONE HEAD("\1\0", "\0\1\0\0\0\0\0\1")
#define PLUS_TWO HEAD("\1\0", "\0\1\0\0\0\0\0\2")
#define IN_A "\0\1\0\1"
#define LABEL60 \
	"\x3c" \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void what_is_answered(void **)
{
	static const struct {
		const uint8_t *p;
		size_t n;
		int ret;
		bool echoed;
	} cases[] = {
		{ BYTES(PLAIN WWW IN_A), 0, true },
		{ BYTES(PLUS_ONE WWW IN_A OPT), 0, true },
		{ BYTES(PLUS_TWO WWW IN_A "\xc0\x0c\0\x10\0\xff\0\0\0\0\0\0" OPT), 0, true },
		/* not answered: bytes that are no DNS, and answers */
		{ BYTES(""), -EBADMSG, false },
		{ BYTES("\x12\x34\1\0\0\1\0\0\0\0\0"), -EBADMSG, false },
		{ BYTES(HEAD("\x81\0", "\0\1\0\0\0\0\0\0") WWW IN_A), -EBADMSG, false },
		/* malformed */
		{ BYTES(PLAIN), DNS_FORMERR, false },
		{ BYTES(HEAD("\1\0", "\0\0\0\0\0\0\0\0")), DNS_FORMERR, false },
		{ BYTES(HEAD("\1\0", "\0\2\0\0\0\0\0\0") WWW IN_A WWW IN_A), DNS_FORMERR, false },
		{ BYTES(HEAD("\1\0", "\0\1\0\1\0\0\0\0") WWW IN_A OPT), DNS_FORMERR, false },
		{ BYTES(HEAD("\1\0", "\0\1\0\0\0\1\0\0") WWW IN_A OPT), DNS_FORMERR, false },
		{ BYTES(PLAIN WWW "\0\1\0"), DNS_FORMERR, false },
		{ BYTES(PLAIN "\3www\xc0\x0c" IN_A), DNS_FORMERR, false },
		{ BYTES(PLAIN "\100" IN_A), DNS_FORMERR, false },
		{ BYTES(PLAIN LABEL60 LABEL60 LABEL60 LABEL60 "\12aaaaaaaaaa\0" IN_A), DNS_FORMERR,
		  false }, /* 256 bytes */
		{ BYTES(PLAIN WWW IN_A "x"), DNS_FORMERR, true },
		{ BYTES(PLUS_ONE WWW IN_A), DNS_FORMERR, true },
		{ BYTES(PLUS_ONE WWW IN_A "\0\0\x29\x04\xd0\0\0\0\0\0\1"), DNS_FORMERR, true },
		{ BYTES(PLUS_ONE WWW IN_A "\1a" OPT), DNS_FORMERR, true }, /* not of the root */
		{ BYTES(PLUS_TWO WWW IN_A OPT OPT), DNS_FORMERR, true },
		{ BYTES(HEAD("\1\0", "\0\1\0\0\0\0\0\x09") WWW IN_A), DNS_FORMERR, true },
		{ BYTES(PLUS_ONE WWW IN_A "\0\0\x29\x04\xd0\0\1\0\0\0\0"), DNS_BADVERS, true },
		/* names that are none of ours */
		{ BYTES(PLAIN "\0" IN_A), DNS_NXDOMAIN, true },
		{ BYTES(PLAIN "\tlocalhost\0" IN_A), DNS_NXDOMAIN, true },
		{ BYTES(PLAIN "\4a\0bc\3com\0" IN_A), DNS_NXDOMAIN, true },
		{ BYTES(PLAIN "\5a.com\2de\0" IN_A), DNS_NXDOMAIN, true },
		{ BYTES(PLAIN LABEL60 LABEL60 LABEL60 LABEL60 "\11-aaaaaaaa\0" IN_A), DNS_NXDOMAIN,
		  true }, /* 255 bytes */
		{ BYTES(PLUS_ONE "\tlocalhost\0" IN_A OPT), DNS_NXDOMAIN, true },
		/* other classes and operations */
		{ BYTES(PLAIN WWW "\0\1\0\3"), DNS_REFUSED, true },
		{ BYTES(HEAD("\x28\0", "\0\1\0\0\0\0\0\0") WWW IN_A), DNS_NOTIMP, false },
		{ BYTES(HEAD("\x10\0", "\0\0\0\0\0\0\0\0")), DNS_NOTIMP, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_free uint8_t *exact = malloc(cases[i].n ? cases[i].n : 1);
		struct dns_question q = {};
		uint8_t out[DNS_ANSWER_MAX];
		ns_msg m;
		ssize_t n;

		memcpy(exact, cases[i].p, cases[i].n);
		row_check(i, dns_question_read(exact, cases[i].n, &q) == cases[i].ret);
		if (cases[i].ret < 0)
			continue;
		row_check(i, !!q.n == cases[i].echoed);
		n = dns_answer_write(&q,
				     &(struct dns_answer){ .rcode = (enum dns_rcode)cases[i].ret },
				     out, sizeof(out));
		row_check(i, n >= DNS_HEAD_LEN && n <= q.room && be16_get(out) == 0x1234);
		row_check(i, ns_initparse(out, (int)n, &m) == 0 &&
				     ns_msg_getflag(m, ns_f_rcode) == (cases[i].ret & 15) &&
				     ns_msg_getflag(m, ns_f_qr));
		row_check(i, ns_msg_count(m, ns_s_qd) == cases[i].echoed &&
				     memcmp(out + DNS_HEAD_LEN, exact + DNS_HEAD_LEN, q.n) == 0);
		/* an answer is not answered */
		row_check(i, dns_question_read(out, (size_t)n, &q) == -EBADMSG);
	}
}

static void room_of_a_question(void **)
{
	static const struct {
		uint16_t says, room;
	} cases[] = { { 0, 512 }, { 512, 512 }, { 1000, 1000 }, { 4096, DNS_PAYLOAD } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t m[] = PLUS_ONE WWW IN_A OPT;
		struct dns_question q;

		be16_put(m + sizeof(m) - 9, cases[i].says);
		row_check(i, dns_question_read(m, sizeof(m) - 1, &q) == 0);
		row_check(i, q.has_opt && q.room == cases[i].room);
	}
}

static void names_of_addresses(void **)
{
	static const struct {
		const char *text;
		bool is;
		uint32_t address;
	} cases[] = {
		{ "4.3.2.1.in-addr.arpa", true, 0x01020304 },
		{ "255.255.255.255.in-addr.arpa", true, UINT32_MAX },
		{ "3.2.1.in-addr.arpa", false, 0 },
		{ "5.4.3.2.1.in-addr.arpa", false, 0 },
		{ "256.3.2.1.in-addr.arpa", false, 0 },
		{ "04.3.2.1.in-addr.arpa", false, 0 },
		{ "4.3.2.1.ip6.arpa", false, 0 },
		{ "example.com", false, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct host_name name = name_of(cases[i].text);
		uint32_t address = 0;

		row_check(i, dns_name_is_reverse(&name, &address) == cases[i].is);
		row_check(i, !cases[i].is || address == cases[i].address);
	}
}

/* Answers */

#define BLOCKED "egress policy"
#define SEC_TTL 7

/* By the first label of the name. */
static struct dns_answer answer_for(const struct dns_question *q)
{
	static const struct host_name known = { 15, "api.example.com" };
	struct dns_answer a = { .ttl = SEC_TTL };
	uint32_t address;

	if (dns_name_is_reverse(&q->name, &address) && address == 0x19c00102 && q->type == DNS_PTR)
		a.points_to = &known;
	else if (memcmp(q->name.text, "denied", 6) == 0)
		a = (struct dns_answer){ .rcode = DNS_NXDOMAIN, .blocked = BLOCKED };
	else if (memcmp(q->name.text, "broken", 6) == 0)
		a.rcode = DNS_SERVFAIL;
	else if (q->type == DNS_A)
		a.address = 0x19c00102; /* 25.192.1.2 */
	return a;
}

/* Answers until it receives an empty message. */
static void *serve(void *arg)
{
	int fd = *(int *)arg;

	for (;;) {
		uint8_t in[512], out[DNS_ANSWER_MAX];
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, in, sizeof(in), 0, (struct sockaddr *)&from, &len);
		struct dns_question q;
		struct dns_answer a;
		int r;

		if (n <= 0)
			return NULL;
		r = dns_question_read(in, (size_t)n, &q);
		if (r < 0)
			continue;
		a = r > 0 ? (struct dns_answer){ .rcode = (enum dns_rcode)r } : answer_for(&q);
		n = dns_answer_write(&q, &a, out, q.room);
		if (n > 0)
			(void)sendto(fd, out, (size_t)n, 0, (struct sockaddr *)&from, len);
	}
}

static void has_record(size_t row, const uint8_t *m, int n, const char *want)
{
	char text[NS_MAXDNAME];
	ns_msg msg;
	ns_rr rr;

	row_check(row, ns_initparse(m, n, &msg) == 0 && ns_msg_count(msg, ns_s_an) == 1);
	row_check(row, ns_parserr(&msg, ns_s_an, 0, &rr) == 0 && ns_rr_ttl(rr) == SEC_TTL);
	if (ns_rr_type(rr) == ns_t_a)
		row_check(row, inet_ntop(AF_INET, ns_rr_rdata(rr), text, sizeof(text)));
	else
		row_check(row, ns_name_uncompress(m, m + n, ns_rr_rdata(rr), text, sizeof(text)) ==
				       ns_rr_rdlen(rr));
	row_check(row, strcmp(text, want) == 0);
}

static void glibc_is_answered(void **)
{
	static const struct {
		const char *name;
		int type, error; /* h_errno */
		const char *record;
	} cases[] = {
		{ "api.example.com", ns_t_a, 0, "25.192.1.2" },
		{ "API.exAMPLE.com", ns_t_a, 0, "25.192.1.2" },
		{ "api.example.com", ns_t_aaaa, NO_DATA, NULL },
		{ "api.example.com", 65, NO_DATA, NULL },
		{ "api.example.com", ns_t_any, NO_DATA, NULL },
		{ "2.1.192.25.in-addr.arpa", ns_t_ptr, 0, "api.example.com" },
		{ "denied.example.com", ns_t_a, HOST_NOT_FOUND, NULL },
		{ "no_name", ns_t_a, HOST_NOT_FOUND, NULL },
		{ "broken.example.com", ns_t_a, TRY_AGAIN, NULL },
	};
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct __res_state st = {};
	socklen_t len = sizeof(at);
	pthread_t server;

	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(pthread_create(&server, NULL, serve, &fd), 0);
	for (unsigned edns = 0; edns < 2; edns++) {
		assert_int_equal(res_ninit(&st), 0);
		st.nsaddr_list[0] = at;
		st.nscount = 1;
		st.retrans = 30; /* of seconds: a machine may be slow */
		st.options |= edns ? RES_USE_EDNS0 : 0;
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
			uint8_t m[1500];
			int n = res_nquery(&st, cases[i].name, ns_c_in, cases[i].type, m,
					   sizeof(m));

			row_check(i, cases[i].error ? n < 0 && st.res_h_errno == cases[i].error
						    : n > 0);
			if (n > 0)
				has_record(i, m, n, cases[i].record);
		}
		res_nclose(&st);
	}
	assert_int_equal(sendto(fd, "", 0, 0, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(pthread_join(server, NULL), 0);
}

static void a_refusal_says_why(void **)
{
	static const uint8_t with[] = PLUS_ONE WWW IN_A OPT, without[] = PLAIN WWW IN_A;
	/* RFC 8914: OPTION-CODE 15, length, INFO-CODE 15 (Blocked), text */
	static const uint8_t want[] = OPT "\0\x0f\0\x0f\0\x0f" BLOCKED;
	struct dns_answer a = { .rcode = DNS_NXDOMAIN, .blocked = BLOCKED };
	struct dns_question q;
	uint8_t out[DNS_ANSWER_MAX];
	ssize_t n;

	assert_int_equal(dns_question_read(with, sizeof(with) - 1, &q), 0);
	n = dns_answer_write(&q, &a, out, sizeof(out));
	assert_int_equal(n, sizeof(with) - 1 + 6 + strlen(BLOCKED));
	/* the length of all options is the one thing that differs from the question's OPT */
	assert_int_equal(be16_get(out + sizeof(with) - 3), 6 + strlen(BLOCKED));
	be16_put(out + sizeof(with) - 3, 0);
	assert_memory_equal(out + sizeof(without) - 1, want, sizeof(want) - 1);
	assert_int_equal(dns_question_read(without, sizeof(without) - 1, &q), 0);
	assert_int_equal(dns_answer_write(&q, &a, out, sizeof(out)), sizeof(without) - 1);
	assert_int_equal(be16_get(out + 10), 0);
}

static void an_answer_keeps_within_its_room(void **)
{
	static const uint8_t with[] = PLUS_ONE WWW IN_A OPT;
	struct dns_answer a = { .address = 0x19c00102, .ttl = 1, .blocked = BLOCKED };
	struct dns_question q;
	uint8_t out[DNS_ANSWER_MAX];
	ssize_t full;

	assert_int_equal(dns_question_read(with, sizeof(with) - 1, &q), 0);
	full = dns_answer_write(&q, &a, out, sizeof(out));
	assert_true(full > 0);
	for (size_t max = 0; max < (size_t)full; max++) {
		auto_free uint8_t *exact = malloc(max ? max : 1);

		assert_int_equal(dns_answer_write(&q, &a, exact, max), -ENOBUFS);
	}
	assert_int_equal(dns_answer_write(&q, &a, out, (size_t)full), full);
}

/* Queries and responses */

static struct dns_query query_for(const char *text, enum dns_type type)
{
	static const uint8_t mixed[32] = { 0xa5, 0x5a, 0x0f, 0xf0, 0xff, 0, 0x33 };
	struct host_name name = name_of(text);
	struct dns_query q = {};

	dns_query_write(&name, type, 0xbeef, mixed, &q);
	return q;
}

static void glibc_reads_a_query(void **)
{
	static const char *const names[] = { "api.example.com", "a.b",
					     "x1-y_z.xn--bcher-kva.example" };
	static const uint8_t upper[32] = { 5 };
	struct host_name name = name_of("api.example.com");
	struct dns_query q;
	ns_msg m;
	ns_rr rr;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		q = query_for(names[i], i ? DNS_A : DNS_AAAA);
		row_check(i, ns_initparse(q.bytes, q.n, &m) == 0 && ns_msg_id(m) == 0xbeef);
		row_check(i, ns_msg_getflag(m, ns_f_rd) && !ns_msg_getflag(m, ns_f_qr) &&
				     ns_msg_count(m, ns_s_qd) == 1 &&
				     ns_msg_count(m, ns_s_an) == 0);
		row_check(i, ns_parserr(&m, ns_s_qd, 0, &rr) == 0 &&
				     strcasecmp(ns_rr_name(rr), names[i]) == 0 &&
				     ns_rr_type(rr) == (i ? ns_t_a : ns_t_aaaa));
		row_check(i, ns_parserr(&m, ns_s_ar, 0, &rr) == 0 && ns_rr_type(rr) == ns_t_opt &&
				     (unsigned)ns_rr_class(rr) == DNS_PAYLOAD);
	}
	dns_query_write(&name, DNS_A, 1, upper, &q);
	assert_memory_equal(q.bytes + DNS_HEAD_LEN, "\3ApI\7example\3com\0\0\1\0\1", 21);
}

static void the_longest_name_is_asked(void **)
{
	uint8_t mixed[32];
	struct dns_query q = {};
	struct host_name name = { .n = HOST_NAME_MAX_LEN };
	ns_msg m;

	memset(mixed, 0xff, sizeof(mixed));
	for (unsigned i = 0; i < HOST_NAME_MAX_LEN; i++)
		name.text[i] = i % 64 == 63 ? '.' : 'a';
	dns_query_write(&name, DNS_AAAA, 0, mixed, &q);
	assert_int_equal(q.n, DNS_QUERY_MAX);
	assert_int_equal(ns_initparse(q.bytes, q.n, &m), 0);
}

/* A response under construction: names are packed by glibc. */
struct message {
	uint8_t p[4096];
	size_t n;
	uint8_t *names[32];
};

static void message_begin(struct message *m, const struct dns_query *q)
{
	*m = (struct message){ .n = DNS_HEAD_LEN + q->question_n };
	memcpy(m->p, q->bytes, m->n);
	be16_put(m->p + 2, 0x8180);
	be16_put(m->p + 10, 0);
	m->names[0] = m->p;
	m->names[1] = m->p + DNS_HEAD_LEN;
}

static void message_put_name(struct message *m, const char *name)
{
	int n = dn_comp(name, m->p + m->n, (int)(sizeof(m->p) - m->n), m->names,
			m->names + ARRAY_SIZE(m->names));

	assert_true(n > 0);
	m->n += (size_t)n;
}

/* data: bytes, or for NULL the name "to". */
static void message_add(struct message *m, unsigned section, const char *name, unsigned type,
			uint32_t ttl, const void *data, size_t n, const char *to)
{
	size_t length;

	message_put_name(m, name);
	be16_put(m->p + m->n, (uint16_t)type);
	be16_put(m->p + m->n + 2, 1);
	be32_put(m->p + m->n + 4, ttl);
	length = m->n + 8;
	m->n += 10;
	if (data) {
		memcpy(m->p + m->n, data, n);
		m->n += n;
	} else {
		message_put_name(m, to);
	}
	be16_put(m->p + length, (uint16_t)(m->n - length - 2));
	be16_put(m->p + 4 + 2 * (size_t)section,
		 (uint16_t)(be16_get(m->p + 4 + 2 * (size_t)section) + 1));
}

static void message_a(struct message *m, const char *name, uint32_t ttl, uint8_t last)
{
	message_add(m, 1, name, DNS_A, ttl, (uint8_t[]){ 192, 0, 2, last }, 4, NULL);
}

static void message_cname(struct message *m, const char *name, uint32_t ttl, const char *to)
{
	message_add(m, 1, name, DNS_CNAME, ttl, NULL, 0, to);
}

static int message_read(const struct dns_query *q, const struct message *m,
			struct dns_response *ret)
{
	auto_free uint8_t *exact = malloc(m->n ? m->n : 1);

	memcpy(exact, m->p, m->n);
	return dns_response_read(q, exact, m->n, ret);
}

static void addresses_of_a_name(void **)
{
	struct dns_query q = query_for("api.example.com", DNS_A);
	struct dns_response r;
	struct message m;

	message_begin(&m, &q);
	message_a(&m, "api.example.com", 300, 1);
	message_a(&m, "API.EXAMPLE.COM", 60, 2);
	message_a(&m, "evil.example.com", 1, 3); /* of another name: ignored */
	message_add(&m, 1, "api.example.com", 16, 1, "\4text", 5, NULL);
	message_add(&m, 2, "example.com", 2, 1, NULL, 0, "ns.example.com");
	message_add(&m, 3, "api.example.com", DNS_A, 1, "\n\0\0\1", 4, NULL); /* no answer */
	assert_int_equal(message_read(&q, &m, &r), 0);
	assert_int_equal(r.rcode, 0);
	assert_false(r.truncated);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.ttl, 60);
	assert_memory_equal(r.addresses[0], "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
	assert_memory_equal(r.addresses[1], "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\2", 16);
	/* nothing may follow */
	m.n++;
	assert_int_equal(message_read(&q, &m, &r), -EBADMSG);
}

static void addresses_of_ipv6(void **)
{
	static const uint8_t v6[16] = { 0x20, 1, 0xd, 0xb8, [15] = 9 };
	struct dns_query q = query_for("api.example.com", DNS_AAAA);
	struct dns_response r;
	struct message m;

	message_begin(&m, &q);
	message_a(&m, "api.example.com", 1, 1); /* not what was asked */
	message_add(&m, 1, "api.example.com", DNS_AAAA, UINT32_MAX, v6, 16, NULL);
	assert_int_equal(message_read(&q, &m, &r), 0);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.ttl, 0); /* RFC 2181, section 8 */
	assert_memory_equal(r.addresses[0], v6, 16);
	message_add(&m, 1, "api.example.com", DNS_AAAA, 1, v6, 15, NULL);
	assert_int_equal(message_read(&q, &m, &r), -EBADMSG);
}

static void at_most_eight(void **)
{
	struct dns_query q = query_for("api.example.com", DNS_A);
	struct dns_response r;
	struct message m;

	message_begin(&m, &q);
	for (uint8_t i = 0; i < 20; i++)
		message_a(&m, "api.example.com", 20u - i, i);
	assert_int_equal(message_read(&q, &m, &r), 0);
	assert_int_equal(r.n, DNS_ADDRESSES_MAX);
	assert_int_equal(r.ttl, 13);
	assert_int_equal(r.addresses[7][15], 7);
}

static void aliases(void **)
{
	struct dns_query q = query_for("api.example.com", DNS_A);
	struct dns_response r;
	struct message m;

	/* in any order, of names that are no host names */
	message_begin(&m, &q);
	message_a(&m, "a b.cdn.example", 40, 9);
	message_cname(&m, "x.cdn.example", 30, "a b.cdn.example");
	message_cname(&m, "api.example.com", 90, "X.cdn.example");
	message_a(&m, "other.example", 1, 8);
	assert_int_equal(message_read(&q, &m, &r), 0);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.ttl, 30);
	assert_int_equal(r.addresses[0][15], 9);
	/* one that leads nowhere */
	message_begin(&m, &q);
	message_cname(&m, "api.example.com", 90, "x.cdn.example");
	message_a(&m, "y.cdn.example", 1, 8);
	assert_int_equal(message_read(&q, &m, &r), 0);
	assert_int_equal(r.n, 0);
	assert_int_equal(r.ttl, 0);
	/* a circle */
	message_cname(&m, "x.cdn.example", 90, "api.example.com");
	assert_int_equal(message_read(&q, &m, &r), -EBADMSG);
	/* bytes after the name */
	message_begin(&m, &q);
	message_add(&m, 1, "api.example.com", DNS_CNAME, 1, "\1x\0y", 4, NULL);
	assert_int_equal(message_read(&q, &m, &r), -EBADMSG);
}

static void at_most_eight_aliases(void **)
{
	struct dns_query q = query_for("a0.example.com", DNS_A);
	char from[] = "a0.example.com", to[] = "a1.example.com";
	struct dns_response r;
	struct message m;

	for (char last = '8'; last <= '9'; last++) {
		message_begin(&m, &q);
		for (char c = '1'; c <= last; c++) {
			from[1] = (char)(c - 1);
			to[1] = c;
			message_cname(&m, from, 1, to);
		}
		message_a(&m, to, 1, 1);
		assert_int_equal(message_read(&q, &m, &r), last == '8' ? 0 : -EBADMSG);
	}
}

static void only_the_answer_to_the_query(void **)
{
	struct dns_query q = query_for("api.example.com", DNS_A);
	struct dns_response r;
	struct message good, m;

	message_begin(&good, &q);
	message_a(&good, "api.example.com", 5, 1);
	assert_int_equal(message_read(&q, &good, &r), 0);
	/* any bit of the id, of the kind of message or of the question */
	for (size_t bit = 0; bit < 8 * (DNS_HEAD_LEN + (size_t)q.question_n); bit++) {
		size_t byte = bit / 8;
		bool kind = bit >= 16 && bit < 24 && 0x80 >> bit % 8 & 0xf8;

		m = good;
		m.p[byte] ^= (uint8_t)(0x80 >> bit % 8);
		if (byte < 2 || kind || byte == 4 || byte == 5 || byte >= DNS_HEAD_LEN)
			row_check(bit, message_read(&q, &m, &r) == -ENOMSG);
	}
	for (m = good; m.n > 0; m.n--)
		assert_true(m.n == good.n || message_read(&q, &m, &r) < 0);
}

static void what_went_wrong(void **)
{
	struct dns_query q = query_for("api.example.com", DNS_A);
	struct dns_response r;
	struct message m;

	message_begin(&m, &q);
	message_a(&m, "api.example.com", 5, 1);
	m.p[3] |= DNS_NXDOMAIN;
	assert_int_equal(message_read(&q, &m, &r), 0);
	assert_int_equal(r.rcode, DNS_NXDOMAIN);
	assert_int_equal(r.n, 0);
	/* truncated, in the middle of a record */
	m.p[3] &= 0xf0;
	m.p[2] |= 2;
	m.n -= 3;
	assert_int_equal(message_read(&q, &m, &r), 0);
	assert_true(r.truncated);
	assert_int_equal(r.n, 0);
	/* the upper bits of rcode are in OPT */
	message_begin(&m, &q);
	memcpy(m.p + m.n, BYTES("\0\0\x29\x04\xd0\1\0\0\0\0\0"));
	m.n += 11;
	be16_put(m.p + 10, 1);
	assert_int_equal(message_read(&q, &m, &r), 0);
	assert_int_equal(r.rcode, DNS_BADVERS);
	memcpy(m.p + m.n, BYTES(OPT));
	m.n += 11;
	be16_put(m.p + 10, 2);
	assert_int_equal(message_read(&q, &m, &r), -EBADMSG);
}

/* An A record after the question, whose name is these bytes. */
static int read_with_name(const uint8_t *name, size_t n, struct dns_response *r)
{
	struct dns_query q = query_for("api.example.com", DNS_A);
	struct message m;

	message_begin(&m, &q);
	memcpy(m.p + m.n, name, n);
	m.n += n;
	memcpy(m.p + m.n, BYTES("\0\1\0\1\0\0\0\5\0\4\xc0\0\2\1"));
	m.n += 14;
	be16_put(m.p + 6, 1);
	return message_read(&q, &m, r);
}

/* The question's name begins at 12 (0x0c), its second label at 16; the record at 33 (0x21). */
static void where_names_point(void **)
{
	static const struct {
		const uint8_t *p;
		size_t n;
		int ret;
		bool found;
	} cases[] = {
		{ BYTES("\xc0\x0c"), 0, true },
		{ BYTES("\3api\xc0\x10"), 0, true },
		{ BYTES("\3api\7example\3com\0"), 0, true },
		{ BYTES("\xc0\x10"), 0, false },           /* example.com */
		{ BYTES("\xc0\x1c"), 0, false },           /* the root */
		{ BYTES("\xc0\x21"), -EBADMSG, false },    /* itself */
		{ BYTES("\1a\xc0\x21"), -EBADMSG, false }, /* a circle */
		{ BYTES("\xc0\x23"), -EBADMSG, false },    /* forwards */
		{ BYTES("\xc0\x00"), -EBADMSG, false },    /* the head */
		{ BYTES("\xc0\x0b"), -EBADMSG, false },
		{ BYTES("\xff\xff"), -EBADMSG, false },
		{ BYTES("\x80\x0c"), -EBADMSG, false },
		{ BYTES("\x40\x0c"), -EBADMSG, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dns_response r = {};

		row_check(i, read_with_name(cases[i].p, cases[i].n, &r) == cases[i].ret);
		row_check(i, cases[i].ret < 0 || r.n == cases[i].found);
	}
}

/* Records whose names point at each other's: 16 steps are followed, not 17; 255 bytes, not 256. */
static void chains_of_pointers_end(void **)
{
	struct dns_query q = query_for("api.example.com", DNS_A);
	struct dns_response r;
	struct message m;
	size_t to = DNS_HEAD_LEN;

	message_begin(&m, &q);
	for (unsigned i = 1; i <= 17; i++) {
		size_t begin = m.n;

		be16_put(m.p + m.n, (uint16_t)(0xc000 | to));
		memcpy(m.p + m.n + 2, BYTES("\0\1\0\1\0\0\0\5\0\4\xc0\0\2\1"));
		m.n += 16;
		to = begin;
		be16_put(m.p + 6, (uint16_t)i);
		row_check(i, message_read(&q, &m, &r) == (i <= 16 ? 0 : -EBADMSG));
	}
	/* 17 bytes of the question's name, and labels before it */
	for (unsigned extra = 237; extra <= 240; extra++) {
		uint8_t name[300];
		size_t n = 0;

		for (unsigned left = extra; left;) {
			unsigned label = left > 64 ? 62 : left - 1;

			name[n++] = (uint8_t)label;
			memset(name + n, 'a', label);
			n += label;
			left -= label + 1;
		}
		be16_put(name + n, 0xc00c);
		row_check(extra,
			  read_with_name(name, n + 2, &r) == (extra + 17 <= 255 ? 0 : -EBADMSG));
	}
}

/* Changed bytes: what is taken, glibc takes as well, and has those addresses. */
static void glibc_agrees(void **)
{
	struct dns_query q = query_for("api.example.com", DNS_A);
	struct message good, m;
	uint64_t seed = 1;
	unsigned taken = 0;

	message_begin(&good, &q);
	message_cname(&good, "api.example.com", 90, "x.cdn.example");
	message_a(&good, "x.cdn.example", 300, 1);
	message_a(&good, "x.cdn.example", 60, 2);
	for (unsigned round = 0; round < 50000; round++) {
		struct dns_response r;
		unsigned found = 0;
		ns_msg msg;
		ns_rr rr;

		m = good;
		for (unsigned i = 0; i < 1 + round % 3; i++) {
			seed = hash_bytes(seed, &round, sizeof(round));
			m.p[(seed >> 8) % m.n] = (uint8_t)(seed >> 40);
		}
		if (message_read(&q, &m, &r) < 0 || r.truncated || r.rcode)
			continue;
		taken++;
		row_check(round, ns_initparse(m.p, (int)m.n, &msg) == 0);
		for (int i = 0; i < ns_msg_count(msg, ns_s_an); i++) {
			row_check(round, ns_parserr(&msg, ns_s_an, i, &rr) == 0);
			for (unsigned k = 0; ns_rr_type(rr) == ns_t_a && k < r.n; k++)
				found += memcmp(r.addresses[k] + 12, ns_rr_rdata(rr), 4) == 0;
		}
		row_check(round, found >= r.n);
	}
	assert_true(taken > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(glibc_asks),
		cmocka_unit_test(what_is_answered),
		cmocka_unit_test(room_of_a_question),
		cmocka_unit_test(names_of_addresses),
		cmocka_unit_test(glibc_is_answered),
		cmocka_unit_test(a_refusal_says_why),
		cmocka_unit_test(an_answer_keeps_within_its_room),
		cmocka_unit_test(glibc_reads_a_query),
		cmocka_unit_test(the_longest_name_is_asked),
		cmocka_unit_test(addresses_of_a_name),
		cmocka_unit_test(addresses_of_ipv6),
		cmocka_unit_test(at_most_eight),
		cmocka_unit_test(aliases),
		cmocka_unit_test(at_most_eight_aliases),
		cmocka_unit_test(only_the_answer_to_the_query),
		cmocka_unit_test(what_went_wrong),
		cmocka_unit_test(where_names_point),
		cmocka_unit_test(chains_of_pointers_end),
		cmocka_unit_test(glibc_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
