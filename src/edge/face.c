/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/face.h"

#include <sys/file.h>
#include <sys/un.h>

#include "edge/edge.h"

/* No time limit here: a tool, a command have their own. */
#define FACE_EDGES 64
#define KEPT_MAX 64
#define KEPT_MS 30000 /* a face closes idle connections after 60 s */
#define VALUE_MAX 1024
#define AUTH_MAX KIB(8)

struct face_request {
	struct live_request live;
	struct forward_handle hold;
};

static void face_request_end(struct live_request *g, const struct cay_err *why)
{
	forward_cancel(&((struct face_request *)g)->hold, why);
}

static void on_face_request_done(void *arg)
{
	struct face_request *f = arg;

	live_request_remove(&f->live);
	free(f);
}

static char *face_copy_value(struct request *rq, struct slice v, size_t most)
{
	return v.n <= most ? arena_strndup(&rq->arena, v.p, v.n) : NULL;
}

int face_copy_header(struct request *rq, const char *name, const char **ret, struct cay_err *err)
{
	struct slice v = http_header_find(rq->head, name);

	*ret = NULL;
	if (!v.p)
		return 0;
	for (size_t k = 0; k < v.n; k++)
		if (v.p[k] < ' ' || v.p[k] > '~')
			return cay_fail(err, CAY_E_INVALID, "%s is not ASCII", name);
	*ret = face_copy_value(rq, v, VALUE_MAX);
	return *ret ? 0 : cay_fail(err, CAY_E_HEADERS, "%s is too long", name);
}

/* Includes the credential: the face calls back with it. */
int face_write_headers(const struct edge_face *f, struct request *rq,
		       struct relay_header to[static FACE_HEADERS], struct cay_err *err)
{
	char *actor = arena_alloc(&rq->arena, 1, ACTOR_TEXT_MAX + 1);
	char *back = arena_alloc(&rq->arena, 1, 8);
	char *auth = face_copy_value(rq, http_header_find(rq->head, "authorization"), AUTH_MAX);
	char *host = face_copy_value(rq, http_header_find(rq->head, "host"), VALUE_MAX);

	if (!actor || !back || !auth || !host)
		return cay_no_memory(err);
	actor_format(&rq->actor, actor);
	if (snprintf(back, 8, "%u", f->slot) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot format the slot");
	to[0] = (struct relay_header){ "Cay-Actor", actor };
	to[1] = (struct relay_header){ "Cay-Back", back };
	to[2] = (struct relay_header){ "Cay-Host", host };
	to[3] = (struct relay_header){ "Authorization", auth };
	return 0;
}

void face_forward(struct edge *e, struct edge_face *face, struct request *rq,
		  const struct relay_header *headers, size_t n)
{
	struct relay_conf conf = { .upstream = face->upstream,
				   .name = face->program,
				   .headers = headers,
				   .n_headers = n,
				   .done = on_face_request_done };
	struct face_request *f = calloc(1, sizeof(*f));

	/* a buffering proxy would delay a stream */
	if (!f || request_add_reply_header(rq, "X-Accel-Buffering", "no") < 0 ||
	    request_add_reply_header(rq, "Cache-Control", "no-store") < 0) {
		free(f);
		request_no_memory(rq);
		return;
	}
	live_request_add(e, &f->live, rq, NULL, face_request_end);
	conf.handle = &f->hold;
	conf.arg = f;
	relay_start(rq, &conf);
}

/* Claim a number no other edge has; the lock is held until exit. */
static int face_claim_slot(struct edge_face *f, int dir, struct cay_err *err)
{
	for (unsigned i = 0; i < FACE_EDGES; i++) {
		char name[32];
		int n = snprintf(name, sizeof(name), "edge-%u.lock", i), fd;

		if (n < 0 || n >= (int)sizeof(name))
			break;
		fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && (errno == EACCES || errno == EPERM))
			continue; /* of another user */
		if (fd < 0)
			return cay_fail_sys(err, CAY_E_INVALID, errno, "%s: %s/%s", f->setting,
					    f->dir, name);
		if (flock(fd, LOCK_EX | LOCK_NB) >= 0) {
			f->slot = i;
			return 0; /* the fd stays open on purpose */
		}
		(void)close(fd);
	}
	return cay_fail(err, CAY_E_INVALID, "%s: there are already %d edges", f->setting,
			FACE_EDGES);
}

static int face_bind(struct edge_face *f, gid_t group, struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/edge-%u.sock", f->dir, f->slot);

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail(err, CAY_E_INVALID, "%s is too long", f->setting);
	(void)unlink(at.sun_path);
	/* the directory's group may connect, with a credential */
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chown(at.sun_path, (uid_t)-1, group) < 0 || chmod(at.sun_path, 0660) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "%s: %s", f->setting, at.sun_path);
	f->callback_fd = cay_take_fd(&fd);
	return 0;
}

static int face_open(struct edge *e, struct edge_face *f, struct cay_err *err)
{
	auto_close int dir = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	char path[108];
	int n = snprintf(path, sizeof(path), "%s/%s.sock", f->dir, f->program + sizeof("cay"));
	int r;

	f->callback_fd = -EBADF;
	if (dir < 0 || fstat(dir, &st) < 0) {
		log_info(&e->log, "no %s: %s: %s", f->program, f->dir, strerror(errno));
		return 0;
	}
	if (n < 0 || n >= (int)sizeof(path))
		return cay_fail(err, CAY_E_INVALID, "%s is too long", f->setting);
	r = face_claim_slot(f, dir, err);
	if (r >= 0)
		r = face_bind(f, st.st_gid, err);
	if (r < 0) { /* everything else works without it */
		log_warn(&e->log, "no %s: %s", f->program, err->msg);
		*err = (struct cay_err){};
		return 0;
	}
	f->upstream = upstream_pool_new(&e->loop, path, KEPT_MAX, KEPT_MS);
	return f->upstream ? 0 : cay_no_memory(err);
}

int faces_open(struct edge *e, struct cay_err *err)
{
	int r = 0;

	e->faces[FACE_MCP] = (struct edge_face){ .program = "cay-mcp",
						 .setting = "mcp.run",
						 .dir = e->settings.mcp_dir };
	e->faces[FACE_E2B] = (struct edge_face){ .program = "cay-e2b",
						 .setting = "e2b.run",
						 .dir = e->settings.e2b_dir };
	e->faces[FACE_OPENSANDBOX] = (struct edge_face){ .program = "cay-opensandbox",
							 .setting = "opensandbox.run",
							 .dir = e->settings.opensandbox_dir };
	for (unsigned i = 0; i < FACES && r >= 0; i++)
		r = face_open(e, &e->faces[i], err);
	return r;
}

int faces_serve(struct edge *e, struct cay_err *err)
{
	int r = 0;

	for (struct edge_face *f = e->faces; f < e->faces + FACES && r >= 0; f++) {
		if (!f->upstream)
			continue;
		/* the same rules as for clients; no TLS between our own programs */
		f->callback_conf = e->conf;
		f->callback_conf.layer = NULL;
		r = server_start(&e->loop, f->callback_fd, &f->callback_conf, &f->callback_server,
				 err);
	}
	return r;
}

unsigned faces_count(const struct edge *e)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FACES; i++)
		n += e->faces[i].upstream != NULL;
	return n;
}
