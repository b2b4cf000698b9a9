/* SPDX-License-Identifier: Apache-2.0 */
#include "net/upstream.h"

#include <poll.h>
#include <sys/socket.h>

#include "net/dial.h"

struct kept {
	struct conn *conn;
	uint64_t since;
};

struct upstream {
	uv_timer_t sweeper;
	char *path;
	uint64_t keep_ms;
	unsigned refs, max, n;
	bool ending;
	struct kept kept[]; /* max; the oldest first */
};

static void on_sweeper_closed(uv_handle_t *h)
{
	struct upstream *u = h->data;

	free(u->path);
	free(u);
}

void upstream_ref(struct upstream *u)
{
	u->refs++;
}

void upstream_unref(struct upstream *u)
{
	if (!--u->refs)
		uv_close((uv_handle_t *)&u->sweeper, on_sweeper_closed);
}

struct upstream *upstream_new(uv_loop_t *loop, const char *path, unsigned max, uint64_t keep_ms)
{
	struct upstream *u = calloc(1, sizeof(*u) + max * sizeof(u->kept[0]));

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

/* Closed ones are their own until they are gone; each holds the upstream. */
static void drop(struct upstream *u, unsigned i)
{
	conn_close(u->kept[i].conn);
	memmove(&u->kept[i], &u->kept[i + 1], (u->n - i - 1) * sizeof(u->kept[0]));
	u->n--;
}

static void drop_conn(struct conn *c)
{
	struct upstream *u = conn_data(c);

	for (unsigned i = 0; i < u->n; i++)
		if (u->kept[i].conn == c) {
			drop(u, i);
			return;
		}
}

static void on_read(struct conn *c, struct slice)
{
	drop_conn(c);
}

static void on_end(struct conn *c, const struct cay_err *)
{
	drop_conn(c);
}

static void on_closed(struct conn *c)
{
	upstream_unref(conn_data(c));
}

static void on_sweep(uv_timer_t *t)
{
	struct upstream *u = t->data;

	while (u->n && uv_now(t->loop) - u->kept[0].since >= u->keep_ms)
		drop(u, 0);
	if (!u->n)
		(void)uv_timer_stop(t);
}

void upstream_free(struct upstream *u)
{
	if (!u)
		return;
	u->ending = true;
	while (u->n)
		drop(u, 0);
	(void)uv_timer_stop(&u->sweeper);
	upstream_unref(u);
}

uv_loop_t *upstream_loop(const struct upstream *u)
{
	return u->sweeper.loop;
}

unsigned upstream_waiting(const struct upstream *u)
{
	return u->n;
}

/* Nothing came that nobody asked for, and it is not just being closed. */
static bool is_quiet(const struct conn *c)
{
	struct pollfd p = { .fd = conn_fd(c), .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

int upstream_take(struct upstream *u, struct conn_room *room, bool fresh,
		  const struct conn_conf *conf, struct conn **ret, bool *ret_kept)
{
	int fd;

	while (!fresh && u->n && !is_quiet(u->kept[u->n - 1].conn))
		drop(u, u->n - 1);
	*ret_kept = !fresh && u->n;
	if (*ret_kept) {
		*ret = u->kept[--u->n].conn;
		conn_give(*ret, conf->events, conf->data, conf->out_max);
		upstream_unref(u);
		return 0;
	}
	fd = dial_now(u->path);
	return fd < 0 ? fd : conn_take(room, fd, AF_UNIX, conf, ret);
}

void upstream_give(struct upstream *u, struct conn *c)
{
	static const struct conn_events events = { .read = on_read,
						   .end = on_end,
						   .closed = on_closed };

	conn_give(c, &events, u, 0);
	upstream_ref(u);
	if (u->ending || u->n == u->max) {
		conn_close(c);
		return;
	}
	u->kept[u->n++] = (struct kept){ c, uv_now(u->sweeper.loop) };
	conn_read(c, true);
	if (!uv_is_active((const uv_handle_t *)&u->sweeper))
		(void)uv_timer_start(&u->sweeper, on_sweep, u->keep_ms, u->keep_ms / 2 + 1);
}
