/* SPDX-License-Identifier: Apache-2.0 */
/* mark - how far the journal had come, in a file beside it
 *
 * SQLite takes a -wal that was damaged, emptied or removed for one that ends there, and a -wal of
 * another time or node for the one of this file: the journal is then an older one, an empty one or
 * a mixture, and looks healthy.  The mark has the number of the journal, and three numbers that
 * only grow in it.  It is written in place after each commit and without a sync of its own, so it
 * may be older than the journal and is never newer.  A mark that cannot be read says nothing. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "db/db-internal.h"

#define MARK_FORMAT "cay-journal 2 %020" PRIu64 " %020" PRIu64 " %020" PRIu64 " %020" PRIu64
#define MARK_TEXT_LEN (14 + 4 * 20 + 3)
#define MARK_LEN (MARK_TEXT_LEN + 1 + 16 + 1)

static int db_mark_format(const struct db_past *past, char ret[static MARK_LEN + 1])
{
	int n = snprintf(ret, MARK_TEXT_LEN + 1, MARK_FORMAT, past->events, past->changes,
			 past->filed, past->journal);

	if (n != MARK_TEXT_LEN)
		return -EINVAL;
	n = snprintf(ret + n, MARK_LEN + 1 - MARK_TEXT_LEN, " %016" PRIx64 "\n",
		     hash_bytes(0, ret, MARK_TEXT_LEN));
	return n == MARK_LEN - MARK_TEXT_LEN ? 0 : -EINVAL;
}

/* The next number; its zeros in front make the mark a text of one length. */
static bool db_mark_parse_number(struct slice *rest, uint64_t *ret)
{
	struct slice text = slice_cut(rest, ' ');

	while (text.n > 1 && *text.p == '0')
		text = (struct slice){ text.p + 1, text.n - 1 };
	return str_parse_u64(text, 0, DB_NUMBER_MAX, ret) >= 0;
}

bool db_mark_read(int dirfd, struct db_past *ret)
{
	auto_buf text = BUF_INIT(256);
	char again[MARK_LEN + 1];
	struct slice rest;
	struct db_past past;

	*ret = (struct db_past){};
	if (path_read(dirfd, DB_MARK, &text) < 0 || text.len != MARK_LEN)
		return false;
	rest = (struct slice){ text.data, text.len };
	(void)slice_cut(&rest, ' ');
	(void)slice_cut(&rest, ' ');
	if (!db_mark_parse_number(&rest, &past.events) ||
	    !db_mark_parse_number(&rest, &past.changes) ||
	    !db_mark_parse_number(&rest, &past.filed) ||
	    !db_mark_parse_number(&rest, &past.journal) || db_mark_format(&past, again) < 0 ||
	    memcmp(again, text.data, MARK_LEN) != 0)
		return false;
	*ret = past;
	return true;
}

bool db_past_is_behind(const struct db_past *past, const struct db_past *mark)
{
	return past->events < mark->events || past->changes < mark->changes;
}

bool db_past_is_foreign(const struct db_past *past, const struct db_past *mark)
{
	return mark->journal && past->journal != mark->journal;
}

bool db_past_is_mixed(const struct db_past *past, const struct db_past *mark)
{
	return past->filed < mark->filed;
}

int db_mark_open(int dirfd, const struct db_past *past, int *ret, struct cay_err *err)
{
	struct db_past mark;
	char text[MARK_LEN + 1];
	bool there = db_mark_read(dirfd, &mark);
	int r = 0;

	if (!there || db_past_is_behind(past, &mark) || db_past_is_foreign(past, &mark) ||
	    db_past_is_mixed(past, &mark)) {
		r = db_mark_format(past, text);
		if (r >= 0)
			r = path_write_atomic(dirfd, DB_MARK, text, MARK_LEN, 0600);
	}
	if (r < 0 && there)
		return cay_fail_sys(err, cay_code_from_disk_errno(r), -r, "write " DB_MARK);
	/* a full disk prevents a new mark, not the start */
	*ret = r < 0 ? -EBADF : path_open(dirfd, DB_MARK, O_WRONLY, 0);
	return 0;
}

void db_mark_write(int fd, const struct db_past *past, bool sync)
{
	char text[MARK_LEN + 1];

	if (fd < 0 || db_mark_format(past, text) < 0)
		return;
	/* an older mark than the journal does no harm */
	if (pwrite(fd, text, MARK_LEN, 0) == MARK_LEN && sync)
		(void)fdatasync(fd);
}

bool db_loss_is_accepted(int dirfd)
{
	struct stat st;

	return fstatat(dirfd, DB_ACCEPT, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int db_loss_accept(int dirfd, struct cay_err *err)
{
	int r = path_write_atomic(dirfd, DB_ACCEPT, "", 0, 0600);

	return r < 0 ? cay_fail_sys(err, cay_code_from_disk_errno(r), -r, "write " DB_ACCEPT) : 0;
}

void db_loss_accept_finish(int dirfd)
{
	if (unlinkat(dirfd, DB_ACCEPT, 0) == 0)
		(void)fsync(dirfd);
}
