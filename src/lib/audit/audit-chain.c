/* SPDX-License-Identifier: Apache-2.0 */
/* The files that one chain of records is written to.  All of this belongs to the writer. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/audit-internal.h"
#include "base/failpoint.h"
#include "base/path.h"

int audit_chain_format(struct audit_record *rec, struct audit_anchor *end, struct buf *out)
{
	auto_buf line = BUF_INIT(AUDIT_LINE_MAX);
	int r;

	rec->seq = end->count + 1;
	memcpy(rec->prev, end->head, sizeof(rec->prev));
	r = audit_record_format(rec, &line);
	if (r >= 0)
		r = buf_putc(&line, '\n');
	if (r >= 0)
		r = audit_line_hash(line.data, line.len, end->head);
	if (r >= 0)
		r = buf_append(out, line.data, line.len);
	end->count++;
	return r;
}

int audit_chain_trim_torn(struct audit_chain *c)
{
	if (c->dirty && ftruncate(c->fd, (off_t)c->size) < 0)
		return -errno;
	c->dirty = false;
	return 0;
}

int audit_chain_commit(struct audit_chain *c, const struct buf *lines,
		       const struct audit_anchor *end)
{
	int r = fd_write_all(c->fd, lines->data, lines->len);

	if (r >= 0)
		r = failpoint_hit(FAULT_AUDIT_WRITTEN);
	if (r >= 0 && fdatasync(c->fd) < 0)
		r = -errno;
	if (r >= 0)
		r = failpoint_hit(FAULT_AUDIT_SYNCED);
	if (r < 0) {
		c->dirty = true;
		(void)audit_chain_trim_torn(c);
		return r;
	}
	c->size += lines->len;
	c->end = *end;
	return 0;
}

int audit_chain_begin_segment(struct audit_chain *c, uint32_t number)
{
	char name[SEGMENT_NAME_LEN + 1];
	int fd;

	if (number > SEGMENT_LAST)
		return -EOVERFLOW;
	audit_segment_format_name(number, name);
	fd = path_open(c->dirfd, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	if (fsync(c->dirfd) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	cay_closep(&c->fd);
	c->fd = fd;
	c->number = number;
	c->size = 0;
	return 0;
}

int audit_chain_drop_old(struct audit_chain *c, uint64_t keep, uint64_t wall_ns)
{
	struct audit_record note = { .wall_ns = wall_ns, .op = AUDIT_DROPPED, .outcome = "ok" };
	struct audit_anchor end = c->end;
	auto_buf line = BUF_INIT(AUDIT_LINE_MAX);
	char name[SEGMENT_NAME_LEN + 1];
	struct audit_record first;
	auto_audit_segments all = {};
	size_t gone;
	int r = audit_segments_list(c->dirfd, &all);

	if (r < 0 || all.n <= keep)
		return r;
	gone = all.n - keep;
	r = audit_segment_read_first(c->dirfd, all.v[gone], &first);
	if (r < 0 && r != -EINVAL) /* one that is damaged is not kept for ever */
		return r;
	if (r == 0)
		note.dropped = c->end; /* nothing was written to the first that is kept */
	if (r > 0) {
		note.dropped.count = first.seq - 1;
		memcpy(note.dropped.head, first.prev, sizeof(note.dropped.head));
	}
	r = audit_chain_format(&note, &end, &line);
	if (r >= 0)
		r = audit_chain_commit(c, &line, &end);
	for (size_t i = 0; r >= 0 && i < gone; i++) {
		audit_segment_format_name(all.v[i], name);
		if (unlinkat(c->dirfd, name, 0) < 0)
			r = -errno;
	}
	return r >= 0 && fsync(c->dirfd) < 0 ? -errno : r;
}

/* The last record of a file and its end; *ret_torn bytes follow it. */
static int audit_chain_read_last(struct audit_chain *c, uint32_t number, uint64_t *ret_torn)
{
	int fd = audit_segment_open(c->dirfd, number), r;
	auto_buf last = BUF_INIT(AUDIT_LINE_MAX);
	auto_lines l = audit_line_reader_open(fd);
	struct audit_record rec;
	struct slice text;
	struct stat st;

	if (fd < 0)
		return fd;
	while ((r = audit_line_reader_next(&l, &text)) > 0) {
		buf_clear(&last);
		if (buf_append(&last, text.p, text.n) < 0)
			return -ENOMEM;
	}
	if (r < 0)
		return r == -EMSGSIZE ? -EINVAL : r;
	if (fstat(fd, &st) < 0)
		return -errno;
	c->size = l.size;
	*ret_torn = (uint64_t)st.st_size - l.size;
	if (!last.len)
		return 0;
	if (audit_record_parse(last.data, last.len - 1, &rec) < 0)
		return -EINVAL;
	c->end.count = rec.seq;
	r = audit_line_hash(last.data, last.len, c->end.head);
	return r < 0 ? r : 1;
}

int audit_chain_find_end(struct audit_chain *c, uint64_t *ret_torn)
{
	auto_audit_segments all = {};
	uint64_t ignored, size;
	uint32_t last;
	int r = audit_segments_list(c->dirfd, &all);

	if (r < 0 || !all.n)
		return r < 0 ? r : audit_chain_begin_segment(c, 1);
	last = all.v[all.n - 1];
	r = audit_chain_read_last(c, last, ret_torn);
	size = c->size;
	/* a crash between a new file and its first record */
	if (r == 0 && last > 1)
		r = all.n > 1 && audit_chain_read_last(c, all.v[all.n - 2], &ignored) > 0 ? 1
											  : -EINVAL;
	if (r >= 0)
		r = audit_chain_begin_segment(c, last);
	c->size = size;
	if (r >= 0 && *ret_torn && (ftruncate(c->fd, (off_t)size) < 0 || fsync(c->fd) < 0))
		r = -errno;
	return r;
}

void audit_chain_fini(struct audit_chain *c)
{
	cay_closep(&c->fd);
	c->fd = -EBADF;
}
