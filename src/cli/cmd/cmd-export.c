/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-export - paths of a sandbox that anyone with their URL can download */
#include "cli/print/list.h"
#include "cli/transfer/remote-path.h"

static int cmd_export_add_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct export_info made = {};
	struct remote_path at;
	int r = remote_path_parse_in_sandbox(c, w->operands[0], &at, err);
	struct export_path request = { .path = at.path };

	if (r >= 0)
		r = api_call(&c->api,
			     &(struct api_call){ .op = OP_EXPORT_CREATE,
						 .ids = { at.sandbox },
						 .request = &request },
			     &made, err);
	if (r < 0)
		return r;
	if (c->global.json)
		return print_json(&export_info_table, &made, err);
	if (made.url && made.url[0] == '/')
		print_note("put the address of an edge before the URL, or set edge.public_url in "
			   "cay.conf");
	return print_line(err, "%s", made.url);
}

const struct cmd cmd_export_add = {
	CMD_USAGE("export add", "[--json] NAME:PATH"),
	CMD_OPERANDS(1, 1, OPERAND_LOCAL_OR_REMOTE_PATH),
	.help = "Export a file or directory and print the URL that downloads it",
	.more = "Anyone with the URL can download it, without a key, until the sandbox ends or the "
		"export is revoked ('cay export rm', 'cay revoke'). A file downloads as itself, a "
		"directory as a tar, each as it is then: nothing is copied. Exporting it again "
		"prints the same URL.",
	.run = cmd_export_add_run,
};

const struct cmd cmd_export_ls = {
	CMD_USAGE("export ls", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "List the exports of a sandbox",
	.more = "'cay export add' prints the URL of one again.",
	.op = OP_EXPORT_LIST,
	CMD_COLUMNS({ "PATH", "path" }, { "TYPE", "type" }, { "SIZE", "size", AS_SIZE },
		    { "AGE", "created_at", AS_AGE }),
};

static int cmd_export_rm_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	struct export_info gone = {};
	struct remote_path at;
	int r = remote_path_parse_in_sandbox(c, w->operands[0], &at, err);
	struct export_path query = { .path = at.path };

	if (r >= 0)
		r = api_call(&c->api,
			     &(struct api_call){ .op = OP_EXPORT_DELETE,
						 .ids = { at.sandbox },
						 .query = &query },
			     &gone, err);
	return r >= 0 && c->global.json ? print_json(&export_info_table, &gone, err) : r;
}

const struct cmd cmd_export_rm = {
	CMD_USAGE("export rm", "[--json] NAME:PATH"),
	CMD_OPERANDS(1, 1, OPERAND_LOCAL_OR_REMOTE_PATH),
	.help = "Revoke an export: its URL downloads nothing any more",
	.more = "The file stays. Downloads under way are cut off within seconds.",
	.run = cmd_export_rm_run,
};
