/* SPDX-License-Identifier: Apache-2.0 */
#include <openssl/evp.h>

#include "net/ws.h"
#include "text/base64.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define SHA1_LEN 20

static_assert(BASE64_TEXT(SHA1_LEN) == WS_ACCEPT_LEN);
static_assert(BASE64_TEXT(16) == WS_KEY_LEN);

/* Number of headers of that name, and the last value. */
static unsigned ws_accept_count_header(const struct http_head *h, const char *name,
				       struct slice *ret)
{
	unsigned n = 0;

	for (size_t i = 0; i < h->n_headers; i++)
		if (http_equals_nocase(h->headers[i].name, name)) {
			*ret = h->headers[i].value;
			n++;
		}
	return n;
}

/* Connection is a list that may span several headers. */
static bool ws_accept_has_connection_upgrade(const struct http_head *h)
{
	for (size_t i = 0; i < h->n_headers; i++) {
		struct slice v = h->headers[i].value;

		if (!http_equals_nocase(h->headers[i].name, "connection"))
			continue;
		while (v.p)
			if (http_equals_nocase(slice_trim(slice_cut(&v, ',')), "upgrade"))
				return true;
	}
	return false;
}

static int ws_accept_check_request(const struct http_head *h, struct cay_err *err)
{
	struct slice v = {};
	unsigned n;

	if (!slice_eq(h->method, SLICE("GET")) || h->minor != 1)
		return cay_fail(err, CAY_E_INVALID,
				"a WebSocket handshake must be GET and HTTP/1.1");
	if (h->framing != HTTP_EMPTY || h->expect)
		return cay_fail(err, CAY_E_INVALID, "a WebSocket handshake has no body");
	n = ws_accept_count_header(h, "upgrade", &v);
	if (n == 0)
		return cay_fail(err, CAY_E_UPGRADE, "this path only supports WebSocket");
	if (n > 1 || !http_equals_nocase(v, "websocket"))
		return cay_fail(err, CAY_E_UPGRADE, "the only supported Upgrade is 'websocket'");
	if (!ws_accept_has_connection_upgrade(h))
		return cay_fail(err, CAY_E_INVALID, "Upgrade without 'Connection: upgrade'");
	n = ws_accept_count_header(h, "sec-websocket-version", &v);
	if (n > 1)
		return cay_fail(err, CAY_E_INVALID, "more than one Sec-WebSocket-Version");
	if (n == 0 || !slice_eq(v, SLICE(WS_VERSION)))
		return cay_fail(err, CAY_E_UPGRADE,
				"the only supported Sec-WebSocket-Version is " WS_VERSION);
	return 0;
}

static int ws_accept_answer_key(const struct http_head *h, char ret[static WS_ACCEPT_LEN + 1],
				struct cay_err *err)
{
	uint8_t nonce[BASE64_BYTES(WS_KEY_LEN)], sum[EVP_MAX_MD_SIZE];
	char text[WS_KEY_LEN + sizeof(GUID) - 1];
	struct slice key = {};
	size_t n = 0;
	unsigned len = 0;

	if (ws_accept_count_header(h, "sec-websocket-key", &key) != 1 || key.n != WS_KEY_LEN ||
	    base64_decode(key.p, key.n, nonce, &n) < 0 || n != 16)
		return cay_fail(err, CAY_E_INVALID,
				"exactly one Sec-WebSocket-Key is required: base64 of 16 bytes");
	memcpy(text, key.p, WS_KEY_LEN);
	memcpy(text + WS_KEY_LEN, GUID, sizeof(GUID) - 1);
	if (EVP_Digest(text, sizeof(text), sum, &len, EVP_sha1(), NULL) != 1 || len != SHA1_LEN)
		return cay_fail(err, CAY_E_INTERNAL, "libcrypto has no SHA-1");
	base64_encode(sum, SHA1_LEN, ret);
	ret[WS_ACCEPT_LEN] = 0;
	return 0;
}

static bool ws_accept_is_token(struct slice s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!ascii_is_alnum(s.p[i]) && (!s.p[i] || !strchr("!#$%&'*+-.^_`|~", s.p[i])))
			return false;
	return s.n > 0;
}

/* The first offered name that is ours is chosen. */
static int ws_accept_add_offered_protocol(struct slice name, struct slice *offered, size_t *n,
					  const char *const *protocols, struct ws_answer *ret,
					  struct cay_err *err)
{
	unsigned at;

	for (size_t i = 0; i < *n; i++)
		if (slice_eq(offered[i], name))
			return cay_fail(err, CAY_E_INVALID,
					"a Sec-WebSocket-Protocol is offered twice");
	if (!ws_accept_is_token(name) || *n == WS_PROTOCOLS_MAX)
		return cay_fail(err, CAY_E_INVALID,
				"Sec-WebSocket-Protocol is a list of up to %d names",
				WS_PROTOCOLS_MAX);
	offered[(*n)++] = name;
	if (!ret->protocol && protocols && str_find_choice(name, protocols, &at) == 0)
		ret->protocol = protocols[at];
	return 0;
}

static int ws_accept_choose_protocol(const struct http_head *h, const char *const *protocols,
				     struct ws_answer *ret, struct cay_err *err)
{
	struct slice offered[WS_PROTOCOLS_MAX];
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < h->n_headers; i++) {
		struct slice v = h->headers[i].value;

		if (!http_equals_nocase(h->headers[i].name, "sec-websocket-protocol"))
			continue;
		while (v.p && r >= 0)
			r = ws_accept_add_offered_protocol(slice_trim(slice_cut(&v, ',')), offered,
							   &n, protocols, ret, err);
	}
	if (r >= 0 && n && protocols && !ret->protocol)
		return cay_fail(err, CAY_E_INVALID,
				"none of the offered Sec-WebSocket-Protocols is supported");
	return r;
}

int ws_accept(const struct http_head *h, const char *const *protocols, struct ws_answer *ret,
	      struct cay_err *err)
{
	struct ws_answer answer = {};
	int r = ws_accept_check_request(h, err);

	if (r >= 0)
		r = ws_accept_answer_key(h, answer.accept, err);
	if (r >= 0)
		r = ws_accept_choose_protocol(h, protocols, &answer, err);
	if (r >= 0)
		*ret = answer;
	return r;
}
