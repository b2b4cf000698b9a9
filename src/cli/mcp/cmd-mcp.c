/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <limits.h>

#include "base/path.h"
#include "cli/core/command.h"
#include "cli/mcp/agent-group.h"
#include "cli/mcp/mcp-bridge.h"
#include "cli/print/print.h"

struct mcp_args {
	const char *group, *profile; /* or NULL */
};

#define AT(m) offsetof(struct mcp_args, m)
static const struct opt rows[] = {
	{ "group", 0, OPT_TEXT, AT(group), .arg = "NAME",
	  .help = "Group of the agent's sandboxes (default: one kept across starts)" },
	{ "profile", 0, OPT_TEXT, AT(profile), .arg = "NAME",
	  .help = "Tool set: native, anthropic, browser, computer, openai, deep-agent, "
		  "sandboxhub, sandbox-agent or opensandbox" },
};
static const struct opt_group options[] = { OPTS(rows, 0), OPTS_END };

static int cmd_mcp_check_args(const struct mcp_args *a, struct cay_err *err)
{
	if (a->group && (!str_is_dns_label(slice_of(a->group)) || strlen(a->group) > 56))
		return cay_fail(err, CAY_E_INVALID,
				"mcp: invalid --group '%s': use 1 to 56 of a-z, 0-9 and '-'",
				a->group);
	if (a->profile && !str_is_dns_label(slice_of(a->profile)))
		return cay_fail(err, CAY_E_INVALID, "mcp: there is no profile '%s'", a->profile);
	return 0;
}

/* Any user who can read the operator key may use it. */
static int cmd_mcp_read_local_token(struct cli *c, struct context *to, struct cay_err *err)
{
	auto_close int state = open(c->settings.state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_buf text = BUF_INIT(CONTEXT_TOKEN_MAX);
	int r = state < 0 ? -errno : buf_reserve(&text, CONTEXT_TOKEN_MAX);

	if (r >= 0)
		r = path_read(state, "db/operator.key", &text);
	if (r < 0) {
		api_hint_set(&c->api,
			     "run it as root, or add a context with your key: 'cay context add "
			     "--url URL --token-file FILE NAME', then 'cay context use NAME'");
		return cay_fail_sys(err, CAY_E_FORBIDDEN, -r,
				    "read the operator key of this machine");
	}
	r = context_token_parse((struct slice){ text.data, text.len }, to->token, err);
	explicit_bzero(text.data, text.cap);
	return r;
}

/* Only cay-edge serves MCP; the local control socket does not. */
static int cmd_mcp_set_local_context(struct cli *c, struct cay_err *err)
{
	struct context *to = &c->api.dial.context;
	struct slice all = slice_of(c->settings.edge_listen), first = slice_cut(&all, ' ');
	auto_buf url = BUF_INIT(URL_MAX);
	int r;

	if (c->settings.edge_cert[0])
		return cay_fail(err, CAY_E_INVALID,
				"cay-edge on this machine uses TLS: add a context with the host in "
				"its certificate");
	if (buf_printf(&url, "http://%.*s", (int)first.n, first.p) < 0)
		return cay_fail(err, CAY_E_INVALID, "edge.listen is too long");
	r = context_url_parse(buf_str(&url), &to->url, err);
	if (r >= 0)
		r = cmd_mcp_read_local_token(c, to, err);
	c->api.dial.checks_port_owner = true;
	if (r >= 0)
		memcpy(to->name, CONTEXT_LOCAL, sizeof(CONTEXT_LOCAL));
	return r;
}

static int cmd_mcp_choose_group(const struct context *to, const struct mcp_args *a,
				char ret[static GROUP_MAX])
{
	struct cay_err why = {};
	int r = 0;

	if (a->group)
		memcpy(ret, a->group, strlen(a->group) + 1);
	else
		r = agent_group_find_or_create(to->name, ret, &why);
	if (r < 0)
		print_note("%s; sandboxes will not be found after a restart", why.msg);
	return r;
}

static int cmd_mcp_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	const struct mcp_args *a = c->args;
	auto_buf target = BUF_INIT(512);
	char group[GROUP_MAX];
	int r = cmd_mcp_check_args(a, err);

	if (r >= 0 && !dial_is_remote(&c->api.dial))
		r = cmd_mcp_set_local_context(c, err);
	if (r < 0)
		return r;
	r = buf_printf(&target, "/mcp?profile=%s", a->profile ? a->profile : "native");
	if (r >= 0 && cmd_mcp_choose_group(&c->api.dial.context, a, group) >= 0)
		r = buf_printf(&target, "&group=%s", group);
	return r < 0 ? cay_no_memory(err) : mcp_bridge_run(&c->api, buf_str(&target), err);
}

const struct cmd cmd_mcp = {
	CMD_USAGE("mcp", "[OPTION...]"),
	.options = options,
	.size = sizeof(struct mcp_args),
	.no_json = true,
	.help = "Serve Cay's tools to an agent: MCP over standard input and output",
	.more = "Each line is one message, in both directions; nothing else is written to standard "
		"output. Messages go to /mcp of the context's cay-edge with the context's token, "
		"whose scope limits the tools. Without a context, the operator key of this machine "
		"is used if you may read it. The group is stored in $XDG_STATE_HOME/cay or "
		"~/.local/state/cay, one for each context, so that a restarted agent finds its "
		"sandboxes. The command ends when standard input ends.",
	.run = cmd_mcp_run,
};

/* The member each client lists servers in, and the file it reads. */
static const struct mcp_client {
	const char *name, *list, *type, *file, *command;
} clients[] = {
	{ "claude", "mcpServers", NULL, ".mcp.json of a project, or claude_desktop_config.json",
	  "claude mcp add cay -- cay" },
	{ "cursor", "mcpServers", NULL, ".cursor/mcp.json of a project, or ~/.cursor/mcp.json",
	  NULL },
	{ "vscode", "servers", "stdio", ".vscode/mcp.json of a workspace", NULL },
};

static const struct mcp_client *cmd_mcp_find_client(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		if (str_eq(clients[i].name, name))
			return &clients[i];
	return NULL;
}

#define WORDS_MAX 8

/* The arguments of "cay"; every value is a label, so none needs quoting. */
static size_t cmd_mcp_build_args(const struct mcp_args *a, const char *context, const char **ret)
{
	const struct {
		const char *option, *value;
	} all[] = { { "--context", str_eq(context, CONTEXT_LOCAL) ? NULL : context },
		    { NULL, "mcp" },
		    { "--group", a->group },
		    { "--profile", a->profile } };
	size_t n = 0;

	static_assert(2 * ARRAY_SIZE(all) <= WORDS_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (all[i].value && all[i].option)
			ret[n++] = all[i].option;
		if (all[i].value)
			ret[n++] = all[i].value;
	}
	return n;
}

static int cmd_mcp_format_snippet(const struct mcp_client *to, const char *const *words, size_t n,
				  struct buf *out)
{
	struct jw w = jw_to(out);
	int r;

	jw_object_begin(&w, NULL);
	jw_object_begin(&w, to->list);
	jw_object_begin(&w, "cay");
	if (to->type)
		jw_str(&w, "type", to->type);
	jw_str(&w, "command", "cay");
	jw_array_begin(&w, "args");
	for (size_t i = 0; i < n; i++)
		jw_str(&w, NULL, words[i]);
	jw_end(&w);
	jw_end(&w);
	jw_end(&w);
	jw_end(&w);
	r = jw_finish(&w);
	return r < 0 ? r : buf_putc(out, '\n');
}

/* On stderr at a terminal only: standard output is the snippet alone. */
static void cmd_mcp_print_where(const struct mcp_client *to, const char *const *words, size_t n)
{
	auto_buf line = BUF_INIT(KIB(1));
	int r = to->command ? buf_puts(&line, to->command) : -1;

	if (!isatty(STDERR_FILENO))
		return;
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = buf_printf(&line, " %s", words[i]);
	if (r < 0)
		print_note("add this to %s", to->file);
	else
		print_note("add this to %s; or run '%s'", to->file, buf_str(&line));
}

static int cmd_mcp_config_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const struct mcp_client *to = cmd_mcp_find_client(w->operands[0]);
	const char *words[WORDS_MAX];
	auto_buf out = BUF_INIT(KIB(4));
	char context[CONTEXT_NAME_MAX + 1];
	size_t n;
	int r = cmd_mcp_check_args(c->args, err);

	if (r >= 0)
		r = cmd_choose_context_name(c, context, err);
	if (r < 0)
		return r;
	if (!to) {
		api_hint_set(&c->api, "one of: claude, cursor, vscode");
		return cay_fail(err, CAY_E_INVALID, "mcp config: unknown client '%s'",
				w->operands[0]);
	}
	n = cmd_mcp_build_args(c->args, context, words);
	if (cmd_mcp_format_snippet(to, words, n, &out) < 0)
		return cay_no_memory(err);
	cmd_mcp_print_where(to, words, n);
	return print_stdout(&out, err);
}

const struct cmd cmd_mcp_config = {
	CMD_USAGE("mcp config", "[OPTION...] claude|cursor|vscode"),
	.min = 1,
	.max = 1,
	.needs = CMD_NEEDS_NOTHING,
	.options = options,
	.size = sizeof(struct mcp_args),
	.no_json = true,
	.help = "Print MCP client configuration for 'cay mcp'",
	.more = "The output is JSON and holds no secret: the token stays in the context, which the "
		"configuration names unless it is local.",
	.run = cmd_mcp_config_run,
};
