/* SPDX-License-Identifier: Apache-2.0 */
/* journal_put, journal_put_100: from asking to being told that it is durable, alone and
 * a hundred at once, against write and fdatasync of the same bytes once, into blocks
 * the file already has, in the same directory. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "bench.h"
#include "db/db.h"

#define ROW_BYTES 600
#define MANY 100
#define SANDBOXES 1000
#define RING MIB(4)

struct journal {
	uv_loop_t loop;
	struct db *db;
	int fd;
	size_t at, rows, n;
	char text[ROW_BYTES * MANY];
};

static void on_told(void *, const struct cay_err *outcome)
{
	assert(outcome->code == CAY_OK);
}

static void ours(void *arg)
{
	struct journal *j = arg;

	for (size_t i = 0; i < j->rows; i++) {
		uint64_t n = j->n++;
		struct id id = { .noun = ID_SANDBOX,
				 .bits = { (uint8_t)(n % SANDBOXES),
					   (uint8_t)(n % SANDBOXES >> 8) } };
		struct db_sandbox row = { .life = life_new(&id, n, LIFE_NEVER, LIFE_NEVER,
							   LIFE_NEVER),
					  .seq = n,
					  .boot = "01234567-89ab-cdef-0123-456789abcdef",
					  .text = { j->text, ROW_BYTES } };

		db_sandbox_put(j->db, &row, on_told, NULL);
	}
	(void)uv_run(&j->loop, UV_RUN_DEFAULT);
}

static void write_and_sync(void *arg)
{
	struct journal *j = arg;
	size_t n = ROW_BYTES * j->rows;
	ssize_t w;

	if (j->at + n > RING)
		j->at = 0;
	w = pwrite(j->fd, j->text, n, (off_t)j->at);
	assert(w == (ssize_t)n && fdatasync(j->fd) == 0);
	j->at += n;
}

static int both(struct journal *j)
{
	struct bench b = { .name = "journal_put",
			   .ours = ours,
			   .baseline_name = "pwrite, fdatasync",
			   .baseline = write_and_sync,
			   .arg = j,
			   .note = "600 bytes durable and told, alone",
			   .samples = 500,
			   .batch = 1 };
	int r;

	j->rows = 1;
	r = bench_run(&b);
	j->rows = MANY;
	b.name = "journal_put_100";
	b.note = "100 x 600 bytes at once, until the last is told";
	b.samples = 200;
	return r < 0 ? r : bench_run(&b);
}

static int open_in(struct journal *j, int dirfd)
{
	int r;

	memset(j->text, 'x', sizeof(j->text));
	j->fd = path_open(dirfd, "baseline", O_CREAT | O_RDWR, 0600);
	for (size_t n = 0; j->fd >= 0 && n < RING; n += KIB(32))
		if (fd_write_all(j->fd, j->text, KIB(32)) < 0)
			return -EIO;
	r = j->fd < 0 || uv_loop_init(&j->loop) < 0 ? -EIO
						    : db_open(dirfd, false, &j->loop, &j->db, NULL);
	return r < 0 ? r : db_load(j->db, &(struct db_reader){}, NULL);
}

int main(void)
{
	static const char *const names[] = { "baseline", DB_NAME, DB_NAME "-wal" };
	static struct journal j;
	char dir[] = "/var/tmp/cay-bench-XXXXXX"; /* /tmp may be memory */
	auto_close int dirfd = -EBADF;
	int r;

	if (!mkdtemp(dir))
		return 1;
	dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = open_in(&j, dirfd);
	if (r >= 0)
		r = both(&j);
	db_close(j.db);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unlinkat(dirfd, names[i], 0);
	(void)rmdir(dir);
	return r < 0;
}
