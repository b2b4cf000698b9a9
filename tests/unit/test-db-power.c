/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The power goes: of what was written since the last sync of a file, any sectors may be
 * there and any not.  A VFS between SQLite and the disk keeps what is surely there apart
 * from what may be; at a random moment both are laid out as a disk that lost its power,
 * and the journal must open from it with all it had said to be durable.
 */
#include <pthread.h>

#include "db-fixture.h"

#define POINTS 500
#define ROWS 48
#define SECTOR 512
#define FILE_MAX MIB(4)

/* One file: what is durable, and the writes behind it. */
struct op {
	struct op *next;
	size_t at, n;
	bool cut; /* truncate to `at` */
	char data[];
};

struct shadow {
	const char *name;
	char *durable;
	size_t n;
	bool there;
	struct op *first, **last;
};

static struct shadow shadows[] = { { .name = DB_NAME }, { .name = DB_NAME "-wal" } };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *shadowed; /* directory */
static sqlite3_vfs *real;
static uint64_t seed = 20261115;

static uint64_t chance(uint64_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (seed >> 33) % n;
}

static void apply(char *to, size_t *n, const struct op *op, bool torn)
{
	if (op->cut) {
		*n = op->at < *n ? op->at : *n;
		return;
	}
	for (size_t i = 0; i < op->n; i += SECTOR) {
		size_t piece = op->n - i < SECTOR ? op->n - i : SECTOR;

		if (torn && chance(2))
			continue;
		assert_true(op->at + i + piece <= FILE_MAX);
		if (op->at + i > *n)
			memset(to + *n, 0, op->at + i - *n);
		memcpy(to + op->at + i, op->data + i, piece);
		if (op->at + i + piece > *n)
			*n = op->at + i + piece;
	}
}

static void note(struct shadow *s, size_t at, const void *data, size_t n, bool cut)
{
	struct op *op = malloc(sizeof(*op) + n);

	assert_non_null(op);
	*op = (struct op){ .at = at, .n = n, .cut = cut };
	if (n)
		memcpy(op->data, data, n);
	(void)pthread_mutex_lock(&lock);
	*s->last = op;
	s->last = &op->next;
	(void)pthread_mutex_unlock(&lock);
}

static void drop_ops(struct shadow *s, bool keep)
{
	for (struct op *op = s->first, *next; op; op = next) {
		next = op->next;
		if (keep)
			apply(s->durable, &s->n, op, false);
		free(op);
	}
	s->first = NULL;
	s->last = &s->first;
}

/* The VFS: a file of ours is the real one behind a few words. */
struct file {
	sqlite3_file base;
	struct shadow *shadow; /* NULL: none of those that are watched */
	sqlite3_file *real;
};

static struct file *mine(sqlite3_file *f)
{
	return (struct file *)(void *)f;
}

static int x_close(sqlite3_file *f)
{
	return mine(f)->real->pMethods->xClose(mine(f)->real);
}

static int x_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
	return mine(f)->real->pMethods->xRead(mine(f)->real, to, n, at);
}

static int x_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	int rc = mine(f)->real->pMethods->xWrite(mine(f)->real, p, n, at);

	if (rc == SQLITE_OK && mine(f)->shadow)
		note(mine(f)->shadow, (size_t)at, p, (size_t)n, false);
	return rc;
}

static int x_truncate(sqlite3_file *f, sqlite3_int64 n)
{
	int rc = mine(f)->real->pMethods->xTruncate(mine(f)->real, n);

	if (rc == SQLITE_OK && mine(f)->shadow)
		note(mine(f)->shadow, (size_t)n, NULL, 0, true);
	return rc;
}

static int x_sync(sqlite3_file *f, int flags)
{
	int rc = mine(f)->real->pMethods->xSync(mine(f)->real, flags);

	if (rc != SQLITE_OK || !mine(f)->shadow)
		return rc;
	(void)pthread_mutex_lock(&lock);
	drop_ops(mine(f)->shadow, true);
	mine(f)->shadow->there = true;
	(void)pthread_mutex_unlock(&lock);
	return rc;
}

static int x_size(sqlite3_file *f, sqlite3_int64 *ret)
{
	return mine(f)->real->pMethods->xFileSize(mine(f)->real, ret);
}

static int x_lock(sqlite3_file *f, int level)
{
	return mine(f)->real->pMethods->xLock(mine(f)->real, level);
}

static int x_unlock(sqlite3_file *f, int level)
{
	return mine(f)->real->pMethods->xUnlock(mine(f)->real, level);
}

static int x_reserved(sqlite3_file *f, int *ret)
{
	return mine(f)->real->pMethods->xCheckReservedLock(mine(f)->real, ret);
}

static int x_control(sqlite3_file *f, int op, void *arg)
{
	return mine(f)->real->pMethods->xFileControl(mine(f)->real, op, arg);
}

static int x_sector(sqlite3_file *)
{
	return SECTOR;
}

static int x_device(sqlite3_file *)
{
	return 0; /* nothing is promised */
}

static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = x_close,
	.xRead = x_read,
	.xWrite = x_write,
	.xTruncate = x_truncate,
	.xSync = x_sync,
	.xFileSize = x_size,
	.xLock = x_lock,
	.xUnlock = x_unlock,
	.xCheckReservedLock = x_reserved,
	.xFileControl = x_control,
	.xSectorSize = x_sector,
	.xDeviceCharacteristics = x_device,
};

static struct shadow *shadow_of(const char *path)
{
	size_t n = shadowed ? strlen(shadowed) : 0;

	if (!path || !n || strncmp(path, shadowed, n) != 0 || path[n] != '/')
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(shadows); i++)
		if (str_eq(path + n + 1, shadows[i].name))
			return &shadows[i];
	return NULL;
}

static int x_open(sqlite3_vfs *, sqlite3_filename path, sqlite3_file *f, int flags, int *ret)
{
	struct file *file = mine(f);
	int rc;

	file->shadow = shadow_of(path);
	file->real = (sqlite3_file *)(void *)(file + 1);
	rc = real->xOpen(real, path, file->real, flags, ret);
	f->pMethods = file->real->pMethods ? &methods : NULL;
	return rc;
}

static int x_delete(sqlite3_vfs *, const char *path, int sync)
{
	struct shadow *s = shadow_of(path);

	if (s) {
		(void)pthread_mutex_lock(&lock);
		drop_ops(s, false);
		s->n = 0;
		s->there = false;
		(void)pthread_mutex_unlock(&lock);
	}
	return real->xDelete(real, path, sync);
}

static void lay_under(void)
{
	static sqlite3_vfs vfs;

	real = sqlite3_vfs_find(NULL);
	assert_non_null(real);
	vfs = *real;
	vfs.zName = "power";
	vfs.szOsFile = (int)sizeof(struct file) + real->szOsFile;
	vfs.xOpen = x_open;
	vfs.xDelete = x_delete;
	vfs.pNext = NULL;
	assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
	for (size_t i = 0; i < ARRAY_SIZE(shadows); i++) {
		shadows[i].last = &shadows[i].first;
		shadows[i].durable = calloc(1, FILE_MAX);
		assert_non_null(shadows[i].durable);
	}
}

/* The newest one: it may have reached the disk before anything that came after it. */
static void copy_mark(struct fixture *to)
{
	char path[128], text[256];
	ssize_t n;
	int fd;

	assert_true(snprintf(path, sizeof(path), "%s/" DB_MARK, shadowed) > 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text));
	(void)close(fd);
	fd = openat(to->dirfd, DB_MARK, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0 && n > 0);
	assert_int_equal(write(fd, text, (size_t)n), n);
	(void)close(fd);
}

/* The disk as it is when the power is back. */
static void lose_power(struct fixture *to)
{
	char *image = malloc(FILE_MAX);

	assert_non_null(image);
	(void)pthread_mutex_lock(&lock);
	for (size_t i = 0; i < ARRAY_SIZE(shadows); i++) {
		struct shadow *s = &shadows[i];
		size_t n = s->n;
		int fd;

		(void)unlinkat(to->dirfd, s->name, 0);
		if (!s->there && !s->first)
			continue;
		memcpy(image, s->durable, n);
		for (const struct op *op = s->first; op; op = op->next)
			apply(image, &n, op, true);
		fd = openat(to->dirfd, s->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, image, n), n);
		(void)close(fd);
	}
	copy_mark(to);
	(void)pthread_mutex_unlock(&lock);
	free(image);
}

struct run {
	struct fixture *f, *after;
	uint64_t asked, durable; /* by number */
	unsigned points;
};

/* All that was said to be durable is there, and nothing that was not asked for. */
static void check(struct run *r)
{
	uint64_t durable = r->durable, last;
	const struct seen *s = &r->after->seen;

	lose_power(r->after);
	load(r->after, 1);
	last = s->n_rows ? s->rows[s->n_rows - 1].seq : 0;
	assert_int_equal(s->n_bad, 0);
	if (last < durable || last > r->asked)
		fail_msg("point %u: %ju was durable, %ju is the last there, %ju were asked for",
			 r->points, (uintmax_t)durable, (uintmax_t)last, (uintmax_t)r->asked);
	assert_int_equal(s->n_rows, last < ROWS ? last : ROWS);
	for (size_t i = 0; i < s->n_rows; i++)
		row_check(i, s->rows[i].seq == last - s->n_rows + 1 + i);
	shut(r->after);
	r->points++;
}

static void on_put(void *arg, const struct cay_err *outcome)
{
	struct run *r = arg;

	assert_int_equal(outcome->code, CAY_OK);
	r->durable++; /* told in the order of asking */
	if (!chance(8) && r->points < POINTS)
		check(r);
}

static void ask(struct run *r, unsigned n)
{
	while (n--) {
		struct db_sandbox row = row_of(++r->asked % ROWS);
		struct db_event event = { .seq = db_event_next_seq(r->f->db),
					  .sandbox = row.life.id,
					  .text = SLICE("{}") };

		row.seq = r->asked;
		db_sandbox_put(r->f->db, &row, on_put, r);
		db_event_append(r->f->db, &event, NULL, NULL);
	}
}

static void the_power_goes(void **state)
{
	struct fixture *f = *state;
	void *other = NULL;
	struct run r = { .f = f };

	lay_under();
	assert_int_equal(set_up(&other), 0);
	r.after = other;
	shadowed = f->dir;
	load(f, 1);
	/* a checkpoint has its own time, and must be among what was looked at */
	for (unsigned more = 0;
	     r.points < POINTS || (!db_get_stats(f->db).checkpoints && more < 10 * POINTS);
	     more += r.points >= POINTS) {
		ask(&r, 1 + (unsigned)chance(12));
		/* also while the writer is at it */
		(void)uv_run(&f->loop, UV_RUN_NOWAIT);
		if (!chance(3) && r.points < POINTS)
			check(&r);
		turn(f);
	}
	assert_true(db_get_stats(f->db).checkpoints > 0);
	shut(f);
	shadowed = NULL;
	assert_int_equal(tear_down(&other), 0);
	for (size_t i = 0; i < ARRAY_SIZE(shadows); i++) {
		drop_ops(&shadows[i], false);
		free(shadows[i].durable);
	}
	print_message("# %u points, %ju writes\n", r.points, (uintmax_t)r.asked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_power_goes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
