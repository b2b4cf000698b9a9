/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/import.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "cayd/image.h"
#include "cayd/link.h"

#define CONFIG_MAX KIB(64)
/* Of the unpacked files. */
#define UNPACKED_MAX (UINT64_C(64) << 30)

struct import {
	struct cayd *cayd;
	struct request *rq; /* NULL once the client is gone */
	char *name;
	int fd;
	uint64_t written;
	struct buf piece;
	size_t sent; /* of the piece */
	uv_fs_t write;
	bool writing, ended;
};

static void finish(struct import *m)
{
	cay_closep(&m->fd);
	buf_fini(&m->piece);
	free(m->name);
	free(m);
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

static void on_added(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	auto_buf config = BUF_INIT(CONFIG_MAX);
	const struct image_row *row = NULL;
	struct verb_image_add_reply added;
	struct cay_err err = *outcome;
	struct import *m = arg;
	auto_close int config_fd = fd;

	if (!err.code && read_config(config_fd, &config) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "the keeper sent no config");
	if (!err.code) {
		memcpy(&added, reply, sizeof(added));
		(void)image_note(m->cayd->images, m->name, added.digest, added.bytes,
				 (struct slice){ config.data, config.len }, &row, &err);
	}
	if (err.code) {
		fail(m, &err);
		return;
	}
	if (m->rq)
		request_reply_json(m->rq, &image_table, &row->info);
	finish(m);
}

static void unpack(struct import *m)
{
	struct verb_image_add q = { .bytes = UNPACKED_MAX };

	link_call(m->cayd->link, VERB_IMAGE_ADD, &q, m->fd, on_added, m);
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
		(void)cay_fail_sys(&err, n == UV_ENOSPC ? CAY_E_DISK_FULL : CAY_E_INTERNAL,
				   n < 0 ? (int)-n : EIO, "store the upload");
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

	if (!m || !(m->name = strdup(q->name))) {
		free(m);
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		request_fail(rq, &err);
		return;
	}
	m->cayd = c;
	m->rq = rq;
	m->piece = BUF_INIT(MIB(1));
	m->fd = openat(c->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (m->fd < 0) {
		(void)cay_fail_sys(&err, CAY_E_INTERNAL, errno, "a file for the upload");
		fail(m, &err);
		return;
	}
	rq->data = m;
	rq->events = &events;
}
