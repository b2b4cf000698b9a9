/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes as a question, which is answered in every way, and as what follows the id of a response
 * to a query.  An answer is no question, and only what belongs to the query is taken. */
#include <errno.h>

#include "base/endian.h"
#include "egress/dns-message.h"
#include "fuzz.h"

static void answer_check(const struct dns_question *q, const struct dns_answer *a)
{
	uint8_t out[DNS_ANSWER_MAX];
	struct dns_question again;
	ssize_t n = dns_answer_write(q, a, out, sizeof(out));

	CHECK(n >= DNS_HEAD_LEN && (a->points_to || n <= q->room));
	CHECK(be16_get(out) == q->id && memcmp(out + DNS_HEAD_LEN, q->bytes, q->n) == 0);
	CHECK(dns_question_read(out, (size_t)n, &again) == -EBADMSG);
}

static void question_check(const uint8_t *in, size_t size)
{
	struct dns_question q;
	struct host_name name;
	int r = dns_question_read(in, size, &q);

	if (r < 0) {
		CHECK(r == -EBADMSG && (size < DNS_HEAD_LEN || in[2] & 0x80));
		return;
	}
	answer_check(&q, &(struct dns_answer){ .rcode = r ? (enum dns_rcode)r : DNS_NXDOMAIN,
					       .blocked = "egress policy" });
	if (r > 0)
		return;
	CHECK(q.n == q.name.n + 2 + 4);
	CHECK(host_name_parse((struct slice){ q.name.text, q.name.n }, &name) == 0);
	answer_check(&q, &(struct dns_answer){ .address = 0x19c00001, .ttl = 60 });
	answer_check(&q, &(struct dns_answer){ .points_to = &name, .ttl = 60 });
}

static void response_check(const uint8_t *in, size_t size)
{
	static const uint8_t mixed[32] = { 0x55, 0xaa };
	struct host_name name;
	struct dns_query q;
	struct dns_response ret;
	uint8_t *m;
	size_t n;

	CHECK(host_name_parse(SLICE("api.example.com"), &name) == 0);
	dns_query_write(&name, size % 2 ? DNS_A : DNS_AAAA, 7, mixed, &q);
	CHECK(dns_response_read(&q, in, size, &ret) != 0 || size > q.question_n);
	if (size < 10)
		return;
	/* flags and counts are of the input, and so is all after the question */
	n = size + 2 + q.question_n;
	m = calloc(1, n + 1);
	CHECK(m);
	be16_put(m, 7);
	memcpy(m + 2, in, 10);
	memcpy(m + DNS_HEAD_LEN, q.bytes + DNS_HEAD_LEN, q.question_n);
	memcpy(m + DNS_HEAD_LEN + q.question_n, in + 10, size - 10);
	if (dns_response_read(&q, m, n, &ret) == 0) {
		CHECK(m[2] & 0x80 && ret.n <= DNS_ADDRESSES_MAX && ret.ttl <= INT32_MAX);
		CHECK(!ret.n || (!ret.rcode && !ret.truncated));
		CHECK(ret.truncated || dns_response_read(&q, m, n + 1, &ret) == -EBADMSG);
	}
	free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size);

	question_check(in, size);
	response_check(in, size);
	free(in);
	return 0;
}
