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

/* Without changes it only prints. */
static int cmd_label_prepare(struct cli *c, void *args, const struct opt_words *w,
			     struct api_call *call, struct cay_err *err)
{
	struct field_map *labels = &((struct sandbox_labels *)args)->labels;
	int r = 0;

	labels->keys = arena_alloc(&c->arena, w->n_operands, sizeof(*labels->keys));
	labels->values = arena_alloc(&c->arena, w->n_operands, sizeof(*labels->values));
	if (!labels->keys || !labels->values)
		return cay_no_memory(err);
	for (size_t i = 1; r >= 0 && i < w->n_operands; i++)
		r = cmd_label_parse_change(c, w->operands[i], labels, err);
	if (!labels->n)
		call->op = OP_SANDBOX_GET;
	return r;
}

static int cmd_label_print(const void *reply, struct cay_err *err)
{
	const struct field_map *labels = &((const struct sandbox_info *)reply)->labels;
	auto_table t = print_table_create(1);

	for (size_t i = 0; i < labels->n; i++)
		print_table_add_cellf(&t, "%s=%s", labels->keys[i], labels->values[i]);
	return print_table_stdout(&t, err);
}

const struct cmd cmd_label = {
	CMD_USAGE("label", "[--json] SANDBOX [KEY=VALUE | KEY-]..."),
	CMD_OPERANDS(1, SIZE_MAX, OPERAND_SANDBOX),
	.help = "Set or remove labels of a sandbox and print the result",
	.more = "KEY=VALUE sets a label, KEY- removes it. Either all of them change or none does.",
	.size = sizeof(struct sandbox_labels),
	.prepare = cmd_label_prepare,
	.op = OP_SANDBOX_LABELS,
	.print = cmd_label_print,
};
