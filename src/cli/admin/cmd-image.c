/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "base/clock.h"
#include "cli/print/list.h"
#include "cli/print/progress.h"
#include "cli/transfer/image-tar.h"

static const struct opt import_rows[] = {
	{ "name", 0, OPT_TEXT, offsetof(struct image_import_query, name), .arg = "NAME",
	  .help = "Name; by default those in the archive (RepoTags of 'docker save'), or the last "
		  "part of the path" },
};
/* "images/base.tar" and "images/base/" become "base". */
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
		(void)cay_no_memory(err);
	if (!name || (!str_eq(name, ".") && !str_eq(name, "..") && !str_eq(name, "-") && name[0]))
		return name;
	(void)cay_fail(err, CAY_E_INVALID,
		       "image import: cannot derive a name from the path; use --name NAME");
	return NULL;
}

/* Send one piece.  A reply that arrives early is a refusal.  Returns 1 while there is more
 * to send. */
static int cmd_image_import_send_piece(struct api *a, struct image_tar *l, struct http_client *h,
				       uint64_t *sent, struct cay_err *err)
{
	char piece[KIB(64)];
	ssize_t n = image_tar_read(l, piece, sizeof(piece), err);
	int r = n < 0 ? (int)n : 0;

	if (r >= 0 && l->endless)
		r = http_client_queue_chunk(h, piece, (size_t)n);
	else if (r >= 0 && n)
		r = buf_append(&h->out, piece, (size_t)n);
	if (n >= 0 && r < 0)
		return cay_no_memory(err);
	while (r >= 0 && http_client_has_unsent(h)) {
		uint64_t deadline = clk_boot_ns(&clk_system) + a->timeout_ms * NS_PER_MS;

		r = http_client_flush(h);
		if (r == 0)
			break;
		if (r != -EAGAIN)
			return 0; /* the reply, or its absence, tells the cause */
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

static int cmd_image_import_send(struct cli *c, const char *path,
				 const struct image_import_query *query, struct image_info *ret,
				 struct cay_err *err)
{
	auto_layout layout = IMAGE_TAR_INIT;
	auto_http h = HTTP_INIT;
	struct api_call call = { .op = OP_IMAGE_IMPORT,
				 .query = query,
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

int image_import_send(struct cli *c, const char *path, const char *name, struct image_info *ret,
		      struct cay_err *err)
{
	return cmd_image_import_send(c, path, &(struct image_import_query){ .name = name }, ret,
				     err);
}

/* Ids and names of all, when the tar had several. */
static int cmd_image_import_print(struct cli *c, const struct image_info *made, struct cay_err *err)
{
	const struct image_other *others = made->others.v;
	char id[ID_TEXT_LEN + 1];
	int r;

	if (c->global.json || !made->others.n)
		return reply_print(c, OP_IMAGE_IMPORT, made, "id", err);
	id_format(&made->id, id);
	r = print_line(err, "%s  %s", id, made->name);
	for (size_t i = 0; r >= 0 && i < made->others.n; i++) {
		id_format(&others[i].id, id);
		r = print_line(err, "%s  %s", id, others[i].name);
	}
	return r;
}

static int cmd_image_import_one(struct cli *c, const char *path, struct cay_err *err)
{
	struct image_import_query query = *(const struct image_import_query *)c->args;
	struct image_info made = {};
	int r = 0;

	if (!query.name) {
		query.default_name = cmd_image_import_derive_name(c, path, err);
		r = query.default_name ? 0 : -EINVAL;
	}
	if (r >= 0)
		r = cmd_image_import_send(c, path, &query, &made, err);
	return r < 0 ? r : cmd_image_import_print(c, &made, err);
}

static int cmd_image_import_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct image_import_query *a = c->args;
	int r = 0;

	if (a->name && w->n_operands > 1)
		return cay_fail(err, CAY_E_INVALID, "image import: --name is for one PATH");
	for (size_t i = 0; r >= 0 && i < w->n_operands; i++) {
		r = cmd_image_import_one(c, w->operands[i], err);
		if (r < 0 && w->n_operands > 1)
			r = cay_err_wrap(err, r, "%s", w->operands[i]);
	}
	return r;
}

const struct cmd cmd_image_import = {
	CMD_USAGE("image import", "[--name NAME] [--json] PATH..."),
	CMD_OPERANDS(1, SIZE_MAX, OPERAND_FILE, OPERAND_FILE),
	CMD_OPTIONS(image_import_query, OPTS(import_rows, 0)),
	.help = "Import images from tar archives or OCI layout directories",
	.more = "PATH is a tar archive of an OCI layout, of 'docker save' or of a root file "
		"system, or a directory with an OCI layout. - is standard input, which must be a "
		"tar archive. Without --name every image in the archive is imported.",
	.run = cmd_image_import_run,
};

#define DIGEST_SHOWN (7 + 12) /* of "sha256:..."; --json prints all of it */

static int cmd_image_ls_format_digest(const void *row, struct buf *out)
{
	return buf_printf(out, "%.*s", DIGEST_SHOWN, ((const struct image_info *)row)->digest);
}

const struct cmd cmd_image_ls = {
	CMD_USAGE("image ls", "[--json]"),
	.help = "List images",
	.op = OP_IMAGE_LIST,
	CMD_COLUMNS({ "ID", "id" }, { "NAME", "name" }, { "SIZE", "size_bytes", AS_SIZE },
		    { "AGE", "created_at", AS_AGE },
		    { "DIGEST", .format = cmd_image_ls_format_digest }, { "TENANT", "tenant" }),
};

const struct cmd cmd_image_rm = {
	CMD_USAGE("image rm", "[--json] NAME|ID"),
	CMD_OPERANDS(1, 1, OPERAND_IMAGE),
	.help = "Remove an image that no sandbox or template uses",
	.op = OP_IMAGE_DELETE,
};
