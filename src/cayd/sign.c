/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sign.h"

#include <sys/random.h>

#include "base/path.h"
#include "cayd/box.h"
#include "cayd/push.h"
#include "text/hex.h"
#include "text/percent.h"

#define FILE_NAME "token.key"
#define HEX_LEN 64
#define FILE_MAX 256
#define NUMBERS 254 /* an even number: one and the next are never in one place (push.h) */
#define LINK_MAX KIB(16)
#define AGAIN_S 600 /* when the file could not be written */

struct signs {
	struct sign {
		uint8_t number; /* 0: none */
		uint64_t since_s;
		uint8_t secret[32];
	} now, before;
	uint64_t not_before_s; /* when it is tried again */
};

static uint64_t wall_s(const struct cayd *c)
{
	return clk_wall_ns(c->clk) / NS_PER_S;
}

/* When the last of what the key before has signed has ended, and a minute later for clocks
 * that differ. */
static uint64_t before_until_s(const struct cayd *c, const struct signs *s)
{
	uint64_t links_s = c->settings.link_max_ms / 1000;

	return s->now.since_s + (links_s > SIGN_TOKEN_S ? links_s : SIGN_TOKEN_S) + 60;
}

/* The file */

static int write_line(const struct sign *s, struct buf *to)
{
	char hex[HEX_LEN + 1];
	int r;

	if (!s->number)
		return 0;
	hex_write(s->secret, sizeof(s->secret), hex);
	r = buf_printf(to, "%u %llu %s\n", s->number, (unsigned long long)s->since_s, hex);
	explicit_bzero(hex, sizeof(hex));
	return r;
}

static int write_file(const struct cayd *c, const struct signs *s, struct cay_err *err)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	int r = write_line(&s->now, &text);

	if (r >= 0)
		r = write_line(&s->before, &text);
	if (r >= 0)
		r = path_write(c->db_dir, FILE_NAME, text.data, text.len, 0600);
	if (text.data)
		explicit_bzero(text.data, text.len);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write db/" FILE_NAME) : 0;
}

static int read_line(struct slice line, struct sign *ret)
{
	struct slice number = slice_cut(&line, ' '), since = slice_cut(&line, ' ');
	struct sign s = {};
	uint64_t n;

	if (str_u64(number, 1, NUMBERS, &n) < 0 ||
	    str_u64(since, 0, UINT64_MAX / NS_PER_S, &s.since_s) < 0 || !line.p ||
	    hex_read(line.p, line.n, s.secret, sizeof(s.secret)) < 0)
		return -EINVAL;
	s.number = (uint8_t)n;
	*ret = s;
	explicit_bzero(&s, sizeof(s));
	return 0;
}

static int read_file(const struct cayd *c, struct signs *ret)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	int r = path_read(c->db_dir, FILE_NAME, &text);
	struct slice rest = { text.data, text.len };

	if (r >= 0 && text.len == HEX_LEN) {
		/* from when there was one, and nothing else about it: another one is due */
		ret->now.number = 1;
		r = hex_read(rest.p, rest.n, ret->now.secret, sizeof(ret->now.secret));
	} else if (r >= 0) {
		r = text.len && text.data[text.len - 1] == '\n' ? 0 : -EINVAL;
		rest.n -= r >= 0;
		if (r >= 0)
			r = read_line(slice_cut(&rest, '\n'), &ret->now);
		if (r >= 0 && rest.p)
			r = read_line(rest, &ret->before);
	}
	if (text.data)
		explicit_bzero(text.data, text.len);
	return r;
}

/* The keys */

static int make(struct cayd *c, uint8_t number, struct sign *ret, struct cay_err *err)
{
	*ret = (struct sign){ .number = number, .since_s = wall_s(c) };
	if (getrandom(ret->secret, sizeof(ret->secret), 0) != sizeof(ret->secret))
		return cay_fail(err, CAY_E_INTERNAL, "no chance left");
	return 0;
}

/* What should be, of what is; false when that is the same. */
static bool is_due(const struct cayd *c, const struct signs *s)
{
	uint64_t now = wall_s(c), age_s = c->settings.token_key_ms / 1000;

	if (s->before.number)
		return now >= before_until_s(c, s);
	return now >= s->now.since_s && now - s->now.since_s >= age_s;
}

/* First the one before goes, then another one comes. */
static int turn(struct cayd *c, struct cay_err *err)
{
	struct signs next = *c->signs;
	int r = 0;

	if (next.before.number)
		next.before = (struct sign){};
	else {
		next.before = next.now;
		r = make(c, (uint8_t)(next.now.number % NUMBERS + 1), &next.now, err);
	}
	if (r >= 0)
		r = write_file(c, &next, err);
	if (r >= 0) {
		log_info(&c->log, next.before.number ? "tokens are signed with a new key"
						     : "the old key of tokens is forgotten");
		*c->signs = next;
	}
	explicit_bzero(&next, sizeof(next));
	return r;
}

int sign_open(struct cayd *c, struct cay_err *err)
{
	const char *url = c->settings.edge_public_url;
	int r;

	if (url[0] && !http_origin_host(slice_of(url)).p)
		return cay_fail(err, CAY_E_INVALID,
				"edge.public_url is SCHEME://HOST[:PORT], as in "
				"https://cay.example");
	c->signs = calloc(1, sizeof(*c->signs));
	if (!c->signs)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	r = read_file(c, c->signs);
	if (r == -ENOENT) {
		r = make(c, 1, &c->signs->now, err);
		return r < 0 ? r : write_file(c, c->signs, err);
	}
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r,
				    "db/" FILE_NAME " is not a key; remove it, and every token "
				    "there is ends");
	sign_tick(c);
	return 0;
}

void sign_tick(struct cayd *c)
{
	struct cay_err err = {};

	if (clk_boot_ns(c->clk) / NS_PER_S < c->signs->not_before_s)
		return;
	while (is_due(c, c->signs)) {
		if (turn(c, &err) < 0) { /* what there is is still good */
			log_error(&c->log, "%s: the key of tokens stays as it is", err.msg);
			c->signs->not_before_s = clk_boot_ns(c->clk) / NS_PER_S + AGAIN_S;
			return;
		}
		push_signs(c);
	}
}

static void tell(const struct sign *s, uint64_t until_ms, sign_tell_fn *fn, void *arg)
{
	struct push p = {
		.kind = PUSH_SIGN, .value = s->number, .number = SIGN_EPOCH, .time = until_ms
	};

	if (!s->number)
		return;
	memcpy(p.secret, s->secret, sizeof(p.secret));
	fn(arg, &p);
	explicit_bzero(&p, sizeof(p));
}

void sign_tell(const struct cayd *c, sign_tell_fn *fn, void *arg)
{
	tell(&c->signs->before, before_until_s(c, c->signs) * 1000, fn, arg);
	tell(&c->signs->now, PUSH_NEVER, fn, arg);
}

void sign_key(const struct cayd *c, struct token_key *ret)
{
	*ret = (struct token_key){ .number = c->signs->now.number };
	memcpy(ret->secret, c->signs->now.secret, sizeof(ret->secret));
}

void sign_keys(const struct cayd *c, struct token_keys *ret)
{
	*ret = (struct token_keys){ .key[1].number = c->signs->before.number };
	sign_key(c, &ret->key[0]);
	memcpy(ret->key[1].secret, c->signs->before.secret, sizeof(ret->key[1].secret));
}

int sign_until(const struct cayd *c, uint64_t ttl_ms, uint64_t *ret_s, struct cay_err *err)
{
	if (ttl_ms > c->settings.link_max_ms)
		return cay_fail_field(err, CAY_E_INVALID, "ttl_ms",
				      "more than the %llu that edge.link_max allows",
				      (unsigned long long)c->settings.link_max_ms);
	*ret_s = (clk_wall_ns(c->clk) + ttl_ms * NS_PER_MS) / NS_PER_S;
	return 0;
}

void sandbox_token(struct cayd *c, struct request *rq)
{
	const struct token_create *q = rq->body;
	struct box *b = box_of(c->boxes, &rq->actor.tenant, &rq->match.params[0]);
	uint64_t now = clk_wall_ns(c->clk);
	struct token t = { .scope = (enum op_scope)(SCOPE_READ + q->scope) };
	struct token_key key;
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
		t.epoch = b->epoch;
		t.not_after = (now + q->ttl_ms * NS_PER_MS) / NS_PER_S;
		made.expires_ns = t.not_after * NS_PER_S;
		sign_key(c, &key);
		(void)token_make(&t, &key, text, &err);
		explicit_bzero(&key, sizeof(key));
	}
	if (err.code)
		request_fail(rq, &err);
	else
		request_reply_json(rq, &token_made_table, &made);
	explicit_bzero(text, sizeof(text));
}

/* All of the link's target but the token: what is signed, to the byte. */
static int link_target(const struct id *sandbox, const struct tree_link *q, struct buf *ret)
{
	const char *path = q->path_b64 ? q->path_b64 : q->path ? q->path : ".";
	char id[ID_TEXT_LEN + 1];
	int r;

	id_format(sandbox, id);
	r = buf_printf(ret, "/v1/sandboxes/%s/files/tree?format=%s&%s=", id,
		       q->format == TREE_TAR_GZ ? "tar.gz" : "tar",
		       q->path_b64 ? "path_b64" : "path");
	if (r >= 0)
		r = buf_reserve(ret, 3 * strlen(path));
	if (r < 0)
		return r;
	ret->len += percent_encode(path, strlen(path), ret->data + ret->len);
	ret->data[ret->len] = 0;
	return 0;
}

static int make_link(struct cayd *c, const struct box *b, const struct tree_link *q,
		     struct buf *target, uint64_t *expires_ns, struct cay_err *err)
{
	struct token t = { .scope = SCOPE_READ,
			   .epoch = b->epoch,
			   .tenant = b->info.tenant,
			   .sandbox = b->info.id };
	struct token_key key;
	char text[TOKEN_TEXT_LEN + 1];
	int r = link_target(&b->info.id, q, target);

	if (r < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for a link");
	r = sign_until(c, q->ttl_ms, &t.not_after, err);
	if (r < 0)
		return r;
	if (getrandom(t.nonce, sizeof(t.nonce), 0) != sizeof(t.nonce))
		return cay_fail(err, CAY_E_INTERNAL, "no chance left");
	*expires_ns = t.not_after * NS_PER_S;
	sign_key(c, &key);
	r = token_make_link(&t, (struct slice){ target->data, target->len }, &key, text, err);
	explicit_bzero(&key, sizeof(key));
	if (r >= 0 && buf_printf(target, "&token=%s", text) < 0)
		r = cay_fail(err, CAY_E_NO_MEMORY, "no memory for a link");
	explicit_bzero(text, sizeof(text));
	return r;
}

/* What a link begins with: what the operator says, else how the client has reached an edge.
 * Nothing for who asks at the operator's socket. */
static struct slice link_origin(const struct cayd *c, const struct request *rq)
{
	struct slice told = http_header(rq->head, ACTOR_ORIGIN);

	if (c->settings.edge_public_url[0])
		return slice_of(c->settings.edge_public_url);
	return http_origin_host(told).p ? told : (struct slice){};
}

void tree_link(struct cayd *c, struct request *rq)
{
	const struct tree_link *q = rq->body;
	struct box *b = box_of(c->boxes, &rq->actor.tenant, &rq->match.params[0]);
	auto_buf url = BUF_INIT(LINK_MAX), target = BUF_INIT(LINK_MAX);
	struct slice origin = link_origin(c, rq);
	struct tree_linked made = {};
	struct cay_err err = {};

	if (!b || life_over(&b->life))
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such sandbox");
	else if (rq->actor.one_sandbox)
		(void)cay_fail(&err, CAY_E_FORBIDDEN, "a token makes no links");
	else if (q->path && q->path_b64)
		(void)cay_fail_field(&err, CAY_E_INVALID, "path_b64", "either it or path");
	else if (make_link(c, b, q, &target, &made.expires_ns, &err) >= 0 &&
		 (buf_add(&url, origin.p, origin.n) < 0 ||
		  buf_add(&url, target.data, target.len) < 0))
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for a link");
	made.url = buf_str(&url);
	if (err.code)
		request_fail(rq, &err);
	else
		request_reply_json(rq, &tree_linked_table, &made);
}
