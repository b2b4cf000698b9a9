/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/node-key.h"

#include <sys/random.h>

#include "auth/seal.h"
#include "base/path.h"
#include "text/base64.h"
#include "text/hex.h"

#define FILE_NAME "node.key"
#define HEX_LEN (2 * (size_t)SEAL_KEY_LEN)
#define FILE_MAX 256
#define SECRET_MAX KIB(16)

enum node_key_state { NODE_KEY_NONE, NODE_KEY_HERE, NODE_KEY_BROKEN };

struct node_key {
	struct seal_key key;
	enum node_key_state state;
};

static int node_key_read(const struct cayd *c, struct seal_key *ret)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	int r = path_read(c->secret_dir, FILE_NAME, &text);

	if (r >= 0 && (text.len != HEX_LEN + 1 || text.data[HEX_LEN] != '\n'))
		r = -EINVAL;
	if (r >= 0)
		r = hex_decode(text.data, HEX_LEN, ret->bytes, sizeof(ret->bytes));
	buf_wipe(&text);
	return r;
}

int node_key_open(struct cayd *c, struct cay_err *err)
{
	int r = path_remove_tmp_files(c->secret_dir);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "remove files of secret/");
	c->node_key = calloc(1, sizeof(*c->node_key));
	if (!c->node_key)
		return cay_no_memory(err);
	r = node_key_read(c, &c->node_key->key);
	c->node_key->state = r >= 0         ? NODE_KEY_HERE
			     : r == -ENOENT ? NODE_KEY_NONE
					    : NODE_KEY_BROKEN;
	if (c->node_key->state == NODE_KEY_BROKEN)
		log_error(&c->log, "secret/" FILE_NAME " is not a key");
	return 0;
}

bool node_key_is_missing(const struct cayd *c)
{
	return c->node_key->state == NODE_KEY_NONE;
}

static int node_key_write(const struct cayd *c, const struct seal_key *key, struct cay_err *err)
{
	char text[HEX_LEN + 2];
	int r;

	hex_encode(key->bytes, sizeof(key->bytes), text);
	text[HEX_LEN] = '\n';
	r = path_write_atomic(c->secret_dir, FILE_NAME, text, HEX_LEN + 1, 0600);
	explicit_bzero(text, sizeof(text));
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write secret/" FILE_NAME) : 0;
}

int node_key_ensure(struct cayd *c, struct cay_err *err)
{
	struct seal_key key;
	int r;

	if (c->node_key->state == NODE_KEY_HERE)
		return 0;
	if (c->node_key->state == NODE_KEY_BROKEN) {
		(void)cay_fail(err, CAY_E_UNAVAILABLE, "secret/" FILE_NAME " is not a key");
		cay_err_hint(err, "put it back from a backup, or remove it for a new key, and "
				  "restart cayd");
		return -ENOKEY;
	}
	if (getrandom(key.bytes, sizeof(key.bytes), 0) != sizeof(key.bytes))
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	r = node_key_write(c, &key, err);
	if (r >= 0) {
		c->node_key->key = key;
		c->node_key->state = NODE_KEY_HERE;
		log_info(&c->log, "created secret/" FILE_NAME);
	}
	explicit_bzero(&key, sizeof(key));
	return r;
}

int node_key_seal(const struct cayd *c, struct slice purpose, struct slice secret, struct buf *ret,
		  struct cay_err *err)
{
	uint8_t nonce[SEAL_NONCE_LEN], sealed[SECRET_MAX + SEAL_EXTRA];
	size_t n = secret.n + SEAL_EXTRA;
	int r;

	if (c->node_key->state != NODE_KEY_HERE || secret.n > SECRET_MAX)
		return cay_fail(err, CAY_E_INTERNAL, "cannot seal a secret");
	if (getrandom(nonce, sizeof(nonce), 0) != sizeof(nonce))
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	r = seal_close(&c->node_key->key, nonce, purpose, secret, sealed);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "seal a secret");
	if (buf_reserve(ret, BASE64_TEXT(n)) < 0)
		return cay_no_memory(err);
	base64_encode(sealed, n, ret->data + ret->len);
	ret->len += BASE64_TEXT(n);
	ret->data[ret->len] = 0;
	return 0;
}

int node_key_unseal(const struct cayd *c, struct slice purpose, struct slice text, struct buf *ret)
{
	uint8_t sealed[BASE64_BYTES(BASE64_TEXT(SECRET_MAX + SEAL_EXTRA))];
	size_t n = 0, len = 0;
	int r;

	if (c->node_key->state != NODE_KEY_HERE)
		return -ENOKEY;
	if (text.n > BASE64_TEXT(SECRET_MAX + SEAL_EXTRA) ||
	    base64_decode(text.p, text.n, sealed, &n) < 0)
		return -EBADMSG;
	r = buf_reserve(ret, n);
	if (r >= 0)
		r = seal_open(&c->node_key->key, purpose, (struct slice){ (const char *)sealed, n },
			      (uint8_t *)ret->data + ret->len, &len);
	if (r < 0)
		return r;
	ret->len += len;
	ret->data[ret->len] = 0;
	return 0;
}
