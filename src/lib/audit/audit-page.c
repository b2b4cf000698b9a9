/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit-internal.h"

/* The last file that begins at or before the number, or the first. */
static int audit_segments_find(int dirfd, const struct audit_segments *all, uint64_t from,
			       size_t *ret)
{
	struct audit_record first;
	int r = 0;

	*ret = 0;
	for (size_t i = all->n; r >= 0 && i-- > 1;) {
		r = audit_segment_read_first(dirfd, all->v[i], &first);
		if (r == -ENOENT)
			r = 0;
		if (r > 0 && first.seq <= from) {
			*ret = i;
			return 0;
		}
	}
	return r < 0 ? r : 0;
}

static int audit_segment_read_from(int dirfd, uint32_t number, uint64_t from,
				   struct audit_record *ret, size_t max)
{
	int fd = audit_segment_open(dirfd, number), r = 1;
	auto_lines l = audit_line_reader_open(fd);
	struct slice text;
	uint64_t seq = 0;
	size_t n = 0;

	if (fd < 0) /* dropped since it was listed */
		return fd == -ENOENT ? 0 : fd;
	while (n < max && (r = audit_line_reader_next(&l, &text)) > 0) {
		/* those in front are counted, not read */
		if (seq && seq + 1 < from) {
			seq++;
			continue;
		}
		if (audit_record_parse(text.p, text.n - 1, &ret[n]) < 0)
			return -EINVAL;
		seq = ret[n].seq;
		n += seq >= from;
	}
	return r < 0 ? r : (int)n;
}

int audit_read_page(int dirfd, uint64_t from, struct audit_record *ret, size_t max,
		    struct cay_err *err)
{
	auto_audit_segments all = {};
	size_t at = 0, n = 0;
	int r = audit_segments_list(dirfd, &all);

	if (r >= 0 && all.n)
		r = audit_segments_find(dirfd, &all, from, &at);
	for (; r >= 0 && at < all.n && n < max; at++) {
		r = audit_segment_read_from(dirfd, all.v[at], from, ret + n, max - n);
		n += r > 0 ? (size_t)r : 0;
	}
	if (r == -EINVAL || r == -EMSGSIZE)
		return cay_fail(err, CAY_E_INTERNAL, "the audit log is damaged: cay audit verify");
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the audit log") : (int)n;
}
