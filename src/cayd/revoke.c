/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/revoke.h"

#include "auth/preview.h"
#include "cayd/push.h"
#include "cayd/sign.h"
#include "text/hex.h"

void revoke_tell(const struct box *b, revoke_tell_fn *fn, void *arg)
{
	uint64_t now_s = clk_wall_ns(b->cayd->clk) / NS_PER_S;

	for (size_t i = 0; b->revoked && i < REVOKED_MAX; i++) {
		struct push p = { .kind = PUSH_REVOKED, .value = (uint8_t)i, .id = b->info.id };

		if (b->revoked[i].until_s < now_s)
			continue;
		memcpy(p.secret, b->revoked[i].nonce, sizeof(b->revoked[i].nonce));
		fn(arg, &p);
	}
}

/* The journal */

static int make_places(struct box *b)
{
	if (!b->revoked)
		b->revoked = calloc(REVOKED_MAX, sizeof(*b->revoked));
	return b->revoked ? 0 : -ENOMEM;
}

int revoke_restore(struct box *b, const struct field_list *from)
{
	const struct revoked *rows = from->v;

	if (!from->n)
		return 0;
	if (from->n > REVOKED_MAX || make_places(b) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < from->n; i++) {
		struct box_revoked *to = &b->revoked[i];

		to->until_s = rows[i].until_s;
		if (hex_read(rows[i].nonce, strlen(rows[i].nonce), to->nonce, sizeof(to->nonce)) <
		    0)
			return -EINVAL;
	}
	return 0;
}

size_t revoke_rows(const struct box *b, struct revoked rows[static REVOKED_MAX],
		   char names[static REVOKED_MAX][17])
{
	size_t n = 0;

	for (size_t i = 0; b->revoked && i < REVOKED_MAX; i++) {
		if (!b->revoked[i].until_s)
			continue;
		hex_write(b->revoked[i].nonce, sizeof(b->revoked[i].nonce), names[n]);
		rows[n] = (struct revoked){ names[n], b->revoked[i].until_s };
		n++;
	}
	return n;
}

/* The operation */

static bool find_text(struct slice in, const char *what, struct slice *ret_from)
{
	const char *at = memmem(in.p, in.n, what, strlen(what));

	if (at)
		*ret_from = (struct slice){ at, in.n - (size_t)(at - in.p) };
	return at;
}

static void shorten(struct slice *s, size_t n)
{
	s->n = s->n < n ? s->n : n;
}

/* What was handed out, by its signature: nobody makes us remember what is none. */
static int read_token(struct slice text, const struct token_keys *keys, uint64_t now_s,
		      struct token *ret, struct cay_err *err)
{
	struct slice token, target = {};
	struct preview p;
	int r;

	if (find_text(text, "&token=" TOKEN_PREFIX, &token)) {
		text.n -= token.n;
		if (!find_text(text, "/v1/", &target))
			return cay_fail(err, CAY_E_INVALID, "a link has a path of ours");
		token.p += sizeof("&token=") - 1;
		token.n -= sizeof("&token=") - 1;
		return token_check_link(token, target, keys, now_s, 0, ret, err);
	}
	if (find_text(text, PREVIEW_PREFIX, &token)) {
		shorten(&token, PREVIEW_TEXT_LEN);
		r = preview_check(token, keys, now_s, 0, &p, err);
		if (r >= 0)
			*ret = p.token;
		return r;
	}
	return token_check(text, keys, now_s, 0, ret, err);
}

static int remember(struct box *b, const struct token *t, uint64_t now_s, struct cay_err *err)
{
	struct box_revoked *to = NULL;

	if (make_places(b) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for what is taken back");
	for (size_t i = 0; i < REVOKED_MAX; i++) {
		struct box_revoked *at = &b->revoked[i];

		if (at->until_s && memcmp(at->nonce, t->nonce, sizeof(at->nonce)) == 0)
			return 0;
		if (!to && at->until_s < now_s)
			to = at;
	}
	if (!to)
		return cay_fail(err, CAY_E_LIMIT,
				"%d of this sandbox are taken back and not over yet; without "
				"'link' all of them are",
				REVOKED_MAX);
	memcpy(to->nonce, t->nonce, sizeof(to->nonce));
	to->until_s = t->not_after;
	return 0;
}

static int revoke_one(struct cayd *c, struct box *b, const char *link, struct cay_err *err)
{
	uint64_t now_s = clk_wall_ns(c->clk) / NS_PER_S;
	struct token_keys keys;
	struct token t = {};
	struct cay_err why = {};
	int r;

	sign_keys(c, &keys);
	r = read_token(slice_of(link), &keys, now_s, &t, &why);
	explicit_bzero(&keys, sizeof(keys));
	if (r < 0 || !id_eq(&t.sandbox, &b->info.id))
		return cay_fail_field(err, CAY_E_INVALID, "link",
				      "it is not good for this sandbox, or not any more");
	return t.epoch < b->epoch ? 0 : remember(b, &t, now_s, err);
}

static int revoke_all(struct box *b, struct cay_err *err)
{
	if (b->epoch == UINT32_MAX)
		return cay_fail(err, CAY_E_LIMIT, "they were taken back too often");
	b->epoch++;
	if (b->revoked)
		memset(b->revoked, 0, REVOKED_MAX * sizeof(*b->revoked));
	return 0;
}

void sandbox_revoke(struct cayd *c, struct request *rq)
{
	const struct sandbox_revoke *q = rq->body;
	struct box *b = box_of(c->boxes, &rq->actor.tenant, &rq->match.params[0]);
	struct cay_err err = {};

	if (!b || life_over(&b->life))
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such sandbox");
	else if (rq->actor.one_sandbox)
		(void)cay_fail(&err, CAY_E_FORBIDDEN, "a token takes nothing back");
	else if (q->link)
		(void)revoke_one(c, b, q->link, &err);
	else
		(void)revoke_all(b, &err);
	if (err.code) {
		request_fail(rq, &err);
		return;
	}
	push_box(b); /* edges refuse it before anybody is told so */
	box_save(b, true);
	box_answer(b, rq, WAIT_SAVED);
}
