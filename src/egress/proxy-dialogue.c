/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/proxy-dialogue.h"

#include <errno.h>
#include <string.h>

#include "text/base64.h"

const char *proxy_result_reason(enum proxy_result r)
{
	static const char *const reasons[PROXY_RESULT_NUM] = {
		[PROXY_LOGIN] = "proxy_login",
		[PROXY_DENIED] = "proxy_denied",
		[PROXY_NO_HOST] = "proxy_connect_failed",
		[PROXY_MALFORMED] = "proxy_malformed",
		[PROXY_CLOSED] = "proxy_closed",
	};

	return reasons[r];
}

int proxy_request_write(const char *host, uint16_t port, const char *login, struct buf *ret)
{
	const char *open = strchr(host, ':') ? "[" : "", *close = open[0] ? "]" : "";
	int r = buf_printf(ret, "CONNECT %s%s%s:%u HTTP/1.1\r\nHost: %s%s%s:%u\r\n", open, host,
			   close, port, open, host, close, port);

	if (r >= 0 && login[0])
		r = buf_printf(ret, "Proxy-Authorization: %s\r\n", login);
	return r < 0 ? r : buf_puts(ret, "\r\n");
}

int proxy_login_write(struct slice text, struct buf *ret)
{
	char out[BASE64_TEXT(PROXY_LOGIN_MAX)];
	int r;

	if (text.n && text.p[text.n - 1] == '\n')
		text.n--;
	if (!text.n || text.n > PROXY_LOGIN_MAX || !memchr(text.p, ':', text.n))
		return -EINVAL;
	for (size_t i = 0; i < text.n; i++)
		if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7f)
			return -EINVAL;
	base64_encode((const uint8_t *)text.p, text.n, out);
	r = buf_puts(ret, "Basic ");
	if (r >= 0)
		r = buf_append(ret, out, BASE64_TEXT(text.n));
	explicit_bzero(out, sizeof(out));
	return r;
}

/* A reply to CONNECT has no body if it succeeds, and of others nothing but the head is read. */
void proxy_reply_init(struct http_parser *p)
{
	http_parser_init(p, HTTP_KIND_RESPONSE);
	http_parser_refuse_interim(p);
	http_parser_set_web_server(p, true);
}

enum proxy_result proxy_reply_read(struct http_parser *p, struct slice *in)
{
	struct cay_err err = {};
	struct slice body;
	int e = http_parser_next(p, in, &body, &err);

	if (e == HTTP_MORE)
		return PROXY_MORE;
	if (e != HTTP_HEAD_DONE)
		return PROXY_MALFORMED;
	if (p->head.status >= 500)
		return PROXY_NO_HOST;
	if (p->head.status >= 300)
		return p->head.status == 407 ? PROXY_LOGIN : PROXY_DENIED;
	return p->head.status >= 200 ? PROXY_CONNECTED : PROXY_MALFORMED;
}
