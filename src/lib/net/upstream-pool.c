/* SPDX-License-Identifier: Apache-2.0 */
#include "net/upstream-pool.h"

#include <poll.h>

#include "net/dial.h"

struct upstream_idle_conn {
	struct conn *conn;
	uint64_t since;
};

struct upstream_pool {
	uv_timer_t sweeper;
	char *path;
	uint64_t keep_ms;
	unsigned refs, max, n_idle;
	bool ending;
	struct upstream_idle_conn idle[]; /* max entries, oldest first */
};

static void on_upstream_sweeper_closed(uv_handle_t *h)
{
	struct upstream_pool *u = h->data;

	free(u->path);
	free(u);
}

void upstream_pool_ref(struct upstream_pool *u)
{
	u->refs++;
}

void upstream_pool_unref(struct upstream_pool *u)
{
	if (!--u->refs)
		uv_close((uv_handle_t *)&u->sweeper, on_upstream_sweeper_closed);
}

struct upstream_pool *upstream_pool_new(uv_loop_t *loop, const char *path, unsigned max,
					uint64_t keep_ms)
{
	struct upstream_pool *u = calloc(1, sizeof(*u) + max * sizeof(u->idle[0]));

	if (!u)
		return NULL;
	u->path = strdup(path);
	if (!u->path) {
		free(u);
		return NULL;
	}
	u->refs = 1;
	u->max = max;
	u->keep_ms = keep_ms;
	(void)uv_timer_init(loop, &u->sweeper);
	u->sweeper.data = u;
	return u;
}

/* A closing connection is not in the pool, but holds a reference to it. */
static void upstream_pool_drop_at(struct upstream_pool *u, unsigned i)
{
	conn_close(u->idle[i].conn);
	memmove(&u->idle[i], &u->idle[i + 1], (u->n_idle - i - 1) * sizeof(u->idle[0]));
	u->n_idle--;
}

static void upstream_pool_drop_conn(struct conn *c)
{
	struct upstream_pool *u = conn_data(c);

	for (unsigned i = 0; i < u->n_idle; i++)
		if (u->idle[i].conn == c) {
			upstream_pool_drop_at(u, i);
			return;
		}
}

static void on_upstream_idle_read(struct conn *c, struct slice)
{
	upstream_pool_drop_conn(c);
}

static void on_upstream_idle_end(struct conn *c, const struct cay_err *)
{
	upstream_pool_drop_conn(c);
}

static void on_upstream_idle_closed(struct conn *c)
{
	upstream_pool_unref(conn_data(c));
}

static void on_upstream_sweep_timer(uv_timer_t *t)
{
	struct upstream_pool *u = t->data;

	while (u->n_idle && uv_now(t->loop) - u->idle[0].since >= u->keep_ms)
		upstream_pool_drop_at(u, 0);
	if (!u->n_idle)
		(void)uv_timer_stop(t);
}

void upstream_pool_free(struct upstream_pool *u)
{
	if (!u)
		return;
	u->ending = true;
	while (u->n_idle)
		upstream_pool_drop_at(u, 0);
	(void)uv_timer_stop(&u->sweeper);
	upstream_pool_unref(u);
}

uv_loop_t *upstream_pool_loop(const struct upstream_pool *u)
{
	return u->sweeper.loop;
}

unsigned upstream_pool_count_idle(const struct upstream_pool *u)
{
	return u->n_idle;
}

/* No unexpected bytes, and the peer has not closed. */
static bool upstream_conn_is_quiet(const struct conn *c)
{
	struct pollfd p = { .fd = conn_fd(c), .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

int upstream_pool_acquire(struct upstream_pool *u, struct conn_shared *room, bool fresh,
			  const struct conn_conf *conf, struct conn **ret, bool *ret_kept)
{
	int fd;

	while (!fresh && u->n_idle && !upstream_conn_is_quiet(u->idle[u->n_idle - 1].conn))
		upstream_pool_drop_at(u, u->n_idle - 1);
	*ret_kept = !fresh && u->n_idle;
	if (*ret_kept) {
		*ret = u->idle[--u->n_idle].conn;
		conn_set_owner(*ret, conf->events, conf->data, conf->out_max);
		upstream_pool_unref(u);
		return 0;
	}
	fd = dial_unix_connect(u->path);
	return fd < 0 ? fd : conn_open_fd(room, fd, AF_UNIX, conf, ret);
}

void upstream_pool_return(struct upstream_pool *u, struct conn *c)
{
	static const struct conn_events events = { .read = on_upstream_idle_read,
						   .end = on_upstream_idle_end,
						   .closed = on_upstream_idle_closed };

	conn_set_owner(c, &events, u, 0);
	upstream_pool_ref(u);
	if (u->ending || u->n_idle == u->max) {
		conn_close(c);
		return;
	}
	u->idle[u->n_idle++] = (struct upstream_idle_conn){ c, uv_now(u->sweeper.loop) };
	conn_set_reading(c, true);
	if (!uv_is_active((const uv_handle_t *)&u->sweeper))
		(void)uv_timer_start(&u->sweeper, on_upstream_sweep_timer, u->keep_ms,
				     u->keep_ms / 2 + 1);
}
