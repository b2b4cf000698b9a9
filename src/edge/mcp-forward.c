/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/file.h>
#include <sys/un.h>

#include "edge/edge.h"

/* No time limit here: a tool has its own. */
#define MCP_EDGES 64
#define KEPT_MAX 64
#define KEPT_MS 30000 /* cay-mcp closes idle connections after 60 s */
#define VALUE_MAX 1024
#define AUTH_MAX KIB(8)

struct mcp_forward {
	struct live_request live;
	struct forward_handle hold;
};

/* The headers of MCP; no others are forwarded. */
static const struct {
	const char *name, *written;
} mcp_forward_header_names[] = {
	{ "mcp-protocol-version", "MCP-Protocol-Version" },
	{ "mcp-method", "Mcp-Method" },
	{ "mcp-name", "Mcp-Name" },
	{ "mcp-session-id", "Mcp-Session-Id" },
};

static void mcp_forward_end(struct live_request *g, const struct cay_err *why)
{
	forward_cancel(&((struct mcp_forward *)g)->hold, why);
}

static void on_mcp_forward_done(void *arg)
{
	struct mcp_forward *f = arg;

	live_request_remove(&f->live);
	free(f);
}

static char *mcp_forward_copy_value(struct request *rq, struct slice v, size_t most)
{
	return v.n <= most ? arena_strndup(&rq->arena, v.p, v.n) : NULL;
}

/* Includes the credential: cay-mcp calls back with it for everything a tool does. */
static int mcp_forward_write_headers(struct edge *e, struct request *rq, struct relay_header *to,
				     size_t *ret, struct cay_err *err)
{
	char *actor = arena_alloc(&rq->arena, 1, ACTOR_TEXT_MAX + 1);
	char *back = arena_alloc(&rq->arena, 1, 8);
	char *auth =
		mcp_forward_copy_value(rq, http_header_find(rq->head, "authorization"), AUTH_MAX);
	char *host = mcp_forward_copy_value(rq, http_header_find(rq->head, "host"), VALUE_MAX);
	size_t n = 0;

	if (!actor || !back || !auth || !host)
		return cay_no_memory(err);
	actor_format(&rq->actor, actor);
	if (snprintf(back, 8, "%u", e->mcp_slot) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot format the slot");
	to[n++] = (struct relay_header){ "Cay-Actor", actor };
	to[n++] = (struct relay_header){ "Cay-Back", back };
	to[n++] = (struct relay_header){ "Cay-Host", host };
	to[n++] = (struct relay_header){ "Authorization", auth };
	for (size_t i = 0; i < ARRAY_SIZE(mcp_forward_header_names); i++) {
		const char *written = mcp_forward_header_names[i].written;
		struct slice v = http_header_find(rq->head, mcp_forward_header_names[i].name);
		char *text = v.p ? mcp_forward_copy_value(rq, v, VALUE_MAX) : NULL;

		if (v.p && !text)
			return cay_fail(err, CAY_E_HEADERS, "%s is too long", written);
		for (size_t k = 0; v.p && k < v.n; k++)
			if (v.p[k] < ' ' || v.p[k] > '~')
				return cay_fail(err, CAY_E_INVALID, "%s is not ASCII", written);
		if (text)
			to[n++] = (struct relay_header){ written, text };
	}
	*ret = n;
	return 0;
}

static void mcp_forward_start(struct edge *e, struct request *rq)
{
	struct relay_header headers[4 + ARRAY_SIZE(mcp_forward_header_names)];
	struct relay_conf conf = { .upstream = e->mcp,
				   .name = "cay-mcp",
				   .headers = headers,
				   .done = on_mcp_forward_done };
	struct cay_err err = {};
	struct mcp_forward *f;

	if (mcp_forward_write_headers(e, rq, headers, &conf.n_headers, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	f = calloc(1, sizeof(*f));
	/* a buffering proxy would delay progress */
	if (!f || request_add_reply_header(rq, "X-Accel-Buffering", "no") < 0 ||
	    request_add_reply_header(rq, "Cache-Control", "no-store") < 0) {
		free(f);
		request_no_memory(rq);
		return;
	}
	live_request_add(e, &f->live, rq, NULL, mcp_forward_end);
	conf.handle = &f->hold;
	conf.arg = f;
	relay_start(rq, &conf);
}

static void mcp_forward_request(struct request *rq, void *arg)
{
	struct edge *e = arg;
	struct cay_err err = {};

	if (admission_admit_request(rq, e, &err) < 0 ||
	    request_charge_tenant(rq, &rq->actor.tenant, 0, &err) < 0)
		request_fail(rq, &err);
	else if (!e->mcp)
		request_refuse(
			rq, CAY_E_UNAVAILABLE,
			"MCP is not available: mcp.run did not exist when this edge started");
	else
		mcp_forward_start(e, rq);
}

request_fn *mcp_forward_find_handler(struct request *rq, void *arg)
{
	struct slice query = rq->head->target, path = slice_cut(&query, '?');

	(void)arg;
	return slice_eq(path, SLICE("/mcp")) ? mcp_forward_request : NULL;
}

/* Claim a number no other edge has; the lock is held until exit. */
static int mcp_callback_claim_slot(struct edge *e, int dir, struct cay_err *err)
{
	for (unsigned i = 0; i < MCP_EDGES; i++) {
		char name[32];
		int n = snprintf(name, sizeof(name), "edge-%u.lock", i), fd;

		if (n < 0 || n >= (int)sizeof(name))
			break;
		fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && (errno == EACCES || errno == EPERM))
			continue; /* of another user */
		if (fd < 0)
			return cay_fail_sys(err, CAY_E_INVALID, errno, "mcp.run: %s/%s",
					    e->settings.mcp_dir, name);
		if (flock(fd, LOCK_EX | LOCK_NB) >= 0) {
			e->mcp_slot = i;
			return 0; /* the fd stays open on purpose */
		}
		(void)close(fd);
	}
	return cay_fail(err, CAY_E_INVALID, "mcp.run: there are already %d edges", MCP_EDGES);
}

static int mcp_callback_bind(struct edge *e, gid_t group, struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/edge-%u.sock", e->settings.mcp_dir,
			 e->mcp_slot);

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail(err, CAY_E_INVALID, "mcp.run is too long");
	(void)unlink(at.sun_path);
	/* the directory's group may connect, with a credential */
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chown(at.sun_path, (uid_t)-1, group) < 0 || chmod(at.sun_path, 0660) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "mcp.run: %s", at.sun_path);
	e->mcp_callback_fd = cay_take_fd(&fd);
	return 0;
}

int mcp_forward_open(struct edge *e, struct cay_err *err)
{
	auto_close int dir = open(e->settings.mcp_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	char path[108];
	int n = snprintf(path, sizeof(path), "%s/mcp.sock", e->settings.mcp_dir), r;

	e->mcp_callback_fd = -EBADF;
	if (dir < 0 || fstat(dir, &st) < 0) {
		log_info(&e->log, "no MCP: %s: %s", e->settings.mcp_dir, strerror(errno));
		return 0;
	}
	if (n < 0 || n >= (int)sizeof(path))
		return cay_fail(err, CAY_E_INVALID, "mcp.run is too long");
	r = mcp_callback_claim_slot(e, dir, err);
	if (r >= 0)
		r = mcp_callback_bind(e, st.st_gid, err);
	if (r < 0) { /* everything else works without MCP */
		log_warn(&e->log, "no MCP: %s", err->msg);
		*err = (struct cay_err){};
		return 0;
	}
	e->mcp = upstream_pool_new(&e->loop, path, KEPT_MAX, KEPT_MS);
	return e->mcp ? 0 : cay_no_memory(err);
}

int mcp_callback_serve(struct edge *e, struct cay_err *err)
{
	if (!e->mcp)
		return 0;
	/* the same rules as for clients; no TLS between our own programs */
	e->mcp_callback_conf = e->conf;
	e->mcp_callback_conf.layer = NULL;
	return server_start(&e->loop, e->mcp_callback_fd, &e->mcp_callback_conf,
			    &e->mcp_callback_server, err);
}
