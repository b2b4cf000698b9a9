/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name-file - the names that sandboxes have addresses for, over a restart
 *
 * Programs inside remember addresses for as long as they run, so a name must have its address again
 * after a restart of cay-egress.  Each new name of a sandbox is a line "SANDBOX NAME" in a file of
 * paths.run, and "SANDBOX -" says that the sandbox has ended.  Lines are read in their order,
 * because of two names with one hash the second gets the next address.
 *
 * Each start replaces the file by one without sandboxes that have ended.  So does a thread when
 * more than half of the file is of such sandboxes: it writes what is left to a second file, then,
 * with the lock, adds the lines that have come meanwhile and renames it.  A process that is killed
 * leaves the one or the other, whole.  The loop waits only for those lines.
 *
 * Bounded: a file of NAME_FILE_MAX; names beyond it are not kept.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/path.h"
#include "daemon/confine.h"
#include "egress/egress.h"
#include "egress/name-lines.h"

#define NAME_FILE "names"
#define NAME_FILE_NEXT "names.next"
#define NAME_FILE_MAX MIB(64)
#define NAME_FILE_COMPACT_MIN KIB(64)
#define BUCKETS 1024

/* The names of a sandbox that cayd has not sent yet. */
struct kept_names {
	struct kept_names *next;
	struct id sandbox;
	struct name_table names;
};

struct name_file {
	struct kept_names *kept[BUCKETS];
	int dir; /* the thread's */
	uv_sem_t wake, started;
	int start_failure;
	uv_mutex_t lock;
	/* with the lock */
	int fd;
	size_t size, dead; /* bytes, and those of sandboxes that have ended */
	bool compacting;
	int failure; /* to be logged, or 0 */
};

static struct kept_names **name_file_slot(struct name_file *f, const struct id *id)
{
	unsigned hash = id->bits[14] | (unsigned)id->bits[13] << 8;
	struct kept_names **at = &f->kept[hash % BUCKETS];

	while (*at && !id_eq(&(*at)->sandbox, id))
		at = &(*at)->next;
	return at;
}

static void name_file_drop(struct kept_names **at)
{
	struct kept_names *k = *at;

	*at = k->next;
	name_table_fini(&k->names);
	free(k);
}

/* A line, by which so many bytes are dead. */
static void name_file_append(struct egress *e, const struct id *id, const char *name, size_t dead)
{
	struct name_file *f = e->name_file;
	char text[ID_TEXT_LEN + 1];
	auto_buf line = BUF_INIT(KIB(1));
	bool wake = false;
	int failure;

	id_format(id, text);
	if (buf_printf(&line, "%s %s\n", text, name) < 0)
		return;
	uv_mutex_lock(&f->lock);
	if (f->size + line.len <= NAME_FILE_MAX && fd_write_all(f->fd, line.data, line.len) >= 0) {
		f->size += line.len;
		f->dead += dead ? dead + line.len : 0;
	}
	if (!f->compacting && f->size > NAME_FILE_COMPACT_MIN && f->dead > f->size / 2)
		wake = f->compacting = true;
	failure = f->failure;
	f->failure = 0;
	uv_mutex_unlock(&f->lock);
	if (failure)
		log_warn(&e->log, "the names of sandboxes that ended stay in a file: %s",
			 strerror(-failure));
	if (wake)
		uv_sem_post(&f->wake);
}

void name_file_add(const struct egress_sandbox *sb, const struct host_name *name)
{
	if (!sb->gone)
		name_file_append(sb->egress, &sb->id, name->text, 0);
}

/* The lines of its names. */
static size_t name_file_lines_size(const struct name_table *names)
{
	return names->names.len + names->n * (ID_TEXT_LEN + 1);
}

void name_file_forget(struct egress *e, const struct id *id, const struct name_table *names)
{
	if (!names || names->n)
		name_file_append(e, id, "-", names ? name_file_lines_size(names) : 1);
}

bool name_file_take(struct egress *e, const struct id *id, struct name_table *ret)
{
	struct kept_names **at = name_file_slot(e->name_file, id);

	if (!*at)
		return false;
	*ret = (*at)->names;
	(*at)->names = (struct name_table){};
	name_file_drop(at);
	return true;
}

void name_file_forget_rest(struct egress *e)
{
	for (size_t i = 0; i < BUCKETS; i++)
		while (e->name_file->kept[i]) {
			struct kept_names *k = e->name_file->kept[i];

			name_file_forget(e, &k->sandbox, &k->names);
			name_file_drop(&e->name_file->kept[i]);
		}
}

static int name_file_keep(struct egress *e, const struct id *id, const struct host_name *name)
{
	struct kept_names **at = name_file_slot(e->name_file, id);
	uint32_t address;

	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at)
			return -ENOMEM;
		(*at)->sandbox = *id;
		egress_init_names(e, id, &(*at)->names);
	}
	return name_table_add(&(*at)->names, name, &address) == -ENOMEM ? -ENOMEM : 0;
}

/* All of a sandbox that has not ended. */
static int name_file_read(struct egress *e, struct slice text)
{
	struct host_name name;
	struct id id;
	int r = 0;

	while (r >= 0 && text.n)
		if (name_line_parse(slice_cut(&text, '\n'), &id, &name) && name.n)
			r = name_file_keep(e, &id, &name);
	return r;
}

static int name_file_load(struct egress *e, int dir)
{
	auto_buf text = BUF_INIT(NAME_FILE_MAX), left = BUF_INIT(NAME_FILE_MAX);
	int r = path_read(dir, NAME_FILE, &text);

	if (r < 0 && r != -ENOENT)
		log_warn(&e->log, "names that sandboxes have addresses for are lost: %s",
			 strerror(-r));
	if (r == -ENOENT || r == -EFBIG || r == -EINVAL)
		r = 0; /* programs that remember an address ask again when it fails */
	if (r >= 0)
		r = name_lines_select((struct slice){ buf_str(&text), text.len }, &left);
	if (r >= 0)
		r = name_file_read(e, (struct slice){ buf_str(&left), left.len });
	if (r >= 0)
		r = path_write_atomic(dir, NAME_FILE, buf_str(&left), left.len, 0600);
	e->name_file->size = left.len;
	return r;
}

/* The lines that were appended after the first n bytes of the old file; then the new one is the
 * file. With the lock. */
static int name_file_replace(struct name_file *f, int next, size_t n, size_t size)
{
	auto_close int old = path_open(f->dir, NAME_FILE, O_RDONLY | O_NOFOLLOW, 0);
	char more[KIB(4)];
	ssize_t got = 1;
	int r = old < 0 ? old : 0;

	while (r >= 0 && got) {
		got = pread(old, more, sizeof(more), (off_t)n);
		r = got < 0 ? -errno : fd_write_all(next, more, (size_t)got);
		n += got > 0 ? (size_t)got : 0;
		size += got > 0 ? (size_t)got : 0;
	}
	if (r >= 0 && renameat(f->dir, NAME_FILE_NEXT, f->dir, NAME_FILE) < 0)
		r = -errno;
	if (r >= 0)
		r = failpoint_hit(FAULT_WRITE_RENAMED);
	if (r < 0)
		return r;
	f->size = size;
	return 0;
}

static int name_file_compact(struct name_file *f)
{
	auto_buf text = BUF_INIT(NAME_FILE_MAX), left = BUF_INIT(NAME_FILE_MAX);
	size_t dead;
	int r, next;

	uv_mutex_lock(&f->lock);
	dead = f->dead;
	uv_mutex_unlock(&f->lock);
	r = path_read(f->dir, NAME_FILE, &text);
	while (text.len && text.data[text.len - 1] != '\n')
		text.len--; /* a line that is being written */
	if (r >= 0)
		r = name_lines_select((struct slice){ buf_str(&text), text.len }, &left);
	if (r >= 0 && unlinkat(f->dir, NAME_FILE_NEXT, 0) < 0 && errno != ENOENT)
		r = -errno;
	next = r < 0 ? r
		     : path_open(f->dir, NAME_FILE_NEXT,
				 O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (next < 0)
		return next;
	r = fd_write_all(next, buf_str(&left), left.len);
	if (r >= 0)
		r = failpoint_hit(FAULT_WRITE_FILLED);
	uv_mutex_lock(&f->lock);
	if (r >= 0)
		r = name_file_replace(f, next, text.len, left.len);
	if (r >= 0) {
		int before = f->fd;

		f->fd = next;
		f->dead -= dead;
		next = before;
	}
	uv_mutex_unlock(&f->lock);
	(void)close(next);
	return r;
}

static void name_file_main(void *arg)
{
	struct name_file *f = arg;

	f->start_failure = confine_log_writer(f->dir);
	uv_sem_post(&f->started);
	while (f->start_failure >= 0) {
		int r;

		uv_sem_wait(&f->wake);
		r = name_file_compact(f);
		uv_mutex_lock(&f->lock);
		f->compacting = r < 0; /* it is not tried again before a restart */
		f->failure = r;
		uv_mutex_unlock(&f->lock);
	}
}

/* Signals belong to the loop's thread. */
static int name_file_start(struct name_file *f)
{
	sigset_t all, before;
	uv_thread_t thread;
	int r = uv_sem_init(&f->wake, 0);

	if (r >= 0)
		r = uv_sem_init(&f->started, 0);
	if (r < 0)
		return r;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = uv_thread_create(&thread, name_file_main, f);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0)
		return r;
	uv_sem_wait(&f->started);
	return f->start_failure;
}

int name_file_open(struct egress *e, struct cay_err *err)
{
	static struct name_file file = { .fd = -EBADF };
	auto_close int run = open(e->settings.run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int dir = run < 0 ? -errno : path_open(run, EGRESS_DIR, O_RDONLY | O_DIRECTORY, 0);
	int r = uv_mutex_init(&file.lock);

	e->name_file = &file;
	file.dir = dir;
	if (r >= 0)
		r = dir;
	if (r >= 0)
		r = path_remove_tmp_files(dir);
	if (r >= 0 && unlinkat(dir, NAME_FILE_NEXT, 0) < 0 && errno != ENOENT)
		r = -errno;
	if (r >= 0)
		r = name_file_load(e, dir);
	if (r >= 0)
		r = file.fd = path_open(dir, NAME_FILE, O_WRONLY | O_APPEND | O_NOFOLLOW, 0);
	if (r >= 0)
		r = name_file_start(&file);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the names of sandboxes in %s/%s",
				    e->settings.run_dir, EGRESS_DIR)
		     : 0;
}
