/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_REQUEST_TERMS_H
#define CAY_EGRESS_REQUEST_TERMS_H
/*
 * request-terms - which requests of HTTP a rule is for, beyond name and port
 *
 *	methods      GET
 *	paths        /v1/status   /v1/...*   *.../git-upload-pack: one star, first or last
 *	credential   the name of one that cay-broker has
 *	inspect      nothing more: each request is read
 *
 * Kept as bytes that are the same in a rule and in a compiled policy.  A rule with terms needs each
 * request to be read.
 *
 * A path is compared after it is decoded.  One that two servers might read as different paths
 * (encoded slashes, "..", empty parts, bytes that are no UTF-8) is unclear: whatever the rule says,
 * such a request is not allowed by it or past it.  So is a GET or HEAD with a body where a rule has
 * methods: HTTP gives it no meaning, and who allows reading does not mean to allow uploads.  Pure.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define EGRESS_TERMS_MAX 512 /* bytes of a rule: each term has two more than its text */
#define EGRESS_METHOD_MAX 32
#define EGRESS_PATTERN_MAX 250
#define EGRESS_CREDENTIAL_MAX 63

/* They are kept in this order. */
enum egress_term_kind {
	EGRESS_TERM_METHOD = 1,
	EGRESS_TERM_PATH,
	EGRESS_TERM_CREDENTIAL,
	EGRESS_TERM_INSPECT, /* without a text */
	EGRESS_TERM_NUM
};

struct egress_terms {
	uint16_t n;
	char bytes[EGRESS_TERMS_MAX];
};

struct egress_term {
	enum egress_term_kind kind;
	struct slice text;
};

struct egress_request {
	struct slice method;
	struct slice path; /* decoded; p NULL: it is unclear */
	bool body;
};

enum egress_match { EGRESS_NO_MATCH, EGRESS_MATCH, EGRESS_UNCLEAR };

/* Add a term behind the others; none of a later kind may be there. */
[[nodiscard]] int egress_terms_add(struct egress_terms *terms, enum egress_term_kind kind,
				   struct slice text, struct cay_err *err);
struct slice egress_terms_slice(const struct egress_terms *terms);
/* Whether these bytes are terms; the functions below take no others. */
bool egress_terms_are_valid(struct slice terms);
/* Take the first from the front; false: there is none. */
bool egress_terms_next(struct slice *terms, struct egress_term *ret);
/* Whether they are for some requests only. */
bool egress_terms_select(struct slice terms);
enum egress_match egress_terms_match(struct slice terms, const struct egress_request *rq);
/* Empty: none. */
struct slice egress_terms_credential(struct slice terms);
/* The path of the target of a request, without its query.  -EINVAL: it is unclear. */
[[nodiscard]] int egress_path_decode(struct slice target, struct buf *ret);
#endif
