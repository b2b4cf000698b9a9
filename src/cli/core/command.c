/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"

#include <assert.h>
#include <stdio.h>

#include "cli/print/list.h"
#include "cli/print/pager.h"
#include "cli/print/print.h"
#include "text/distance.h"

const struct cmd *const commands[] = {
#define CAY_COMMAND(group, sym) &cmd_##sym,
#include "cli/core/commands.def"
#undef CAY_COMMAND
	NULL,
};

const enum cmd_group command_groups[] = {
#define CAY_COMMAND(group, sym) GROUP_##group,
#include "cli/core/commands.def"
#undef CAY_COMMAND
};

const struct opt opts_json[1] = {
	{ "json", 0, OPT_FLAG, offsetof(struct global_options, json),
	  .help = "Print JSON on one line" },
};

const struct opt opts_everywhere[2] = {
	{ "context", 0, OPT_TEXT, offsetof(struct global_options, context),
	  .operand = OPERAND_CONTEXT, .arg = "NAME",
	  .help = "Context to use; 'local' is this machine's daemon" },
	{ "no-pager", 0, OPT_FLAG, offsetof(struct global_options, no_pager),
	  .help = "Do not page long output" },
};

const struct opt *cmd_option_at(const struct cmd *cmd, size_t i)
{
	for (const struct opt_group *g = cmd->options; g && g->rows; g++) {
		if (i < g->n)
			return &g->rows[i];
		i -= g->n;
	}
	return !cmd->no_json && i == 0 ? opts_json : NULL;
}

/* The number of words that are the command's name; 0: it is another command. */
static size_t cmd_match_words(const struct cmd *cmd, const char *const *words, size_t n)
{
	struct slice rest = slice_of(cmd->name);
	size_t i = 0;

	for (; rest.p; i++)
		if (i == n || !slice_eq(slice_cut(&rest, ' '), slice_of(words[i])))
			return 0;
	return i;
}

const struct cmd *cmd_find(const char *const *words, size_t n, size_t *ret_words)
{
	for (const struct cmd *const *c = commands; *c; c++) {
		*ret_words = cmd_match_words(*c, words, n);
		if (*ret_words)
			return *c;
	}
	return NULL;
}

const char *cmd_find_similar(const char *word)
{
	const char *best = NULL;
	unsigned least = 3;

	for (const struct cmd *const *c = commands; *c; c++) {
		unsigned d = str_edit_distance(slice_of(word), slice_of((*c)->name));

		if (d < least && d < strlen(word)) {
			least = d;
			best = (*c)->name;
		}
	}
	return best;
}

/* Append the commands of two words that begin with this word, as a hint. */
static int cmd_list_subcommands(const char *word, struct buf *out)
{
	size_t n = strlen(word);
	int r = 0;

	for (const struct cmd *const *c = commands; *c && r >= 0; c++)
		if (strncmp((*c)->name, word, n) == 0 && (*c)->name[n] == ' ')
			r = buf_printf(out, "%scay %s", out->len ? ", " : "one of: ", (*c)->name);
	return r;
}

int cmd_describe_unknown(const char *const *words, size_t n, struct buf *message, struct buf *hint)
{
	auto_buf name = BUF_INIT(KIB(1));
	const char *near;
	int r = cmd_list_subcommands(words[0], hint);
	bool two = hint->len && n > 1 && words[1][0] != '-';

	if (r >= 0)
		r = buf_printf(&name, "%.200s%s%.200s", words[0], two ? " " : "",
			       two ? words[1] : "");
	if (r >= 0 && hint->len && !two)
		return buf_printf(message, "'%s' needs a subcommand", buf_str(&name));
	near = cmd_find_similar(buf_str(&name));
	if (r >= 0)
		r = buf_printf(message, "there is no command '%s'", buf_str(&name));
	if (r < 0 || (two && !(near && strchr(near, ' '))))
		return r;
	buf_clear(hint);
	return near ? buf_printf(hint, "did you mean 'cay %s'?", near)
		    : buf_puts(hint, "'cay help' lists the commands");
}

static bool cmd_words_have_help(const char *const *words, size_t n)
{
	for (size_t i = 0; i < n && !str_eq(words[i], "--"); i++)
		if (str_eq(words[i], "--help") || str_eq(words[i], "-h"))
			return true;
	return false;
}

static int cmd_print_help(const struct cli *c, const struct cmd *cmd, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(64));

	if (help_format_command(cmd, &out) < 0)
		return cay_no_memory(err);
	return pager_show(&c->api, &out, err);
}

static int cmd_hint_usage(struct cli *c, const struct cmd *cmd, const char *near)
{
	int n = near ? snprintf(c->api.hint, sizeof(c->api.hint),
				"did you mean --%s? 'cay %s --help' lists the options", near,
				cmd->name)
		     : snprintf(c->api.hint, sizeof(c->api.hint), "cay %s %s", cmd->name,
				cmd->args);

	return n < 0 ? -EINVAL : 0;
}

static int cmd_check_words(const struct cmd *cmd, const struct opt_words *w, struct cay_err *err)
{
	if (w->n_operands < cmd->min)
		return cay_fail(err, CAY_E_INVALID, "%s: missing argument", cmd->name);
	if (cmd->rest == REST_COMMAND && (!w->rest || !w->n_rest))
		return cay_fail(err, CAY_E_INVALID, "%s: missing command", cmd->name);
	if (cmd->rest == REST_NONE && w->rest && w->n_rest)
		return cay_fail(err, CAY_E_INVALID, "%s: unexpected arguments after '--'",
				cmd->name);
	if (w->n_operands > cmd->max)
		return cay_fail(err, CAY_E_INVALID, "%s: unexpected argument '%s'", cmd->name,
				w->operands[cmd->max]);
	return 0;
}

static int cmd_refuse_remote_context(struct cli *c, const struct cmd *cmd, const char *name,
				     struct cay_err *err)
{
	int n = snprintf(c->api.hint, sizeof(c->api.hint),
			 "run it there, or 'cay --context " CONTEXT_LOCAL " %s' for this machine",
			 cmd->name);

	return n < 0 ? -EINVAL
		     : cay_fail(err, CAY_E_INVALID,
				"%s works on the local machine only, and the context is '%s'",
				cmd->name, name);
}

int cmd_load_context(struct cli *c, const char *name, struct context *ret, struct cay_err *err)
{
	int r = context_load(name, ret, err);

	if (r < 0 && err->code == CAY_E_NOT_FOUND)
		api_hint_set(&c->api, "'cay context ls' lists them; 'cay context use " CONTEXT_LOCAL
				      "' switches back to this machine");
	return r;
}

int cmd_choose_context_name(const struct cli *c, char ret[static CONTEXT_NAME_MAX + 1],
			    struct cay_err *err)
{
	const char *variable = getenv("CAY_CONTEXT"), *socket = getenv("CAY_SOCKET");
	const char *said = c->global.context;
	int r;

	if (!said && variable && variable[0])
		said = variable;
	if (!said && !(socket && socket[0]))
		return context_read_current(ret, err);
	if (!said)
		said = CONTEXT_LOCAL;
	r = str_eq(said, CONTEXT_LOCAL) ? 0 : context_name_check(said, err);
	if (r >= 0)
		memcpy(ret, said, strlen(said) + 1);
	return r;
}

static int cmd_set_server(struct cli *c, const struct cmd *cmd, struct cay_err *err)
{
	char name[CONTEXT_NAME_MAX + 1];
	int r = cmd->needs == CMD_NEEDS_NOTHING ? 0 : cmd_choose_context_name(c, name, err);

	if (r < 0 || cmd->needs == CMD_NEEDS_NOTHING)
		return r;
	if (str_eq(name, CONTEXT_LOCAL)) {
		if (!c->settings_error.code || cmd->ignores_settings_error)
			return 0;
		*err = c->settings_error;
		api_hint_set(&c->api, "correct it; 'cay config check' checks the file");
		return -cay_error_row(err->code)->errnum;
	}
	return cmd->needs == CMD_NEEDS_THIS_MACHINE
		       ? cmd_refuse_remote_context(c, cmd, name, err)
		       : cmd_load_context(c, name, &c->api.dial.context, err);
}

static int (*const cmd_finders[OPERAND_NUM])(struct api *a, const char *word, struct id *ret,
					     struct cay_err *err) = {
	[OPERAND_SANDBOX] = api_find_sandbox,   [OPERAND_IMAGE] = api_find_image,
	[OPERAND_TEMPLATE] = api_find_template, [OPERAND_TENANT] = api_find_tenant,
	[OPERAND_KEY] = api_find_key,           [OPERAND_ANY_SANDBOX] = api_find_any_sandbox,
	[OPERAND_SNAPSHOT] = api_find_snapshot, [OPERAND_VOLUME] = api_find_volume,
};

int service_name_check(const char *name, struct cay_err *err)
{
	if (op_name_is_valid(slice_of(name)))
		return 0;
	return cay_fail(err, CAY_E_INVALID,
			"service: invalid name '%s' (use letters, digits, '.', '_' and '-')", name);
}

/* Run a row without a run function. */
static int cmd_run_op(struct cli *c, const struct cmd *cmd, char *args, const struct opt_words *w,
		      struct cay_err *err)
{
	const struct op *op = &ops[cmd->op];
	struct api_call call = { .op = cmd->op,
				 .request = op->request && cmd->size ? args : NULL,
				 .query = op->query && cmd->size ? args : NULL };
	void *reply = arena_alloc(&c->arena, 1, op->response->size);
	int r = 0;

	if (!reply)
		return cay_no_memory(err);
	for (size_t i = 0; i < ARRAY_SIZE(cmd->operand_at) && i < w->n_operands; i++)
		if (cmd->operand_at[i])
			*(const char **)(void *)(args + cmd->operand_at[i] - 1) = w->operands[i];
	if (cmd->prepare)
		r = cmd->prepare(c, args, w, &call, err);
	if (r >= 0 && cmd->operands[1] == OPERAND_SERVICE) {
		r = service_name_check(w->operands[1], err);
		call.path_name = w->operands[1];
	}
	if (r >= 0 && cmd_finders[cmd->operands[0]])
		r = cmd_finders[cmd->operands[0]](&c->api, w->operands[0], &call.ids[0], err);
	if (r >= 0 && cmd->operands[1] == OPERAND_KERNEL)
		r = api_find_kernel(&c->api, &call.ids[0], w->operands[1], &call.ids[1], err);
	if (r >= 0 && cmd->columns)
		return list_print(c, &call, cmd->columns, cmd->wanted, cmd->print, err);
	if (r >= 0)
		r = api_call(&c->api, &call, reply, err);
	if (r < 0)
		return r;
	return cmd->print && !c->global.json ? cmd->print(reply, err)
					     : reply_print(c, call.op, reply, cmd->prints, err);
}

int cmd_dispatch(struct cli *c, const struct cmd *cmd, const char *const *words, size_t n,
		 struct cay_err *err)
{
	/* the options of every command lie after those of this one */
	size_t base = (cmd->size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
	char *args = arena_alloc(&c->arena, 1, base + sizeof(struct global_options));
	struct opt_group groups[OPT_GROUPS_MAX + 3] = {};
	const struct global_options *said;
	const char *near = NULL;
	struct opt_words w;
	size_t n_groups = 0, own = n;
	int r;

	if (!args)
		return cay_no_memory(err);
	said = (const void *)(args + base);
	if (cmd->defaults)
		memcpy(args, cmd->defaults, cmd->size);
	if (cmd->init_args)
		cmd->init_args(args);
	for (; cmd->options && cmd->options[n_groups].rows; n_groups++) {
		assert(n_groups < OPT_GROUPS_MAX);
		groups[n_groups] = cmd->options[n_groups];
	}
	if (!cmd->no_json)
		groups[n_groups++] = (struct opt_group)OPTS(opts_json, base);
	groups[n_groups] = (struct opt_group)OPTS(opts_everywhere, base);
	if (cmd->rest == REST_COMMAND)
		own = opt_count_own_words(groups, words, n, cmd->max);
	if (cmd_words_have_help(words, own))
		return cmd_print_help(c, cmd, err);
	r = opt_parse_words(groups, words, own, &c->arena, args, &w, &near, err);
	if (r >= 0 && own < n) {
		w.rest = words + own + str_eq(words[own], "--");
		w.n_rest = (size_t)(words + n - w.rest);
	}
	if (r >= 0)
		r = cmd_check_words(cmd, &w, err);
	if (r < 0) {
		(void)cmd_hint_usage(c, cmd, near);
		return r;
	}
	if (said->context && c->global.context)
		return cay_fail(err, CAY_E_INVALID, "--context is given twice");
	if (said->context)
		c->global.context = said->context;
	c->global.json = said->json;
	c->api.no_pager = said->no_pager || c->global.no_pager;
	r = cmd_set_server(c, cmd, err);
	if (r < 0)
		return r;
	c->args = args;
	return cmd->run ? cmd->run(c, &w, err) : cmd_run_op(c, cmd, args, &w, err);
}

int print_json(const struct field_table *t, const void *in, struct cay_err *err)
{
	auto_buf out = BUF_INIT(MIB(64));
	int r = api_json_encode(t, in, &out, err);

	if (r >= 0 && buf_putc(&out, '\n') < 0)
		return cay_no_memory(err);
	return r < 0 ? r : print_stdout(&out, err);
}

int print_json_finish(struct jw *w, struct buf *out, struct cay_err *err)
{
	if (jw_finish(w) < 0 || buf_putc(out, '\n') < 0)
		return cay_no_memory(err);
	return print_stdout(out, err);
}

struct jw json_list_begin(struct buf *out, const char *name)
{
	struct jw w = jw_to(out);

	jw_object_begin(&w, NULL);
	jw_array_begin(&w, name);
	return w;
}

int json_list_print(struct jw *w, struct buf *out, struct cay_err *err)
{
	jw_end(w);
	jw_end(w);
	return print_json_finish(w, out, err);
}

int reply_print(struct cli *c, enum op_id op, const void *reply, const char *member,
		struct cay_err *err)
{
	auto_buf value = BUF_INIT(KIB(32));

	if (c->global.json)
		return print_json(ops[op].response, reply, err);
	if (!member)
		return 0;
	if (column_format(&(struct column){ .member = member }, ops[op].response, reply, &value) <
	    0)
		return cay_no_memory(err);
	return print_line(err, "%s", buf_str(&value));
}

int api_call_print(struct cli *c, const struct api_call *call, const char *member,
		   struct cay_err *err)
{
	void *reply = arena_alloc(&c->arena, 1, ops[call->op].response->size);
	int r = reply ? api_call(&c->api, call, reply, err) : cay_no_memory(err);

	return r < 0 ? r : reply_print(c, call->op, reply, member, err);
}
