/* SPDX-License-Identifier: Apache-2.0 */
#include "init/kernel/kernel-parent.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#include "init/core/trust.h"
#include "init/exec/exec-child.h"

#define PARENT_ARENA KIB(128)
#define MODULES_MAX 64
#define REQUEST_MAX KIB(128)            /* the socket's buffer takes it at once */
#define ENV_BYTES_MAX (REQUEST_MAX / 8) /* JSON takes six bytes for some characters */
#define MESSAGE_MAX KIB(32)             /* of the parent: a reason for each module */
#define REASON_MAX 1024                 /* bytes of one */
#define LOAD_MS 60000

enum { FD_SOCKET = 3, FD_TEXT = 5 };
static_assert(CHILD_PASS == FD_SOCKET + 1 && CHILD_PASS + 1 == FD_TEXT);

/* Allocated, because its handle closes after the next one is open. */
struct parent_channel {
	struct kernel_parent *parent;
	int fd;
	uv_poll_t poll;
};

struct kernel_parent {
	struct init *init;
	struct arena arena; /* of user, env and argv */
	const char *user;
	struct field_map env;
	const char *argv[MODULES_MAX + 8];
	struct exec *exec; /* NULL: it has no process */
	struct parent_channel *channel;
	bool ready, failed; /* failed: it ended before it was ready, and is not started again */
	bool killed;        /* and not waited for yet */
	bool stale;         /* its modules may be older than the files */
	uid_t uid;
	bool forking;           /* a message is awaited, */
	uint64_t number;        /* which repeats this number of the request, */
	struct kernel *current; /* for this kernel; NULL: it has ended meanwhile */
	struct arena missing_arena;
	struct field_map missing; /* modules that were left out, and why */
	char why[256];            /* it has no process; empty: it has one */
};

static const struct json_limits parent_json_limits = { MESSAGE_MAX, 3, 1024 };

/* Variables that an interpreter, or a library, reads when it starts. */
static const char *const start_keys[] = { "HOME",     "USER",    "XDG_",       "MKL_",   "KMP_",
					  "NUMEXPR_", "BLIS_",   "GOTO_",      "CUDA_",  "TORCH_",
					  "TF_",      "MALLOC_", "GLIBC_",     "PYTHON", "IPYTHON",
					  "LD_",      "LC_",     "LANG",       "OMP_",   "OPENBLAS",
					  "MPL",      "PATH",    "VIRTUAL_ENV" };

static bool is_start_key(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(start_keys); i++)
		if (strncmp(key, start_keys[i], strlen(start_keys[i])) == 0)
			return true;
	return false;
}

static const char *map_get(const struct field_map *m, const char *key)
{
	for (size_t i = 0; m && i < m->n; i++)
		if (str_eq(m->keys[i], key))
			return m->values[i];
	return NULL;
}

/* Variables of a kernel, with falling priority. */
#define ENV_MAPS 4
static void kernel_list_env(const struct kernel *k, const struct field_map *ret[static ENV_MAPS])
{
	ret[0] = &k->env;
	ret[1] = &k->session.init->claim.env;
	ret[2] = &kernel_env;
	ret[3] = trust_env();
}

static const char *kernel_env_get(const struct kernel *k, const char *key)
{
	const struct field_map *maps[ENV_MAPS];
	const char *value = NULL;

	kernel_list_env(k, maps);
	for (size_t i = 0; i < ENV_MAPS && !value; i++)
		value = map_get(maps[i], key);
	return value;
}

static size_t kernel_env_bytes(const struct kernel *k)
{
	const struct field_map *maps[ENV_MAPS];
	size_t bytes = 0;

	kernel_list_env(k, maps);
	for (size_t m = 0; m < ENV_MAPS; m++)
		for (size_t i = 0; maps[m] && i < maps[m]->n; i++)
			bytes += strlen(maps[m]->keys[i]) + strlen(maps[m]->values[i]);
	return bytes;
}

static bool texts_differ(const char *a, const char *b)
{
	return a && b ? !str_eq(a, b) : a != b;
}

/* Whether its interpreter would start with the variables that the parent has. */
static bool parent_fits_env(const struct kernel_parent *p, const struct kernel *k)
{
	const struct field_map *maps[] = { &p->env, &k->env, &k->session.init->claim.env };

	for (size_t m = 0; m < ARRAY_SIZE(maps); m++)
		for (size_t i = 0; i < maps[m]->n; i++) {
			const char *key = maps[m]->keys[i], *ours = map_get(&p->env, key);

			if (is_start_key(key) &&
			    texts_differ(kernel_env_get(k, key),
					 ours ? ours : map_get(&kernel_env, key)))
				return false;
		}
	return true;
}

static bool parent_fits(const struct kernel_parent *p, const struct kernel *k)
{
	const struct claim *c = &k->session.init->claim;
	const char *user = k->user ? k->user : c->user;

	return str_eq(k->language->name, "python") && !texts_differ(user, p->user) &&
	       parent_fits_env(p, k) && kernel_env_bytes(k) <= ENV_BYTES_MAX;
}

/* In the child, as the user. */
static int child_parent_exec(void *arg)
{
	const struct kernel_parent *p = arg;

	if (dup2(CHILD_PASS, FD_SOCKET) < 0 || fcntl(FD_TEXT, F_SETFD, 0) < 0)
		return 125;
	(void)close(CHILD_PASS);
	(void)execvp(p->argv[0], (char *const *)(uintptr_t)p->argv);
	return 127;
}

static void parent_close_channel(struct kernel_parent *p)
{
	struct parent_channel *c = cay_take(p->channel);

	if (!c)
		return;
	uv_close((uv_handle_t *)&c->poll, on_handle_closed_free);
	(void)close(c->fd);
}

static void parent_start(struct kernel_parent *p);

/* It forks nothing from now on. */
static void parent_kill(struct kernel_parent *p)
{
	p->killed = true;
	if (p->exec)
		exec_kill(p->exec);
}

/* Both texts together; what does not fit is cut off. */
static void parent_keep_why(struct kernel_parent *p, const char *text, const char *more)
{
	int n = snprintf(p->why, sizeof(p->why), "%s%s", text, more);

	if (n < 0 || !utf8_is_valid(p->why, strlen(p->why)))
		p->why[0] = 0;
}

/* The last line that it wrote to stderr, or how it ended. */
static void parent_explain_end(struct kernel_parent *p, const struct exec *exec)
{
	const struct end *e = &exec->end;
	char line[sizeof(p->why)];

	output_read_last_line(&exec->out[1], line, sizeof(line));
	if (exec->timed_out)
		parent_keep_why(p, "it did not load its modules in 60 s", "");
	else if (e->reason == END_OOM)
		parent_keep_why(p, "it was killed for memory", "");
	else if (e->signal)
		parent_keep_why(p, "it was killed by ", e->signal);
	else
		parent_keep_why(p, line[0] ? line : "its process ended", "");
}

/* Kernels that wait for it, and the one that it forks, end. */
static void on_parent_ended(struct exec *exec, void *arg)
{
	struct kernel_parent *p = arg;
	const struct kernel *forking = p->current;
	bool reload = p->stale;

	if (exec)
		parent_explain_end(p, exec);
	p->exec = NULL;
	p->failed = !p->ready;
	p->ready = p->forking = p->killed = p->stale = false;
	p->current = NULL;
	parent_close_channel(p);
	for (struct session *s = p->init->kernels.first; s; s = s->next)
		if (kernel_of(s) == forking || kernel_of(s)->fork_fds[0] >= 0)
			session_kill(s, "the process that forks kernels has ended");
	if (reload && !p->failed)
		parent_start(p);
}

static void on_parent_started(struct exec *, const struct cay_err *err, void *arg)
{
	struct kernel_parent *p = arg;

	if (!err)
		return;
	parent_keep_why(p, err->msg, "");
	on_parent_ended(NULL, p);
}

static int parent_write_request(const struct kernel *k, uint64_t number, struct buf *to)
{
	const struct claim *c = &k->session.init->claim;
	const struct field_map *maps[ENV_MAPS];
	struct jw w = jw_to(to);

	kernel_list_env(k, maps);
	jw_object_begin(&w, NULL);
	jw_u64(&w, "number", number);
	jw_object_begin(&w, "env");
	for (size_t m = 0; m < ENV_MAPS; m++)
		for (size_t i = 0; maps[m] && i < maps[m]->n; i++)
			if (kernel_env_get(k, maps[m]->keys[i]) == maps[m]->values[i])
				jw_str(&w, maps[m]->keys[i], maps[m]->values[i]);
	jw_end(&w);
	jw_str(&w, "cwd", k->start_cwd ? k->start_cwd : c->cwd ? c->cwd : "/");
	jw_end(&w);
	return jw_finish(&w);
}

static int parent_send_request(const struct kernel_parent *p, const struct kernel *k)
{
	const int *outputs = k->session.output_write_fds;
	int fds[] = { outputs[0], outputs[1], k->fork_fds[0], k->fork_fds[1] };
	auto_buf text = BUF_INIT(REQUEST_MAX);
	union {
		char bytes[CMSG_SPACE(sizeof(fds))];
		struct cmsghdr align;
	} control = {};
	struct iovec io;
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = control.bytes,
			    .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int r = parent_write_request(k, p->number, &text);

	if (r < 0)
		return r;
	io = (struct iovec){ text.data, text.len };
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	return sendmsg(p->channel->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* One at a time. */
static void parent_send_next(struct kernel_parent *p)
{
	for (struct session *s = p->init->kernels.first; s && !p->forking; s = s->next) {
		struct kernel *k = kernel_of(s);

		if (k->fork_fds[0] < 0 || s->exec->killed)
			continue;
		p->number++;
		if (p->channel && parent_send_request(p, k) >= 0) {
			p->forking = true;
			p->current = k;
		} else {
			session_kill(s, "cannot reach the process that forks kernels");
		}
		kernel_close_fork_fds(k);
	}
}

static void parent_handle_kernel(struct kernel_parent *p, pid_t pid)
{
	struct kernel *k = cay_take(p->current);

	p->forking = false;
	/* one that nothing waits for ends when it finds its channels closed */
	if (k && exec_adopt_process(k->session.exec, pid) < 0)
		session_kill(&k->session, "its process could not be adopted");
	else if (k)
		kernel_send(k, 'G', (struct slice){});
	parent_send_next(p);
}

/* Modules that it could not load.  What does not fit is left out. */
static void parent_keep_missing(struct kernel_parent *p, json_t *missing)
{
	size_t n = json_object_size(missing);
	struct field_map *to = &p->missing;
	const char *name;
	json_t *why;

	arena_fini(&p->missing_arena);
	p->missing_arena = ARENA_INIT(2 * MESSAGE_MAX);
	*to = (struct field_map){ arena_alloc(&p->missing_arena, n + 1, sizeof(char *)),
				  arena_alloc(&p->missing_arena, n + 1, sizeof(char *)), 0 };
	if (!to->keys || !to->values || n > MODULES_MAX)
		return;
	json_object_foreach (missing, name, why) {
		bool ok = json_is_string(why) && json_string_length(why) < REASON_MAX;

		to->keys[to->n] = kernel_copy_text(&p->missing_arena, name, &ok);
		to->values[to->n] =
			kernel_copy_text(&p->missing_arena, json_string_value(why), &ok);
		to->n += ok;
	}
}

static void parent_set_ready(struct kernel_parent *p, uid_t uid, const json_t *said)
{
	p->ready = true;
	p->uid = uid;
	(void)uv_timer_stop(&p->exec->timer);
	parent_keep_missing(p, json_object_get(said, "missing"));
}

/* An answer to an earlier request is of no use: a context that is late finds its channels closed.
 */
static void parent_handle_message(struct kernel_parent *p, const struct ucred *from,
				  const json_t *said)
{
	const json_t *number = json_object_get(said, "number");
	bool answers = p->forking && json_is_integer(number) &&
		       (uint64_t)json_integer_value(number) == p->number;
	struct kernel *k = p->current;

	if (from->pid != p->exec->pid) {
		if (answers && from->uid == p->uid)
			parent_handle_kernel(p, from->pid);
	} else if (!p->ready) {
		parent_set_ready(p, from->uid, said);
	} else if (answers) {
		p->forking = false;
		p->current = NULL;
		if (k)
			session_kill(&k->session, "the process could not be forked");
		parent_send_next(p);
	}
}

/* There is room for credentials only, so the system drops fds that come along. */
static void on_parent_readable(uv_poll_t *poll, int, int)
{
	const struct parent_channel *channel = poll->data;
	struct kernel_parent *p = channel->parent;
	char text[MESSAGE_MAX];
	auto_json said = NULL;
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec io = { text, sizeof(text) };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = control.bytes,
			    .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(channel->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	struct ucred from;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		parent_close_channel(p);
		parent_kill(p);
		return;
	}
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
	    c->cmsg_len != CMSG_LEN(sizeof(from)))
		return;
	memcpy(&from, CMSG_DATA(c), sizeof(from));
	if (json_parse((struct slice){ text, (size_t)n }, &parent_json_limits, &said, NULL) >= 0)
		parent_handle_message(p, &from, said);
}

static int parent_open_channel(struct kernel_parent *p, int *ret_theirs)
{
	struct parent_channel *c = calloc(1, sizeof(*c));
	int fds[2] = { -EBADF, -EBADF }, on = 1, r = 0;

	if (!c)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0 ||
	    setsockopt(fds[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		r = -errno;
	if (r >= 0)
		r = uv_poll_init(&p->init->loop, &c->poll, fds[0]);
	if (r < 0) {
		cay_closep(&fds[0]);
		cay_closep(&fds[1]);
		free(c);
		return r;
	}
	*c = (struct parent_channel){ .parent = p, .fd = fds[0], .poll = c->poll };
	c->poll.data = c;
	p->channel = c;
	*ret_theirs = fds[1];
	return 0;
}

/* Without it kernels start one by one, so a failure is no error. */
static void parent_start(struct kernel_parent *p)
{
	struct exec_run req = { .user = p->user, .cwd = "/", .env = p->env, .timeout_ms = LOAD_MS };
	int pass[2] = { -EBADF, -EBADF };
	struct exec_internal own = { .output_fd = -EBADF,
				     .env = &kernel_env,
				     .pass_fds = pass,
				     .n_pass = ARRAY_SIZE(pass),
				     .child_main = child_parent_exec,
				     .on_started = on_parent_started,
				     .on_ended = on_parent_ended,
				     .arg = p };
	struct cay_err err = {};
	int r = parent_open_channel(p, &pass[0]);

	p->why[0] = 0;
	p->missing.n = 0;

	if (r >= 0)
		r = pass[1] = kernel_open_text(kernel_language_find("python", NULL));
	if (r < 0)
		(void)cay_fail_sys(&err, CAY_E_LIMIT, -r, "open its channel");
	else
		r = exec_start_internal(p->init, &req, &own, &p->exec, &err);
	cay_closep(&pass[0]);
	cay_closep(&pass[1]);
	if (r >= 0)
		(void)uv_poll_start(&p->channel->poll, UV_READABLE, on_parent_readable);
	else
		parent_close_channel(p);
	if (r < 0)
		parent_keep_why(p, err.msg, "");
}

/* argv of its language, and the modules. */
static bool parent_copy_settings(struct kernel_parent *p, const struct claim *c,
				 const struct warm_kernel *w)
{
	const struct kernel_language *l = kernel_language_find("python", NULL);
	bool ok = kernel_copy_map(&p->arena, &c->env, &p->env);
	size_t n = 0;

	p->user = kernel_copy_text(&p->arena, c->user, &ok);
	while (l->argv[n]) {
		p->argv[n] = l->argv[n];
		n++;
	}
	p->argv[n++] = "--parent";
	for (size_t i = 0; i < w->modules.n && n < ARRAY_SIZE(p->argv) - 1; i++)
		p->argv[n++] = kernel_copy_text(&p->arena, w->modules.v[i], &ok);
	return ok;
}

void kernel_parent_prepare(struct init *in, const struct claim *c)
{
	struct kernel_parent *p;

	if (in->kernel_parent || !c->kernels.n)
		return;
	p = calloc(1, sizeof(*p));
	if (!p)
		return;
	p->init = in;
	p->arena = ARENA_INIT(PARENT_ARENA);
	p->missing_arena = ARENA_INIT(0);
	if (!parent_copy_settings(p, c, c->kernels.v)) {
		arena_fini(&p->arena);
		free(p);
		return;
	}
	in->kernel_parent = p;
	parent_start(p);
}

bool kernel_parent_describe(const struct init *in, struct loaded_kernel *ret)
{
	const struct kernel_parent *p = in->kernel_parent;

	if (!p)
		return false;
	*ret = (struct loaded_kernel){ .missing = p->missing, .why = p->why[0] ? p->why : NULL };
	if (!p->exec)
		ret->state = p->failed ? LOADED_FAILED : LOADED_ENDED;
	else if (p->ready)
		ret->state = p->stale || p->killed ? LOADED_STALE : LOADED_READY;
	return true;
}

bool kernel_parent_can_fork(const struct kernel *k)
{
	const struct kernel_parent *p = k->session.init->kernel_parent;

	return p && p->ready && !p->killed && !p->stale && parent_fits(p, k) &&
	       !proc_is_ending(p->exec->pid);
}

void kernel_parent_restart(struct init *in)
{
	struct kernel_parent *p = in->kernel_parent;

	if (p && p->stale && !p->forking)
		parent_kill(p); /* its end starts it again */
	else if (p && p->killed)
		p->stale = true;
	else if (p && !p->exec && !p->failed)
		parent_start(p);
}

void kernel_parent_set_stale(struct init *in)
{
	if (in->kernel_parent)
		in->kernel_parent->stale = true;
}

void kernel_parent_fork(struct kernel *k)
{
	parent_send_next(k->session.init->kernel_parent);
}

void kernel_parent_forget(const struct kernel *k)
{
	struct kernel_parent *p = k->session.init->kernel_parent;
	const struct session *s = &k->session;
	bool was_current = p && p->current == k;

	if (!p || (!was_current && k->fork_fds[0] < 0))
		return;
	if (was_current) { /* an answer that is late has an old number */
		p->current = NULL;
		p->forking = false;
	}
	if (s->ended_why && str_eq(s->ended_why, s->kind->unstarted_why))
		parent_kill(p); /* it does not answer */
	else if (was_current)
		parent_send_next(p);
}
