/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tenant/revoke.h"
#include "cayd/core/handlers.h"

#include "auth/export-token.h"
#include "auth/preview.h"
#include "cayd/tenant/exports.h"
#include "cayd/tenant/token.h"

void revoked_emit_push_records(const struct sandbox *sb, revoke_push_fn *fn, void *arg)
{
	uint64_t now_s = clk_wall_ns(sb->cayd->clk) / NS_PER_S;

	for (size_t i = 0; sb->revoked && i < REVOKED_MAX; i++) {
		struct push p = { .kind = PUSH_REVOKED, .value = (uint8_t)i, .id = sb->info.id };

		if (sb->revoked[i].until_s < now_s)
			continue;
		memcpy(p.secret, sb->revoked[i].nonce, sizeof(sb->revoked[i].nonce));
		fn(arg, &p);
	}
}

/* The operation */

static bool revoke_text_find(struct slice in, const char *what, struct slice *ret_from)
{
	const char *at = memmem(in.p, in.n, what, strlen(what));

	if (at)
		*ret_from = (struct slice){ at, in.n - (size_t)(at - in.p) };
	return at;
}

/* Accept only tokens with a valid signature: a caller cannot fill the slots with invented ones. */
static int revoke_token_parse(struct slice text, const struct token_keys *keys, uint64_t now_s,
			      struct token *ret, struct cay_err *err)
{
	struct slice token, target = {};
	struct preview p;
	int r;

	if (revoke_text_find(text, "&token=" TOKEN_PREFIX, &token)) {
		text.n -= token.n;
		if (!revoke_text_find(text, "/v1/", &target))
			return cay_fail(err, CAY_E_INVALID, "the link has no path of this API");
		token.p += sizeof("&token=") - 1;
		token.n -= sizeof("&token=") - 1;
		return token_check_link_target(token, target, keys, now_s, 0, ret, err);
	}
	if (revoke_text_find(text, PREVIEW_PREFIX, &token)) {
		token.n = token.n < PREVIEW_TEXT_LEN ? token.n : PREVIEW_TEXT_LEN;
		r = preview_token_check(token, keys, now_s, 0, &p, err);
		if (r >= 0)
			*ret = p.token;
		return r;
	}
	return token_check(text, keys, now_s, 0, ret, err);
}

static int revoked_add(struct sandbox *sb, const struct token *t, uint64_t now_s,
		       struct cay_err *err)
{
	struct revoked_token *to = NULL;

	if (revoked_allocate(sb) < 0)
		return cay_no_memory(err);
	for (size_t i = 0; i < REVOKED_MAX; i++) {
		struct revoked_token *at = &sb->revoked[i];

		if (at->until_s && memcmp(at->nonce, t->nonce, sizeof(at->nonce)) == 0)
			return 0;
		if (!to && at->until_s < now_s)
			to = at;
	}
	if (!to)
		return cay_fail(err, CAY_E_LIMIT,
				"%d tokens of this sandbox are revoked and not expired; without "
				"'link' all of them are revoked",
				REVOKED_MAX);
	memcpy(to->nonce, t->nonce, sizeof(to->nonce));
	to->until_s = t->not_after;
	return 0;
}

/* token: "&token=" and the secret, which says which one; a path is not looked at. */
static int revoke_export(struct sandbox *sb, struct slice token, struct cay_err *err)
{
	const struct field_list all = sandbox_list_exports(sb);
	const struct export_record *rows = all.v;

	(void)slice_cut(&token, '=');
	for (size_t i = 0; i < all.n; i++)
		if (slice_eq(token, slice_of(rows[i].token)))
			return sandbox_remove_export(sb, &rows[i]) < 0 ? cay_no_memory(err) : 0;
	return cay_fail_field(err, CAY_E_INVALID, "link", "not an export of this sandbox now");
}

static int revoke_one_token(struct cayd *c, struct sandbox *sb, const char *link,
			    struct cay_err *err)
{
	uint64_t now_s = clk_wall_ns(c->clk) / NS_PER_S;
	struct token_keys keys;
	struct token t = {};
	struct cay_err why = {};
	struct slice token;
	int r;

	/* a link to a path of that name is none: in a path '&' and '=' are percent-encoded */
	if (revoke_text_find(slice_of(link), "&token=" EXPORT_TOKEN_PREFIX, &token))
		return revoke_export(sb, token, err);
	token_signer_get_valid_keys(c, &keys);
	r = revoke_token_parse(slice_of(link), &keys, now_s, &t, &why);
	explicit_bzero(&keys, sizeof(keys));
	if (r < 0 || !id_eq(&t.sandbox, &sb->info.id))
		return cay_fail_field(err, CAY_E_INVALID, "link",
				      "not a valid token of this sandbox");
	return t.epoch < sb->epoch ? 0 : revoked_add(sb, &t, now_s, err);
}

static int revoke_all_tokens(struct sandbox *sb, struct cay_err *err)
{
	if (sb->epoch == UINT32_MAX)
		return cay_fail(err, CAY_E_LIMIT, "tokens of this sandbox were revoked too often");
	if (sandbox_set_exports(sb, &(struct field_list){}) < 0)
		return cay_no_memory(err);
	sb->epoch++;
	if (sb->revoked)
		memset(sb->revoked, 0, REVOKED_MAX * sizeof(*sb->revoked));
	return 0;
}

void op_sandbox_revoke(struct cayd *c, struct request *rq)
{
	const struct sandbox_revoke *q = rq->body;
	struct sandbox *sb = sandbox_find_of_actor(c->sandboxes, &rq->actor, &rq->match.params[0]);
	struct cay_err err = {};

	if (!sb || life_is_finished(&sb->life))
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such sandbox");
	else if (rq->actor.one_sandbox)
		(void)cay_fail(&err, CAY_E_FORBIDDEN, "a token cannot revoke tokens");
	else if (q->link)
		(void)revoke_one_token(c, sb, q->link, &err);
	else
		(void)revoke_all_tokens(sb, &err);
	if (err.code) {
		request_fail(rq, &err);
		return;
	}
	sandbox_notify_observers(sb, SANDBOX_REVOKED);
	sandbox_save(sb, true);
	sandbox_reply_when(sb, rq, WAIT_SAVED);
}
