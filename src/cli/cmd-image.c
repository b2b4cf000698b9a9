/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/layout.h"
#include "cli/progress.h"
#include "cli/rows.h"
#include "cli/show.h"

struct import_args {
	const char *name;
	struct json_args json;
};

static const struct opt import_rows[] = {
	{ "name", 0, OPT_TEXT, offsetof(struct import_args, name), .arg = "NAME",
	  .help = "What to call it; else the path's last part" },
};
static const struct opt_group import_options[] = {
	OPTS(import_rows, 0),
	OPTS_JSON(import_args, json),
	OPTS_END,
};
static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

/* "images/base.tar" and "images/base/" are called "base". */
static const char *name_of(struct cli *c, const char *path, struct cay_err *err)
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
	name = pool_strn(&c->pool, s.p, s.n);
	if (!name)
		(void)cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	if (!name || (!str_eq(name, ".") && !str_eq(name, "..") && !str_eq(name, "-") && name[0]))
		return name;
	(void)cay_fail(err, CAY_E_INVALID, "image import: say what to call it with --name");
	return NULL;
}

static int queue(const struct layout *l, struct http *h, const char *p, size_t n,
		 struct cay_err *err)
{
	int r = l->endless ? http_chunk(h, p, n) : buf_add(&h->out, p, n);

	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory for the image") : 0;
}

/* Send until all is sent or the daemon answers, which it does early only to
 * refuse.  1: there is something to send still. */
static int send_some(struct api *a, struct layout *l, struct http *h, uint64_t *sent,
		     struct cay_err *err)
{
	char piece[KIB(64)];
	ssize_t n = layout_read(l, piece, sizeof(piece), err);
	int r = n < 0 ? (int)n : 0;

	if (r >= 0 && (n || l->endless))
		r = queue(l, h, piece, (size_t)n, err);
	while (r >= 0 && http_sending(h)) {
		uint64_t deadline = clk_boot_ns(&clk_system) + a->timeout_ms * NS_PER_MS;

		r = http_flush(h);
		if (r == 0)
			break;
		if (r != -EAGAIN)
			return 0; /* the reply, or its absence, says why */
		r = http_wait(h, POLLIN | POLLOUT, deadline, &a->intr);
		if (r < 0)
			return cay_fail_sys(err, CAY_E_TIMEOUT, -r, "send the image");
		r = http_pull(h, err);
		if (r < 0 && r != -EAGAIN)
			return r;
		if (h->head)
			return 0;
		r = 0;
	}
	*sent += n > 0 ? (uint64_t)n : 0;
	return r < 0 ? r : n > 0;
}

static int send_image(struct api *a, struct layout *l, struct http *h, struct cay_err *err)
{
	bool terminal = isatty(STDERR_FILENO);
	struct progress p = progress_of(&clk_system, terminal, l->endless ? 0 : l->total);
	auto_buf line = BUF_INIT(128);
	uint64_t sent = 0;
	int r = buf_puts(&line, "sending ");

	if (r >= 0 && !l->endless)
		r = progress_size(l->total, &line);
	if (r >= 0 && !terminal)
		progress_word(&p, buf_str(&line));
	do {
		progress_draw(&p, sent);
		r = send_some(a, l, h, &sent, err);
	} while (r > 0);
	if (r >= 0 && !h->head && !http_sending(h))
		progress_word(&p, "unpacking");
	if (r >= 0)
		r = api_head(a, OP_IMAGE_IMPORT, h, err);
	if (terminal)
		progress_word(&p, "");
	return r;
}

int image_send(struct cli *c, const char *path, const char *name, struct image *ret,
	       struct cay_err *err)
{
	struct image_import_query query = { .name = name };
	auto_layout layout = LAYOUT_INIT;
	auto_http h = HTTP_INIT;
	struct api_call call = { .op = OP_IMAGE_IMPORT,
				 .query = &query,
				 .media = "application/x-tar" };
	int r = layout_open(&layout, path, err);

	if (r < 0)
		return r;
	call.length = layout.endless ? HTTP_CHUNKED : layout.total;
	r = api_open(&c->api, &call, &h, err);
	if (r >= 0)
		r = send_image(&c->api, &layout, &h, err);
	if (r >= 0)
		r = api_finish(&c->api, OP_IMAGE_IMPORT, &h, ret, err);
	return r;
}

static int run_import(struct cli *c, const void *args, const struct opt_words *w,
		      struct cay_err *err)
{
	const struct import_args *a = args;
	const char *name = a->name ? a->name : name_of(c, w->operands[0], err);
	struct image made = {};
	int r = name ? image_send(c, w->operands[0], name, &made, err) : -EINVAL;

	if (r < 0)
		return r;
	return a->json.json ? print_json(&image_table, &made, err) : print_id(&made.id, err);
}

const struct cmd cmd_image_import = {
	.name = "image import",
	.args = "[--name NAME] [--json] PATH",
	.operands = { OPERAND_FILE },
	.min = 1,
	.max = 1,
	.options = import_options,
	.size = sizeof(struct import_args),
	.help = "Import an image: an OCI layout (a directory, too), docker save or a tree, as a "
		"tar",
	.more = "- is standard input, which must be a tar archive.",
	.run = run_import,
};

#define DIGEST_SHOWN (7 + 12) /* of "sha256:..."; --json has all of it */

static int cells(struct show_table *t, const void *row)
{
	const struct image *i = row;
	auto_buf size = BUF_INIT(32);
	char id[ID_TEXT_LEN + 1], age[SHOW_AGE_MAX], digest[DIGEST_SHOWN + 1];

	id_format(&i->id, id);
	show_age(clk_wall_ns(&clk_system), i->created_ns, age);
	if (snprintf(digest, sizeof(digest), "%s", i->digest) < 0)
		return -EINVAL;
	return progress_size(i->size_bytes, &size) < 0 || show_cell(t, id) < 0 ||
			       show_cell(t, i->name ? i->name : "-") < 0 ||
			       show_cell(t, buf_str(&size)) < 0 || show_cell(t, age) < 0 ||
			       show_cell(t, digest) < 0
		       ? -ENOMEM
		       : 0;
}

static int run_ls(struct cli *c, const void *args, const struct opt_words *, struct cay_err *err)
{
	static const struct rows_kind kind = {
		.op = OP_IMAGE_LIST,
		.list = "images",
		.row = &image_table,
		.headings = { "ID", "NAME", "SIZE", "AGE", "DIGEST" },
		.columns = 5,
		.cells = cells,
	};

	return rows_print(&c->api, &kind, ((const struct json_args *)args)->json, err);
}

const struct cmd cmd_image_ls = {
	.name = "image ls",
	.args = "[--json]",
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "List images",
	.run = run_ls,
};

static int run_rm(struct cli *c, const void *args, const struct opt_words *w, struct cay_err *err)
{
	struct id id;
	int r = api_find_image(&c->api, w->operands[0], &id, err);

	return r < 0 ? r
		     : call_print(c, &(struct api_call){ .op = OP_IMAGE_DELETE, .ids = { id } },
				  &(struct image){}, ((const struct json_args *)args)->json, err);
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
	.run = run_rm,
};
