/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cmd/package-preset.h"
#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"

#define PORTS_MAX 4

/* "NAME", or "NAME:PORTS" with ports separated by commas; the server checks them. */
static int egress_word_read(struct cli *c, const char *word, unsigned action,
			    struct egress_rule_spec *ret, struct cay_err *err)
{
	struct slice ports = slice_of(word), name = slice_cut(&ports, ':');

	*ret = (struct egress_rule_spec){ .action = action, .has_ports = ports.p != NULL };
	ret->to = arena_strndup(&c->arena, name.p, name.n);
	ret->ports.v = arena_alloc(&c->arena, PORTS_MAX, sizeof(*ret->ports.v));
	if (!ret->to || !ret->ports.v)
		return cay_no_memory(err);
	while (ports.p) {
		struct slice one = slice_cut(&ports, ',');

		if (ret->ports.n == PORTS_MAX)
			return cay_fail(err, CAY_E_INVALID, "'%s' has more than %d ports", word,
					PORTS_MAX);
		ret->ports.v[ret->ports.n] = arena_strndup(&c->arena, one.p, one.n);
		if (!ret->ports.v[ret->ports.n++])
			return cay_no_memory(err);
	}
	return 0;
}

static int egress_words_read(struct cli *c, const char *const *words, size_t n, unsigned action,
			     struct field_list *rules, struct cay_err *err)
{
	struct egress_rule_spec *rows = rules->v;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = egress_word_read(c, words[i], action, &rows[rules->n++], err);
	return r;
}

int egress_options_apply(struct cli *c, const struct egress_options *o, struct egress_spec *ret,
			 struct cay_err *err)
{
	int r;

	*ret = (struct egress_spec){ .presets = o->presets,
				     .has_presets = o->presets.n > 0,
				     .expose = o->expose,
				     .has_expose = o->expose.n > 0,
				     .otherwise = EGRESS_SPEC_DENY };
	ret->rules.v = arena_alloc(&c->arena, o->deny.n + o->allow.n + o->ask.n + 1,
				   sizeof(struct egress_rule_spec));
	if (!ret->rules.v)
		return cay_no_memory(err);
	r = egress_words_read(c, o->deny.v, o->deny.n, EGRESS_SPEC_DENY, &ret->rules, err);
	if (r >= 0)
		r = egress_words_read(c, o->allow.v, o->allow.n, EGRESS_SPEC_ALLOW, &ret->rules,
				      err);
	return r < 0 ? r
		     : egress_words_read(c, o->ask.v, o->ask.n, EGRESS_SPEC_ASK, &ret->rules, err);
}

/* A name has a dot or a star, a preset has neither. */
static bool word_is_preset(const char *word)
{
	return !strpbrk(word, ".*");
}

int egress_words_apply(struct cli *c, const struct field_texts *words, struct egress_spec *ret,
		       struct cay_err *err)
{
	const char **presets = arena_alloc(&c->arena, words->n + 1, sizeof(*presets));
	const char **names = arena_alloc(&c->arena, words->n + 1, sizeof(*names));
	struct egress_options o = { .presets = { presets, 0 }, .allow = { names, 0 } };

	if (!presets || !names)
		return cay_no_memory(err);
	for (size_t i = 0; i < words->n; i++)
		if (word_is_preset(words->v[i]))
			presets[o.presets.n++] = words->v[i];
		else
			names[o.allow.n++] = words->v[i];
	return egress_options_apply(c, &o, ret, err);
}

static int egress_rule_write_target(const struct egress_rule_spec *rule, struct buf *ret)
{
	int r = buf_puts(ret, rule->to);

	for (size_t i = 0; r >= 0 && i < rule->ports.n; i++)
		r = buf_printf(ret, "%s%s", i ? "," : ":", rule->ports.v[i]);
	return r;
}

int egress_words_write(const struct egress_spec *spec, struct buf *ret)
{
	const struct egress_rule_spec *rules = spec->rules.v;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < spec->rules.n; i++) {
		r = buf_puts(ret, rules[i].action == EGRESS_SPEC_DENY  ? "not "
				  : rules[i].action == EGRESS_SPEC_ASK ? "ask "
								       : "");
		if (r >= 0)
			r = egress_rule_write_target(&rules[i], ret);
		if (r >= 0)
			r = buf_putc(ret, ' ');
	}
	for (size_t i = 0; r >= 0 && i < spec->presets.n; i++)
		r = buf_printf(ret, "%s ", spec->presets.v[i]);
	return r < 0 ? r
		     : buf_puts(ret, spec->otherwise != EGRESS_SPEC_DENY ? "and all others"
				     : spec->rules.n || spec->presets.n  ? ""
									 : "none");
}

static void egress_add_rule(struct print_table *t, const struct egress_rule_spec *rule)
{
	auto_buf text = BUF_INIT(KIB(1));
	int r = egress_rule_write_target(rule, &text);

	print_table_add_pair(t, field_choice_name(&egress_rule_spec_table, "action", rule->action),
			     "%s", r < 0 ? rule->to : buf_str(&text));
}

static void egress_add_answer(struct print_table *t, const struct egress_remembered *a)
{
	print_table_add_pair(t, "answered", "%s %s:%llu",
			     field_choice_name(&egress_remembered_table, "verdict", a->verdict),
			     a->to, (unsigned long long)a->port);
}

static int cmd_egress_print(const void *reply, struct cay_err *err)
{
	const struct egress_info *e = reply;
	const struct egress_rule_spec *rules = e->policy.rules.v;
	auto_table t = print_table_create(2);

	print_table_add_pair(&t, "generation", "%llu", (unsigned long long)e->generation);
	print_table_add_pair(&t, "digest", "%s", e->digest);
	print_table_add_pair(&t, "attached", "%s", e->attached ? "yes" : "no");
	for (size_t i = 0; i < e->policy.rules.n; i++)
		egress_add_rule(&t, &rules[i]);
	for (size_t i = 0; i < e->policy.presets.n; i++)
		print_table_add_pair(&t, "preset", "%s", e->policy.presets.v[i]);
	print_table_add_pair(&t, "default", "%s",
			     field_choice_name(&egress_spec_table, "default", e->policy.otherwise));
	for (size_t i = 0; i < e->policy.expose.n; i++)
		print_table_add_pair(&t, "expose", "%s", e->policy.expose.v[i]);
	for (size_t i = 0; i < e->answers.n; i++)
		egress_add_answer(&t, &((const struct egress_remembered *)e->answers.v)[i]);
	return print_table_stdout(&t, err);
}

const struct cmd cmd_egress_show = {
	CMD_USAGE("egress show", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "Show where the connections of a sandbox may go",
	.op = OP_EGRESS_GET,
	.print = cmd_egress_print,
};

struct egress_set_args {
	struct egress_spec request;
	struct egress_options options;
};

#define AT(m) offsetof(struct egress_set_args, options.m)
static const struct opt set_rows[] = {
	{ "preset", 0, OPT_TEXTS, AT(presets), .arg = "NAME",
	  .help = "Allow what this preset allows; may be repeated" },
	{ "allow", 0, OPT_TEXTS, AT(allow), .arg = "NAME[:PORTS]",
	  .help = "Allow this name, *.NAME, or network; may be repeated" },
	{ "ask", 0, OPT_TEXTS, AT(ask), .arg = "NAME[:PORTS]",
	  .help = "Let connections to it wait for an answer, after all that is allowed; may be "
		  "repeated" },
	{ "deny", 0, OPT_TEXTS, AT(deny), .arg = "NAME[:PORTS]",
	  .help = "Deny it, before anything is allowed; may be repeated" },
	{ "expose", 0, OPT_TEXTS, AT(expose), .arg = "PORTS",
	  .help = "Port, or range, that sandboxes of its group may connect to; may be repeated" },
};

static int cmd_egress_set_prepare(struct cli *c, void *args, const struct opt_words *,
				  struct api_call *call, struct cay_err *err)
{
	struct egress_set_args *a = args;

	call->query = NULL; /* args are the request */
	return egress_options_apply(c, &a->options, &a->request, err);
}

const struct cmd cmd_egress_set = {
	CMD_USAGE("egress set",
		  "[--preset NAME]... [--allow NAME[:PORTS]]... [--ask NAME[:PORTS]]... "
		  "[--deny NAME[:PORTS]]... [--expose PORTS]... SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	CMD_OPTIONS(egress_set_args, OPTS(set_rows, 0)),
	.help = "Replace the egress policy of a sandbox and print it",
	.more = "Without options nothing is allowed. A name without ports is for port 443.",
	.prepare = cmd_egress_set_prepare,
	.op = OP_EGRESS_PUT,
	.print = cmd_egress_print,
};

static int cmd_egress_change(struct cli *c, const char *sandbox, const struct egress_patch *request,
			     struct cay_err *err)
{
	struct api_call call = { .op = OP_EGRESS_PATCH, .request = request };
	struct egress_info changed = {};
	int r = api_find_sandbox(&c->api, sandbox, &call.ids[0], err);

	if (r >= 0)
		r = api_call(&c->api, &call, &changed, err);
	if (r < 0)
		return r;
	return c->global.json ? print_json(&egress_info_table, &changed, err)
			      : cmd_egress_print(&changed, err);
}

/* The new rules come before those there are. */
static int cmd_egress_add(struct cli *c, const struct opt_words *w, unsigned action,
			  struct cay_err *err)
{
	struct egress_patch request = {};
	int r;

	request.rules.v = arena_alloc(&c->arena, w->n_operands, sizeof(struct egress_rule_spec));
	if (!request.rules.v)
		return cay_no_memory(err);
	r = egress_words_read(c, w->operands + 1, w->n_operands - 1, action, &request.rules, err);
	return r < 0 ? r : cmd_egress_change(c, w->operands[0], &request, err);
}

static int cmd_egress_allow_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	return cmd_egress_add(c, w, EGRESS_SPEC_ALLOW, err);
}

static int cmd_egress_deny_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	return cmd_egress_add(c, w, EGRESS_SPEC_DENY, err);
}

const struct cmd cmd_egress_allow = {
	CMD_USAGE("egress allow", "[--json] SANDBOX NAME[:PORTS]..."),
	CMD_OPERANDS(2, SIZE_MAX, OPERAND_SANDBOX, OPERAND_FREE),
	.help = "Allow more names in the egress policy of a sandbox",
	.more = "The new rules come first. A name without ports is for port 443.",
	.run = cmd_egress_allow_run,
};

const struct cmd cmd_egress_deny = {
	CMD_USAGE("egress deny", "[--json] SANDBOX NAME[:PORTS]..."),
	CMD_OPERANDS(2, SIZE_MAX, OPERAND_SANDBOX, OPERAND_FREE),
	.help = "Deny names in the egress policy of a sandbox",
	.more = "The new rules come first. A name without ports is for port 443.",
	.run = cmd_egress_deny_run,
};

static int cmd_egress_forget_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct egress_patch request = { .remove = { w->operands + 1, w->n_operands - 1 },
					      .has_remove = true };

	return cmd_egress_change(c, w->operands[0], &request, err);
}

const struct cmd cmd_egress_forget = {
	CMD_USAGE("egress forget", "[--json] SANDBOX NAME..."),
	CMD_OPERANDS(2, SIZE_MAX, OPERAND_SANDBOX, OPERAND_FREE),
	.help = "Remove the rules for names from the egress policy of a sandbox",
	.more = "NAME is the target of a rule, such as '*.example.com'. Rules of presets stay.",
	.run = cmd_egress_forget_run,
};

static const struct opt check_rows[] = {
	{ "port", 'p', OPT_U64, offsetof(struct egress_check, port), .min = 1, .max = 65535,
	  .arg = "N", .help = "Port; 443 without it" },
	{ "method", 0, OPT_TEXT, offsetof(struct egress_check, method), .arg = "METHOD",
	  .help = "With --path, the method of the request; GET without it" },
	{ "path", 0, OPT_TEXT, offsetof(struct egress_check, path), .arg = "PATH",
	  .help = "Judge a request for this path instead of a connection" },
};

static void egress_check_init(void *args)
{
	((struct egress_check *)args)->port = 443;
}

static int cmd_egress_check_print(const void *reply, struct cay_err *err)
{
	const struct egress_checked *v = reply;
	auto_table t = print_table_create(2);

	print_table_add_pair(&t, field_choice_name(&egress_checked_table, "verdict", v->verdict),
			     "%s", v->reason);
	if (v->mirror)
		print_table_add_pair(&t, "mirror", "%s", v->mirror);
	return print_table_stdout(&t, err);
}

const struct cmd cmd_egress_check = {
	CMD_USAGE("egress check",
		  "[--port N] [--path PATH [--method METHOD]] [--json] SANDBOX NAME"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX, OPERAND_FREE),
	CMD_OPTIONS(egress_check, OPTS(check_rows, 0)),
	.init_args = egress_check_init,
	.operand_at = { 0, OPERAND_AT(egress_check, to) },
	.help = "Show whether a sandbox may connect to NAME, and which rule decides",
	.op = OP_EGRESS_CHECK,
	.print = cmd_egress_check_print,
};

static int egress_flow_format_target(const void *row, struct buf *out)
{
	const struct egress_flow *f = row;
	const char *to = f->name ? f->name : f->address;

	return buf_printf(out, "%s:%llu", to ? to : "-", (unsigned long long)f->port);
}

const struct cmd cmd_egress_flows = {
	CMD_USAGE("egress flows", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "List the open connections out of a sandbox",
	.op = OP_EGRESS_FLOWS,
	CMD_COLUMNS({ "TO", NULL, AS_VALUE, egress_flow_format_target }, { "ADDRESS", "address" },
		    { "STATE", "state" }, { "SINCE", "since", AS_AGE },
		    { "SENT", "up_bytes", AS_SIZE }, { "RECEIVED", "down_bytes", AS_SIZE }),
};

static const struct opt cut_rows[] = {
	{ "port", 'p', OPT_U64, offsetof(struct egress_cut_spec, port), .min = 1, .max = 65535,
	  .arg = "N", .help = "Cut those to this port only" },
};

static int cmd_egress_cut_prepare(struct cli *, void *args, const struct opt_words *,
				  struct api_call *, struct cay_err *)
{
	struct egress_cut_spec *spec = args;

	spec->has_port = spec->port > 0;
	return 0;
}

static int cmd_egress_cut_print(const void *reply, struct cay_err *)
{
	const struct egress_cut_done *done = reply;

	print_note("%llu connections cut", (unsigned long long)done->connections);
	return 0;
}

const struct cmd cmd_egress_cut = {
	CMD_USAGE("egress cut", "[--port N] [--json] SANDBOX [NAME]"),
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX, OPERAND_FREE),
	CMD_OPTIONS(egress_cut_spec, OPTS(cut_rows, 0)),
	.operand_at = { 0, OPERAND_AT(egress_cut_spec, to) },
	.help = "Reset the open connections of a sandbox to NAME, or all of them",
	.more = "The policy stays as it is: a program may connect again. 'cay egress deny' "
		"prevents "
		"it.",
	.prepare = cmd_egress_cut_prepare,
	.op = OP_EGRESS_CUT,
	.print = cmd_egress_cut_print,
};

static int cmd_egress_presets_print(const void *reply, struct cay_err *err)
{
	const struct preset_list *list = reply;
	const struct preset_info *rows = list->presets.v;
	auto_table t = print_table_create(3);

	for (size_t i = 0; i < list->presets.n; i++) {
		print_table_add_cell(&t, rows[i].name);
		print_table_add_cellf(&t, "%zu rules", rows[i].rules.n);
		print_table_add_cell(&t, rows[i].help ? rows[i].help : "");
	}
	return print_table_stdout(&t, err);
}

struct egress_presets_args {
	bool discover, read_only;
	const char *root;
};

static const struct opt presets_rows[] = {
	{ "discover", 0, OPT_FLAG, offsetof(struct egress_presets_args, discover),
	  .help = "Print a preset of the hosts that the package clients of this machine use" },
	{ "read-only", 0, OPT_FLAG, offsetof(struct egress_presets_args, read_only),
	  .help = "With --discover, allow requests with GET and HEAD only" },
	{ "root", 0, OPT_TEXT, offsetof(struct egress_presets_args, root), .arg = "DIR",
	  .help = "With --discover, of the system in DIR, such as the files of an image" },
};

static int cmd_egress_presets_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	const struct egress_presets_args *a = c->args;
	struct api_call call = { .op = OP_PRESET_LIST };
	auto_buf text = BUF_INIT(PACKAGE_PRESET_MAX);
	struct preset_list list = {};
	int r;

	if (a->discover) {
		r = package_preset_write(a->root, a->read_only, &text, err);
		return r < 0 ? r : print_stdout(&text, err);
	}
	if (a->root || a->read_only)
		return cay_fail(err, CAY_E_INVALID, "--root and --read-only need --discover");
	r = api_call(&c->api, &call, &list, err);
	if (r < 0)
		return r;
	return c->global.json ? print_json(&preset_list_table, &list, err)
			      : cmd_egress_presets_print(&list, err);
}

const struct cmd cmd_egress_presets = {
	CMD_USAGE("egress presets", "[--json] [--discover [--read-only] [--root DIR]]"),
	CMD_OPTIONS(egress_presets_args, OPTS(presets_rows, 0)),
	.help = "List the presets for egress policies; --json has their rules",
	.more = "With --discover, read the configuration of apt, pip, uv, npm, cargo, go and "
		"maven, and the variables of this shell, and print the hosts as the file of a "
		"preset: 'cay egress presets --discover > /etc/cay/egress.d/packages.conf'. "
		"Restart cayd to use it.",
	.run = cmd_egress_presets_run,
};
