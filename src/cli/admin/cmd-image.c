/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "cli/transfer/image-tar.h"

struct image_import_args {
	const char *name;
	struct json_args json;
};

static const struct opt import_rows[] = {
	{ "name", 0, OPT_TEXT, offsetof(struct image_import_args, name), .arg = "NAME",
	  .help = "What to call it; else the path's last part" },
};
static const struct opt_group import_options[] = {
	OPTS(import_rows, 0),
	OPTS_JSON(image_import_args, json),
	OPTS_END,
};
static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

/* "images/base.tar" and "images/base/" are called "base". */
static const char *cmd_image_import_derive_name(struct cli *c, const char *path,
						struct cay_err *err)
{
	struct slice s = slice_of(path), rest;
	const char *name;

	while (s.n > 1 && s.p[s.n - 1] == '/')
		s.n--;
	for (rest = s; rest.p;) {
		struct slice part = slice_cut(&rest, '/');

		if (!rest.p)
			s = part;
	}
	if (s.n > 4 && memcmp(s.p + s.n - 4, ".tar", 4) == 0)
		s.n -= 4;
	name = arena_strndup(&c->arena, s.p, s.n);
	if (!name)
		(void)cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	if (!name || (!str_eq(name, ".") && !str_eq(name, "..") && !str_eq(name, "-") && name[0]))
		return name;
	(void)cay_fail(err, CAY_E_INVALID, "image import: say what to call it with --name");
	return NULL;
}

static int cmd_image_import_queue_piece(const struct image_tar *l, struct http_client *h,
					const char *p, size_t n, struct cay_err *err)
{
	int r = l->endless ? http_client_queue_chunk(h, p, n) : buf_append(&h->out, p, n);

	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory for the image") : 0;
}

/* Send until all is sent or the daemon answers, which it does early only to
 * refuse.  1: there is something to send still. */
static int cmd_image_import_send_piece(struct api *a, struct image_tar *l, struct http_client *h,
				       uint64_t *sent, struct cay_err *err)
{
	char piece[KIB(64)];
	ssize_t n = image_tar_read(l, piece, sizeof(piece), err);
	int r = n < 0 ? (int)n : 0;

	if (r >= 0 && (n || l->endless))
		r = cmd_image_import_queue_piece(l, h, piece, (size_t)n, err);
	while (r >= 0 && http_client_has_unsent(h)) {
		uint64_t deadline = clk_boot_ns(&clk_system) + a->timeout_ms * NS_PER_MS;

		r = http_client_flush(h);
		if (r == 0)
			break;
		if (r != -EAGAIN)
			return 0; /* the reply, or its absence, says why */
		r = http_client_wait(h, POLLIN | POLLOUT, deadline, &a->intr);
		if (r < 0)
			return cay_fail_sys(err, CAY_E_TIMEOUT, -r, "send the image");
		r = http_client_receive(h, err);
		if (r < 0 && r != -EAGAIN)
			return r;
		if (h->head_complete)
			return 0;
		r = 0;
	}
	*sent += n > 0 ? (uint64_t)n : 0;
	return r < 0 ? r : n > 0;
}

static int cmd_image_import_send_all(struct api *a, struct image_tar *l, struct http_client *h,
				     struct cay_err *err)
{
	bool terminal = isatty(STDERR_FILENO);
	struct progress p = progress_start(&clk_system, terminal, l->endless ? 0 : l->total);
	auto_buf line = BUF_INIT(128);
	uint64_t sent = 0;
	int r = buf_puts(&line, "sending ");

	if (r >= 0 && !l->endless)
		r = byte_size_format(l->total, &line);
	if (r >= 0 && !terminal)
		progress_draw_word(&p, buf_str(&line));
	do {
		progress_draw(&p, sent);
		r = cmd_image_import_send_piece(a, l, h, &sent, err);
	} while (r > 0);
	if (r >= 0 && !h->head_complete && !http_client_has_unsent(h))
		progress_draw_word(&p, "unpacking");
	if (r >= 0)
		r = api_call_receive_head(a, OP_IMAGE_IMPORT, h, err);
	if (terminal)
		progress_draw_word(&p, "");
	return r;
}

int image_import_send(struct cli *c, const char *path, const char *name, struct image_info *ret,
		      struct cay_err *err)
{
	struct image_import_query query = { .name = name };
	auto_layout layout = IMAGE_TAR_INIT;
	auto_http h = HTTP_INIT;
	struct api_call call = { .op = OP_IMAGE_IMPORT,
				 .query = &query,
				 .content_type = "application/x-tar" };
	int r = image_tar_open(&layout, path, err);

	if (r < 0)
		return r;
	call.body_length = layout.endless ? HTTP_CLIENT_CHUNKED : layout.total;
	r = api_call_open(&c->api, &call, &h, err);
	if (r >= 0)
		r = cmd_image_import_send_all(&c->api, &layout, &h, err);
	if (r >= 0)
		r = api_call_finish(&c->api, OP_IMAGE_IMPORT, &h, ret, err);
	return r;
}

static int cmd_image_import_run(struct cli *c, const void *args, const struct opt_words *w,
				struct cay_err *err)
{
	const struct image_import_args *a = args;
	const char *name = a->name ? a->name : cmd_image_import_derive_name(c, w->operands[0], err);
	struct image_info made = {};
	int r = name ? image_import_send(c, w->operands[0], name, &made, err) : -EINVAL;

	if (r < 0)
		return r;
	return a->json.json ? print_json(&image_info_table, &made, err) : print_id(&made.id, err);
}

const struct cmd cmd_image_import = {
	.name = "image import",
	.args = "[--name NAME] [--json] PATH",
	.operands = { OPERAND_FILE },
	.min = 1,
	.max = 1,
	.options = import_options,
	.size = sizeof(struct image_import_args),
	.help = "Import an image: an OCI layout (a directory, too), docker save or a tree, as a "
		"tar",
	.more = "- is standard input, which must be a tar archive.",
	.run = cmd_image_import_run,
};

#define DIGEST_SHOWN (7 + 12) /* of "sha256:..."; --json has all of it */

static int cmd_image_ls_add_cells(struct print_table *t, const void *row)
{
	const struct image_info *i = row;
	auto_buf size = BUF_INIT(32);
	char id[ID_TEXT_LEN + 1], age[PRINT_AGE_MAX], digest[DIGEST_SHOWN + 1];

	id_format(&i->id, id);
	print_age_format(clk_wall_ns(&clk_system), i->created_ns, age);
	if (snprintf(digest, sizeof(digest), "%s", i->digest) < 0)
		return -EINVAL;
	return byte_size_format(i->size_bytes, &size) < 0 || print_table_add_cell(t, id) < 0 ||
			       print_table_add_cell(t, i->name ? i->name : "-") < 0 ||
			       print_table_add_cell(t, buf_str(&size)) < 0 ||
			       print_table_add_cell(t, age) < 0 ||
			       print_table_add_cell(t, digest) < 0
		       ? -ENOMEM
		       : 0;
}

static int cmd_image_ls_run(struct cli *c, const void *args, const struct opt_words *,
			    struct cay_err *err)
{
	static const struct list_spec kind = {
		.op = OP_IMAGE_LIST,
		.list_member = "images",
		.row = &image_info_table,
		.headings = { "ID", "NAME", "SIZE", "AGE", "DIGEST" },
		.columns = 5,
		.add_cells = cmd_image_ls_add_cells,
	};

	return list_print_all_pages(&c->api, &kind, ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_image_ls = {
	.name = "image ls",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "List images",
	.run = cmd_image_ls_run,
};

static int cmd_image_rm_run(struct cli *c, const void *args, const struct opt_words *w,
			    struct cay_err *err)
{
	struct id id;
	int r = api_find_image(&c->api, w->operands[0], &id, err);

	return r < 0 ? r
		     : api_call_print(c, &(struct api_call){ .op = OP_IMAGE_DELETE, .ids = { id } },
				      &(struct image_info){},
				      ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_image_rm = {
	.name = "image rm",
	.args = "[--json] NAME|ID",
	.operands = { OPERAND_IMAGE },
	.min = 1,
	.max = 1,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Remove an image that no sandbox uses",
	.run = cmd_image_rm_run,
};
