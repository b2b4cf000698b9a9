/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/export-token.h"
#include "auth/jwt.h"
#include "auth/key.h"
#include "edge/edge.h"
#include "wire/attach.h"

/* A browser cannot set headers of a WebSocket except the protocols it offers: an offered one with
 * our prefix is the credential.  It is taken from nowhere else and never echoed. */
static unsigned credential_find_websocket(const struct http_head *h, struct slice *ret)
{
	static const char prefix[] = ATTACH_TOKEN_PROTOCOL;
	unsigned n = 0;

	for (size_t i = 0; i < h->n_headers && http_equals_nocase(h->upgrade, "websocket"); i++) {
		struct slice v = h->headers[i].value;

		if (!http_equals_nocase(h->headers[i].name, "sec-websocket-protocol"))
			continue;
		while (v.p) {
			struct slice name = slice_trim(slice_cut(&v, ','));

			if (name.n < sizeof(prefix) ||
			    memcmp(name.p, prefix, sizeof(prefix) - 1) != 0)
				continue;
			*ret = (struct slice){ name.p + sizeof(prefix) - 1,
					       name.n - (sizeof(prefix) - 1) };
			n++;
		}
	}
	return n;
}

int credential_find_bearer(const struct http_head *h, struct slice *ret, struct cay_err *err)
{
	static const char scheme[] = "bearer";
	size_t n = 0, offered = credential_find_websocket(h, ret);

	if (offered == 1 && !http_header_find(h, "authorization").p)
		return 0;
	*ret = (struct slice){};
	for (size_t i = 0; i < h->n_headers; i++)
		if (http_equals_nocase(h->headers[i].name, "authorization")) {
			*ret = h->headers[i].value;
			n++;
		}
	if (!n && !offered)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "no Authorization header");
	if (n + offered > 1)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "more than one credential");
	if (ret->n <= sizeof(scheme) || strncasecmp(ret->p, scheme, sizeof(scheme) - 1) != 0 ||
	    ret->p[sizeof(scheme) - 1] != ' ')
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "Authorization is not a Bearer token");
	ret->p += sizeof(scheme);
	ret->n -= sizeof(scheme);
	return 0;
}

static int authenticate_key(struct edge *e, struct slice text, uint64_t now_ms, struct actor *ret,
			    struct credential *by, struct cay_err *err)
{
	struct control_state_key *k;
	char prefix[KEY_PREFIX_LEN + 1];

	if (key_parse(text, prefix) < 0)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "malformed key");
	key_hash(text, by->hash);
	k = control_state_find_key(e->control_state, by->hash);
	if (!k)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "no such key: %s", prefix);
	if (k->until != PUSH_NEVER && now_ms >= k->until)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "key %s has expired", prefix);
	if (k->bound && !k->group[0])
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the group of key %s is not known yet",
				prefix);
	control_state_mark_key_used(e->control_state, k, now_ms / 1000);
	by->kind = CREDENTIAL_KEY;
	by->until_ms = PUSH_NEVER; /* the row in control-state has it */
	*ret = (struct actor){ .tenant = k->tenant,
			       .key = k->id,
			       .scope = (enum op_scope)k->scope };
	memcpy(ret->group, k->group, sizeof(k->group));
	return 0;
}

static struct token_keys authenticate_token_keys(const struct edge *e, uint64_t now_s)
{
	struct token_keys keys = {};

	for (unsigned i = 0; i < CONTROL_STATE_SIGNERS && i < TOKEN_KEYS; i++) {
		const struct control_state_signer *s =
			control_state_find_signer(e->control_state, i);

		if (!s || now_s * 1000 >= s->until)
			continue;
		keys.key[i].number = s->number;
		memcpy(keys.key[i].secret, s->key, sizeof(keys.key[i].secret));
	}
	return keys;
}

/* Fails when the token was revoked. */
static int credential_from_token(const struct edge *e, const struct token *t,
				 struct credential *ret, struct cay_err *err)
{
	unsigned signer = t->key % CONTROL_STATE_SIGNERS;

	if (control_state_token_is_revoked(e->control_state, &t->sandbox, t->epoch, t->nonce))
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the token was revoked");
	*ret = (struct credential){
		.kind = CREDENTIAL_TOKEN,
		.until_ms = (t->not_after + 1) * 1000,
		.signer = (uint8_t)signer,
		.signer_generation =
			control_state_find_signer(e->control_state, signer)->generation,
		.epoch = t->epoch,
		.sandbox = t->sandbox
	};
	memcpy(ret->nonce, t->nonce, sizeof(ret->nonce));
	return 0;
}

int authenticate_preview_token(struct edge *e, struct slice text, const struct id *sandbox,
			       uint16_t port, struct actor *ret, struct credential *by,
			       struct cay_err *err)
{
	uint64_t now_s = clk_wall_ns(e->clk) / NS_PER_S;
	struct token_keys keys = authenticate_token_keys(e, now_s);
	struct preview p;
	int r = preview_token_check(text, &keys, now_s, control_state_epoch(e->control_state), &p,
				    err);

	explicit_bzero(&keys, sizeof(keys));
	if (r < 0)
		return r;
	if (!id_eq(&p.token.sandbox, sandbox))
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the preview is for another sandbox");
	if (p.port != port)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the preview is for another port");
	r = credential_from_token(e, &p.token, by, err);
	if (r < 0)
		return r;
	*ret = (struct actor){ .tenant = p.token.tenant,
			       .sandbox = p.token.sandbox,
			       .one_sandbox = true,
			       .scope = p.screen == PREVIEW_WATCH ? SCOPE_READ : SCOPE_WRITE };
	return 0;
}

/* link: the target it must be signed for; NULL for a token. */
static int authenticate_token(struct edge *e, struct slice text, const struct slice *link,
			      uint64_t now_s, struct actor *ret, struct credential *by,
			      struct cay_err *err)
{
	struct token_keys keys = authenticate_token_keys(e, now_s);
	struct token t;
	int r;

	r = link ? token_check_link_target(text, *link, &keys, now_s,
					   control_state_epoch(e->control_state), &t, err)
		 : token_check(text, &keys, now_s, control_state_epoch(e->control_state), &t, err);
	explicit_bzero(&keys, sizeof(keys));
	if (r >= 0)
		r = credential_from_token(e, &t, by, err);
	if (r < 0)
		return r;
	*ret = (struct actor){
		.tenant = t.tenant, .sandbox = t.sandbox, .one_sandbox = true, .scope = t.scope
	};
	return 0;
}

int authenticate_sandbox_token(struct edge *e, struct slice text, const struct id *sandbox,
			       struct actor *ret, struct credential *by, struct cay_err *err)
{
	int r = authenticate_token(e, text, NULL, clk_wall_ns(e->clk) / NS_PER_S, ret, by, err);

	if (r >= 0 && !id_eq(&ret->sandbox, sandbox))
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the token is for another sandbox");
	if (r >= 0 && ret->scope != SCOPE_WRITE)
		return cay_fail(err, CAY_E_FORBIDDEN, "the token is of scope read");
	return r;
}

/* The highest of our scopes among the token's.  Never operator: control accepts no such claim. */
static enum op_scope jwt_scope_parse(const char *words)
{
	struct slice left = slice_of(words);
	enum op_scope best = SCOPE_NONE;

	while (left.n) {
		struct slice word = slice_cut(&left, ' ');

		for (unsigned s = SCOPE_READ; s <= SCOPE_WRITE; s++)
			if (slice_eq(word, slice_of(op_scope_name((enum op_scope)s))) && s > best)
				best = (enum op_scope)s;
	}
	return best;
}

/* Verify its signature and read its claims. */
static int known_jwt_verify(struct edge *e, struct slice text, uint64_t now_s,
			    struct known_jwt *ret, struct cay_err *err)
{
	const struct settings *s = &e->settings;
	struct jwt_policy policy = { .issuer = s->jwt_issuer, .audience = s->jwt_audience };
	struct actor bound = {};
	struct jwt t;
	int r = jwt_check(text, e->jwks, &policy, now_s, &t, err);

	if (r < 0)
		return r;
	*ret = (struct known_jwt){ .scope = jwt_scope_parse(t.scope),
				   .until_ms = (t.exp + JWT_SKEW_S) * 1000 };
	if (id_parse(ID_TENANT, slice_of(t.tenant), &ret->tenant) < 0)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the JWT's tenant is not a tenant id");
	if (ret->scope == SCOPE_NONE)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the JWT has no known scope");
	if (t.group[0] && actor_set_group(&bound, slice_of(t.group)) < 0)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the JWT's group is not a group");
	memcpy(ret->group, bound.group, sizeof(ret->group));
	return 0;
}

/* Verify one that is not known yet; for a suspect only while the budget lasts. */
static int authenticate_new_jwt(struct edge *e, struct slice text, const uint8_t hash[static 32],
				bool suspect, struct known_jwt *ret, struct cay_err *err)
{
	uint64_t began = clk_boot_ns(e->clk);
	int r;

	if (suspect && !signature_budget_has_time(&e->signature_budget, began))
		return cay_fail(err, CAY_E_RATE, "too many refused requests from this address");
	r = known_jwt_verify(e, text, clk_wall_ns(e->clk) / NS_PER_S, ret, err);
	if (suspect)
		signature_budget_spend(&e->signature_budget, clk_boot_ns(e->clk) - began);
	if (r >= 0)
		known_jwt_add(e->known_jwts, hash, ret);
	return r;
}

static int authenticate_jwt(struct edge *e, struct slice text, bool suspect, struct actor *ret,
			    struct credential *by, struct cay_err *err)
{
	uint8_t hash[KEY_HASH_LEN];
	struct known_jwt jwt;
	int r;

	if (!e->jwks)
		return cay_fail(err, CAY_E_UNAUTHENTICATED,
				"neither a key nor a token of this server");
	key_hash(text, hash);
	if (!known_jwt_find(e->known_jwts, hash, clk_wall_ns(e->clk) / NS_PER_MS, &jwt)) {
		r = authenticate_new_jwt(e, text, hash, suspect, &jwt, err);
		if (r < 0)
			return r;
	}
	*by = (struct credential){ .kind = CREDENTIAL_JWT, .until_ms = jwt.until_ms };
	*ret = (struct actor){ .tenant = jwt.tenant, .scope = jwt.scope };
	memcpy(ret->group, jwt.group, sizeof(ret->group));
	return 0;
}

static bool credential_has_prefix(struct slice text, struct slice prefix)
{
	return text.n > prefix.n && memcmp(text.p, prefix.p, prefix.n) == 0;
}

bool credential_is_expensive(const struct edge *e, const struct http_head *head)
{
	struct cay_err err = {};
	struct slice text;
	uint8_t hash[KEY_HASH_LEN];
	struct known_jwt jwt;

	/* a key costs one hash and a token one HMAC; a JWT costs parsing and RSA */
	if (!e->jwks || credential_find_bearer(head, &text, &err) < 0 ||
	    credential_has_prefix(text, SLICE("cay_")) ||
	    credential_has_prefix(text, SLICE(TOKEN_PREFIX)))
		return false;
	key_hash(text, hash);
	return !known_jwt_find(e->known_jwts, hash, clk_wall_ns(e->clk) / NS_PER_MS, &jwt);
}

/* "GET target&token=...", created by tree.link or export.create.  The token ends the target and
 * everything before it is signed or hashed, so there is nothing to parse. */
static bool credential_find_link(const struct http_head *h, struct slice *target,
				 struct slice *text)
{
	static const char lead[] = "&token=";
	size_t tail = sizeof(lead) - 1 + TOKEN_TEXT_LEN;

	if (!slice_eq(h->method, SLICE("GET")) || http_header_find(h, "authorization").p ||
	    h->upgrade.n || h->target.n <= tail)
		return false;
	*target = (struct slice){ h->target.p, h->target.n - tail };
	*text = (struct slice){ target->p + target->n + sizeof(lead) - 1, TOKEN_TEXT_LEN };
	return memcmp(target->p + target->n, lead, sizeof(lead) - 1) == 0;
}

/* The sandbox that the target names by its id: control writes no other URLs. */
static const struct control_state_sandbox *export_find_sandbox(struct edge *e, struct slice target)
{
	static const char lead[] = "/v1/sandboxes/";
	struct id id;

	if (target.n < sizeof(lead) - 1 + ID_TEXT_LEN ||
	    memcmp(target.p, lead, sizeof(lead) - 1) != 0 ||
	    id_parse(ID_SANDBOX, (struct slice){ target.p + sizeof(lead) - 1, ID_TEXT_LEN }, &id) <
		    0)
		return NULL;
	return control_state_find_sandbox(e->control_state, &id);
}

/* The same refusal for a path that was never exported, a revoked export and a sandbox that has
 * ended or never was: it does not say which. */
static int authenticate_export(struct edge *e, struct slice target, struct actor *ret,
			       struct credential *by, struct cay_err *err)
{
	const struct control_state_sandbox *s = export_find_sandbox(e, target);

	*by = (struct credential){ .kind = CREDENTIAL_EXPORT, .until_ms = PUSH_NEVER };
	export_tag(target, by->hash);
	if (!s || !control_state_has_export(e->control_state, &s->id, by->hash)) {
		*by = (struct credential){ .until_ms = PUSH_NEVER };
		(void)cay_fail(err, CAY_E_FORBIDDEN,
			       "this is not exported, or not any more: each URL is for one path");
		cay_err_hint(err, "ask its owner to export it again (export.create, 'cay export "
				  "add'); an export ends when it is revoked and with its sandbox");
		return -EACCES;
	}
	by->sandbox = s->id;
	*ret = (struct actor){
		.tenant = s->tenant, .sandbox = s->id, .one_sandbox = true, .scope = SCOPE_READ
	};
	return 0;
}

int authenticate_request(struct edge *e, const struct http_head *head, bool suspect,
			 struct actor *ret, struct credential *ret_by, struct cay_err *err)
{
	uint64_t now_ms = clk_wall_ns(e->clk) / NS_PER_MS, now_s = now_ms / 1000;
	struct slice text, target;
	int r;

	if (credential_find_link(head, &target, &text) &&
	    credential_has_prefix(text, SLICE(EXPORT_TOKEN_PREFIX)))
		return authenticate_export(e, head->target, ret, ret_by, err);
	if (credential_find_link(head, &target, &text))
		return authenticate_token(e, text, &target, now_s, ret, ret_by, err);
	r = credential_find_bearer(head, &text, err);
	if (r < 0)
		return r;
	if (credential_has_prefix(text, SLICE("cay_")))
		return authenticate_key(e, text, now_ms, ret, ret_by, err);
	if (credential_has_prefix(text, SLICE(TOKEN_PREFIX)))
		return authenticate_token(e, text, NULL, now_s, ret, ret_by, err);
	return authenticate_jwt(e, text, suspect, ret, ret_by, err);
}
