/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "cli/exec/port-forward.h"
#include "cli/print/list.h"
#include "cli/print/print.h"

static const struct column columns[] = {
	{ "PORT", "port" }, { "ADDRESS", "address" }, { "REACHED", "reached" },
	{ "PID", "pid" },   { "EXEC", "exec" },       COLUMNS_END,
};

const struct cmd cmd_port_ls = {
	.name = "port ls",
	.args = "[--json] SANDBOX",
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.json = true,
	.help = "TCP ports that somebody in a sandbox listens on",
	.more = "One that is not REACHED is bound to an address that neither a preview nor 'cay "
		"port forward' leads to: bind it to 127.0.0.1 or 0.0.0.0.",
	.op = OP_PORT_LIST,
	.columns = columns,
};

/* forward */

static int cmd_port_parse_number(struct slice s, uint64_t min, uint16_t *ret)
{
	uint64_t n;

	if (str_parse_u64(s, min, UINT16_MAX, &n) < 0)
		return -EINVAL;
	*ret = (uint16_t)n;
	return 0;
}

static int cmd_port_forward_note_ready(uint16_t local, uint16_t port, struct cay_err *)
{
	print_note("127.0.0.1:%u leads to port %u in the sandbox; Ctrl-C ends it", local, port);
	return 0;
}

static int cmd_port_forward_print_ready(uint16_t local, uint16_t port, struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(1));
	struct jw w = jw_to(&out);

	jw_object_begin(&w, NULL);
	jw_u64(&w, "local", local);
	jw_u64(&w, "port", port);
	jw_end(&w);
	return print_json_finish(&w, &out, err);
}

static int cmd_port_forward_run(struct cli *c, const void *, const struct opt_words *w,
				struct cay_err *err)
{
	forward_ready_fn *ready =
		c->global.json ? cmd_port_forward_print_ready : cmd_port_forward_note_ready;
	struct slice there = slice_of(w->operands[1]), here = slice_cut(&there, ':');
	uint16_t local, port;
	struct id box;
	int r;

	if (!there.p)
		there = here;
	if (cmd_port_parse_number(here, 0, &local) < 0 ||
	    cmd_port_parse_number(there, 1, &port) < 0)
		return cay_fail(err, CAY_E_INVALID,
				"port forward: '%s' is not PORT or LOCAL:PORT, as in 8080:80",
				w->operands[1]);
	r = api_find_sandbox(&c->api, w->operands[0], &box, err);
	return r < 0 ? r : port_forward_run(&c->api, &box, local, port, ready, err);
}

const struct cmd cmd_port_forward = {
	.name = "port forward",
	.args = "[--json] SANDBOX [LOCAL:]PORT",
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX),
	.json = true,
	.help = "Listen on this machine, and lead to a port of a sandbox",
	.more = "LOCAL is PORT when it is not said; 0 is any that is free. Only this machine gets "
		"there: it listens on loopback. --json prints both ports once it listens.",
	.run = cmd_port_forward_run,
};

/* preview */

static const struct opt preview_rows[] = {
	{ "ttl", 0, OPT_DURATION, offsetof(struct preview_create, ttl_ms), 1000,
	  UINT64_C(31622400000), .arg = "TIME",
	  .help = "How long it is shown, as in 10m or 7d, up to edge.link_max; else an hour" },
};

static void cmd_preview_set_defaults(void *args)
{
	((struct preview_create *)args)->ttl_ms = 3600000;
}

static int cmd_preview_run(struct cli *c, const void *args, const struct opt_words *w,
			   struct cay_err *err)
{
	struct preview_create request = *(const struct preview_create *)args;
	struct api_call call = { .op = OP_SANDBOX_PREVIEW, .request = &request };
	struct preview_made made = {};
	uint16_t port = 0;
	int r;

	request.has_port = w->n_operands > 1;
	if (request.has_port && cmd_port_parse_number(slice_of(w->operands[1]), 1, &port) < 0)
		return cay_fail(err, CAY_E_INVALID, "preview: '%s' is no port", w->operands[1]);
	request.port = port;
	r = api_find_sandbox(&c->api, w->operands[0], &call.ids[0], err);
	if (r >= 0)
		r = api_call(&c->api, &call, &made, err);
	if (r < 0)
		return r;
	if (!c->global.json && made.has_listening && !made.listening)
		print_note("nobody in the sandbox listens there yet");
	return reply_print(c, call.op, &made, "url", err);
}

const struct cmd cmd_preview = {
	.name = "preview",
	.args = "[OPTION...] SANDBOX [PORT]",
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX),
	CMD_OPTIONS(preview_create, OPTS(preview_rows, 0)),
	.json = true,
	.init_args = cmd_preview_set_defaults,
	.help = "Print a URL that shows a port of a sandbox in a browser",
	.more = "Without PORT it is its application's (--app-port of create). Whoever has the URL "
		"sees the page, until it ends, is taken back ('cay revoke') or the sandbox ends. "
		"The node needs a domain for "
		"that: edge.previews, as in http://preview.localhost:7070 for a browser on the "
		"node itself.",
	.run = cmd_preview_run,
};
