/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/webhook.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "text/base64.h"

#define SECRET_PREFIX "whsec_"
#define SECRET_MIN 24
#define MAC_LEN (size_t)32
#define SIGNED_MAX KIB(16)

int webhook_secret_parse(struct slice text, struct webhook_secret *ret)
{
	const struct slice prefix = SLICE(SECRET_PREFIX);
	uint8_t bytes[BASE64_BYTES(BASE64_TEXT(WEBHOOK_SECRET_MAX))];
	int r = -EINVAL;

	*ret = (struct webhook_secret){};
	if (text.n && text.p[text.n - 1] == '\n')
		text.n--;
	if (text.n < prefix.n || memcmp(text.p, prefix.p, prefix.n) != 0 ||
	    text.n - prefix.n > BASE64_TEXT((size_t)WEBHOOK_SECRET_MAX))
		return -EINVAL;
	if (base64_decode(text.p + prefix.n, text.n - prefix.n, bytes, &ret->n) >= 0 &&
	    ret->n >= SECRET_MIN && ret->n <= sizeof(ret->bytes)) {
		memcpy(ret->bytes, bytes, ret->n);
		r = 0;
	}
	explicit_bzero(bytes, sizeof(bytes));
	return r;
}

/* Visible characters of ASCII that need no other spelling. */
static bool webhook_url_is_plain(struct slice text)
{
	for (size_t i = 0; i < text.n; i++)
		if (text.p[i] <= ' ' || text.p[i] > '~' || strchr("\"#<>@[\\]^`{|}", text.p[i]))
			return false;
	return true;
}

int webhook_url_parse(const char *text, struct webhook_url *ret)
{
	const struct slice schemes[] = { SLICE("http://"), SLICE("https://") };
	struct slice left = slice_of(text), at, host;
	uint64_t port;

	*ret = (struct webhook_url){ .target = "/" };
	if (left.n >= WEBHOOK_URL_MAX || !webhook_url_is_plain(left))
		return -EINVAL;
	ret->tls = strncmp(text, schemes[1].p, schemes[1].n) == 0;
	if (strncmp(text, schemes[ret->tls].p, schemes[ret->tls].n) != 0)
		return -EINVAL;
	at = (struct slice){ left.p + schemes[ret->tls].n, left.n - schemes[ret->tls].n };
	at.n = strcspn(at.p, "/?");
	if (at.p[at.n] == '?')
		return -EINVAL;
	if (at.p[at.n])
		memcpy(ret->target, at.p + at.n, strlen(at.p + at.n) + 1);
	port = ret->tls ? 443 : 80;
	host = slice_cut(&at, ':');
	if (!host.n || (at.p && str_parse_u64(at, 1, UINT16_MAX, &port) < 0))
		return -EINVAL;
	memcpy(ret->host, host.p, host.n);
	ret->port = (uint16_t)port;
	return 0;
}

static int webhook_sign(const struct webhook_secret *secret, const char *id, uint64_t time_s,
			struct slice body, char ret[static BASE64_TEXT(MAC_LEN) + 1])
{
	auto_buf text = BUF_INIT(SIGNED_MAX);
	uint8_t mac[MAC_LEN];
	unsigned n = 0;
	int r = buf_printf(&text, "%s.%llu.", id, (unsigned long long)time_s);

	if (r >= 0)
		r = buf_append(&text, body.p, body.n);
	if (r < 0)
		return r;
	if (!HMAC(EVP_sha256(), secret->bytes, (int)secret->n, (const uint8_t *)text.data, text.len,
		  mac, &n) ||
	    n != MAC_LEN)
		return -EIO;
	base64_encode(mac, sizeof(mac), ret);
	ret[BASE64_TEXT(MAC_LEN)] = 0;
	return 0;
}

int webhook_request_write(const struct webhook_url *to, const struct webhook_secret *secret,
			  const char *id, uint64_t time_s, struct slice body, struct buf *ret)
{
	char signature[BASE64_TEXT(MAC_LEN) + 1];
	int r = webhook_sign(secret, id, time_s, body, signature);

	if (r >= 0)
		r = buf_printf(ret,
			       "POST %s HTTP/1.1\r\nHost: %s:%u\r\nUser-Agent: cay\r\n"
			       "Content-Type: application/json\r\nContent-Length: %zu\r\n"
			       "Connection: close\r\nwebhook-id: %s\r\nwebhook-timestamp: %llu\r\n"
			       "webhook-signature: v1,%s\r\n\r\n",
			       to->target, to->host, to->port, body.n, id,
			       (unsigned long long)time_s, signature);
	return r < 0 ? r : buf_append(ret, body.p, body.n);
}
