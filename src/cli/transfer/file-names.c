/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/file-names.h"

#include "base/clock.h"
#include "cli/print/list.h"
#include "cli/print/pager.h"
#include "cli/print/print.h"
#include "cli/print/progress.h"
#include "cli/transfer/remote-path.h"
#include "text/base64.h"

#define OUT_MAX MIB(16)

int file_name_format(struct buf *out, const char *text, const char *b64)
{
	auto_free char *raw = NULL;
	size_t n = 0;

	if (!b64)
		return print_append_escaped(out, slice_of(text ? text : ""));
	raw = malloc(strlen(b64) + 1);
	if (!raw)
		return -ENOMEM;
	if (base64_decode(b64, strlen(b64), (uint8_t *)raw, &n) < 0)
		return print_append_escaped(out, slice_of(b64));
	return print_append_escaped(out, (struct slice){ raw, n });
}

static int file_names_format_entry(const struct file_stat *f, uint64_t now, struct buf *out)
{
	auto_buf size = BUF_INIT(32);
	char age[PRINT_AGE_MAX];
	int r = byte_size_format(f->size, &size);

	print_age_format(now, f->mtime_ns, age);
	if (r >= 0)
		r = buf_printf(out, "%-9s  %s  %10s  %8s  ",
			       field_choice_name(&file_stat_table, "type", f->type), f->mode,
			       buf_str(&size), age);
	if (r >= 0)
		r = file_name_format(out, f->path, f->path_b64);
	if (r >= 0 && (f->target || f->target_b64)) {
		r = buf_puts(out, " -> ");
		if (r >= 0)
			r = file_name_format(out, f->target, f->target_b64);
	}
	return r < 0 ? r : buf_putc(out, '\n');
}

int file_names_print_dir(struct cli *c, const char *word, bool json, struct cay_err *err)
{
	auto_buf out = BUF_INIT(OUT_MAX);
	uint64_t now = clk_wall_ns(&clk_system);
	struct file_list got = {};
	const struct file_stat *entries;
	struct remote_path at;
	int r = remote_path_parse_in_sandbox(c, word, &at, err);
	struct file_list_query query = {
		.path = at.path, .depth = 1, .limit = 10000, .timeout_ms = 10000
	};

	if (r >= 0)
		r = api_call(&c->api,
			     &(struct api_call){
				     .op = OP_FILE_LIST, .ids = { at.sandbox }, .query = &query },
			     &got, err);
	if (r < 0 || json)
		return r < 0 ? r : print_json(&file_list_table, &got, err);
	entries = got.entries.v;
	for (size_t i = 0; i < got.entries.n; i++)
		if (file_names_format_entry(&entries[i], now, &out) < 0)
			return cay_no_memory(err);
	r = pager_show(&c->api, &out, err);
	if (r >= 0 && got.truncated)
		print_note("there are more files than are listed");
	return r;
}
