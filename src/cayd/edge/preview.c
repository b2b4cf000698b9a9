/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/edge/preview.h"
#include "cayd/core/handlers.h"

#include <sys/random.h>

#include "auth/preview.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/init-call.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/tenant/token.h"

#define LOOKS_MAX 64 /* a PID 1 that does not answer takes PREVIEW_PROBE_MS */

/* A preview while its port is probed. */
struct previews {
	unsigned probes; /* under way */
};

struct preview_reply {
	struct request *rq; /* NULL: the client left */
	unsigned *probes;   /* NULL: PID 1 was not asked */
	struct buf origin, url;
	char token[PREVIEW_TEXT_LEN + 1];
	const char *header, *value; /* storage of made.headers */
	struct preview_made made;
};

static void preview_reply_free(struct preview_reply *s)
{
	buf_fini(&s->origin);
	buf_fini(&s->url);
	explicit_bzero(s, sizeof(*s));
	free(s);
}

/* The reply is untrusted: an invalid one counts as none. */
static void on_preview_port_status(void *arg, unsigned status, struct slice body,
				   const struct cay_err *)
{
	struct preview_reply *s = arg;
	struct port_open port = {};

	if (s->probes)
		(*s->probes)--;
	if (s->rq) {
		s->made.has_listening =
			status == 200 &&
			field_decode_text(&port_open_table, body, &json_control_limits,
					  &s->rq->arena, &port, NULL) >= 0;
		s->made.listening = port.open;
		request_reply_json(s->rq, &preview_made_table, &s->made);
	}
	preview_reply_free(s);
}

int previews_open(struct cayd *c, struct cay_err *err)
{
	c->previews = calloc(1, sizeof(*c->previews));
	return c->previews ? 0 : cay_no_memory(err);
}

static void preview_probe_port(struct cayd *c, const struct preview *p, struct preview_reply *s)
{
	auto_buf target = BUF_INIT(128);
	char id[ID_TEXT_LEN + 1];

	id_format(&p->token.sandbox, id);
	if (buf_printf(&target, "/v1/sandboxes/%s/ports/%u", id, p->port) < 0) {
		on_preview_port_status(s, 0, (struct slice){}, NULL);
		return;
	}
	request_watch_client(&s->rq);
	s->probes = &c->previews->probes;
	(*s->probes)++;
	init_call_with_deadline(c, &p->token.sandbox, "GET", target.data, (struct slice){},
				PREVIEW_PROBE_MS, on_preview_port_status, s);
}

static int preview_reply_fill(struct cayd *c, const struct preview_base *base,
			      const struct preview *p, struct preview_reply *s, struct cay_err *err)
{
	struct token_key key;
	int r;

	token_signer_get_key(c, &key);
	r = preview_token_sign(p, &key, s->token, err);
	explicit_bzero(&key, sizeof(key));
	if (r < 0)
		return r;
	if (preview_origin_format(base, &p->token.sandbox, p->port, &s->origin) < 0 ||
	    buf_printf(&s->url, "%s/?" PREVIEW_PARAM "=%s", buf_str(&s->origin), s->token) < 0)
		return cay_no_memory(err);
	s->header = PREVIEW_HEADER;
	s->value = s->token;
	s->made = (struct preview_made){ .url = buf_str(&s->url),
					 .origin = buf_str(&s->origin),
					 .token = s->token,
					 .headers = { &s->header, &s->value, 1 },
					 .expires_ns = p->token.not_after * NS_PER_S };
	return 0;
}

/* Suggests a domain for a browser on the node itself, which browsers resolve to loopback. */
static int preview_refuse_unconfigured(const struct settings *s, struct cay_err *err)
{
	struct slice port = slice_of(s->edge_listen);

	port = slice_cut(&port, ' ');
	while (memchr(port.p, ':', port.n))
		(void)slice_cut(&port, ':');
	return cay_fail(err, CAY_E_UNSUPPORTED,
			"previews are off: set edge.previews in cay.conf to a domain "
			"(%s://preview.localhost:%.*s for browsers on this node) and restart cayd "
			"and cay-edge",
			s->edge_cert[0] ? "https" : "http", (int)port.n, port.p);
}

static int preview_prepare(struct cayd *c, const struct request *rq, const struct sandbox *sb,
			   struct preview_base *base, struct preview *p, struct cay_err *err)
{
	const struct preview_create *q = rq->body;

	if (!sb || life_is_finished(&sb->life))
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such sandbox");
	if (rq->actor.one_sandbox) /* the preview would outlive the token */
		return cay_fail(err, CAY_E_FORBIDDEN, "a token cannot create previews");
	if (q->has_port && q->has_screen)
		return cay_fail_field(err, CAY_E_INVALID, "screen",
				      "a preview shows a port or the screen, not both");
	if (!c->settings.edge_previews[0])
		return preview_refuse_unconfigured(&c->settings, err);
	if (preview_base_parse(c->settings.edge_previews, base, err) < 0)
		return -EINVAL;
	if (getrandom(p->token.nonce, sizeof(p->token.nonce), 0) != sizeof(p->token.nonce))
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	p->token.tenant = sb->info.tenant;
	p->token.sandbox = sb->info.id;
	p->token.epoch = sb->epoch;
	if (q->has_screen)
		p->screen = q->screen == SCREEN_CONTROL ? PREVIEW_CONTROL : PREVIEW_WATCH;
	else
		p->port = (uint16_t)(q->has_port ? q->port : sb->info.app_port);
	return token_link_compute_expiry(c, q->ttl_ms, &p->token.not_after, err);
}

void op_sandbox_preview(struct cayd *c, struct request *rq)
{
	const struct sandbox *sb =
		sandbox_find_of_actor(c->sandboxes, &rq->actor, &rq->match.params[0]);
	struct preview_reply *s = calloc(1, sizeof(*s));
	struct preview_base base;
	struct preview p = {};
	struct cay_err err = {};

	if (!s) {
		request_no_memory(rq);
		return;
	}
	*s = (struct preview_reply){ .rq = rq, .origin = BUF_INIT(512), .url = BUF_INIT(KIB(1)) };
	if (preview_prepare(c, rq, sb, &base, &p, &err) < 0 ||
	    preview_reply_fill(c, &base, &p, s, &err) < 0) {
		request_fail(rq, &err);
		preview_reply_free(s);
	} else if (p.screen || sb->info.state != SB_RUNNING || c->previews->probes >= LOOKS_MAX) {
		on_preview_port_status(s, 0, (struct slice){}, NULL);
	} else {
		preview_probe_port(c, &p, s);
	}
}
