/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image/image-import.h"
#include "cayd/core/handlers.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "cayd/core/deferred-reply.h"
#include "cayd/core/keeper-link.h"
#include "cayd/image/image.h"
#include "text/hex.h"
#include "text/reference.h"

#define CONFIG_MAX KIB(64)
#define AGAIN_MS 100
#define DROPS_MAX 600

#define NAMES_MAX 16
#define NAME_MAX_BYTES 255
#define OTHERS_MAX 256

struct image_import_job {
	struct cayd *cayd;
	struct request *rq;        /* NULL: the client left */
	char *name, *default_name; /* NULL: not given */
	int fd;
	uint64_t written;
	struct buf piece;
	size_t sent; /* written of the present piece */
	uv_fs_t write;
	uv_timer_t again;
	bool writing, ended;
	/* without a name: the images of the tar, one after the other */
	uint64_t which, n_images; /* from 1 */
	struct buf config;        /* of the present one */
	uint8_t digest[32];
	uint64_t bytes;
	const char *names[NAMES_MAX]; /* in the arena */
	size_t n_names, next_name;
	struct image_info first; /* the reply; texts in the arena */
	struct image_other others[OTHERS_MAX];
	struct arena arena;
};

static void on_image_import_closed(uv_handle_t *h)
{
	struct image_import_job *m = h->data;

	free(m->name);
	free(m->default_name);
	free(m);
}

static void image_import_finish(struct image_import_job *m)
{
	cay_closep(&m->fd);
	buf_fini(&m->piece);
	buf_fini(&m->config);
	arena_fini(&m->arena);
	uv_close((uv_handle_t *)&m->again, on_image_import_closed);
}

static void image_import_fail(struct image_import_job *m, const struct cay_err *err)
{
	if (m->rq)
		request_fail(m->rq, err);
	image_import_finish(m);
}

static int image_config_read_fd(int fd, struct buf *ret)
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

/* Files without a row */

struct image_orphan {
	struct cayd *cayd;
	uv_timer_t again;
	struct verb_image_remove q;
	unsigned tries;
};

static void on_image_orphan_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct image_orphan *d = arg;

	cay_closep(&fd);
	d->cayd->images_removing--;
	/* repeated when the keeper is connected again */
	if (outcome->code == CAY_E_UNAVAILABLE && ++d->tries < DROPS_MAX)
		return;
	if (outcome->code && outcome->code != CAY_E_NOT_FOUND)
		log_warn(&d->cayd->log, "files of an unregistered image may be left: %s",
			 outcome->msg);
	uv_close((uv_handle_t *)&d->again, on_handle_owner_closed);
}

/* Another import may have added the same image, which then has a row. */
static void on_image_orphan_timer(uv_timer_t *t)
{
	struct image_orphan *d = t->data;

	if (d->cayd->images_unpacking || d->cayd->images_removing)
		return; /* retried at the next tick */
	if (image_by_digest(d->cayd->images, d->q.digest)) {
		uv_close((uv_handle_t *)t, on_handle_owner_closed);
		return;
	}
	d->cayd->images_removing++;
	keeper_call(d->cayd->keeper, VERB_IMAGE_REMOVE, &d->q, -EBADF, on_image_orphan_removed, d);
}

static void image_orphan_remove(struct cayd *c, const uint8_t digest[static 32])
{
	struct image_orphan *d = calloc(1, sizeof(*d));

	if (!d)
		return;
	d->cayd = c;
	memcpy(d->q.digest, digest, sizeof(d->q.digest));
	(void)uv_timer_init(&c->loop, &d->again);
	d->again.data = d;
	(void)uv_timer_start(&d->again, on_image_orphan_timer, 0, AGAIN_MS);
}

struct image_unpack {
	struct cayd *cayd;
	uint8_t digest[32];
	image_fn *fn;
	void *arg;
};

static void on_image_unpack_registered(void *arg, const struct image *row,
				       const struct cay_err *err)
{
	struct image_unpack *n = arg;

	if (!row)
		image_orphan_remove(n->cayd, n->digest);
	n->fn(n->arg, row, err);
	free(n);
}

/* A name with a digest is a promise to all who use it; the keeper has computed the digest.  Of a
 * pull skopeo compares what the registry sent: that may be an index, or a manifest in Docker's
 * format, whose digest is not the image's own. */
static int image_check_named_digest(const char *name, const uint8_t digest[static 32],
				    struct cay_err *err)
{
	char hex[64 + 1];
	struct reference ref;

	if (reference_parse(slice_of(name), &ref) < 0 || !ref.digest.n)
		return 0;
	hex_encode(digest, 32, hex);
	if (slice_eq((struct slice){ ref.digest.p + 7, ref.digest.n - 7 }, slice_of(hex)))
		return 0;
	return cay_fail(err, CAY_E_INVALID,
			"the image is sha256:%.64s, not the digest in its name: import it under "
			"that digest or another name",
			hex);
}

void image_unpack_finish(struct cayd *c, const char *name, const struct id *owner,
			 enum image_origin origin, const struct cay_err *outcome, const void *reply,
			 int fd, image_fn *fn, void *arg)
{
	auto_close int config_fd = fd;
	auto_buf config = BUF_INIT(CONFIG_MAX);
	struct verb_image_add_reply added;
	struct cay_err err = *outcome;
	struct image_unpack *n;

	c->images_unpacking--;
	if (err.code) {
		fn(arg, NULL, &err);
		return;
	}
	memcpy(&added, reply, sizeof(added));
	n = malloc(sizeof(*n));
	if (!n)
		(void)cay_no_memory(&err);
	else if (image_config_read_fd(config_fd, &config) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "cay-keeper sent no config");
	else if (origin == IMAGE_IMPORTED)
		(void)image_check_named_digest(name, added.digest, &err);
	if (!n || err.code) {
		free(n);
		image_orphan_remove(c, added.digest);
		fn(arg, NULL, &err);
		return;
	}
	*n = (struct image_unpack){ .cayd = c, .fn = fn, .arg = arg };
	memcpy(n->digest, added.digest, sizeof(n->digest));
	image_register(c->images,
		       &(struct image_entry){ name, *owner, origin == IMAGE_PULLED_BY_CREATE },
		       added.digest, added.bytes, (struct slice){ config.data, config.len },
		       on_image_unpack_registered, n);
}

void image_unpack_start(struct cayd *c, int fd, uint64_t which, keeper_call_fn *fn, void *arg)
{
	struct verb_image_add q = { .bytes = IMPORT_UNPACKED_MAX, .which = which };

	c->images_unpacking++;
	keeper_call(c->keeper, VERB_IMAGE_ADD, &q, fd, fn, arg);
}

static void on_image_import_registered(void *arg, const struct image *row,
				       const struct cay_err *err)
{
	struct image_import_job *m = arg;

	request_reply_outcome(m->rq, err, &image_info_table, row ? &row->info : NULL);
	image_import_finish(m);
}

/* Images of a tar, each under the names that the tar gives it */

static void image_import_schedule_unpack(struct image_import_job *m);
static void image_import_register_next(struct image_import_job *m);

/* Those before it stay: the import can be repeated. */
static void image_import_fail_image(struct image_import_job *m, struct cay_err *err)
{
	if (m->n_images > 1)
		(void)cay_err_wrap(err, 0, "image %llu of %llu", (unsigned long long)m->which,
				   (unsigned long long)m->n_images);
	image_import_fail(m, err);
}

static void image_import_reply(struct image_import_job *m)
{
	request_reply_outcome(m->rq, &(struct cay_err){}, &image_info_table, &m->first);
	image_import_finish(m);
}

/* The reply is sent when the last one is durable; rows may be gone by then. */
static int image_import_note_row(struct image_import_job *m, const struct image_info *row)
{
	const char *name = arena_strndup(&m->arena, row->name, strlen(row->name));
	const char *digest = arena_strndup(&m->arena, row->digest, strlen(row->digest));

	if (!name || !digest)
		return -ENOMEM;
	if (m->first.id.noun == ID_NONE) {
		m->first = *row;
		m->first.name = name;
		m->first.digest = digest;
		m->first.others.v = m->others;
	} else if (m->first.others.n < OTHERS_MAX) {
		m->first.has_others = true;
		m->others[m->first.others.n++] = (struct image_other){ row->id, name, digest };
	}
	return 0;
}

static void on_image_import_name_registered(void *arg, const struct image *row,
					    const struct cay_err *outcome)
{
	struct image_import_job *m = arg;
	struct cay_err err = *outcome;

	if (!row)
		image_orphan_remove(m->cayd, m->digest);
	/* a later import may have taken the name */
	if (row && row->info.name && image_import_note_row(m, &row->info) < 0)
		(void)cay_no_memory(&err);
	if (err.code)
		image_import_fail_image(m, &err);
	else
		image_import_register_next(m);
}

static void image_import_register_next(struct image_import_job *m)
{
	const char *name;

	if (m->next_name == m->n_names && m->which < m->n_images) {
		m->which++;
		image_import_schedule_unpack(m);
		return;
	}
	if (m->next_name == m->n_names) {
		image_import_reply(m);
		return;
	}
	name = m->names[m->next_name++];
	image_register(m->cayd->images, &(struct image_entry){ name }, m->digest, m->bytes,
		       (struct slice){ m->config.data, m->config.len },
		       on_image_import_name_registered, m);
}

static bool image_import_name_is_valid(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > NAME_MAX_BYTES || !ascii_is_alnum(name[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!ascii_is_alnum(name[i]) && !strchr("._-/:", name[i]))
			return false;
	return true;
}

/* The names come from the tar, by way of the unpacker that read it: they are checked as a client's
 * are. */
static int image_import_read_names(struct image_import_job *m, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(MIB(1));
	struct image_config config = {};
	int r = field_decode_text(&image_config_table,
				  (struct slice){ m->config.data, m->config.len },
				  &json_control_limits, &arena, &config, err);

	if (r < 0)
		return cay_err_wrap(err, r, "read the image's config");
	m->n_images = config.has_images ? config.images : 1;
	m->n_names = m->next_name = 0;
	for (size_t i = 0; config.has_names && i < config.names.n && m->n_names < NAMES_MAX; i++) {
		const char *name = config.names.v[i];

		if (!image_import_name_is_valid(name))
			continue;
		m->names[m->n_names] = arena_strndup(&m->arena, name, strlen(name));
		m->n_names += m->names[m->n_names] != NULL;
	}
	if (!m->n_names && m->default_name && m->n_images == 1)
		m->names[m->n_names++] = m->default_name;
	if (m->n_names)
		return 0;
	return cay_fail_field(err, CAY_E_INVALID, "name",
			      "the tar has no name for this image: import it with a name");
}

static void image_import_take_unpacked(struct image_import_job *m, const struct cay_err *outcome,
				       const void *reply, int fd)
{
	auto_close int config_fd = fd;
	struct verb_image_add_reply added;
	struct cay_err err = *outcome;

	m->cayd->images_unpacking--;
	if (!err.code) {
		memcpy(&added, reply, sizeof(added));
		memcpy(m->digest, added.digest, sizeof(m->digest));
		m->bytes = added.bytes;
		buf_clear(&m->config);
		if (image_config_read_fd(config_fd, &m->config) < 0)
			(void)cay_fail(&err, CAY_E_INTERNAL, "cay-keeper sent no config");
		else
			(void)image_import_read_names(m, &err);
		if (err.code)
			image_orphan_remove(m->cayd, m->digest);
	}
	if (err.code)
		image_import_fail_image(m, &err);
	else
		image_import_register_next(m);
}

static void on_image_import_unpacked(void *arg, const struct cay_err *outcome, const void *reply,
				     int fd)
{
	struct image_import_job *m = arg;

	if (!m->name)
		image_import_take_unpacked(m, outcome, reply, fd);
	else
		image_unpack_finish(m->cayd, m->name, &image_owner_node, IMAGE_IMPORTED, outcome,
				    reply, fd, on_image_import_registered, m);
}

static void on_image_import_unpack_timer(uv_timer_t *t)
{
	struct image_import_job *m = t->data;

	if (m->cayd->images_removing)
		return; /* retried at the next tick */
	(void)uv_timer_stop(t);
	image_unpack_start(m->cayd, m->fd, m->name ? 0 : m->which, on_image_import_unpacked, m);
}

static void image_import_schedule_unpack(struct image_import_job *m)
{
	(void)uv_timer_start(&m->again, on_image_import_unpack_timer, 0, AGAIN_MS);
}

static void image_import_write_piece(struct image_import_job *m);

static void on_image_import_written(uv_fs_t *q)
{
	struct image_import_job *m = q->data;
	ssize_t n = q->result;
	struct cay_err err = {};

	uv_fs_req_cleanup(q);
	m->writing = false;
	if (n <= 0) {
		(void)cay_fail_sys(&err, cay_code_from_disk_errno((int)n), n < 0 ? (int)-n : EIO,
				   "store the upload");
		image_import_fail(m, &err);
		return;
	}
	m->sent += (size_t)n;
	m->written += (uint64_t)n;
	if (m->sent < m->piece.len) {
		image_import_write_piece(m);
		return;
	}
	buf_clear(&m->piece);
	m->sent = 0;
	if (!m->rq)
		image_import_finish(m); /* the client left while sending */
	else if (m->ended)
		image_import_schedule_unpack(m);
	else
		request_resume_body(m->rq);
}

static void image_import_write_piece(struct image_import_job *m)
{
	uv_buf_t b = uv_buf_init(m->piece.data + m->sent, (unsigned)(m->piece.len - m->sent));

	struct cay_err err = {};

	m->writing = true;
	m->write.data = m;
	if (uv_fs_write(&m->cayd->loop, &m->write, m->fd, &b, 1, (int64_t)m->written,
			on_image_import_written) < 0) {
		(void)cay_no_memory(&err);
		image_import_fail(m, &err);
	}
}

static void on_image_import_body(struct request *rq, struct slice bytes)
{
	struct image_import_job *m = rq->data;
	struct cay_err err = {};

	if (buf_append(&m->piece, bytes.p, bytes.n) < 0) {
		(void)cay_no_memory(&err);
		image_import_fail(m, &err);
		return;
	}
	request_pause_body(rq);
	image_import_write_piece(m);
}

static void on_image_import_body_end(struct request *rq)
{
	struct image_import_job *m = rq->data;

	m->ended = true;
	if (!m->writing)
		image_import_schedule_unpack(m);
}

static void on_image_import_client_gone(struct request *rq)
{
	struct image_import_job *m = rq->data;

	m->rq = NULL;
	if (!m->ended && !m->writing)
		image_import_finish(m);
}

void op_image_import(struct cayd *c, struct request *rq)
{
	static const struct request_events events = {
		.body = on_image_import_body,
		.body_end = on_image_import_body_end,
		.gone = on_image_import_client_gone,
	};
	const struct image_import_query *q = rq->query;
	struct image_import_job *m = calloc(1, sizeof(*m));
	struct cay_err err = {};

	if (!keeper_is_up(c->keeper))
		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "cay-keeper is not running");
	if (err.code ||
	    (q->name && image_check_room(c->images, &image_owner_node, q->name, &err) < 0)) {
		free(m);
		request_fail(rq, &err);
		return;
	}
	if (!m || (q->name && !(m->name = strdup(q->name))) ||
	    (q->default_name && !(m->default_name = strdup(q->default_name))) ||
	    uv_timer_init(&c->loop, &m->again) < 0) {
		if (m) {
			free(m->name);
			free(m->default_name);
		}
		free(m);
		request_no_memory(rq);
		return;
	}
	m->which = 1;
	m->config = BUF_INIT(CONFIG_MAX);
	m->arena = ARENA_INIT(MIB(1));
	m->again.data = m;
	m->cayd = c;
	m->rq = rq;
	m->piece = BUF_INIT(MIB(1));
	m->fd = openat(c->tmp, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (m->fd < 0) {
		(void)cay_fail_sys(&err, cay_code_from_disk_errno(errno), errno,
				   "create a file for the upload");
		image_import_fail(m, &err);
		return;
	}
	rq->data = m;
	rq->events = &events;
}
