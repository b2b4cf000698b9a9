/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_DNS_MESSAGE_H
#define CAY_EGRESS_DNS_MESSAGE_H
/*
 * dns-message - messages of DNS (RFC 1035): what a sandbox asks and is answered, and what a
 * resolver of the host is asked and answers
 *
 * Both are read from hostile bytes.  What is not exactly a message with one question is refused as
 * a whole.  A message over TCP is the same bytes without the length before them.  An answer echoes
 * the question byte for byte, so that a client that mixes upper and lower case (0x20) finds its
 * own.  Nothing that was answered is believed unless it belongs to the name that was asked, through
 * at most DNS_CHAIN_MAX aliases.  Pure.
 */
#include "egress/host-name.h"

#define DNS_HEAD_LEN 12
#define DNS_NAME_MAX 255                    /* as bytes of a message, with lengths and end */
#define DNS_QUESTION_MAX (DNS_NAME_MAX + 4) /* name, type and class */
#define DNS_PAYLOAD 1232                    /* what we say that we take over UDP */
#define DNS_QUERY_MAX (DNS_HEAD_LEN + DNS_QUESTION_MAX + 11)
#define DNS_ANSWER_MAX 640 /* an answer of ours is not longer */
#define DNS_BLOCKED_TEXT_MAX 64
#define DNS_ADDRESSES_MAX 8
#define DNS_CHAIN_MAX 8

enum dns_type {
	DNS_A = 1,
	DNS_CNAME = 5,
	DNS_PTR = 12,
	DNS_AAAA = 28,
	DNS_OPT = 41,
};

enum dns_rcode {
	DNS_NOERROR = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
	DNS_BADVERS = 16, /* of EDNS; its upper bits are in the OPT record */
};

/* What a sandbox asks */

struct dns_question {
	uint16_t id;
	uint16_t flags; /* as received */
	uint16_t type;  /* also one that enum dns_type does not have */
	struct host_name name;
	bool has_opt, dnssec_ok; /* dnssec_ok is only echoed */
	uint16_t room;           /* for an answer over UDP: 512 to DNS_PAYLOAD */
	uint16_t n;              /* of bytes, 0: no question could be read */
	uint8_t bytes[DNS_QUESTION_MAX];
};

struct dns_answer {
	enum dns_rcode rcode;
	uint32_t address;                  /* an A record, in host byte order; 0: none */
	const struct host_name *points_to; /* a PTR record; NULL: none */
	uint32_t ttl;                      /* of that record, in seconds */
	/* With it a question that had OPT is told why: "Blocked" (RFC 8914, code 15) and this text,
	 * at most DNS_BLOCKED_TEXT_MAX bytes.  NULL: nothing. */
	const char *blocked;
};

/* Returns 0 for a question to answer, with type and name.  A positive enum dns_rcode is what to
 * answer instead: nothing but rcode may be set in the answer then, and blocked.  -EBADMSG: answer
 * nothing, it is itself a response, or shorter than a head. */
[[nodiscard]] int dns_question_read(const uint8_t *p, size_t n, struct dns_question *ret);
/* Of "4.3.2.1.in-addr.arpa", in host byte order. */
bool dns_name_is_reverse(const struct host_name *name, uint32_t *address);
/* To a question that dns_question_read() did not return -EBADMSG for.  Returns the length, at most
 * DNS_ANSWER_MAX and, unless points_to is set, at most 512; -ENOBUFS if it exceeds max. */
[[nodiscard]] ssize_t dns_answer_write(const struct dns_question *q, const struct dns_answer *a,
				       uint8_t *ret, size_t max);

/* What a resolver is asked */

struct dns_query {
	uint16_t n, question_n;
	uint8_t bytes[DNS_QUERY_MAX];
};

struct dns_response {
	uint16_t rcode;
	bool truncated; /* nothing below is filled: ask again over TCP */
	uint8_t n;      /* of addresses; 0: there is none of that type, or rcode says why */
	uint8_t addresses[DNS_ADDRESSES_MAX][16]; /* IPv4 as ::ffff:a.b.c.d */
	uint32_t ttl; /* the smallest of the addresses and the aliases; 0 without addresses */
};

/* type is DNS_A or DNS_AAAA.  A letter is written in upper case where its bit of mixed is 1; id and
 * mixed are random, or others can guess what to answer. */
void dns_query_write(const struct host_name *name, enum dns_type type, uint16_t id,
		     const uint8_t mixed[static 32], struct dns_query *ret);
/* -ENOMSG: it does not answer this query, go on waiting.  -EBADMSG: it does, and is malformed. */
[[nodiscard]] int dns_response_read(const struct dns_query *query, const uint8_t *p, size_t n,
				    struct dns_response *ret);
#endif
