/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/client-hello.h"

#include <string.h>

#include "base/endian.h"

#define RECORD_HEAD 5
#define RECORD_MAX KIB(16)
#define RECORD_HANDSHAKE 22
#define VERSION_MAJOR 3
#define HANDSHAKE_HEAD 4
#define HANDSHAKE_CLIENT_HELLO 1
#define RANDOM_LEN 32
#define SESSION_MAX 32
#define EXTENSION_SERVER_NAME 0
#define EXTENSION_ECH 0xfe0d
#define SERVER_NAME_HOST 0

/* Bytes of the message that are left. */
struct hello_part {
	const uint8_t *p;
	size_t n;
};

/* A piece of n bytes; false if there are fewer. */
static bool hello_take(struct hello_part *from, size_t n, struct hello_part *ret)
{
	if (n > from->n)
		return false;
	*ret = (struct hello_part){ from->p, n };
	from->p += n;
	from->n -= n;
	return true;
}

/* A piece after its length, which takes one byte or two. */
static bool hello_take_vector(struct hello_part *from, size_t length, struct hello_part *ret)
{
	struct hello_part head;

	return hello_take(from, length, &head) &&
	       hello_take(from, length == 1 ? head.p[0] : be16_get(head.p), ret);
}

/* One name of the kind host_name, and nothing else. */
static bool hello_read_server_name(struct hello_part data, struct client_hello *ret)
{
	struct hello_part list, kind, name;

	if (ret->sni != CLIENT_HELLO_SNI_ABSENT || !hello_take_vector(&data, 2, &list) || data.n ||
	    !hello_take(&list, 1, &kind) || kind.p[0] != SERVER_NAME_HOST ||
	    !hello_take_vector(&list, 2, &name) || list.n || !name.n)
		return false;
	ret->sni = host_name_parse((struct slice){ (const char *)name.p, name.n }, &ret->name) < 0
			   ? CLIENT_HELLO_SNI_INVALID
			   : CLIENT_HELLO_SNI_PRESENT;
	return true;
}

static bool hello_read_extensions(struct hello_part all, struct client_hello *ret)
{
	while (all.n) {
		struct hello_part type, data;

		if (!hello_take(&all, 2, &type) || !hello_take_vector(&all, 2, &data))
			return false;
		if (be16_get(type.p) == EXTENSION_ECH)
			ret->has_ech = true;
		if (be16_get(type.p) == EXTENSION_SERVER_NAME && !hello_read_server_name(data, ret))
			return false;
	}
	return true;
}

static bool hello_read_body(struct hello_part body, struct client_hello *ret)
{
	struct hello_part version, part;

	if (!hello_take(&body, 2, &version) || version.p[0] != VERSION_MAJOR ||
	    !hello_take(&body, RANDOM_LEN, &part) || !hello_take_vector(&body, 1, &part) ||
	    part.n > SESSION_MAX || !hello_take_vector(&body, 2, &part) || !part.n ||
	    part.n % 2 ||                                   /* ciphers */
	    !hello_take_vector(&body, 1, &part) || !part.n) /* compression */
		return false;
	/* before TLS 1.2 there may be no extensions at all */
	return !body.n ||
	       (hello_take_vector(&body, 2, &part) && !body.n && hello_read_extensions(part, ret));
}

/* Where the handshake's bytes are, over several records. */
struct hello_stream {
	const uint8_t *p;
	size_t n, at;
	size_t left; /* of the record at `at` */
};

/* Copy up to n bytes, fewer if they have not been received; to may be NULL. */
static enum client_hello_result hello_stream_take(struct hello_stream *s, uint8_t *to, size_t n)
{
	while (n) {
		size_t step;

		if (!s->left) {
			const uint8_t *head = s->p + s->at;
			size_t have = s->n - s->at;

			if ((have > 0 && head[0] != RECORD_HANDSHAKE) ||
			    (have > 1 && head[1] != VERSION_MAJOR))
				return s->at ? CLIENT_HELLO_MALFORMED : CLIENT_HELLO_NOT_TLS;
			if (have < RECORD_HEAD)
				return CLIENT_HELLO_MORE;
			s->left = be16_get(head + 3);
			if (!s->left || s->left > RECORD_MAX)
				return CLIENT_HELLO_MALFORMED;
			s->at += RECORD_HEAD;
		}
		step = n < s->left ? n : s->left;
		if (step > s->n - s->at)
			return CLIENT_HELLO_MORE;
		if (to) {
			memcpy(to, s->p + s->at, step);
			to += step;
		}
		s->at += step;
		s->left -= step;
		n -= step;
	}
	return CLIENT_HELLO_DONE;
}

/* Apart, so that a message that is not whole needs no memory. */
static bool hello_stream_read_body(struct hello_stream *s, size_t n, struct client_hello *ret)
{
	uint8_t body[CLIENT_HELLO_MAX];

	return n <= sizeof(body) && hello_stream_take(s, body, n) == CLIENT_HELLO_DONE &&
	       hello_read_body((struct hello_part){ body, n }, ret);
}

static enum client_hello_result hello_read_message(const uint8_t *p, size_t n,
						   struct client_hello *ret)
{
	struct hello_stream s = { .p = p, .n = n }, rest;
	uint8_t head[HANDSHAKE_HEAD] = {};
	enum client_hello_result r = hello_stream_take(&s, head, 1);
	size_t size;

	if (r != CLIENT_HELLO_DONE)
		return r;
	if (head[0] != HANDSHAKE_CLIENT_HELLO)
		return CLIENT_HELLO_MALFORMED;
	r = hello_stream_take(&s, head + 1, HANDSHAKE_HEAD - 1);
	if (r != CLIENT_HELLO_DONE)
		return r;
	size = (size_t)head[1] << 16 | be16_get(head + 2);
	if (size > CLIENT_HELLO_MAX)
		return CLIENT_HELLO_MALFORMED;
	rest = s;
	r = hello_stream_take(&rest, NULL, size);
	if (r != CLIENT_HELLO_DONE)
		return r;
	/* a second message in the last record */
	if (rest.left)
		return CLIENT_HELLO_MALFORMED;
	return hello_stream_read_body(&s, size, ret) ? CLIENT_HELLO_DONE : CLIENT_HELLO_MALFORMED;
}

enum client_hello_result client_hello_read(const uint8_t *p, size_t n, struct client_hello *ret)
{
	enum client_hello_result r;

	*ret = (struct client_hello){};
	r = hello_read_message(p, n < CLIENT_HELLO_MAX ? n : CLIENT_HELLO_MAX, ret);
	return r == CLIENT_HELLO_MORE && n >= CLIENT_HELLO_MAX ? CLIENT_HELLO_MALFORMED : r;
}
