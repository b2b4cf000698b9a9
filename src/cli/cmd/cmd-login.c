/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-login - save a server and a key after checking them */
#include <stdio.h>

#include "cli/core/command.h"
#include "cli/print/print.h"
#include "cli/setup/prompt.h"

struct login_args {
	const char *name, *ca, *token_file;
};

static const struct opt rows[] = {
	{ "name", 0, OPT_TEXT, offsetof(struct login_args, name), .operand = OPERAND_CONTEXT,
	  .arg = "NAME", .help = "Name of the context; by default the first part of the host" },
	{ "ca", 0, OPT_TEXT, offsetof(struct login_args, ca), .operand = OPERAND_FILE,
	  .arg = "FILE", .help = "CA certificates (PEM) to trust instead of the system's" },
	{ "token-file", 0, OPT_TEXT, offsetof(struct login_args, token_file),
	  .operand = OPERAND_FILE, .arg = "FILE",
	  .help = "File with the key; by default it is prompted for or read from a pipe" },
};

/* Accepts "box.example:7070" as well as a URL. */
static int cmd_login_parse_url(const char *text, struct url *ret, struct cay_err *err)
{
	auto_buf url = BUF_INIT(URL_MAX);
	bool near = strncmp(text, "localhost", 9) == 0 || strncmp(text, "127.", 4) == 0 ||
		    strncmp(text, "[::1]", 5) == 0;

	if (strstr(text, "://"))
		return context_url_parse(text, ret, err);
	if (buf_printf(&url, "%s%s", near ? "http://" : "https://", text) < 0)
		return cay_fail(err, CAY_E_INVALID, "the URL is too long");
	return context_url_parse(buf_str(&url), ret, err);
}

/* The first label of the host, if it is a valid name. */
static int cmd_login_choose_name(const char *said, const struct url *url,
				 char ret[static CONTEXT_NAME_MAX + 1], struct cay_err *err)
{
	struct slice rest = slice_of(url->host), first = slice_cut(&rest, '.');
	int r;

	if (said) {
		r = context_name_check(said, err);
		if (r >= 0)
			memcpy(ret, said, strlen(said) + 1);
		return r;
	}
	if (url->address || !str_is_dns_label(first) || slice_eq(first, slice_of(CONTEXT_LOCAL)))
		first = SLICE("server");
	memcpy(ret, first.p, first.n);
	ret[first.n] = 0;
	return 0;
}

static bool cmd_login_url_is_same(const struct url *a, const struct url *b)
{
	char x[URL_MAX], y[URL_MAX];

	url_format(a, x);
	url_format(b, y);
	return str_eq(x, y);
}

/* Returns 1 if an existing context of the same server is replaced. */
static int cmd_login_check_replace(struct cli *c, const struct context *to, struct cay_err *err)
{
	auto_context there = {};
	struct cay_err none = {};

	if (context_load(to->name, &there, &none) < 0)
		return none.code == CAY_E_NOT_FOUND ? 0 : 1;
	if (cmd_login_url_is_same(&there.url, &to->url))
		return 1;
	api_hint_set(&c->api, "use --name NAME to store it under another name");
	return cay_fail(err, CAY_E_CONFLICT, "the context '%s' belongs to another server",
			to->name);
}

/* Returns 1 if it replaces a context. */
static int cmd_login_read_input(struct cli *c, const struct login_args *a,
				const struct opt_words *w, struct context *to, struct cay_err *err)
{
	char typed[URL_MAX];
	const char *url = w->n_operands ? w->operands[0] : typed;
	int r = 0, asked;

	if (!w->n_operands && !isatty(STDIN_FILENO))
		return cay_fail(err, CAY_E_INVALID, "login: missing URL");
	if (!w->n_operands)
		r = prompt_line_read(c, "server: ", typed, sizeof(typed), err);
	if (r >= 0)
		r = cmd_login_parse_url(url, &to->url, err);
	if (r >= 0)
		r = cmd_login_choose_name(a->name, &to->url, to->name, err);
	if (r >= 0 && a->ca && !realpath(a->ca, to->ca))
		r = cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", a->ca);
	if (r >= 0)
		r = cmd_login_check_replace(c, to, err);
	if (r < 0)
		return r;
	asked = prompt_token_read(c, &(struct prompt_token_source){ a->token_file, !a->token_file },
				  to->token, err);
	return asked < 0 ? asked : r;
}

static int cmd_login_report(const struct context *to, bool json, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(4));
	struct jw w = jw_to(&out);
	char url[URL_MAX];

	url_format(&to->url, url);
	if (!json) {
		print_note("logged in to %s; current context: %s", url, to->name);
		return 0;
	}
	jw_object_begin(&w, NULL);
	jw_str(&w, "name", to->name);
	jw_str(&w, "url", url);
	jw_bool(&w, "current", true);
	jw_end(&w);
	return print_json_finish(&w, &out, err);
}

static int cmd_login_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct login_args *a = c->args;
	struct context *to = &c->api.dial.context; /* the server that checks the key */
	struct sandbox_query one = { .limit = 1 };
	int there = cmd_login_read_input(c, a, w, to, err), r = there;

	if (r >= 0)
		r = api_call(&c->api, &(struct api_call){ .op = OP_SANDBOX_LIST, .query = &one },
			     &(struct sandbox_list){}, err);
	if (r < 0 && err->code == CAY_E_UNAUTHENTICATED)
		api_hint_set(&c->api, "nothing was saved; an operator of that server creates keys "
				      "with 'cay key create'");
	if (r >= 0)
		r = context_save(to, there > 0, err);
	if (r >= 0)
		r = context_set_current(to->name, err);
	return r < 0 ? r : cmd_login_report(to, c->global.json, err);
}

const struct cmd cmd_login = {
	CMD_USAGE("login", "[OPTION...] [URL]"),
	CMD_OPERANDS(0, 1, OPERAND_FREE),
	.needs = CMD_NEEDS_NOTHING,
	CMD_OPTIONS(login_args, OPTS(rows, 0)),
	.help = "Log in to a Cay server with its URL and an API key",
	.more = "Prompts for what is not given; the key is not shown. The key is checked with the "
		"server before anything is saved. The server then becomes a context, and the "
		"current one. Logging in again replaces the key of the same server.",
	.run = cmd_login_run,
};
