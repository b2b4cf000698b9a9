/* SPDX-License-Identifier: Apache-2.0 */
/*
 * complete-ask - names for who completes, asked of the server
 */
#include <stdio.h>

#include "cli/complete.h"
#include "cli/rows.h"

#define ROWS_MAX 500

struct names {
	const struct complete *what;
	struct buf *out;
	size_t n;
};

static int add(struct names *to, const char *name, const char *behind, const char *help)
{
	int r = name ? complete_add_told(to->what, name, behind, help, to->out) : 0;

	return r < 0 ? r : ++to->n >= ROWS_MAX;
}

static int add_sandbox(void *to, const void *row)
{
	const struct sandbox *s = row;
	struct names *names = to;
	const char *behind = names->what->what == OPERAND_PLACE ? ":" : "";
	char id[ID_TEXT_LEN + 1], help[160];

	id_format(&s->id, id);
	if (snprintf(help, sizeof(help), "%s, %.100s",
		     rows_choice(&sandbox_table, "state", s->state), s->image) < 0)
		help[0] = 0;
	/* an id is long: offered where there is no name, or where one is typed */
	return add(to, s->name && strncmp(names->what->word, "sb0", 3) != 0 ? s->name : id, behind,
		   help);
}

/* Once, however many sandboxes it has. */
static int add_group(void *to, const void *row)
{
	const struct sandbox *s = row;
	const struct names *names = to;
	struct slice lines = { buf_str(names->out), names->out->len };

	while (s->group && lines.p) {
		struct slice line = slice_cut(&lines, '\n');

		if (slice_eq((struct slice){ line.p + names->what->lead.n,
					     line.n - (line.n ? names->what->lead.n : 0) },
			     slice_of(s->group)))
			return 0;
	}
	return add(to, s->group, "", "");
}

static int add_image(void *to, const void *row)
{
	return add(to, ((const struct image *)row)->name, "", "");
}

static int add_template(void *to, const void *row)
{
	const struct template *t = row;

	return add(to, t->name, "", t->defaults.image);
}

static int add_tenant(void *to, const void *row)
{
	return add(to, ((const struct tenant *)row)->name, "", "");
}

static int add_key(void *to, const void *row)
{
	const struct key *k = row;

	return k->revoked ? 0 : add(to, k->prefix, "", k->name);
}

static const struct {
	enum op_id op;
	api_each *each;
} sources[OPERAND_NUM] = {
	[OPERAND_SANDBOX] = { OP_SANDBOX_LIST, add_sandbox },
	[OPERAND_PLACE] = { OP_SANDBOX_LIST, add_sandbox },
	[OPERAND_GROUP] = { OP_SANDBOX_LIST, add_group },
	[OPERAND_IMAGE] = { OP_IMAGE_LIST, add_image },
	[OPERAND_TEMPLATE] = { OP_TEMPLATE_LIST, add_template },
	[OPERAND_TENANT] = { OP_TENANT_LIST, add_tenant },
	[OPERAND_KEY] = { OP_KEY_LIST, add_key },
};

static int ask_services(struct cli *cli, struct names *to, struct cay_err *err)
{
	struct api_call call = { .op = OP_SERVICE_LIST };
	struct service_list all = {};
	const struct service *rows;
	int r = to->what->sandbox
			? api_find_sandbox(&cli->api, to->what->sandbox, &call.ids[0], err)
			: -ENOENT;

	if (r >= 0)
		r = api_call(&cli->api, &call, &all, err);
	rows = all.services.v;
	for (size_t i = 0; r == 0 && i < all.services.n; i++)
		r = add(to, rows[i].name, "", rows_choice(&service_table, "state", rows[i].state));
	return r;
}

static int add_contexts(const struct complete *c, struct buf *out)
{
	auto_buf names = BUF_INIT(KIB(64));
	struct cay_err none = {};
	int r = complete_add(c, CONTEXT_LOCAL, "", out);

	if (r < 0 || context_names(&names, &none) < 0)
		return r;
	for (size_t at = 0; r >= 0 && at < names.len; at += strlen(names.data + at) + 1)
		r = complete_add(c, names.data + at, "", out);
	return r;
}

/* Whom the line will ask is whom we ask. */
static int choose(struct cli *cli, const struct complete *c, struct cay_err *err)
{
	char name[CONTEXT_NAME_MAX + 1];
	int r;

	if (c->context)
		cli->said.context = c->context;
	r = cmd_asked(cli, name, err);
	return r < 0 || str_eq(name, CONTEXT_LOCAL)
		       ? r
		       : cmd_context(cli, name, &cli->api.to.context, err);
}

int complete_ask(struct cli *cli, const struct complete *c, struct buf *out)
{
	const struct sandbox_query live = { .state = "live" };
	struct names to = { .what = c, .out = out };
	struct cay_err none = {};
	int r;

	if (c->options || c->choice || c->what < OPERAND_CONTEXT)
		return 0;
	if (c->what == OPERAND_CONTEXT)
		return add_contexts(c, out);
	if (c->what == OPERAND_SHELL)
		return 0;
	/* files of a sandbox are not asked for: a key's press should not read a disk */
	if (c->what == OPERAND_PLACE && strpbrk(c->word, "/:."))
		return 0;
	r = choose(cli, c, &none);
	if (r >= 0 && c->what == OPERAND_SERVICE)
		r = ask_services(cli, &to, &none);
	else if (r >= 0)
		r = api_list(&cli->api, sources[c->what].op, &live, sources[c->what].each, &to,
			     &none);
	return r < 0 ? r : 0;
}
