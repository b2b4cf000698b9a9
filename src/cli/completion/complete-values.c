/* SPDX-License-Identifier: Apache-2.0 */
/* complete-values - names from the server and from contexts */
#include <stdio.h>

#include "cli/completion/complete.h"
#include "cli/print/list.h"

#define ROWS_MAX 500

struct complete_names {
	const struct complete *what;
	struct buf *out;
	size_t n;
};

static int complete_add_name(struct complete_names *to, const char *name, const char *behind,
			     const char *help)
{
	int r = name ? complete_add_server_name(to->what, name, behind, help, to->out) : 0;

	return r < 0 ? r : ++to->n >= ROWS_MAX;
}

static int complete_add_sandbox(void *to, const void *row)
{
	const struct sandbox_info *s = row;
	struct complete_names *names = to;
	const char *behind = names->what->operand == OPERAND_LOCAL_OR_REMOTE_PATH ? ":" : "";
	char id[ID_TEXT_LEN + 1], help[160];

	id_format(&s->id, id);
	if (snprintf(help, sizeof(help), "%s, %.100s",
		     field_choice_name(&sandbox_info_table, "state", s->state), s->image) < 0)
		help[0] = 0;
	/* ids are long: offered only without a name, or if the word begins like one */
	return complete_add_name(
		to, s->name && strncmp(names->what->word, "sb0", 3) != 0 ? s->name : id, behind,
		help);
}

/* Each group once. */
static int complete_add_group(void *to, const void *row)
{
	const struct sandbox_info *s = row;
	const struct complete_names *names = to;
	struct slice lines = { buf_str(names->out), names->out->len };

	while (s->group && lines.p) {
		struct slice line = slice_cut(&lines, '\n');

		if (slice_eq((struct slice){ line.p + names->what->prefix.n,
					     line.n - (line.n ? names->what->prefix.n : 0) },
			     slice_of(s->group)))
			return 0;
	}
	return complete_add_name(to, s->group, "", "");
}

static int complete_add_image(void *to, const void *row)
{
	return complete_add_name(to, ((const struct image_info *)row)->name, "", "");
}

static int complete_add_template(void *to, const void *row)
{
	const struct template_info *t = row;

	return complete_add_name(to, t->name, "", t->defaults.image ? t->defaults.image : "");
}

static int complete_add_snapshot(void *to, const void *row)
{
	const struct snapshot_info *s = row;

	return s->name ? complete_add_name(to, s->name, "", s->image) : 0;
}

static int complete_add_volume(void *to, const void *row)
{
	return complete_add_name(to, ((const struct volume_info *)row)->name, "", "");
}

static int complete_add_tenant(void *to, const void *row)
{
	return complete_add_name(to, ((const struct tenant_info *)row)->name, "", "");
}

static int complete_add_key(void *to, const void *row)
{
	const struct key_info *k = row;

	return k->revoked ? 0 : complete_add_name(to, k->prefix, "", k->name);
}

static const struct {
	enum op_id op;
	api_each *each;
} complete_sources[OPERAND_NUM] = {
	[OPERAND_SANDBOX] = { OP_SANDBOX_LIST, complete_add_sandbox },
	[OPERAND_ANY_SANDBOX] = { OP_SANDBOX_LIST, complete_add_sandbox },
	[OPERAND_LOCAL_OR_REMOTE_PATH] = { OP_SANDBOX_LIST, complete_add_sandbox },
	[OPERAND_GROUP] = { OP_SANDBOX_LIST, complete_add_group },
	[OPERAND_IMAGE] = { OP_IMAGE_LIST, complete_add_image },
	[OPERAND_TEMPLATE] = { OP_TEMPLATE_LIST, complete_add_template },
	[OPERAND_SNAPSHOT] = { OP_SNAPSHOT_LIST, complete_add_snapshot },
	[OPERAND_VOLUME] = { OP_VOLUME_LIST, complete_add_volume },
	[OPERAND_TENANT] = { OP_TENANT_LIST, complete_add_tenant },
	[OPERAND_KEY] = { OP_KEY_LIST, complete_add_key },
};

static int complete_add_services(struct cli *cli, struct complete_names *to, struct cay_err *err)
{
	struct api_call call = { .op = OP_SERVICE_LIST };
	struct service_list all = {};
	const struct service_info *rows;
	int r = to->what->sandbox
			? api_find_sandbox(&cli->api, to->what->sandbox, &call.ids[0], err)
			: -ENOENT;

	if (r >= 0)
		r = api_call(&cli->api, &call, &all, err);
	rows = all.services.v;
	for (size_t i = 0; r == 0 && i < all.services.n; i++)
		r = complete_add_name(
			to, rows[i].name, "",
			field_choice_name(&service_info_table, "state", rows[i].state));
	return r;
}

static int complete_add_kernels(struct cli *cli, struct complete_names *to, struct cay_err *err)
{
	struct api_call call = { .op = OP_KERNEL_LIST };
	struct kernel_list all = {};
	const struct kernel_info *rows;
	int r = to->what->sandbox
			? api_find_sandbox(&cli->api, to->what->sandbox, &call.ids[0], err)
			: -ENOENT;

	if (r >= 0)
		r = api_call(&cli->api, &call, &all, err);
	rows = all.kernels.v;
	for (size_t i = 0; r == 0 && i < all.kernels.n; i++) {
		char id[ID_TEXT_LEN + 1];

		id_format(&rows[i].id, id);
		r = complete_add_name(to, rows[i].name ? rows[i].name : id, "", rows[i].language);
	}
	return r;
}

static int complete_add_contexts(const struct complete *c, struct buf *out)
{
	auto_buf names = BUF_INIT(KIB(64));
	struct cay_err none = {};
	int r = complete_add_word(c, CONTEXT_LOCAL, "", out);

	if (r < 0 || context_list_names(&names, &none) < 0)
		return r;
	for (size_t at = 0; r >= 0 && at < names.len; at += strlen(names.data + at) + 1)
		r = complete_add_word(c, names.data + at, "", out);
	return r;
}

int complete_from_server(struct cli *cli, const struct complete *c, struct buf *out)
{
	const struct sandbox_query live = { .state = "live" };
	struct complete_names to = { .what = c, .out = out };
	char context[CONTEXT_NAME_MAX + 1];
	struct cay_err none = {};
	int r;

	if (c->wants_option || c->choice_opt || c->operand < OPERAND_CONTEXT ||
	    c->operand == OPERAND_SHELL)
		return 0;
	if (c->operand == OPERAND_CONTEXT)
		return complete_add_contexts(c, out);
	/* files in a sandbox are not completed: a key press must not read its disk */
	if (c->operand == OPERAND_LOCAL_OR_REMOTE_PATH && strpbrk(c->word, "/:."))
		return 0;
	if (c->context)
		cli->global.context = c->context;
	r = cmd_choose_context_name(cli, context, &none);
	if (r >= 0 && !str_eq(context, CONTEXT_LOCAL))
		r = cmd_load_context(cli, context, &cli->api.dial.context, &none);
	if (r >= 0 && c->operand == OPERAND_SERVICE)
		r = complete_add_services(cli, &to, &none);
	else if (r >= 0 && c->operand == OPERAND_KERNEL)
		r = complete_add_kernels(cli, &to, &none);
	else if (r >= 0)
		r = api_list_each(&cli->api, complete_sources[c->operand].op, &live,
				  complete_sources[c->operand].each, &to, &none);
	return r < 0 ? r : 0;
}
