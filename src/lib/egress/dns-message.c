/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/dns-message.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/endian.h"

#define FLAG_RESPONSE 0x8000
#define FLAG_OPCODE 0x7800
#define FLAG_TRUNCATED 0x0200
#define FLAG_RECURSE 0x0100
#define FLAG_CAN_RECURSE 0x0080
#define FLAG_UNCHECKED 0x0010
#define FLAG_RCODE 0x000f
#define CLASS_IN 1
#define ROOM_MIN 512
#define OPT_LEN 11
#define OPT_DNSSEC_OK 0x8000
#define OPTION_EDE 15 /* the option's code; "Blocked" in it is 15 as well */
#define EDE_BLOCKED 15
#define NAME_OF_QUESTION 0xc00c /* a pointer to it */
#define JUMPS_MAX 16            /* of one name */
#define ADDITIONAL_MAX 8        /* records after a question */
#define ANSWERS_MAX 256         /* records of a response that are looked at */

static_assert(DNS_HEAD_LEN + DNS_QUESTION_MAX + OPT_LEN + 6 + DNS_BLOCKED_TEXT_MAX <= ROOM_MIN);
static_assert(DNS_HEAD_LEN + DNS_QUESTION_MAX + 12 + DNS_NAME_MAX + OPT_LEN + 6 +
		      DNS_BLOCKED_TEXT_MAX <=
	      DNS_ANSWER_MAX);

struct dns_head {
	uint16_t id, flags;
	uint16_t counts[4]; /* questions, answers, authorities, additional */
};

/* Without pointers, in lower case: two that are equal are one name. */
struct dns_name {
	uint8_t n;
	uint8_t bytes[DNS_NAME_MAX];
};

struct dns_record {
	struct dns_name name;
	uint16_t type, class;
	uint32_t ttl;
	size_t data, data_n;
};

/* A message and how far it has been read. */
struct dns_reader {
	const uint8_t *p;
	size_t n, at;
};

/* Reading */

static struct dns_head dns_head_read(struct dns_reader *in)
{
	struct dns_head h = { be16_get(in->p), be16_get(in->p + 2), {} };

	for (size_t i = 0; i < 4; i++)
		h.counts[i] = be16_get(in->p + 4 + 2 * i);
	in->at = DNS_HEAD_LEN;
	return h;
}

/* The labels at *at up to their end, then 0, or up to a pointer, which is returned. */
static int dns_labels_read(const struct dns_reader *in, size_t *at, struct dns_name *ret)
{
	while (*at < in->n) {
		size_t label = in->p[*at];

		if (label > HOST_LABEL_MAX) {
			int to = label >= 0xc0 && in->n - *at >= 2 ? be16_get(in->p + *at) & 0x3fff
								   : -EBADMSG;

			*at += 2;
			return to < DNS_HEAD_LEN ? -EBADMSG : to;
		}
		if (label >= in->n - *at || ret->n + label + 1 > DNS_NAME_MAX)
			return -EBADMSG;
		for (size_t i = 0; i <= label; i++)
			ret->bytes[ret->n++] = (uint8_t)ascii_to_lower((char)in->p[(*at)++]);
		if (!label)
			return 0;
	}
	return -EBADMSG;
}

/* A pointer leads to before the labels it ends, so that following them ends. */
static int dns_name_read(struct dns_reader *in, struct dns_name *ret)
{
	size_t at = in->at, begin = in->at;
	unsigned jumps = 0;
	int to;

	ret->n = 0;
	while ((to = dns_labels_read(in, &at, ret)) > 0) {
		if (!jumps)
			in->at = at;
		if ((size_t)to >= begin || ++jumps > JUMPS_MAX)
			return -EBADMSG;
		at = begin = (size_t)to;
	}
	if (!jumps)
		in->at = at;
	return to;
}

static bool dns_name_eq(const struct dns_name *a, const struct dns_name *b)
{
	return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static int dns_record_read(struct dns_reader *in, struct dns_record *ret)
{
	int r = dns_name_read(in, &ret->name);

	if (r < 0)
		return r;
	if (in->n - in->at < 10)
		return -EBADMSG;
	ret->type = be16_get(in->p + in->at);
	ret->class = be16_get(in->p + in->at + 2);
	ret->ttl = be32_get(in->p + in->at + 4);
	ret->data_n = be16_get(in->p + in->at + 8);
	ret->data = in->at + 10;
	if (ret->data_n > in->n - ret->data)
		return -EBADMSG;
	in->at = ret->data + ret->data_n;
	return 0;
}

/* The only question, which has no pointers. */
static int dns_question_section_read(struct dns_reader *in, struct dns_name *name)
{
	size_t at = in->at;

	name->n = 0;
	if (dns_labels_read(in, &at, name) != 0 || in->n - at < 4)
		return -EBADMSG;
	in->at = at + 4;
	return 0;
}

static bool dns_record_is_opt(const struct dns_record *record)
{
	return record->type == DNS_OPT && record->name.n == 1;
}

static int dns_question_read_additional(struct dns_reader *in, unsigned count,
					struct dns_question *ret)
{
	int rcode = DNS_NOERROR;

	if (count > ADDITIONAL_MAX)
		return DNS_FORMERR;
	for (unsigned i = 0; i < count; i++) {
		struct dns_record record;

		if (dns_record_read(in, &record) < 0)
			return DNS_FORMERR;
		if (record.type != DNS_OPT)
			continue;
		if (!dns_record_is_opt(&record) || ret->has_opt)
			return DNS_FORMERR;
		ret->has_opt = true;
		ret->dnssec_ok = record.ttl & OPT_DNSSEC_OK;
		ret->room = record.class < ROOM_MIN      ? ROOM_MIN
			    : record.class > DNS_PAYLOAD ? DNS_PAYLOAD
							 : record.class;
		if (record.ttl >> 16 & 0xff)
			rcode = DNS_BADVERS;
	}
	return in->at == in->n ? rcode : DNS_FORMERR;
}

int dns_question_read(const uint8_t *p, size_t n, struct dns_question *ret)
{
	struct dns_reader in = { p, n, 0 };
	struct dns_name name;
	struct dns_head head;
	int rcode, additional;

	if (n < DNS_HEAD_LEN)
		return -EBADMSG;
	head = dns_head_read(&in);
	if (head.flags & FLAG_RESPONSE)
		return -EBADMSG;
	*ret = (struct dns_question){ .id = head.id, .flags = head.flags, .room = ROOM_MIN };
	if (head.flags & FLAG_OPCODE)
		return DNS_NOTIMP;
	if (head.counts[0] != 1 || head.counts[1] || head.counts[2] ||
	    dns_question_section_read(&in, &name) < 0)
		return DNS_FORMERR;
	ret->n = (uint16_t)(in.at - DNS_HEAD_LEN);
	memcpy(ret->bytes, p + DNS_HEAD_LEN, ret->n);
	ret->type = be16_get(p + in.at - 4);
	rcode = be16_get(p + in.at - 2) == CLASS_IN ? DNS_NOERROR : DNS_REFUSED;
	if (rcode == DNS_NOERROR && host_name_read_wire(ret->bytes, ret->n, &ret->name) < 0)
		rcode = DNS_NXDOMAIN;
	additional = dns_question_read_additional(&in, head.counts[3], ret);
	return additional ? additional : rcode;
}

bool dns_name_is_reverse(const struct host_name *name, uint32_t *address)
{
	struct slice rest = { name->text, name->n };
	uint32_t sum = 0;

	for (unsigned i = 0; i < 4; i++) {
		uint64_t v;

		if (!rest.p || str_parse_u64(slice_cut(&rest, '.'), 0, 255, &v) < 0)
			return false;
		sum |= (uint32_t)v << 8 * i;
	}
	*address = sum;
	return slice_eq(rest, SLICE("in-addr.arpa"));
}

/* Writing */

struct dns_writer {
	uint8_t *p;
	size_t n, max;
	bool full;
};

static void dns_put(struct dns_writer *out, const void *p, size_t n)
{
	out->full = out->full || n > out->max - out->n;
	if (out->full)
		return;
	memcpy(out->p + out->n, p, n);
	out->n += n;
}

static void dns_put16(struct dns_writer *out, uint16_t v)
{
	uint8_t bytes[2];

	be16_put(bytes, v);
	dns_put(out, bytes, sizeof(bytes));
}

static void dns_put32(struct dns_writer *out, uint32_t v)
{
	dns_put16(out, (uint16_t)(v >> 16));
	dns_put16(out, (uint16_t)v);
}

static void dns_put_head(struct dns_writer *out, const struct dns_head *head)
{
	dns_put16(out, head->id);
	dns_put16(out, head->flags);
	for (size_t i = 0; i < 4; i++)
		dns_put16(out, head->counts[i]);
}

static void dns_put_name(struct dns_writer *out, const char *text, size_t n)
{
	struct slice rest = { text, n };

	while (rest.p) {
		struct slice label = slice_cut(&rest, '.');
		uint8_t len = (uint8_t)label.n;

		dns_put(out, &len, 1);
		dns_put(out, label.p, label.n);
	}
	dns_put(out, "", 1);
}

static void dns_put_record(struct dns_writer *out, const struct dns_answer *a)
{
	const struct host_name *to = a->points_to;

	dns_put16(out, NAME_OF_QUESTION);
	dns_put16(out, to ? DNS_PTR : DNS_A);
	dns_put16(out, CLASS_IN);
	dns_put32(out, a->ttl);
	dns_put16(out, (uint16_t)(to ? to->n + 2 : 4));
	if (to)
		dns_put_name(out, to->text, to->n);
	else
		dns_put32(out, a->address);
}

static void dns_put_opt(struct dns_writer *out, uint32_t flags, const char *blocked)
{
	size_t n = blocked ? strlen(blocked) : 0;

	assert(n <= DNS_BLOCKED_TEXT_MAX);
	dns_put(out, "", 1);
	dns_put16(out, DNS_OPT);
	dns_put16(out, DNS_PAYLOAD);
	dns_put32(out, flags);
	dns_put16(out, (uint16_t)(blocked ? n + 6 : 0));
	if (!blocked)
		return;
	dns_put16(out, OPTION_EDE);
	dns_put16(out, (uint16_t)(n + 2));
	dns_put16(out, EDE_BLOCKED);
	dns_put(out, blocked, n);
}

ssize_t dns_answer_write(const struct dns_question *q, const struct dns_answer *a, uint8_t *ret,
			 size_t max)
{
	struct dns_writer out = { .p = ret, .max = max };
	bool has_record = a->address || a->points_to;
	unsigned rcode = a->rcode;
	struct dns_head head = {
		.id = q->id,
		.flags = (uint16_t)(FLAG_RESPONSE | FLAG_CAN_RECURSE | (rcode & FLAG_RCODE) |
				    (q->flags & (FLAG_OPCODE | FLAG_RECURSE | FLAG_UNCHECKED))),
		.counts = { q->n > 0, has_record, 0, q->has_opt },
	};

	assert(!has_record || (q->n && !rcode));
	dns_put_head(&out, &head);
	dns_put(&out, q->bytes, q->n);
	if (has_record)
		dns_put_record(&out, a);
	if (q->has_opt)
		dns_put_opt(&out, rcode >> 4 << 24 | (q->dnssec_ok ? OPT_DNSSEC_OK : 0),
			    a->blocked);
	return out.full ? -ENOBUFS : (ssize_t)out.n;
}

/* Asking */

void dns_query_write(const struct host_name *name, enum dns_type type, uint16_t id,
		     const uint8_t mixed[static 32], struct dns_query *ret)
{
	struct dns_writer out = { .p = ret->bytes, .max = sizeof(ret->bytes) };
	struct dns_head head = { id, FLAG_RECURSE, { 1, 0, 0, 1 } };
	char text[HOST_NAME_MAX_LEN] = {};

	for (size_t i = 0; i < name->n; i++) {
		char c = name->text[i];

		text[i] =
			ascii_is_lower(c) && mixed[i / 8] >> i % 8 & 1 ? (char)(c - 'a' + 'A') : c;
	}
	dns_put_head(&out, &head);
	dns_put_name(&out, text, name->n);
	dns_put16(&out, (uint16_t)type);
	dns_put16(&out, CLASS_IN);
	ret->question_n = (uint16_t)(out.n - DNS_HEAD_LEN);
	dns_put_opt(&out, 0, NULL);
	assert(!out.full);
	ret->n = (uint16_t)out.n;
}

static bool dns_response_is_of(const struct dns_query *query, const uint8_t *p, size_t n)
{
	return n >= DNS_HEAD_LEN + (size_t)query->question_n && memcmp(p, query->bytes, 2) == 0 &&
	       (be16_get(p + 2) & (FLAG_RESPONSE | FLAG_OPCODE)) == FLAG_RESPONSE &&
	       be16_get(p + 4) == 1 &&
	       memcmp(p + DNS_HEAD_LEN, query->bytes + DNS_HEAD_LEN, query->question_n) == 0;
}

/* Every record can be read, nothing follows the last, and OPT has the rest of rcode. */
static int dns_response_check(struct dns_reader in, const struct dns_head *head,
			      struct dns_response *ret)
{
	unsigned before = (unsigned)head->counts[1] + head->counts[2];
	bool has_opt = false;

	for (unsigned i = 0; i < before + head->counts[3]; i++) {
		struct dns_record record;
		int r = dns_record_read(&in, &record);

		if (r < 0)
			return r;
		if (i < before || !dns_record_is_opt(&record))
			continue;
		if (has_opt)
			return -EBADMSG;
		has_opt = true;
		ret->rcode |= (uint16_t)(record.ttl >> 24 << 4);
	}
	return in.at == in.n ? 0 : -EBADMSG;
}

static void dns_response_lower_ttl(struct dns_response *ret, uint32_t ttl)
{
	/* RFC 2181: one that is negative is 0 */
	if (ttl > INT32_MAX)
		ttl = 0;
	if (ttl < ret->ttl)
		ret->ttl = ttl;
}

static int dns_response_add(const struct dns_reader *in, const struct dns_record *record,
			    struct dns_response *ret)
{
	size_t len = record->type == DNS_A ? 4 : 16;
	uint8_t *to;

	if (record->data_n != len)
		return -EBADMSG;
	if (ret->n == DNS_ADDRESSES_MAX)
		return 0;
	to = ret->addresses[ret->n];
	memset(to, 0, 10);
	memset(to + 10, 0xff, 2);
	memcpy(to + 16 - len, in->p + record->data, len);
	dns_response_lower_ttl(ret, record->ttl);
	ret->n++;
	return 0;
}

/* The addresses of *name.  Returns 1 if it has an alias instead, which *name becomes. */
static int dns_response_look(struct dns_reader in, unsigned count, uint16_t type,
			     struct dns_name *name, struct dns_response *ret)
{
	for (unsigned i = 0; i < count && i < ANSWERS_MAX; i++) {
		struct dns_record record;
		int r = dns_record_read(&in, &record);

		if (r < 0)
			return r;
		if (record.class != CLASS_IN || !dns_name_eq(&record.name, name))
			continue;
		if (record.type == type) {
			r = dns_response_add(&in, &record, ret);
			if (r < 0)
				return r;
		} else if (record.type == DNS_CNAME && !ret->n) {
			struct dns_reader data = { in.p, record.data + record.data_n, record.data };

			r = dns_name_read(&data, name);
			dns_response_lower_ttl(ret, record.ttl);
			return r < 0 || data.at != data.n ? -EBADMSG : 1;
		}
	}
	return 0;
}

int dns_response_read(const struct dns_query *query, const uint8_t *p, size_t n,
		      struct dns_response *ret)
{
	struct dns_reader in = { p, n, 0 };
	struct dns_name name;
	struct dns_head head;
	unsigned aliases = 0;
	uint16_t type;
	int r;

	if (!dns_response_is_of(query, p, n))
		return -ENOMSG;
	head = dns_head_read(&in);
	*ret = (struct dns_response){ .rcode = head.flags & FLAG_RCODE,
				      .truncated = head.flags & FLAG_TRUNCATED };
	if (ret->truncated)
		return 0;
	r = dns_question_section_read(&in, &name);
	if (r >= 0)
		r = dns_response_check(in, &head, ret);
	if (r < 0 || ret->rcode != DNS_NOERROR)
		return r;
	type = be16_get(p + in.at - 4);
	ret->ttl = UINT32_MAX;
	while ((r = dns_response_look(in, head.counts[1], type, &name, ret)) > 0)
		if (++aliases > DNS_CHAIN_MAX)
			return -EBADMSG;
	if (!ret->n)
		ret->ttl = 0;
	return r;
}
