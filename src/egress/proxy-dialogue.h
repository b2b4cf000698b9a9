/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_EGRESS_PROXY_DIALOGUE_H
#define CAY_EGRESS_PROXY_DIALOGUE_H
/*
 * proxy-dialogue - what cay-egress sends to an upstream proxy, and what the proxy replies
 *
 * The reply is read by the strict parser of http/http.h, up to the end of its head and not a byte
 * more: what follows is sent by the host.  No I/O.
 */
#include "http/http.h"

#define PROXY_REQUEST_MAX KIB(2)
#define PROXY_LOGIN_MAX 255 /* bytes of USER:PASSWORD */

enum proxy_result {
	PROXY_MORE,
	PROXY_CONNECTED,
	PROXY_LOGIN,     /* it wants credentials, or others */
	PROXY_DENIED,    /* it does not connect to this host or port */
	PROXY_NO_HOST,   /* it could not connect: another address may do */
	PROXY_MALFORMED, /* its bytes are no reply */
	PROXY_CLOSED,    /* it ended the connection */
	PROXY_RESULT_NUM
};

/* Of the log; NULL for the first two. */
const char *proxy_result_reason(enum proxy_result r);
/* The host is a name or an address.  login is "" or the value of Proxy-Authorization. */
[[nodiscard]] int proxy_request_write(const char *host, uint16_t port, const char *login,
				      struct buf *ret);
/* The value for "USER:PASSWORD", in which a line end may follow.  -EINVAL if it is none. */
[[nodiscard]] int proxy_login_write(struct slice text, struct buf *ret);

void proxy_reply_init(struct http_parser *p);
/* Takes what belongs to the reply from the front of *in.  Not called again after a result. */
enum proxy_result proxy_reply_read(struct http_parser *p, struct slice *in);
#endif
