/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/listeners.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/path.h"
#include "cayd/core/listener-socket.h"
#include "cayd/observe/lost.h"
#include "cayd/observe/request-metrics.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/tenant/api-key.h"
#include "net/request-turns.h"

#define CONNS_MAX 8192
#define EDGE_DIR "edge"

static size_t actor_header_find(const struct http_head *h, struct slice *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_headers; i++)
		if (http_equals_nocase(h->headers[i].name, ACTOR_HEADER)) {
			*ret = h->headers[i].value;
			n++;
		}
	return n;
}

static int listener_admit_operator(struct request *rq, void *arg, struct cay_err *err)
{
	struct slice text;

	if (actor_header_find(rq->head, &text))
		return cay_fail(err, CAY_E_INVALID, "Cay-Actor is not allowed on this socket");
	rq->actor = (struct actor){ .tenant = default_tenant, .scope = SCOPE_OPERATOR };
	sandbox_resolve_name(arg, rq);
	return 0;
}

/* The secret that came with the request; empty when there is none. */
static struct slice actor_bearer_key(const struct http_head *h)
{
	static const char scheme[] = "bearer ";
	struct slice text = http_header_find(h, "authorization");

	if (text.n < sizeof(scheme) || strncasecmp(text.p, scheme, sizeof(scheme) - 1) != 0)
		return (struct slice){};
	return (struct slice){ text.p + sizeof(scheme) - 1, text.n - (sizeof(scheme) - 1) };
}

/* An edge parses bytes of strangers and may be compromised: it can vouch only for actors that it
 * could impersonate anyway. It has every key's id and hash, but no secret. */
static bool actor_is_proved(const struct cayd *c, const struct actor *a, const struct http_head *h)
{
	if (a->scope == SCOPE_PUBLIC)
		return true;
	if (a->key.noun != ID_NONE)
		return key_secret_matches(c, &a->key, actor_bearer_key(h));
	/* a token, which edges check, or a JWT of another issuer; neither gives the operator's
	 * scope */
	return a->scope <= SCOPE_WRITE && (a->one_sandbox || c->settings.jwt_keys[0]);
}

static int listener_admit_edge(struct request *rq, void *arg, struct cay_err *err)
{
	const struct op *op = rq->match.op;
	struct slice text;

	if (actor_header_find(rq->head, &text) != 1 || actor_parse(text, &rq->actor) < 0)
		return cay_fail(err, CAY_E_UNAUTHENTICATED,
				"this socket requires exactly one Cay-Actor header");
	if (!actor_is_proved(arg, &rq->actor, rq->head))
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the request does not prove its actor");
	if (!actor_is_still_valid(arg, &rq->actor))
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "the key has expired or was revoked");
	sandbox_resolve_name(arg, rq);
	if (op &&
	    actor_check_access(&rq->actor, op, rq->match.n_params ? &rq->match.params[0] : NULL))
		return cay_fail(err, CAY_E_FORBIDDEN, "this key may not call %s", op->name);
	return 0;
}

static const struct {
	const char *path; /* below paths.run */
	mode_t mode;
	request_admit *admit;
} control_listeners[] = {
	{ "control.sock", 0600, listener_admit_operator },
	{ EDGE_DIR "/control.sock", 0660, listener_admit_edge },
};
static_assert(ARRAY_SIZE(control_listeners) == ARRAY_SIZE(((struct cayd *)0)->listeners));

/* A directory that exists is used if it is ours. */
static int listener_edge_dir_create(const struct cayd *c, struct cay_err *err)
{
	auto_close int run = open(c->settings.run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd = -EBADF;
	struct stat st;

	if (run < 0 || (mkdirat(run, EDGE_DIR, 0700) < 0 && errno != EEXIST))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "make " EDGE_DIR " in %s",
				    c->settings.run_dir);
	fd = path_open(run, EDGE_DIR, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, fd < 0 ? -fd : errno, "open " EDGE_DIR);
	if (st.st_uid != geteuid())
		return cay_fail(err, CAY_E_FORBIDDEN, EDGE_DIR " belongs to uid %u", st.st_uid);
	return fchmod(fd, 0750) < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, errno, "chmod " EDGE_DIR)
				    : 0;
}

int listeners_open(struct cayd *c, struct cay_err *err)
{
	static struct server_conf confs[ARRAY_SIZE(control_listeners)];
	struct request_turns *turns = NULL;
	int r = listener_edge_dir_create(c, err);

	if (r >= 0)
		r = request_turns_start(&c->loop, &turns, err);
	/* the operator's is the first */
	for (size_t i = 0; r >= 0 && i < (c->lost.code ? 1 : ARRAY_SIZE(control_listeners)); i++) {
		int fd = listener_socket_create(c, control_listeners[i].path,
						control_listeners[i].mode, err);

		if (fd < 0)
			return fd;
		confs[i] = (struct server_conf){ .max_conns = CONNS_MAX,
						 .head_timeout_ms = 10000,
						 .idle_timeout_ms = 60000,
						 .admit = control_listeners[i].admit,
						 .handler = c->lost.code ? lost_request_handle
									 : control_request_handle,
						 .sandbox_handler = c->lost.code
									    ? lost_request_handle
									    : sandbox_request_relay,
						 .answered = on_control_request_answered,
						 .broken = on_control_request_broken,
						 .turns = turns,
						 .arg = c };
		r = server_start(&c->loop, fd, &confs[i], &c->listeners[i], err);
	}
	return r;
}

void listeners_close(struct cayd *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(control_listeners); i++)
		if (c->listeners[i])
			server_stop(c->listeners[i]);
}
