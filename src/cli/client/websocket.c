/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/websocket.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/random.h>

#include "text/base64.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define CONTROL_MAX 125
#define FIN 0x80u
#define MASKED 0x80u
#define NO_STATUS 1005

static_assert(WEBSOCKET_MESSAGE_MAX > 0xffff, "some lengths need eight bytes");

int websocket_create_key(char ret[static WEBSOCKET_KEY_LEN + 1])
{
	uint8_t bytes[16];
	int r = getrandom(bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) ? 0 : -EIO;

	static_assert(BASE64_TEXT(sizeof(bytes)) == WEBSOCKET_KEY_LEN);
	if (r >= 0)
		base64_encode(bytes, sizeof(bytes), ret);
	ret[WEBSOCKET_KEY_LEN] = 0;
	return r;
}

int websocket_compute_accept(const char *key, char ret[static WEBSOCKET_ACCEPT_LEN + 1])
{
	char text[WEBSOCKET_KEY_LEN + sizeof(GUID)];
	uint8_t digest[20];

	static_assert(BASE64_TEXT(sizeof(digest)) == WEBSOCKET_ACCEPT_LEN);
	assert(strlen(key) == WEBSOCKET_KEY_LEN);
	memcpy(text, key, WEBSOCKET_KEY_LEN);
	memcpy(text + WEBSOCKET_KEY_LEN, GUID, sizeof(GUID));
	if (EVP_Digest(text, sizeof(text) - 1, digest, NULL, EVP_sha1(), NULL) != 1)
		return -EIO;
	base64_encode(digest, sizeof(digest), ret);
	ret[WEBSOCKET_ACCEPT_LEN] = 0;
	return 0;
}

static size_t websocket_write_length(uint8_t head[static 14], uint64_t n)
{
	if (n <= CONTROL_MAX) {
		head[1] = (uint8_t)(MASKED | n);
		return 2;
	}
	if (n <= 0xffff) {
		head[1] = MASKED | 126;
		head[2] = (uint8_t)(n >> 8);
		head[3] = (uint8_t)n;
		return 4;
	}
	head[1] = MASKED | 127;
	for (int i = 0; i < 8; i++)
		head[2 + i] = (uint8_t)(n >> (56 - 8 * i));
	return 10;
}

int websocket_write_message(struct buf *out, enum websocket_kind kind, const void *p, size_t n)
{
	uint8_t head[14] = { (uint8_t)(FIN | kind) }, mask[4], *to;
	size_t n_head = websocket_write_length(head, n);
	int r = getrandom(mask, sizeof(mask), 0) == (ssize_t)sizeof(mask) ? 0 : -EIO;

	if (r >= 0)
		r = buf_reserve(out, n_head + sizeof(mask) + n);
	if (r < 0)
		return r;
	memcpy(head + n_head, mask, sizeof(mask));
	n_head += sizeof(mask);
	memcpy(out->data + out->len, head, n_head);
	to = (uint8_t *)out->data + out->len + n_head;
	for (size_t i = 0; i < n; i++)
		to[i] = ((const uint8_t *)p)[i] ^ mask[i % sizeof(mask)];
	out->len += n_head + n;
	out->data[out->len] = 0;
	return 0;
}

/* Returns how many bytes the head has, 0 when more are needed, -EPROTO when the length is
 * not in its shortest form. */
static ssize_t websocket_read_length(const uint8_t *in, size_t n, uint64_t *ret)
{
	size_t wide = in[1] == 126 ? 2 : in[1] == 127 ? 8 : 0;
	uint64_t length = 0;

	if (n < 2 + wide)
		return 0;
	*ret = in[1];
	if (!wide)
		return 2;
	for (size_t i = 0; i < wide; i++)
		length = length << 8 | in[2 + i];
	*ret = length;
	return length <= (wide == 2 ? CONTROL_MAX : 0xffff) ? -EPROTO : (ssize_t)(2 + wide);
}

ssize_t websocket_read_message(const uint8_t *in, size_t n, struct websocket_message *ret)
{
	uint64_t length;
	ssize_t head;

	if (n < 2)
		return 0;
	*ret = (struct websocket_message){ .kind = (enum websocket_kind)(in[0] & 0xf),
					   .code = NO_STATUS };
	if ((in[0] & 0xf0) != FIN || in[1] & MASKED ||
	    (ret->kind != WEBSOCKET_BINARY &&
	     (ret->kind < WEBSOCKET_CLOSE || ret->kind > WEBSOCKET_PONG)) ||
	    (ret->kind >= WEBSOCKET_CLOSE && in[1] > CONTROL_MAX))
		return -EPROTO;
	head = websocket_read_length(in, n, &length);
	if (head <= 0)
		return head;
	if (length > WEBSOCKET_MESSAGE_MAX || (ret->kind == WEBSOCKET_CLOSE && length == 1))
		return -EPROTO;
	if (n - (size_t)head < length)
		return 0;
	ret->data = (struct slice){ (const char *)in + head, (size_t)length };
	if (ret->kind == WEBSOCKET_CLOSE && length) {
		ret->code = (unsigned)in[head] << 8 | in[head + 1];
		ret->data.p += 2;
		ret->data.n -= 2;
	}
	return head + (ssize_t)length;
}
