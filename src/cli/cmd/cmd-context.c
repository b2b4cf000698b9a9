/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "cli/core/command.h"
#include "cli/print/print.h"
#include "cli/setup/prompt.h"

struct context_add_args {
	const char *url, *ca, *token_file;
	bool token_stdin, replace;
};

#define AT(m) offsetof(struct context_add_args, m)

static const struct opt add_rows[] = {
	{ "url", 0, OPT_TEXT, AT(url), .arg = "URL",
	  .help = "URL of its cay-edge, e.g. https://box.example:7070" },
	{ "ca", 0, OPT_TEXT, AT(ca), .operand = OPERAND_FILE, .arg = "FILE",
	  .help = "CA certificates (PEM) to trust instead of the system's" },
	{ "token-file", 0, OPT_TEXT, AT(token_file), .operand = OPERAND_FILE, .arg = "FILE",
	  .help = "File with the token, e.g. from 'cay key create --out FILE'" },
	{ "token-stdin", 0, OPT_FLAG, AT(token_stdin),
	  .help = "Read the token from standard input, without echo" },
	{ "replace", 0, OPT_FLAG, AT(replace),
	  .help = "Change an existing context; options not given stay as they are" },
};
static void cmd_context_write_json(struct jw *w, const struct context *x, bool current)
{
	char url[URL_MAX];

	jw_object_begin(w, NULL);
	jw_str(w, "name", x->name);
	if (x->url.host[0]) {
		url_format(&x->url, url);
		jw_str(w, "url", url);
	}
	if (x->ca[0])
		jw_str(w, "ca", x->ca);
	jw_bool(w, "current", current);
	jw_end(w);
}

/* A current context that cannot be read is no failure here. */
static int cmd_context_print_json(struct cli *c, const struct context *x, struct cay_err *err)
{
	char current[CONTEXT_NAME_MAX + 1] = "";
	auto_buf out = BUF_INIT(KIB(32));
	struct jw w = jw_to(&out);
	struct cay_err none = {};
	bool known = cmd_choose_context_name(c, current, &none) >= 0;

	cmd_context_write_json(&w, x, known && str_eq(x->name, current));
	return print_json_finish(&w, &out, err);
}

static int cmd_context_add_read_token(struct cli *c, const struct context_add_args *a,
				      struct context *to, struct cay_err *err)
{
	if (a->token_file && a->token_stdin)
		return cay_fail(err, CAY_E_INVALID,
				"context add: --token-file and --token-stdin cannot be combined");
	if (a->token_file || a->token_stdin)
		return prompt_token_read(
			c, &(struct prompt_token_source){ a->token_file, a->token_stdin },
			to->token, err);
	return to->token[0] ? 0
			    : cay_fail(err, CAY_E_INVALID,
				       "context add: missing --token-file FILE or --token-stdin");
}

/* Store an absolute path, after checking that the file can be used. */
static int cmd_context_add_set_ca(const char *path, struct context *to, struct cay_err *err)
{
	struct client_tls_trust *trust;
	int r;

	if (!path)
		return 0;
	if (!path[0]) { /* back to the system's certificates */
		to->ca[0] = 0;
		return 0;
	}
	static_assert(sizeof(to->ca) >= PATH_MAX);
	if (!realpath(path, to->ca))
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", path);
	r = client_tls_trust_create(to->ca, &trust, err);
	if (r >= 0)
		client_tls_trust_free(trust);
	return r;
}

static int cmd_context_add_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct context_add_args *a = c->args;
	const char *name = w->operands[0];
	auto_context to = {};
	int r = context_name_check(name, err);

	if (r >= 0 && a->replace)
		r = cmd_load_context(c, name, &to, err);
	if (r < 0)
		return r;
	memcpy(to.name, name, strlen(name) + 1);
	if (a->url)
		r = context_url_parse(a->url, &to.url, err);
	else if (!a->replace)
		r = cay_fail(err, CAY_E_INVALID, "context add: missing --url URL");
	if (r >= 0)
		r = cmd_context_add_set_ca(a->ca, &to, err);
	if (r >= 0)
		r = cmd_context_add_read_token(c, a, &to, err);
	if (r >= 0)
		r = context_save(&to, a->replace, err);
	if (r < 0 && err->code == CAY_E_CONFLICT)
		api_hint_set(&c->api, "use --replace to change it");
	if (r >= 0 && isatty(STDERR_FILENO) && !a->replace)
		print_note("use it once with 'cay --context %s ls', or by default with 'cay "
			   "context use %s'",
			   name, name);
	return r < 0 || !c->global.json ? r : cmd_context_print_json(c, &to, err);
}

const struct cmd cmd_context_add = {
	CMD_USAGE("context add", "[OPTION...] NAME"),
	CMD_OPERANDS(1, 1, OPERAND_CONTEXT),
	.needs = CMD_NEEDS_NOTHING,
	CMD_OPTIONS(context_add_args, OPTS(add_rows, 0)),
	.help = "Add a context: the URL and token of another Cay node",
	.more = "The token is never read from the command line, where every process could see it. "
		"It is stored in a file that only you can read. Nothing is sent to the server.",
	.run = cmd_context_add_run,
};

static void cmd_context_ls_add_cells(struct cli *c, struct print_table *t, const struct context *x,
				     bool current)
{
	char url[URL_MAX];
	const char *where = c->api.dial.socket;

	if (x->url.host[0]) {
		url_format(&x->url, url);
		where = url;
	} else if (!str_eq(x->name, CONTEXT_LOCAL)) {
		where = "not usable";
	}
	print_table_add_cell(t, current ? "*" : "");
	print_table_add_cell(t, x->name);
	print_table_add_cell(t, where);
	print_table_add_cell(t, x->ca[0] ? x->ca : "-");
}

struct context_list {
	struct cli *cli;
	struct print_table *table;
	struct jw *json; /* or NULL */
	char current[CONTEXT_NAME_MAX + 1];
};

/* A context that cannot be read is listed too, with a note on stderr. */
static void cmd_context_ls_add_one(struct context_list *l, const char *name)
{
	auto_context x = {};
	struct cay_err why = {};
	bool current = str_eq(name, l->current);

	if (!str_eq(name, CONTEXT_LOCAL) && context_load(name, &x, &why) < 0) {
		context_wipe(&x);
		print_note("%s", why.msg);
	}
	memcpy(x.name, name, strlen(name) + 1);
	if (l->json)
		cmd_context_write_json(l->json, &x, current);
	else
		cmd_context_ls_add_cells(l->cli, l->table, &x, current);
}

static int cmd_context_ls_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	static const char *const headings[] = { "", "NAME", "URL", "CA" };
	auto_buf names = BUF_INIT(KIB(64)), out = BUF_INIT(MIB(1));
	struct jw w = json_list_begin(&out, "contexts");
	auto_table table = print_table_create_headed(headings, ARRAY_SIZE(headings));
	struct context_list l = { .cli = c, .table = &table, .json = c->global.json ? &w : NULL };
	int r = context_list_names(&names, err);

	if (r >= 0)
		r = cmd_choose_context_name(c, l.current, err);
	if (r < 0)
		return r;
	cmd_context_ls_add_one(&l, CONTEXT_LOCAL);
	for (size_t at = 0; at < names.len; at += strlen(names.data + at) + 1)
		cmd_context_ls_add_one(&l, names.data + at);
	return l.json ? json_list_print(&w, &out, err) : print_table_stdout(&table, err);
}

const struct cmd cmd_context_ls = {
	CMD_USAGE("context ls", "[--json]"),
	.needs = CMD_NEEDS_NOTHING,
	.help = "List contexts and mark the current one; tokens are not shown",
	.run = cmd_context_ls_run,
};

static int cmd_context_show_print(struct cli *c, const struct context *x, bool current,
				  struct cay_err *err)
{
	auto_table t = print_table_create(1);
	char url[URL_MAX];

	print_table_add_cellf(&t, "name     %s%s", x->name, current ? ", current" : "");
	if (str_eq(x->name, CONTEXT_LOCAL)) {
		print_table_add_cellf(&t, "socket   %s", c->api.dial.socket);
	} else {
		url_format(&x->url, url);
		print_table_add_cellf(&t, "url      %s", url);
		print_table_add_cellf(&t, "ca       %s", x->ca[0] ? x->ca : "system default");
		print_table_add_cell(&t, "token    set, not shown");
	}
	return print_table_stdout(&t, err);
}

static int cmd_context_show_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	char current[CONTEXT_NAME_MAX + 1];
	auto_context x = {};
	int r = cmd_choose_context_name(c, current, err);
	const char *name = w->n_operands ? w->operands[0] : current;

	if (r >= 0 && !str_eq(name, CONTEXT_LOCAL))
		r = cmd_load_context(c, name, &x, err);
	if (r < 0)
		return r;
	memcpy(x.name, name, strlen(name) + 1);
	if (c->global.json)
		return cmd_context_print_json(c, &x, err);
	return cmd_context_show_print(c, &x, str_eq(name, current), err);
}

const struct cmd cmd_context_show = {
	CMD_USAGE("context show", "[--json] [NAME]"),
	CMD_OPERANDS(0, 1, OPERAND_CONTEXT),
	.needs = CMD_NEEDS_NOTHING,
	.help = "Show a context, by default the current one, without its token",
	.run = cmd_context_show_run,
};

static int cmd_context_use_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	auto_context there = { .name = CONTEXT_LOCAL };
	const char *name = w->operands[0];
	int r = str_eq(name, CONTEXT_LOCAL) ? 0 : cmd_load_context(c, name, &there, err);

	if (r >= 0)
		r = context_set_current(name, err);
	return r < 0 || !c->global.json ? r : cmd_context_print_json(c, &there, err);
}

const struct cmd cmd_context_use = {
	CMD_USAGE("context use", "[--json] NAME"),
	CMD_OPERANDS(1, 1, OPERAND_CONTEXT),
	.needs = CMD_NEEDS_NOTHING,
	.help = "Set the current context; 'local' is this machine's daemon",
	.run = cmd_context_use_run,
};

/* Prints the removed context as far as it could be read. */
static int cmd_context_rm_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	auto_context gone = {};
	struct cay_err none = {};
	const char *name = w->operands[0];
	bool known = context_load(name, &gone, &none) >= 0;
	int r = context_remove(name, err);

	if (!known)
		context_wipe(&gone);
	if (r < 0)
		api_hint_set(&c->api, err->code == CAY_E_CONFLICT
					      ? "first 'cay context use " CONTEXT_LOCAL
						"', or switch to another one"
				      : err->code == CAY_E_NOT_FOUND ? "'cay context ls' lists them"
								     : "");
	if (r < 0 || !c->global.json)
		return r;
	memcpy(gone.name, name,
	       strlen(name) + 1); /* context_remove() has checked the name's length */
	return cmd_context_print_json(c, &gone, err);
}

const struct cmd cmd_context_rm = {
	CMD_USAGE("context rm", "[--json] NAME"),
	CMD_OPERANDS(1, 1, OPERAND_CONTEXT),
	.needs = CMD_NEEDS_NOTHING,
	.help = "Delete a context and its token; the key stays valid",
	.run = cmd_context_rm_run,
};
