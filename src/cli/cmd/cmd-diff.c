/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-diff - what a sandbox changed, and layers as files */
#include <fcntl.h>
#include <stdio.h>

#include "archive/tree-pack.h"
#include "base/path.h"
#include "cli/print/list.h"
#include "cli/print/pager.h"
#include "cli/transfer/transfer.h"

#define FILE_NAME_MAX KIB(4)
#define OUTPUT_MAX MIB(64)
#define PAGE_ROWS 10000
#define PAGES_MAX 10000

/* A layer that is read to its end, for its counts, and written on the way. */
struct layer_download {
	struct transfer transfer;
	int fd;
};

static ssize_t on_layer_read(void *arg, void *p, size_t n, struct cay_err *err)
{
	struct layer_download *d = arg;
	ssize_t got = transfer_read(&d->transfer, p, n, err);
	int r = got > 0 ? fd_write_all(d->fd, p, (size_t)got) : 0;

	return r < 0 ? cay_fail_sys(err, CAY_E_INVALID, -r, "write the layer") : got;
}

static int layer_download_read(struct layer_download *d, struct tree_counts *ret,
			       struct cay_err *err)
{
	struct tar_reader tar;
	struct tar_entry e;
	int r;

	tar_reader_init(&tar, on_layer_read, d);
	do
		r = tar_read_entry(&tar, &e, err);
	while (r > 0);
	if (r == 0 && !tree_note_parse(tar.note, ret))
		*ret = (struct tree_counts){};
	tar_reader_fini(&tar);
	return r;
}

static int layer_download_run(struct cli *c, const struct api_call *call, int fd,
			      struct cay_err *err)
{
	auto_free struct layer_download *d = malloc(sizeof(*d));
	struct tree_counts counts = {};
	int r;

	if (!d)
		return cay_no_memory(err);
	d->fd = fd;
	r = transfer_open(&d->transfer, &c->api, call, 0, err);
	if (fd == STDOUT_FILENO)
		d->transfer.shown = d->transfer.bar.terminal = false;
	if (r >= 0)
		r = transfer_receive_head(&d->transfer, err);
	if (r >= 0)
		r = layer_download_read(d, &counts, err);
	transfer_fini(&d->transfer);
	if (r >= 0 && counts.skipped)
		print_note("%llu names are not in the layer: devices, sockets, and those that no "
			   "layer can have",
			   (unsigned long long)counts.skipped);
	if (r >= 0 && counts.changed)
		print_note("%llu files changed while they were read",
			   (unsigned long long)counts.changed);
	return r;
}

/* Under another name until it is whole. */
static int layer_save(struct cli *c, const struct api_call *call, const char *file,
		      struct cay_err *err)
{
	auto_buf part = BUF_INIT(FILE_NAME_MAX);
	auto_close int fd = -EBADF;
	int r;

	if (str_eq(file, "-"))
		return layer_download_run(c, call, STDOUT_FILENO, err);
	if (buf_printf(&part, "%s.part", file) < 0)
		return cay_fail(err, CAY_E_INVALID, "the name of the file is too long");
	fd = open(buf_str(&part), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "write '%s'", buf_str(&part));
	r = layer_download_run(c, call, fd, err);
	if (r >= 0 && rename(buf_str(&part), file) < 0)
		r = cay_fail_sys(err, CAY_E_INVALID, errno, "write '%s'", file);
	if (r < 0)
		(void)unlink(buf_str(&part));
	return r;
}

struct diff_args {
	const char *tar, *since;
};

static const struct opt diff_rows[] = {
	{ "tar", 0, OPT_TEXT, offsetof(struct diff_args, tar), .arg = "FILE",
	  .help = "Write the changes as a layer of an OCI image to this file; - is the output" },
	{ "since", 0, OPT_TEXT, offsetof(struct diff_args, since), .arg = "SNAPSHOT",
	  .help = "Compare with the files of this snapshot instead of the image's" },
};

static int change_path_format(const void *row, struct buf *out)
{
	const struct change_info *change = row;

	return buf_puts(out, change->path ? change->path : change->path_b64);
}

static const struct column change_columns[] = { { "CHANGE", "kind" },
						{ "TYPE", "type" },
						{ "SIZE", "size_bytes", AS_SIZE },
						{ "PATH", .format = change_path_format },
						COLUMNS_END };

static int change_add_row(struct print_table *table, const struct change_info *row)
{
	int r = 0;

	for (const struct column *column = change_columns; r >= 0 && column->heading; column++) {
		auto_buf text = BUF_INIT(KIB(8));

		r = column_format(column, &change_info_table, row, &text);
		print_table_add_cell(table, buf_str(&text));
	}
	return r;
}

/* The sandbox is read once for each page, so pages are as large as they can be. */
static int changes_print(struct cli *c, const struct id *sandbox, const struct id *since,
			 struct cay_err *err)
{
	static const char *const headings[] = { "CHANGE", "TYPE", "SIZE", "PATH" };
	auto_buf json = BUF_INIT(OUTPUT_MAX), out = BUF_INIT(OUTPUT_MAX);
	auto_table table = print_table_create_headed(headings, ARRAY_SIZE(headings));
	struct change_query query = { .limit = PAGE_ROWS, .since = *since };
	struct api_call call = { .op = OP_SANDBOX_CHANGES, .ids = { *sandbox }, .query = &query };
	struct change_list page = {};
	struct jw w = json_list_begin(&json, "changes");
	unsigned pages = 0;
	int r;

	do {
		r = api_call(&c->api, &call, &page, err);
		for (size_t i = 0; r >= 0 && i < page.changes.n; i++) {
			const struct change_info *row =
				(const struct change_info *)page.changes.v + i;

			if (c->global.json)
				field_encode(&change_info_table, NULL, row, &w);
			else if (change_add_row(&table, row) < 0)
				r = cay_no_memory(err);
		}
		query.cursor = page.next_cursor;
	} while (r >= 0 && query.cursor && ++pages < PAGES_MAX);
	if (r < 0 || c->global.json)
		return r < 0 ? r : json_list_print(&w, &json, err);
	if (print_table_write(&table, &out) < 0)
		return cay_no_memory(err);
	r = pager_show(&c->api, &out, err);
	if (page.truncated)
		print_note("there are more changes than can be listed; --tar has no such limit");
	if (page.skipped)
		print_note("%llu names are left out", (unsigned long long)page.skipped);
	return r;
}

static int cmd_diff_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct diff_args *a = c->args;
	struct api_call call = { .op = OP_SANDBOX_LAYER, .accept = "application/x-tar" };
	int r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);
	struct id since = {};

	if (r >= 0 && a->tar && (c->global.json || a->since))
		return cay_fail(err, CAY_E_INVALID, "diff: --tar and %s cannot be combined",
				a->since ? "--since" : "--json");
	if (r >= 0 && a->since)
		r = api_find_snapshot(&c->api, a->since, &since, err);
	if (r < 0)
		return r;
	return a->tar ? layer_save(c, &call, a->tar, err)
		      : changes_print(c, &call.ids[0], &since, err);
}

const struct cmd cmd_diff = {
	CMD_USAGE("diff", "[--since SNAPSHOT] [--tar FILE] [--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(diff_args, OPTS(diff_rows, 0)),
	.help = "List what a sandbox changed in the files of its image",
	.more = "A path that was written is modified, also if it has the same content again; "
		"with --since, only if it differs from the snapshot's. "
		"Sandboxes that run are not frozen meanwhile.",
	.run = cmd_diff_run,
};

struct snapshot_export_args {
	bool oci;
};

static const struct opt snapshot_export_rows[] = {
	{ "oci", 0, OPT_FLAG, offsetof(struct snapshot_export_args, oci),
	  .help = "Write a whole image, with the layers below: an OCI image layout" },
};

static int cmd_snapshot_export_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct snapshot_export_args *a = c->args;
	struct api_call call = { .op = a->oci ? OP_SNAPSHOT_IMAGE : OP_SNAPSHOT_LAYER,
				 .accept = "application/x-tar" };
	int r = api_find_snapshot(&c->api, w->operands[0], &call.ids[0], err);

	return r < 0 ? r : layer_save(c, &call, w->operands[1], err);
}

const struct cmd cmd_snapshot_export = {
	CMD_USAGE("snapshot export", "[--oci] NAME|ID FILE"),
	CMD_OPERANDS(2, 2, OPERAND_SNAPSHOT, OPERAND_FILE),
	CMD_OPTIONS(snapshot_export_args, OPTS(snapshot_export_rows, 0)),
	.no_json = true,
	.help = "Write the files of a snapshot as a layer of an OCI image, a tar",
	.more = "FILE - is the output. The layer has what the sandbox of the snapshot changed, not "
		"the files of its image. With --oci 'cay image import', skopeo and docker load "
		"take the file.",
	.run = cmd_snapshot_export_run,
};
