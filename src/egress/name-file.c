/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name-file - the names that sandboxes have addresses for, over a restart
 *
 * Programs inside remember addresses for as long as they run, so a name must have its address again
 * after a restart of cay-egress.  Each new name of a sandbox is a line "SANDBOX NAME" in a file of
 * paths.run, and "SANDBOX -" says that the sandbox has ended.  Lines are read in their order,
 * because of two names with one hash the second gets the next address.  Each start
 * replaces the file by one without sandboxes that have ended.
 *
 * Bounded: a file of NAME_FILE_MAX; names beyond it are not kept.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "egress/egress.h"

#define NAME_FILE "names"
#define NAME_FILE_MAX MIB(64)
#define BUCKETS 1024

/* The names of a sandbox that cayd has not sent yet. */
struct kept_names {
	struct kept_names *next;
	struct id sandbox;
	struct name_table names;
};

struct name_file {
	int fd;
	size_t size;
	struct kept_names *kept[BUCKETS];
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

static void name_file_append(struct name_file *f, const struct id *id, const char *name)
{
	char text[ID_TEXT_LEN + 1];
	auto_buf line = BUF_INIT(KIB(1));

	id_format(id, text);
	if (buf_printf(&line, "%s %s\n", text, name) < 0 || f->size + line.len > NAME_FILE_MAX)
		return;
	if (fd_write_all(f->fd, line.data, line.len) >= 0)
		f->size += line.len;
}

void name_file_add(const struct egress_sandbox *sb, const struct host_name *name)
{
	name_file_append(sb->egress->name_file, &sb->id, name->text);
}

void name_file_forget(struct egress *e, const struct id *id)
{
	name_file_append(e->name_file, id, "-");
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
			name_file_forget(e, &e->name_file->kept[i]->sandbox);
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

/* False: it is no line, such as half of one. */
static bool name_file_read_line(struct slice line, struct id *ret_id, struct host_name *ret_name)
{
	struct slice id = slice_cut(&line, ' ');

	*ret_name = (struct host_name){};
	return id_parse(ID_SANDBOX, id, ret_id) == 0 &&
	       (slice_eq(line, SLICE("-")) || host_name_parse(line, ret_name) == 0);
}

static int name_file_read(struct egress *e, struct slice text)
{
	struct host_name name;
	struct id id;
	int r = 0;

	while (r >= 0 && text.n) {
		if (!name_file_read_line(slice_cut(&text, '\n'), &id, &name))
			continue;
		if (name.n)
			r = name_file_keep(e, &id, &name);
		else if (*name_file_slot(e->name_file, &id))
			name_file_drop(name_file_slot(e->name_file, &id));
	}
	return r;
}

/* Those lines whose sandbox has not ended. */
static int name_file_select(struct egress *e, struct slice text, struct buf *ret)
{
	struct host_name name;
	struct id id;
	int r = 0;

	while (r >= 0 && text.n) {
		struct slice line = slice_cut(&text, '\n');

		if (!name_file_read_line(line, &id, &name) || !name.n ||
		    !*name_file_slot(e->name_file, &id))
			continue;
		r = buf_append(ret, line.p, line.n);
		if (r >= 0)
			r = buf_putc(ret, '\n');
	}
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
		r = name_file_read(e, (struct slice){ buf_str(&text), text.len });
	if (r >= 0)
		r = name_file_select(e, (struct slice){ buf_str(&text), text.len }, &left);
	if (r >= 0)
		r = path_write_atomic(dir, NAME_FILE, buf_str(&left), left.len, 0600);
	e->name_file->size = left.len;
	return r;
}

int name_file_open(struct egress *e, struct cay_err *err)
{
	static struct name_file file = { .fd = -EBADF };
	auto_close int run = open(e->settings.run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int dir =
		run < 0 ? -errno : path_open(run, EGRESS_DIR, O_RDONLY | O_DIRECTORY, 0);
	int r = dir;

	e->name_file = &file;
	if (r >= 0)
		r = path_remove_tmp_files(dir);
	if (r >= 0)
		r = name_file_load(e, dir);
	if (r >= 0)
		r = file.fd = path_open(dir, NAME_FILE, O_WRONLY | O_APPEND | O_NOFOLLOW, 0);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "read the names of sandboxes in %s/%s",
				    e->settings.run_dir, EGRESS_DIR)
		     : 0;
}
