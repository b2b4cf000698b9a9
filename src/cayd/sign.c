/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sign.h"

#include <sys/random.h>

#include "auth/token.h"
#include "base/path.h"
#include "cayd/box.h"
#include "text/hex.h"

#define FILE_NAME "token.key"
#define TEXT_LEN 64

static int make(struct cayd *c, struct cay_err *err)
{
	char text[TEXT_LEN + 1];
	int r;

	if (getrandom(c->sign, sizeof(c->sign), 0) != sizeof(c->sign))
		return cay_fail(err, CAY_E_INTERNAL, "no chance left");
	hex_write(c->sign, sizeof(c->sign), text);
	r = path_write(c->db_dir, FILE_NAME, text, TEXT_LEN, 0600);
	explicit_bzero(text, sizeof(text));
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write db/" FILE_NAME) : 0;
}

int sign_open(struct cayd *c, struct cay_err *err)
{
	auto_buf text = BUF_INIT(TEXT_LEN + 64);
	int r = path_read(c->db_dir, FILE_NAME, &text);

	if (r == -ENOENT)
		return make(c, err);
	if (r >= 0)
		r = hex_read(text.data, text.len, c->sign, sizeof(c->sign));
	if (text.data)
		explicit_bzero(text.data, text.len);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r,
				    "db/" FILE_NAME " is not a key; remove it, and every token "
				    "there is ends")
		     : 0;
}

void sandbox_token(struct cayd *c, struct request *rq)
{
	const struct token_create *q = rq->body;
	struct box *b = box_of(c->boxes, &rq->actor.tenant, &rq->match.params[0]);
	uint64_t now = clk_wall_ns(c->clk);
	struct token t = { .scope = (enum op_scope)(SCOPE_READ + q->scope), .epoch = SIGN_EPOCH };
	struct token_key key = { .number = SIGN_NUMBER };
	char text[TOKEN_TEXT_LEN + 1];
	struct token_made made = { .token = text };
	struct cay_err err = {};

	if (!b || life_over(&b->life)) {
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such sandbox");
	} else if (rq->actor.one_sandbox) {
		(void)cay_fail(&err, CAY_E_FORBIDDEN, "a token makes no tokens");
	} else if (getrandom(t.nonce, sizeof(t.nonce), 0) != sizeof(t.nonce)) {
		(void)cay_fail(&err, CAY_E_INTERNAL, "no chance left");
	} else {
		t.tenant = b->info.tenant;
		t.sandbox = b->info.id;
		t.not_after = (now + q->ttl_ms * NS_PER_MS) / NS_PER_S;
		made.expires_ns = t.not_after * NS_PER_S;
		memcpy(key.secret, c->sign, sizeof(key.secret));
		(void)token_make(&t, &key, text, &err);
		explicit_bzero(&key, sizeof(key));
	}
	if (err.code)
		request_fail(rq, &err);
	else
		request_reply_json(rq, &token_made_table, &made);
	explicit_bzero(text, sizeof(text));
}
