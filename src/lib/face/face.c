/* SPDX-License-Identifier: Apache-2.0 */
#include "face/face.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/clock.h"
#include "daemon/confine.h"
#include "daemon/daemon.h"
#include "daemon/stop.h"
#include "net/request-turns.h"

#define CONNS_MAX 4096
#define HEAD_MS 10000
#define IDLE_MS 60000
#define KEPT_MAX 32
#define KEPT_MS 30000 /* an edge closes idle connections after 60 s */

/* The mode of the directory restricts access to edges. */
static int face_listen(const struct face *f, const struct face_conf *conf, struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", f->dir, conf->socket);
	struct stat st;

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a socket");
	if (stat(f->dir, &st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "%s: %s", conf->setting, f->dir);
	if (st.st_mode & S_IRWXO)
		return cay_fail(err, CAY_E_INVALID,
				"%s: %s is accessible to all users; set its mode to 0770",
				conf->setting, f->dir);
	(void)unlink(at.sun_path);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chmod(at.sun_path, 0660) < 0 || listen(fd, 512) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "listen at %s", at.sun_path);
	return cay_take_fd(&fd);
}

static int face_start(struct face *f, const struct face_conf *conf, struct cay_err *err)
{
	struct request_turns *turns = NULL;
	int fd;

	f->dir = (const char *)&f->settings + conf->dir;
	fd = face_listen(f, conf, err);
	if (fd < 0)
		return fd;
	if (conf->init)
		conf->init(conf->arg);
	if (request_turns_start(&f->loop, &turns, err) < 0) {
		(void)close(fd);
		return -ENOMEM;
	}
	f->conf = (struct server_conf){ .max_conns = CONNS_MAX,
					.head_timeout_ms = HEAD_MS,
					.idle_timeout_ms = IDLE_MS,
					.find_special = conf->find_handler,
					.turns = turns,
					.arg = conf->arg };
	return server_start(&f->loop, fd, &f->conf, &f->server, err);
}

static void on_face_drain(void *arg)
{
	const struct face *f = arg;

	server_drain(f->server);
}

static unsigned face_count_connections(const void *arg)
{
	const struct face *f = arg;

	return server_count_connections(f->server);
}

static int face_run(struct face *f, struct cay_err *err)
{
	int r;

	daemon_stop_on_signals(&f->loop, &f->log, on_face_drain, face_count_connections, f);
	json_object_seed(0); /* from the kernel, before the filter blocks it */
	r = confine_daemon(err);
	if (r < 0)
		return r;
	daemon_notify_ready(&f->log);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	return 0;
}

int face_main(int argc, char **argv, struct face *f, const struct face_conf *conf)
{
	struct cay_err err = {};
	int r;

	f->log = log_create(STDERR_FILENO, conf->program, &clk_system);
	r = daemon_start(argc, argv, "a user of its own", &f->settings, &f->log, &err);
	if (r > 0)
		return 0; /* --check, --version */
	if (r >= 0)
		r = confine_deny_io_uring(&err);
	if (r >= 0)
		r = uv_loop_init(&f->loop) < 0 ? cay_no_memory(&err) : face_start(f, conf, &err);
	if (r >= 0)
		r = face_run(f, &err);
	return daemon_exit_status(r, &f->log, &err);
}

struct upstream_pool *face_open_edge(struct face *f, unsigned edge, struct cay_err *err)
{
	struct upstream_pool **u = &f->edges[edge];
	char path[108];
	int n = snprintf(path, sizeof(path), "%s/edge-%u.sock", f->dir, edge);

	if (!*u && n > 0 && n < (int)sizeof(path))
		*u = upstream_pool_new(&f->loop, path, KEPT_MAX, KEPT_MS);
	if (!*u)
		(void)cay_no_memory(err);
	return *u;
}

int face_read_headers(struct request *rq, struct actor *ret, unsigned *ret_edge,
		      const char **ret_host, struct cay_err *err)
{
	const struct http_head *h = rq->head;
	struct slice host = http_header_find(h, FACE_HOST_HEADER);
	uint64_t edge;

	if (!http_header_find(h, "authorization").n ||
	    actor_parse(http_header_find(h, ACTOR_HEADER), ret) < 0 ||
	    str_parse_u64(http_header_find(h, FACE_EDGE_HEADER), 0, FACE_EDGES - 1, &edge) < 0)
		return cay_fail(err, CAY_E_UNAUTHENTICATED, "not a request of an edge");
	*ret_edge = (unsigned)edge;
	/* an older edge does not send it */
	*ret_host = host.n ? arena_strndup(&rq->arena, host.p, host.n) : "localhost";
	return *ret_host ? 0 : cay_no_memory(err);
}

int face_write_group(const char *group, struct buf *head)
{
	return group && group[0] ? buf_printf(head, "Cay-Group: %s\r\n", group) : 0;
}

bool face_body_is_late(const struct request *rq, uint64_t ms)
{
	return uv_hrtime() - rq->begun_ns > ms * NS_PER_MS;
}

bool face_hold(struct request *rq, struct face_memory *m, unsigned kind, size_t n)
{
	size_t sum = 0;

	m->kinds[kind] = n;
	for (size_t i = 0; i < FACE_MEMORY_KINDS; i++)
		sum += m->kinds[i];
	return !rq || request_count_held(rq, sum);
}
