/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/import.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "cayd/image.h"
#include "cayd/link.h"

#define CONFIG_MAX KIB(64)
#define AGAIN_MS 100
#define DROPS_MAX 600

struct import {
	struct cayd *cayd;
	struct request *rq; /* NULL once the client is gone */
	char *name;
	int fd;
	uint64_t written;
	struct buf piece;
	size_t sent; /* of the piece */
	uv_fs_t write;
	uv_timer_t again;
	bool writing, ended;
};

static void on_closed(uv_handle_t *h)
{
	struct import *m = h->data;

	free(m->name);
	free(m);
}

static void finish(struct import *m)
{
	cay_closep(&m->fd);
	buf_fini(&m->piece);
	uv_close((uv_handle_t *)&m->again, on_closed);
}

static void fail(struct import *m, const struct cay_err *err)
{
	if (m->rq)
		request_fail(m->rq, err);
	finish(m);
}

static int read_config(int fd, struct buf *ret)
{
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > (off_t)CONFIG_MAX)
		return -EPROTO;
	if (buf_reserve(ret, (size_t)st.st_size) < 0)
		return -ENOMEM;
	n = pread(fd, ret->data, (size_t)st.st_size, 0);
	if (n != st.st_size)
		return -EPROTO;
	ret->len = (size_t)n;
	ret->data[n] = 0;
	return 0;
}

/* Files nobody knows */

struct drop {
	struct cayd *cayd;
	uv_timer_t again;
	struct verb_image_remove q;
	unsigned tries;
};

static void on_drop_closed(uv_handle_t *h)
{
	free(h->data);
}

static void on_dropped(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct drop *d = arg;

	cay_closep(&fd);
	d->cayd->removing--;
	/* a keeper that went away is asked again when it is back */
	if (outcome->code == CAY_E_UNAVAILABLE && ++d->tries < DROPS_MAX)
		return;
	if (outcome->code && outcome->code != CAY_E_NOT_FOUND)
		log_warn(&d->cayd->log, "files of an image nobody knows may be left: %s",
			 outcome->msg);
	uv_close((uv_handle_t *)&d->again, on_drop_closed);
}

/* Another may be adding the same, and then it has a row. */
static void drop_if_quiet(uv_timer_t *t)
{
	struct drop *d = t->data;

	if (d->cayd->adding || d->cayd->removing)
		return; /* the next tick looks again */
	if (image_by_digest(d->cayd->images, d->q.digest)) {
		uv_close((uv_handle_t *)t, on_drop_closed);
		return;
	}
	d->cayd->removing++;
	link_call(d->cayd->link, VERB_IMAGE_REMOVE, &d->q, -EBADF, on_dropped, d);
}

static void drop_unknown(struct cayd *c, const uint8_t digest[static 32])
{
	struct drop *d = calloc(1, sizeof(*d));

	if (!d)
		return;
	d->cayd = c;
	memcpy(d->q.digest, digest, sizeof(d->q.digest));
	(void)uv_timer_init(&c->loop, &d->again);
	d->again.data = d;
	(void)uv_timer_start(&d->again, drop_if_quiet, 0, AGAIN_MS);
}

struct noting {
	struct cayd *cayd;
	uint8_t digest[32];
	image_fn *fn;
	void *arg;
};

static void on_noted(void *arg, const struct image_row *row, const struct cay_err *err)
{
	struct noting *n = arg;

	if (!row)
		drop_unknown(n->cayd, n->digest);
	n->fn(n->arg, row, err);
	free(n);
}

void import_note(struct cayd *c, const char *name, bool pulled, const struct cay_err *outcome,
		 const void *reply, int fd, image_fn *fn, void *arg)
{
	auto_close int config_fd = fd;
	auto_buf config = BUF_INIT(CONFIG_MAX);
	struct verb_image_add_reply added;
	struct cay_err err = *outcome;
	struct noting *n;

	c->adding--;
	if (err.code) {
		fn(arg, NULL, &err);
		return;
	}
	memcpy(&added, reply, sizeof(added));
	n = malloc(sizeof(*n));
	if (!n)
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
	else if (read_config(config_fd, &config) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "the keeper sent no config");
	if (!n || err.code) {
		free(n);
		drop_unknown(c, added.digest);
		fn(arg, NULL, &err);
		return;
	}
	*n = (struct noting){ .cayd = c, .fn = fn, .arg = arg };
	memcpy(n->digest, added.digest, sizeof(n->digest));
	image_note(c->images, name, pulled, added.digest, added.bytes,
		   (struct slice){ config.data, config.len }, on_noted, n);
}

void import_add(struct cayd *c, int fd, link_fn *fn, void *arg)
{
	struct verb_image_add q = { .bytes = IMPORT_UNPACKED_MAX };

	c->adding++;
	link_call(c->link, VERB_IMAGE_ADD, &q, fd, fn, arg);
}

static void on_known(void *arg, const struct image_row *row, const struct cay_err *err)
{
	struct import *m = arg;

	if (!row) {
		fail(m, err);
		return;
	}
	if (m->rq)
		request_reply_json(m->rq, &image_table, &row->info);
	finish(m);
}

static void on_added(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct import *m = arg;

	import_note(m->cayd, m->name, false, outcome, reply, fd, on_known, m);
}

static void unpack_if_quiet(uv_timer_t *t)
{
	struct import *m = t->data;

	if (m->cayd->removing)
		return; /* the next tick looks again */
	(void)uv_timer_stop(t);
	import_add(m->cayd, m->fd, on_added, m);
}

static void unpack(struct import *m)
{
	(void)uv_timer_start(&m->again, unpack_if_quiet, 0, AGAIN_MS);
}

static void write_piece(struct import *m);

static void on_write(uv_fs_t *q)
{
	struct import *m = q->data;
	ssize_t n = q->result;
	struct cay_err err = {};

	uv_fs_req_cleanup(q);
	m->writing = false;
	if (n <= 0) {
		(void)cay_fail_sys(&err, cay_code_disk((int)n), n < 0 ? (int)-n : EIO,
				   "store the upload");
		fail(m, &err);
		return;
	}
	m->sent += (size_t)n;
	m->written += (uint64_t)n;
	if (m->sent < m->piece.len) {
		write_piece(m);
		return;
	}
	buf_clear(&m->piece);
	m->sent = 0;
	if (!m->rq)
		finish(m); /* the client left while it was sending */
	else if (m->ended)
		unpack(m);
	else
		request_resume(m->rq);
}

static void write_piece(struct import *m)
{
	uv_buf_t b = uv_buf_init(m->piece.data + m->sent, (unsigned)(m->piece.len - m->sent));

	struct cay_err err = {};

	m->writing = true;
	m->write.data = m;
	if (uv_fs_write(&m->cayd->loop, &m->write, m->fd, &b, 1, (int64_t)m->written, on_write) <
	    0) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		fail(m, &err);
	}
}

static void on_body(struct request *rq, struct slice bytes)
{
	struct import *m = rq->data;
	struct cay_err err = {};

	if (buf_add(&m->piece, bytes.p, bytes.n) < 0) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		fail(m, &err);
		return;
	}
	request_pause(rq);
	write_piece(m);
}

static void on_body_end(struct request *rq)
{
	struct import *m = rq->data;

	m->ended = true;
	if (!m->writing)
		unpack(m);
}

static void on_gone(struct request *rq)
{
	struct import *m = rq->data;

	m->rq = NULL;
	if (!m->ended && !m->writing)
		finish(m);
}

void import_start(struct cayd *c, struct request *rq)
{
	static const struct request_events events = {
		.body = on_body,
		.body_end = on_body_end,
		.gone = on_gone,
	};
	const struct image_import_query *q = rq->query;
	struct import *m = calloc(1, sizeof(*m));
	struct cay_err err = {};

	if (image_room(c->images, q->name, &err) < 0) {
		free(m);
		request_fail(rq, &err);
		return;
	}
	if (!m || !(m->name = strdup(q->name)) || uv_timer_init(&c->loop, &m->again) < 0) {
		if (m)
			free(m->name);
		free(m);
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(rq, &err);
		return;
	}
	m->again.data = m;
	m->cayd = c;
	m->rq = rq;
	m->piece = BUF_INIT(MIB(1));
	m->fd = openat(c->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (m->fd < 0) {
		(void)cay_fail_sys(&err, cay_code_disk(errno), errno, "a file for the upload");
		fail(m, &err);
		return;
	}
	rq->data = m;
	rq->events = &events;
}
