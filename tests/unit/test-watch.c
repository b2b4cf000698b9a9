/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "file/watch.h"
#include "unit.h"

static const char *const names[] = { "ready",    "created",    "modified", "closed",
				     "deleted",  "moved_from", "moved_to", "attrib",
				     "overflow", "limit",      "gone" };
static_assert(ARRAY_SIZE(names) == WATCH_NUM);

struct fixture {
	char base[32];
	int dir;
	struct buf out;
	struct watch *w;
	uint32_t moves[2];
};

static int note(void *arg, const struct watch_event *e)
{
	struct fixture *f = arg;

	if (e->kind == WATCH_MOVED_FROM || e->kind == WATCH_MOVED_TO)
		f->moves[e->kind == WATCH_MOVED_TO] = e->move;
	return buf_printf(&f->out, "%s %.*s%s|", names[e->kind], (int)e->path.n, e->path.p,
			  e->dir ? "/" : "");
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->base, sizeof(f->base), "/tmp/cay-watch-XXXXXX") < 0 ||
	    !mkdtemp(f->base))
		return -1;
	f->dir = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->out = BUF_INIT(MIB(8));
	*state = f;
	return mkdirat(f->dir, "old", 0755);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	auto_close int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = rmtree_at(tmp, f->base + strlen("/tmp/"));

	watch_free(f->w);
	(void)close(f->dir);
	buf_fini(&f->out);
	free(f);
	return r;
}

static void begin(struct fixture *f, bool recursive)
{
	assert_int_equal(watch_open(f->base, recursive, note, f, &f->w, NULL), 0);
	assert_text(&f->out, "ready /|");
	buf_clear(&f->out);
}

/* All there is now. */
static void drain(struct fixture *f)
{
	buf_clear(&f->out);
	while (watch_read(f->w, 0) > 0)
		;
}

static void put(const struct fixture *f, const char *name)
{
	auto_close int fd = openat(f->dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "x", 1), 1);
}

static void files_in_a_directory_that_was_there(void **state)
{
	struct fixture *f = *state;

	begin(f, true);
	put(f, "old/f");
	drain(f);
	assert_text(&f->out, "created old/f|modified old/f|closed old/f|");
	assert_int_equal(renameat(f->dir, "old/f", f->dir, "g"), 0);
	assert_int_equal(fchmodat(f->dir, "g", 0600, 0), 0);
	assert_int_equal(unlinkat(f->dir, "g", 0), 0);
	drain(f);
	assert_text(&f->out, "moved_from old/f|moved_to g|attrib g|deleted g|");
	assert_true(f->moves[0] && f->moves[0] == f->moves[1]);
}

static void not_below_unless_asked(void **state)
{
	struct fixture *f = *state;

	begin(f, false);
	put(f, "old/f");
	assert_int_equal(mkdirat(f->dir, "new", 0755), 0);
	drain(f);
	assert_text(&f->out, "created new/|");
}

/* Made before its directory could be watched: told all the same. */
static void what_was_quicker_than_the_watch(void **state)
{
	struct fixture *f = *state;

	begin(f, true);
	assert_int_equal(mkdirat(f->dir, "a", 0755), 0);
	assert_int_equal(mkdirat(f->dir, "a/b", 0755), 0);
	put(f, "a/b/f");
	assert_int_equal(symlinkat("..", f->dir, "a/loop"), 0);
	drain(f);
	assert_non_null(strstr(buf_str(&f->out), "created a/|"));
	assert_non_null(strstr(buf_str(&f->out), "created a/b/|"));
	assert_non_null(strstr(buf_str(&f->out), "created a/b/f|"));
	assert_non_null(strstr(buf_str(&f->out), "created a/loop|"));
	put(f, "a/b/g"); /* and from then on by events */
	drain(f);
	assert_text(&f->out, "created a/b/g|modified a/b/g|closed a/b/g|");
}

static void a_directory_that_moves_has_its_new_name(void **state)
{
	struct fixture *f = *state;

	begin(f, true);
	assert_int_equal(mkdirat(f->dir, "old/d", 0755), 0);
	drain(f);
	assert_int_equal(renameat(f->dir, "old", f->dir, "new"), 0);
	drain(f);
	put(f, "new/d/f");
	drain(f);
	assert_text(&f->out, "created new/d/f|modified new/d/f|closed new/d/f|");
}

static void a_directory_that_leaves_is_not_told_of(void **state)
{
	char out[] = "/tmp/cay-watch-XXXXXX", to[48], file[64];
	struct fixture *f = *state;

	assert_non_null(mkdtemp(out));
	assert_true(snprintf(to, sizeof(to), "%s/old", out) > 0);
	assert_true(snprintf(file, sizeof(file), "%s/f", to) > 0);
	begin(f, true);
	assert_int_equal(renameat(f->dir, "old", AT_FDCWD, to), 0);
	drain(f);
	assert_text(&f->out, "moved_from old/|");
	assert_int_equal(mknod(file, S_IFREG | 0600, 0), 0);
	drain(f);
	assert_text(&f->out, "");
	assert_int_equal(unlink(file), 0);
	assert_int_equal(rmdir(to), 0);
	assert_int_equal(rmdir(out), 0);
}

static void odd_names(void **state)
{
	struct fixture *f = *state;

	begin(f, true);
	assert_int_equal(mkfifoat(f->dir, "\n\033\xff", 0600), 0);
	drain(f);
	assert_text(&f->out, "created \n\033\xff|");
}

static void an_overflow_is_told_and_made_up_for(void **state)
{
	auto_buf text = BUF_INIT(64);
	struct fixture *f = *state;
	uint64_t most;

	{
		auto_close int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		assert_int_equal(path_read(proc, "sys/fs/inotify/max_queued_events", &text), 0);
		assert_int_equal(
			str_parse_u64((struct slice){ text.data, text.len - 1 }, 1, 200000, &most),
			0);
	}
	begin(f, true);
	for (uint64_t i = 0; i < most / 2 + 10; i++) { /* two events each, none like the last */
		assert_int_equal(mknodat(f->dir, "f", S_IFREG | 0600, 0), 0);
		assert_int_equal(unlinkat(f->dir, "f", 0), 0);
	}
	assert_int_equal(mkdirat(f->dir, "late", 0755), 0); /* nobody hears of it */
	drain(f);
	assert_non_null(strstr(buf_str(&f->out), "overflow |"));
	assert_null(strstr(buf_str(&f->out), "created late"));
	put(f, "late/f");
	drain(f);
	assert_non_null(strstr(buf_str(&f->out), "created late/f|"));
}

static void the_end_of_the_start(void **state)
{
	struct fixture *f = *state;

	begin(f, true);
	assert_int_equal(unlinkat(f->dir, "old", AT_REMOVEDIR), 0);
	assert_int_equal(rmdir(f->base), 0);
	(void)close(f->dir); /* it is gone when nobody has it open */
	while (watch_read(f->w, 0) > 0)
		;
	assert_non_null(strstr(buf_str(&f->out), "gone /|"));
	assert_int_equal(watch_read(f->w, 0), 0);
	assert_int_equal(mkdir(f->base, 0700), 0);
	f->dir = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void nowhere(void **state)
{
	struct fixture *f = *state;
	struct cay_err err = {};

	assert_true(watch_open("/nowhere/at/all", true, note, f, &f->w, &err) < 0);
	assert_int_equal(err.code, CAY_E_NOT_FOUND);
}

int main(void)
{
#define REAL(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		REAL(files_in_a_directory_that_was_there),
		REAL(not_below_unless_asked),
		REAL(what_was_quicker_than_the_watch),
		REAL(a_directory_that_moves_has_its_new_name),
		REAL(a_directory_that_leaves_is_not_told_of),
		REAL(odd_names),
		REAL(an_overflow_is_told_and_made_up_for),
		REAL(the_end_of_the_start),
		REAL(nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
