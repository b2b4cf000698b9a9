/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/path.h"
#include "init/core/handlers.h"
#include "init/core/identity.h"
#include "init/core/trust.h"
#include "init/exec/exec.h"
#include "init/kernel/kernel-parent.h"
#include "init/service/service-config.h"
#include "init/service/start-scripts.h"
#include "init/session/session.h"
#include "wire/hello.h"

static bool sessions_have_work(const struct sessions *of)
{
	for (const struct session *s = of->first; s; s = s->next)
		if (s->current_run || s->n_queued)
			return true;
	return false;
}

/* Of clients, and of others of its group that are connected to a port; the entrypoint is like a
 * service. */
static bool init_has_work(const struct init *in)
{
	unsigned own = in->entrypoint.state == ENTRYPOINT_RUNNING;

	return in->n_live_execs > own || in->n_port_connections ||
	       sessions_have_work(&in->shells) || sessions_have_work(&in->kernels);
}

static void init_route_hello(struct request *rq, void *arg)
{
	const struct init *in = arg;
	struct hello h = { .proto_min = HELLO_PROTO_MIN, .proto_max = HELLO_PROTO_MAX };
	auto_buf body = BUF_INIT(HELLO_SIZE);
	uint8_t bytes[HELLO_SIZE];

	memcpy(h.build, CAY_VERSION,
	       sizeof(CAY_VERSION) < sizeof(h.build) ? sizeof(CAY_VERSION) : sizeof(h.build));
	h.features = (in->usable ? HELLO_CLAIMED : 0) |
		     (in->entrypoint.state ? HELLO_ENTRYPOINT_STARTED : 0);
	h.features |= in->claimed ? HELLO_CLAIM_RECEIVED : 0;
	h.features |= init_has_work(in) ? 0 : HELLO_NO_WORK;
	hello_encode(&h, bytes);
	if (buf_append(&body, bytes, sizeof(bytes)) < 0) {
		request_no_memory(rq);
		return;
	}
	request_reply(rq, 200, HELLO_MEDIA_TYPE, &body);
}

/* Copy from the request's arena to one that is never freed. */
static bool claim_copy(struct arena *p, const struct claim *from, struct claim *to)
{
	bool ok = config_map_copy(p, &from->env, &to->env);

	to->user = config_text_copy(p, from->user, &ok);
	to->cwd = config_text_copy(p, from->cwd, &ok);
	return ok;
}

/* If an image lacks the directory in which its processes start, PID 1 creates it, owned by root, as
 * other runtimes do.  Does not fail: the first exec reports that it could not be created. */
static void workdir_create(const char *path)
{
	char at[PATH_MAX];
	size_t n = path ? strlen(path) : 0;

	if (!n || n >= sizeof(at))
		return;
	memcpy(at, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (at[i] != '/' && at[i])
			continue;
		at[i] = 0;
		if (mkdir(at, 0755) < 0 && errno != EEXIST)
			return;
		if (i < n)
			at[i] = '/';
	}
}

/* An image with a name server of its own keeps it: every question to any address gets to
 * cay-egress. Does not fail: a program that asks for a name reports that it could not. */
static void resolver_conf_create(void)
{
	static const char path[] = "/etc/resolv.conf";
	static const char text[] = "nameserver 192.0.0.1\noptions timeout:2 attempts:2\n";
	auto_close int fd = -EBADF;
	struct stat st;

	if (stat(path, &st) == 0 && (!S_ISREG(st.st_mode) || st.st_size))
		return;
	(void)mkdir("/etc", 0755);
	(void)unlink(path); /* empty, or a link that leads nowhere */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd >= 0)
		(void)fd_write_all(fd, text, sizeof(text) - 1);
}

static void init_route_resolver(struct request *rq, void *)
{
	resolver_conf_create();
	request_reply(rq, 204, NULL, NULL);
}

/* Before the claim: start scripts see the new one. */
static void init_route_identity(struct request *rq, void *)
{
	identity_renew_machine_id();
	request_reply(rq, 204, NULL, NULL);
}

static void init_route_trust(struct request *rq, void *)
{
	const struct trust *t = rq->body;

	if (t->ca)
		trust_add(slice_of(t->ca));
	request_reply(rq, 204, NULL, NULL);
}

static void init_route_claim(struct request *rq, void *arg)
{
	const struct claim *request = rq->body;
	struct init *in = arg;
	struct arena arena = ARENA_INIT(CLAIM_POOL);
	struct claim claim = {};
	struct cay_err err = {};

	if (in->claimed) {
		(void)cay_fail(&err, CAY_E_CONFLICT, "the sandbox is already claimed");
	} else if (!claim_copy(&arena, request, &claim)) {
		(void)cay_fail(&err, arena.full ? CAY_E_TOO_LARGE : CAY_E_NO_MEMORY,
			       "no room for the claim");
		arena_fini(&arena);
	} else {
		in->claim_arena = arena;
		in->claim = claim;
		in->claimed = true;
		if (request->has_output)
			in->budget.max = request->output_bytes;
		if (in->cgroup >= 0) /* of a sandbox, and not the machine's */
			identity_write_generation();
		workdir_create(claim.cwd);
		kernel_parent_prepare(in, request);
		if (request->resolver)
			resolver_conf_create();
		start_scripts_begin(in, rq);
		return;
	}
	request_fail(rq, &err);
}

static void init_route_kernels(struct request *rq, void *arg)
{
	kernel_parent_prepare(arg, rq->body);
	request_reply(rq, 204, NULL, NULL);
}

static void init_route_entrypoint_get(struct request *rq, void *arg)
{
	const struct init *in = arg;
	auto_buf body = BUF_INIT(ENTRYPOINT_STATUS_SIZE);
	uint8_t bytes[ENTRYPOINT_STATUS_SIZE];
	struct cay_err err = {};

	entrypoint_status_encode(&in->entrypoint, bytes);
	if (!in->entrypoint.state)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "no entrypoint was started");
	else if (buf_append(&body, bytes, sizeof(bytes)) < 0)
		(void)cay_no_memory(&err);
	if (err.code)
		request_fail(rq, &err);
	else
		request_reply(rq, 200, ENTRYPOINT_MEDIA_TYPE, &body);
}

/* The client may leave before the program runs; the start counts all the same. */
struct entrypoint_start {
	struct init *init;
	struct request *rq;
};

static void on_entrypoint_started(struct exec *exec, const struct cay_err *err, void *arg)
{
	struct entrypoint_start *e = arg;

	if (err)
		e->init->entrypoint = (struct entrypoint_status){};
	if (e->rq)
		e->rq->events = NULL;
	if (e->rq && err)
		request_fail(e->rq, err);
	else if (e->rq)
		init_route_entrypoint_get(e->rq, exec->init);
	free(e);
}

static void on_entrypoint_client_gone(struct request *rq)
{
	struct entrypoint_start *e = rq->data;

	e->rq = NULL;
}

static void init_route_entrypoint_start(struct request *rq, void *arg)
{
	static const struct request_events events = { .gone = on_entrypoint_client_gone };
	struct init *in = arg;
	struct entrypoint_start *e;
	struct cay_err err = {};
	struct exec *exec;

	if (in->entrypoint.state) { /* started at most once */
		init_route_entrypoint_get(rq, in);
		return;
	}
	e = malloc(sizeof(*e));
	if (!e)
		(void)cay_no_memory(&err);
	if (!e || exec_start(in, rq->body, &(struct id){}, OUTPUT_DROP, &exec, &err) < 0) {
		free(e);
		request_fail(rq, &err);
		return;
	}
	in->entrypoint =
		(struct entrypoint_status){ .state = ENTRYPOINT_RUNNING, .exec = exec->id };
	*e = (struct entrypoint_start){ in, rq };
	exec->on_started = on_entrypoint_started;
	exec->cb_arg = e;
	rq->data = e;
	rq->events = &events;
}

const struct server_route init_routes[] = {
	{ METHOD_GET, INIT_PATH_HELLO, NULL, 0, init_route_hello },
	{ METHOD_POST, INIT_PATH_CLAIM, &claim_table, KIB(256), init_route_claim },
	{ METHOD_POST, INIT_PATH_KERNELS, &claim_table, KIB(256), init_route_kernels },
	{ METHOD_POST, INIT_PATH_RESOLVER, NULL, 0, init_route_resolver },
	{ METHOD_POST, INIT_PATH_IDENTITY, NULL, 0, init_route_identity },
	{ METHOD_POST, INIT_PATH_TRUST, &trust_table, KIB(8), init_route_trust },
	{ METHOD_GET, INIT_PATH_START, NULL, 0, start_scripts_wait },
	{ METHOD_POST, INIT_PATH_ENTER, &exec_run_table, KIB(256), init_route_entrypoint_start },
	{ METHOD_GET, INIT_PATH_ENTRY, NULL, 0, init_route_entrypoint_get },
};
const size_t init_n_routes = ARRAY_SIZE(init_routes);

/* An operation of the inside without op_x_y() does not link. */
static request_fn *const init_handlers[OP_NUM] = {
#define HANDLER_CONTROL(sym, noun, verb)
#define HANDLER_INSIDE(sym, noun, verb) [OP_##sym] = op_##noun##_##verb,
#define CAY_OP(sym, noun, verb, where, ...) HANDLER_##where(sym, noun, verb)
#include "ops/ops.def"
#undef CAY_OP
};

void init_handle_operation(struct request *rq, void *arg)
{
	ptrdiff_t op = rq->match.op - ops;

	assert(op >= 0 && op < OP_NUM);
	if (rq->match.sandbox_segment.n) /* control and edges send the id */
		request_refuse(rq, CAY_E_NOT_FOUND, "a sandbox knows no names of sandboxes");
	else if (init_handlers[op])
		init_handlers[op](rq, arg);
	else
		request_refuse(rq, CAY_E_NOT_FOUND, "no such operation in a sandbox");
}
