/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "cli/print/print.h"

/* "key=value" sets, "key-" removes; the daemon checks the key. */
static int cmd_label_parse_change(struct cli *c, const char *word, struct field_map *to,
				  struct cay_err *err)
{
	struct slice value = slice_of(word), key = slice_cut(&value, '=');

	if (!value.p && key.n && key.p[key.n - 1] == '-')
		key.n--;
	else if (!value.p)
		key.n = 0;
	if (!key.n)
		return cay_fail(err, CAY_E_INVALID, "label: '%s' is neither KEY=VALUE nor KEY-",
				word);
	for (size_t i = 0; i < to->n; i++)
		if (slice_eq(slice_of(to->keys[i]), key))
			return cay_fail(err, CAY_E_INVALID, "label: '%s' is given twice",
					to->keys[i]);
	to->keys[to->n] = arena_strndup(&c->arena, key.p, key.n);
	to->values[to->n] = value.p;
	return to->keys[to->n++] ? 0 : cay_no_memory(err);
}

static int cmd_label_parse_changes(struct cli *c, const char **words, size_t n,
				   struct field_map *ret, struct cay_err *err)
{
	int r = 0;

	ret->keys = arena_alloc(&c->arena, n + 1, sizeof(*ret->keys));
	ret->values = arena_alloc(&c->arena, n + 1, sizeof(*ret->values));
	if (!ret->keys || !ret->values)
		return cay_no_memory(err);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = cmd_label_parse_change(c, words[i], ret, err);
	return r;
}

static int cmd_label_print(const struct field_map *labels, struct cay_err *err)
{
	auto_table t = print_table_create(1);

	for (size_t i = 0; i < labels->n; i++)
		print_table_add_cellf(&t, "%s=%s", labels->keys[i], labels->values[i]);
	return print_table_stdout(&t, err);
}

static int cmd_label_run(struct cli *c, const void *, const struct opt_words *w,
			 struct cay_err *err)
{
	struct sandbox_labels request = {};
	struct api_call call = { .op = OP_SANDBOX_GET, .request = &request };
	struct sandbox_info now = {};
	int r = cmd_label_parse_changes(c, w->operands + 1, w->n_operands - 1, &request.labels,
					err);

	if (r >= 0)
		r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);
	if (r >= 0 && request.labels.n)
		call.op = OP_SANDBOX_LABELS;
	if (r >= 0)
		r = api_call(&c->api, &call, &now, err);
	if (r < 0)
		return r;
	return c->global.json ? print_json(&sandbox_info_table, &now, err)
			      : cmd_label_print(&now.labels, err);
}

const struct cmd cmd_label = {
	.name = "label",
	.args = "[--json] SANDBOX [KEY=VALUE | KEY-]...",
	CMD_OPERANDS(1, SIZE_MAX, OPERAND_SANDBOX),
	.json = true,
	.help = "Set or remove labels of a sandbox and print the result",
	.more = "KEY=VALUE sets a label, KEY- removes it. Either all of them change or none does.",
	.run = cmd_label_run,
};
