/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "edge/edge.h"

/* A tool may run for long: its own limits end it. */
#define MCP_EDGES 64
#define KEPT_MAX 64
#define KEPT_MS 30000 /* cay-mcp closes idle ones after 60 s */
#define VALUE_MAX 1024
#define AUTH_MAX KIB(8)

struct face {
	struct guest guest;
	struct carry_hold hold;
	struct edge *edge;
};

/* What MCP says in headers; the rest of a client's stay here. */
static const struct {
	const char *name, *written;
} passed[] = {
	{ "mcp-protocol-version", "MCP-Protocol-Version" },
	{ "mcp-method", "Mcp-Method" },
	{ "mcp-name", "Mcp-Name" },
	{ "mcp-session-id", "Mcp-Session-Id" },
};

static void cut_face(struct guest *g, const struct cay_err *why)
{
	carry_cut(&((struct face *)g)->hold, why);
}

static void on_left(void *arg)
{
	struct face *f = arg;

	guest_leave(&f->guest);
	free(f);
}

static char *copy(struct request *rq, struct slice v, size_t most)
{
	return v.n <= most ? pool_strn(&rq->pool, v.p, v.n) : NULL;
}

/* The credential goes along: whatever a tool does is asked of us again, with it. */
static int write_headers(struct edge *e, struct request *rq, struct relay_header *to, size_t *ret,
			 struct cay_err *err)
{
	char *actor = pool_take(&rq->pool, 1, ACTOR_TEXT_MAX + 1);
	char *back = pool_take(&rq->pool, 1, 8);
	char *auth = copy(rq, http_header(rq->head, "authorization"), AUTH_MAX);
	char *host = copy(rq, http_header(rq->head, "host"), VALUE_MAX);
	size_t n = 0;

	if (!actor || !back || !auth || !host)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	actor_format(&rq->actor, actor);
	if (snprintf(back, 8, "%u", e->mcp_slot) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "a number");
	to[n++] = (struct relay_header){ "Cay-Actor", actor };
	to[n++] = (struct relay_header){ "Cay-Back", back };
	to[n++] = (struct relay_header){ "Cay-Host", host };
	to[n++] = (struct relay_header){ "Authorization", auth };
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		struct slice v = http_header(rq->head, passed[i].name);
		char *text = v.p ? copy(rq, v, VALUE_MAX) : NULL;

		if (v.p && !text)
			return cay_fail(err, CAY_E_HEADERS, "%s is too long", passed[i].written);
		for (size_t k = 0; v.p && k < v.n; k++)
			if (v.p[k] < ' ' || v.p[k] > '~')
				return cay_fail(err, CAY_E_INVALID, "%s is not ASCII",
						passed[i].written);
		if (text)
			to[n++] = (struct relay_header){ passed[i].written, text };
	}
	*ret = n;
	return 0;
}

static void pass_on(struct edge *e, struct request *rq)
{
	struct relay_header headers[4 + ARRAY_SIZE(passed)];
	struct relay_conf conf = {
		.upstream = e->mcp, .name = "cay-mcp", .headers = headers, .done = on_left
	};
	struct cay_err err = {};
	struct face *f;

	if (write_headers(e, rq, headers, &conf.n_headers, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	f = calloc(1, sizeof(*f));
	/* what a proxy holds back is no progress */
	if (!f || request_header(rq, "X-Accel-Buffering", "no") < 0 ||
	    request_header(rq, "Cache-Control", "no-store") < 0) {
		free(f);
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	f->edge = e;
	guest_enter(e, &f->guest, rq, NULL, cut_face);
	conf.hold = &f->hold;
	conf.arg = f;
	relay_start(rq, &conf);
}

static void mcp_request(struct request *rq, void *arg)
{
	struct edge *e = arg;
	struct cay_err err = {};

	if (gate_face(e, rq, &err) < 0)
		request_fail(rq, &err);
	else if (!e->mcp)
		request_refuse(
			rq, CAY_E_UNAVAILABLE,
			"there is no MCP here: mcp.run was not there when this edge started");
	else
		pass_on(e, rq);
}

request_fn *mcp_find(struct request *rq, void *arg)
{
	struct slice query = rq->head->target, path = slice_cut(&query, '?');

	(void)arg;
	return slice_eq(path, SLICE("/mcp")) ? mcp_request : NULL;
}

/* A number nobody else has: its lock is held for as long as we live. */
static int take_slot(struct edge *e, int dir, struct cay_err *err)
{
	for (unsigned i = 0; i < MCP_EDGES; i++) {
		char name[32];
		int n = snprintf(name, sizeof(name), "edge-%u.lock", i), fd;

		if (n < 0 || n >= (int)sizeof(name))
			break;
		fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && (errno == EACCES || errno == EPERM))
			continue; /* somebody else's, perhaps of long ago */
		if (fd < 0)
			return cay_fail_sys(err, CAY_E_INVALID, errno, "mcp.run: %s/%s",
					    e->settings.mcp_dir, name);
		if (flock(fd, LOCK_EX | LOCK_NB) >= 0) {
			e->mcp_slot = i;
			return 0; /* the fd is ours until the end */
		}
		(void)close(fd);
	}
	return cay_fail(err, CAY_E_INVALID, "mcp.run: %d edges are there already", MCP_EDGES);
}

static int listen_back(struct edge *e, gid_t group, struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/edge-%u.sock", e->settings.mcp_dir,
			 e->mcp_slot);

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail(err, CAY_E_INVALID, "mcp.run is too long");
	(void)unlink(at.sun_path);
	/* the directory's group may ask, with a credential */
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chown(at.sun_path, (uid_t)-1, group) < 0 || chmod(at.sun_path, 0660) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "mcp.run: %s", at.sun_path);
	e->mcp_bound = cay_take_fd(&fd);
	return 0;
}

int mcp_open(struct edge *e, struct cay_err *err)
{
	auto_close int dir = open(e->settings.mcp_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	char path[108];
	int n = snprintf(path, sizeof(path), "%s/mcp.sock", e->settings.mcp_dir), r;

	e->mcp_bound = -EBADF;
	if (dir < 0 || fstat(dir, &st) < 0) {
		log_info(&e->log, "no MCP: %s: %s", e->settings.mcp_dir, strerror(errno));
		return 0;
	}
	if (n < 0 || n >= (int)sizeof(path))
		return cay_fail(err, CAY_E_INVALID, "mcp.run is too long");
	r = take_slot(e, dir, err);
	if (r >= 0)
		r = listen_back(e, st.st_gid, err);
	if (r < 0) { /* the rest of what we do needs none of it */
		log_warn(&e->log, "no MCP: %s", err->msg);
		*err = (struct cay_err){};
		return 0;
	}
	e->mcp = upstream_new(&e->loop, path, KEPT_MAX, KEPT_MS);
	return e->mcp ? 0 : cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
}

int mcp_serve(struct edge *e, struct cay_err *err)
{
	if (!e->mcp)
		return 0;
	/* the same doors for the same people; between two of ours there is no TLS */
	e->mcp_conf = e->conf;
	e->mcp_conf.layer = NULL;
	return server_start(&e->loop, e->mcp_bound, &e->mcp_conf, &e->mcp_server, err);
}
