/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/tenant/token.h"
#include "cayd/core/handlers.h"

#include <sys/random.h>

#include "base/path.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/init-call.h"
#include "cayd/sandbox/sandbox.h"
#include "text/hex.h"

#define FILE_NAME "token.key"
#define HEX_LEN 64
#define FILE_MAX 256
#define NUMBERS 254 /* even: two consecutive numbers never share a slot of an edge */
#define LINK_MAX KIB(16)
#define AGAIN_S 600 /* delay after a failed write */

struct token_signer {
	struct signing_key {
		uint8_t number; /* 0: none */
		uint64_t since_s;
		uint8_t secret[32];
	} current, previous;
	uint64_t retry_s; /* next attempt, boot clock */
};

static uint64_t token_wall_seconds(const struct cayd *c)
{
	return clk_wall_ns(c->clk) / NS_PER_S;
}

/* When the last token of the previous key has expired, plus a minute for clocks that differ. */
static uint64_t signing_key_previous_until_s(const struct cayd *c, const struct token_signer *s)
{
	uint64_t links_s = c->settings.link_max_ms / 1000;

	return s->current.since_s + (links_s > TOKEN_TTL_MAX_S ? links_s : TOKEN_TTL_MAX_S) + 60;
}

/* The file */

static int signing_key_format_line(const struct signing_key *s, struct buf *to)
{
	char hex[HEX_LEN + 1];
	int r;

	if (!s->number)
		return 0;
	hex_encode(s->secret, sizeof(s->secret), hex);
	r = buf_printf(to, "%u %llu %s\n", s->number, (unsigned long long)s->since_s, hex);
	explicit_bzero(hex, sizeof(hex));
	return r;
}

static int signing_key_file_write(const struct cayd *c, const struct token_signer *s,
				  struct cay_err *err)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	int r = signing_key_format_line(&s->current, &text);

	if (r >= 0)
		r = signing_key_format_line(&s->previous, &text);
	if (r >= 0)
		r = path_write_atomic(c->db_dir, FILE_NAME, text.data, text.len, 0600);
	if (text.data)
		explicit_bzero(text.data, text.len);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write db/" FILE_NAME) : 0;
}

static int signing_key_parse_line(struct slice line, struct signing_key *ret)
{
	struct slice number = slice_cut(&line, ' '), since = slice_cut(&line, ' ');
	struct signing_key s = {};
	uint64_t n;

	if (str_parse_u64(number, 1, NUMBERS, &n) < 0 ||
	    str_parse_u64(since, 0, UINT64_MAX / NS_PER_S, &s.since_s) < 0 || !line.p ||
	    hex_decode(line.p, line.n, s.secret, sizeof(s.secret)) < 0)
		return -EINVAL;
	s.number = (uint8_t)n;
	*ret = s;
	explicit_bzero(&s, sizeof(s));
	return 0;
}

static int signing_key_file_read(const struct cayd *c, struct token_signer *ret)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	int r = path_read(c->db_dir, FILE_NAME, &text);
	struct slice rest = { text.data, text.len };

	if (r >= 0 && text.len == HEX_LEN) {
		/* an old file with a secret only: a new key is due */
		ret->current.number = 1;
		r = hex_decode(rest.p, rest.n, ret->current.secret, sizeof(ret->current.secret));
	} else if (r >= 0) {
		r = text.len && text.data[text.len - 1] == '\n' ? 0 : -EINVAL;
		rest.n -= r >= 0;
		if (r >= 0)
			r = signing_key_parse_line(slice_cut(&rest, '\n'), &ret->current);
		if (r >= 0 && rest.p)
			r = signing_key_parse_line(rest, &ret->previous);
	}
	if (text.data)
		explicit_bzero(text.data, text.len);
	return r;
}

/* The keys */

static int signing_key_generate(struct cayd *c, uint8_t number, struct signing_key *ret,
				struct cay_err *err)
{
	*ret = (struct signing_key){ .number = number, .since_s = token_wall_seconds(c) };
	if (getrandom(ret->secret, sizeof(ret->secret), 0) != sizeof(ret->secret))
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	return 0;
}

/* Whether a key must be dropped or created. */
static bool token_signer_is_due(const struct cayd *c, const struct token_signer *s)
{
	uint64_t now = token_wall_seconds(c), age_s = c->settings.token_key_ms / 1000;

	if (s->previous.number)
		return now >= signing_key_previous_until_s(c, s);
	return now >= s->current.since_s && now - s->current.since_s >= age_s;
}

/* First the previous key is dropped, then a new one is created. */
static int token_signer_rotate(struct cayd *c, struct cay_err *err)
{
	struct token_signer next = *c->token_signer;
	int r = 0;

	if (next.previous.number)
		next.previous = (struct signing_key){};
	else {
		next.previous = next.current;
		r = signing_key_generate(c, (uint8_t)(next.current.number % NUMBERS + 1),
					 &next.current, err);
	}
	if (r >= 0)
		r = signing_key_file_write(c, &next, err);
	if (r >= 0) {
		log_info(&c->log, next.previous.number ? "tokens are signed with a new key"
						       : "the previous token key is dropped");
		*c->token_signer = next;
	}
	explicit_bzero(&next, sizeof(next));
	return r;
}

int token_signer_open(struct cayd *c, struct cay_err *err)
{
	const char *url = c->settings.edge_public_url;
	int r;

	if (url[0] && !http_origin_parse_host(slice_of(url)).p)
		return cay_fail(err, CAY_E_INVALID,
				"edge.public_url is SCHEME://HOST[:PORT], as in "
				"https://cay.example");
	c->token_signer = calloc(1, sizeof(*c->token_signer));
	if (!c->token_signer)
		return cay_no_memory(err);
	r = signing_key_file_read(c, c->token_signer);
	if (r == -ENOENT) {
		r = signing_key_generate(c, 1, &c->token_signer->current, err);
		return r < 0 ? r : signing_key_file_write(c, c->token_signer, err);
	}
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r,
				    "db/" FILE_NAME " is not a valid key; removing it voids every "
				    "token");
	token_signer_rotate_if_due(c);
	return 0;
}

void token_signer_rotate_if_due(struct cayd *c)
{
	struct cay_err err = {};

	if (clk_boot_ns(c->clk) / NS_PER_S < c->token_signer->retry_s)
		return;
	while (token_signer_is_due(c, c->token_signer)) {
		if (token_signer_rotate(c, &err) < 0) { /* the present key is still valid */
			log_error(&c->log, "%s: the token key is not rotated", err.msg);
			c->token_signer->retry_s = clk_boot_ns(c->clk) / NS_PER_S + AGAIN_S;
			return;
		}
		c->hooks->token_keys_changed(c);
	}
}

static void signing_key_emit_push_record(const struct signing_key *s, uint64_t until_ms,
					 token_push_fn *fn, void *arg)
{
	struct push p = { .kind = PUSH_TOKEN_KEY,
			  .value = s->number,
			  .number = SANDBOX_FIRST_EPOCH,
			  .time = until_ms };

	if (!s->number)
		return;
	memcpy(p.secret, s->secret, sizeof(p.secret));
	fn(arg, &p);
	explicit_bzero(&p, sizeof(p));
}

void token_signer_emit_push_records(const struct cayd *c, token_push_fn *fn, void *arg)
{
	signing_key_emit_push_record(&c->token_signer->previous,
				     signing_key_previous_until_s(c, c->token_signer) * 1000, fn,
				     arg);
	signing_key_emit_push_record(&c->token_signer->current, PUSH_NEVER, fn, arg);
}

void token_signer_get_key(const struct cayd *c, struct token_key *ret)
{
	*ret = (struct token_key){ .number = c->token_signer->current.number };
	memcpy(ret->secret, c->token_signer->current.secret, sizeof(ret->secret));
}

void token_signer_get_valid_keys(const struct cayd *c, struct token_keys *ret)
{
	*ret = (struct token_keys){ .key[1].number = c->token_signer->previous.number };
	token_signer_get_key(c, &ret->key[0]);
	memcpy(ret->key[1].secret, c->token_signer->previous.secret, sizeof(ret->key[1].secret));
}

int token_link_compute_expiry(const struct cayd *c, uint64_t ttl_ms, uint64_t *ret_s,
			      struct cay_err *err)
{
	if (ttl_ms > c->settings.link_max_ms)
		return cay_fail_field(err, CAY_E_INVALID, "ttl_ms",
				      "longer than the %llu that edge.link_max allows",
				      (unsigned long long)c->settings.link_max_ms);
	*ret_s = (clk_wall_ns(c->clk) + ttl_ms * NS_PER_MS) / NS_PER_S;
	return 0;
}

void op_sandbox_token(struct cayd *c, struct request *rq)
{
	const struct token_create *q = rq->body;
	struct sandbox *sb = sandbox_find_of_actor(c->sandboxes, &rq->actor, &rq->match.params[0]);
	uint64_t now = clk_wall_ns(c->clk);
	struct token t = { .scope = (enum op_scope)(SCOPE_READ + q->scope) };
	struct token_key key;
	char text[TOKEN_TEXT_LEN + 1];
	struct token_made made = { .token = text };
	struct cay_err err = {};

	if (!sb || life_is_finished(&sb->life)) {
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such sandbox");
	} else if (rq->actor.one_sandbox) {
		(void)cay_fail(&err, CAY_E_FORBIDDEN, "a token cannot create tokens");
	} else if (getrandom(t.nonce, sizeof(t.nonce), 0) != sizeof(t.nonce)) {
		(void)cay_fail(&err, CAY_E_INTERNAL, "cannot get random bytes");
	} else {
		t.tenant = sb->info.tenant;
		t.sandbox = sb->info.id;
		t.epoch = sb->epoch;
		t.not_after = (now + q->ttl_ms * NS_PER_MS) / NS_PER_S;
		made.expires_ns = t.not_after * NS_PER_S;
		token_signer_get_key(c, &key);
		(void)token_sign(&t, &key, text, &err);
		explicit_bzero(&key, sizeof(key));
	}
	request_reply_outcome(rq, &err, &token_made_table, &made);
	explicit_bzero(text, sizeof(text));
}

static int tree_link_sign(struct cayd *c, const struct sandbox *sb, const struct tree_link *q,
			  struct buf *target, uint64_t *expires_ns, struct cay_err *err)
{
	struct token t = { .scope = SCOPE_READ,
			   .epoch = sb->epoch,
			   .tenant = sb->info.tenant,
			   .sandbox = sb->info.id };
	struct token_key key;
	char text[TOKEN_TEXT_LEN + 1];
	static const char *const formats[] = { [LINK_TAR] = "tar", [LINK_TAR_GZ] = "tar.gz" };
	int r = tree_target_format(&sb->info.id, q->format == LINK_FILE ? NULL : formats[q->format],
				   q->path, q->path_b64, target);

	if (r < 0)
		return cay_no_memory(err);
	r = token_link_compute_expiry(c, q->ttl_ms, &t.not_after, err);
	if (r < 0)
		return r;
	if (getrandom(t.nonce, sizeof(t.nonce), 0) != sizeof(t.nonce))
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	*expires_ns = t.not_after * NS_PER_S;
	token_signer_get_key(c, &key);
	/* the target without the token is signed */
	r = token_sign_link(&t, (struct slice){ target->data, target->len }, &key, text, err);
	explicit_bzero(&key, sizeof(key));
	if (r >= 0 && buf_printf(target, "&token=%s", text) < 0)
		r = cay_no_memory(err);
	explicit_bzero(text, sizeof(text));
	return r;
}

struct slice link_find_origin(const struct cayd *c, const struct request *rq)
{
	struct slice told = http_header_find(rq->head, ACTOR_ORIGIN);

	if (c->settings.edge_public_url[0])
		return slice_of(c->settings.edge_public_url);
	return http_origin_parse_host(told).p ? told : (struct slice){};
}

void op_tree_link(struct cayd *c, struct request *rq)
{
	const struct tree_link *q = rq->body;
	struct sandbox *sb = sandbox_find_of_actor(c->sandboxes, &rq->actor, &rq->match.params[0]);
	auto_buf url = BUF_INIT(LINK_MAX), target = BUF_INIT(LINK_MAX);
	struct slice origin = link_find_origin(c, rq);
	struct tree_linked made = {};
	struct cay_err err = {};

	if (!sb || life_is_finished(&sb->life))
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such sandbox");
	else if (rq->actor.one_sandbox)
		(void)cay_fail(&err, CAY_E_FORBIDDEN, "a token cannot create links");
	else if (q->format == LINK_FILE && !q->path && !q->path_b64)
		(void)cay_fail_field(&err, CAY_E_INVALID, "path", "format file needs a path");
	else if (q->path && q->path_b64)
		(void)cay_fail_field(&err, CAY_E_INVALID, "path_b64",
				     "give either path_b64 or path");
	else if (tree_link_sign(c, sb, q, &target, &made.expires_ns, &err) >= 0 &&
		 (buf_append(&url, origin.p, origin.n) < 0 ||
		  buf_append(&url, target.data, target.len) < 0))
		(void)cay_no_memory(&err);
	made.url = buf_str(&url);
	request_reply_outcome(rq, &err, &tree_linked_table, &made);
}
