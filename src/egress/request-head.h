/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_REQUEST_HEAD_H
#define CAY_EGRESS_REQUEST_HEAD_H
/* request-head - the heads of inspected requests, and the replies to those that are refused */
#include "egress/host-name.h"
#include "egress/policy.h"
#include "http/http.h"

#define REQUEST_HEAD_MAX KIB(48)
#define REQUEST_TEXT_MAX 48

/* NULL, or why a request is not for this host on this port. */
const char *request_refusal(const struct http_head *h, const struct host_name *name, uint16_t port);
bool request_has_body(const struct http_head *h);
struct egress_verdict request_judge(struct slice policy, const struct host_name *name,
				    uint16_t port, struct slice method, struct slice target,
				    bool body, struct slice *ret_credential);
/* The strictest verdict of all that a server may take it for: some let headers replace the method
 * or the target.  *ret_why is set if such a header decides, or its body. */
struct egress_verdict request_judge_head(struct slice policy, const struct host_name *name,
					 uint16_t port, const struct http_head *h,
					 struct slice *ret_credential, const char **ret_why);
/* The head as it is passed on: from what was parsed, without the headers of one connection. */
[[nodiscard]] int inspected_head_write(const struct http_head *h, const struct host_name *name,
				       struct buf *ret);
/* "PUT /admin": the beginning, for a record; without the query, which may have secrets. */
void request_describe(const struct http_head *h, char ret[static REQUEST_TEXT_MAX]);
struct refusal {
	unsigned status;
	const char *why; /* of the log */
	const struct http_head *head;
	const char *scheme, *sandbox;
	const struct host_name *name;
	uint16_t port;
	const struct egress_verdict *by; /* NULL: no policy decided */
};
[[nodiscard]] int refusal_write(const struct refusal *r, struct buf *ret);
#endif
