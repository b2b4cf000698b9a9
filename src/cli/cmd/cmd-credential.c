/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-credential - secrets that are set in requests outside of sandboxes */
#include <stdio.h>

#include "cli/core/command.h"
#include "cli/print/list.h"
#include "cli/print/print.h"
#include "wire/credential-message.h"

#define AT(m) offsetof(struct credential_put, m)

static const struct opt put_rows[] = {
	{ "host", 0, OPT_TEXTS, AT(hosts), .arg = "NAME",
	  .help = "Host it is for; may be repeated" },
	{ "kind", 0, OPT_CHOICE, AT(kind), .arg = "KIND", .table = &credential_put_table,
	  .member = "kind", .help = "Where the value goes; bearer without it" },
	{ "header", 0, OPT_TEXT, AT(header), .arg = "NAME",
	  .help = "Header, or member of the query, of these two kinds" },
	{ "pattern", 0, OPT_TEXT, AT(pattern), .arg = "TEXT",
	  .help = "Content of the header, with {} for the value" },
	{ "scope", 0, OPT_TEXT, AT(scope), .arg = "REGION/SERVICE",
	  .help = "What requests are signed for, of the kind sigv4" },
	{ "env", 0, OPT_TEXT, AT(env), .arg = "VARIABLE",
	  .help = "Variable for a placeholder in sandboxes that use it" },
};

/* All of standard input, without one line end. */
static int credential_value_read(char ret[static CREDENTIAL_VALUE_MAX + 3], struct cay_err *err)
{
	size_t n = 0;
	ssize_t got = 1;

	while (got > 0 && n < CREDENTIAL_VALUE_MAX + 2) {
		got = read(STDIN_FILENO, ret + n, CREDENTIAL_VALUE_MAX + 2 - n);
		if (got < 0)
			return cay_fail_sys(err, CAY_E_INVALID, errno, "read the value");
		n += (size_t)got;
	}
	if (n && ret[n - 1] == '\n')
		n--;
	ret[n] = 0;
	if (!n || n > CREDENTIAL_VALUE_MAX || strlen(ret) != n)
		return cay_fail(err, CAY_E_INVALID,
				"credential put: expected the value on standard input, at most %d "
				"bytes",
				CREDENTIAL_VALUE_MAX);
	return 0;
}

static int cmd_credential_print(const void *reply, struct cay_err *)
{
	const struct credential_info *info = reply;

	print_note("%s: sandboxes have %s instead of it%s", info->name, info->placeholder,
		   info->ready ? "" : "; cay-broker does not have it yet");
	return 0;
}

static int cmd_credential_put_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	char value[CREDENTIAL_VALUE_MAX + 3];
	struct credential_put request = *(const struct credential_put *)c->args;
	struct api_call call = { .op = OP_CREDENTIAL_PUT,
				 .path_name = w->operands[0],
				 .request = &request };
	struct credential_info info = {};
	int r;

	if (!request.hosts.n)
		return cay_fail(err, CAY_E_INVALID, "credential put: missing --host NAME");
	r = credential_value_read(value, err);
	request.has_hosts = true;
	request.value = value;
	if (r >= 0)
		r = api_call(&c->api, &call, &info, err);
	explicit_bzero(value, sizeof(value));
	if (r < 0)
		return r;
	return c->global.json ? print_json(&credential_info_table, &info, err)
			      : cmd_credential_print(&info, err);
}

const struct cmd cmd_credential_put = {
	CMD_USAGE("credential put", "--host NAME... [--kind KIND] [--header NAME] [--pattern TEXT] "
				    "[--env VARIABLE] [--json] NAME"),
	CMD_OPERANDS(1, 1, OPERAND_FREE),
	CMD_OPTIONS(credential_put, OPTS(put_rows, 0)),
	.help = "Store a secret for requests to some hosts; read it from stdin",
	.more = "No sandbox gets the value: it is set in requests on their way to the host. A "
		"rule of an egress policy names the credential, in its member 'credential'.",
	.run = cmd_credential_put_run,
};

static int credential_format_hosts(const void *row, struct buf *out)
{
	const struct credential_info *info = row;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < info->hosts.n; i++)
		r = buf_printf(out, "%s%s", i ? " " : "", info->hosts.v[i]);
	return r;
}

const struct cmd cmd_credential_ls = {
	CMD_USAGE("credential ls", "[--json]"),
	.help = "List credentials, without their values",
	.op = OP_CREDENTIAL_LIST,
	CMD_COLUMNS({ "NAME", "name" }, { "KIND", "kind" },
		    { "HOSTS", NULL, AS_VALUE, credential_format_hosts }, { "ENDS", "hint" },
		    { "ENV", "env" }, { "CHANGED", "changed_at", AS_AGE }, { "READY", "ready" }),
};

static int cmd_credential_rm_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < w->n_operands; i++) {
		struct api_call call = { .op = OP_CREDENTIAL_DELETE, .path_name = w->operands[i] };
		struct credential_info gone = {};

		r = api_call(&c->api, &call, &gone, err);
		if (r >= 0 && c->global.json)
			r = print_json(&credential_info_table, &gone, err);
	}
	return r;
}

const struct cmd cmd_credential_rm = {
	CMD_USAGE("credential rm", "[--json] NAME..."),
	CMD_OPERANDS(1, SIZE_MAX, OPERAND_FREE),
	.help = "Delete credentials; the next request that needs one is refused",
	.run = cmd_credential_rm_run,
};
