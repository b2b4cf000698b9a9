/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/port-forward.h"
#include "cli/print/list.h"

const struct cmd cmd_port_ls = {
	CMD_USAGE("port ls", "[--json] SANDBOX"),
	CMD_OPERANDS(1, 1, OPERAND_SANDBOX),
	.help = "List TCP ports a sandbox is listening on",
	.more = "REACHED is no for a port bound to an address that neither a preview nor 'cay port "
		"forward' can connect to: bind it to 127.0.0.1 or 0.0.0.0.",
	.op = OP_PORT_LIST,
	CMD_COLUMNS({ "PORT", "port" }, { "ADDRESS", "address" }, { "REACHED", "reached" },
		    { "PID", "pid" }, { "EXEC", "exec" }),
};

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
	print_note("forwarding 127.0.0.1:%u to port %u in the sandbox; Ctrl-C stops", local, port);
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

static int cmd_port_forward_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	forward_ready_fn *ready =
		c->global.json ? cmd_port_forward_print_ready : cmd_port_forward_note_ready;
	struct slice there = slice_of(w->operands[1]), here = slice_cut(&there, ':');
	uint16_t local, port;
	struct id sandbox;
	int r;

	if (!there.p)
		there = here;
	if (cmd_port_parse_number(here, 0, &local) < 0 ||
	    cmd_port_parse_number(there, 1, &port) < 0)
		return cay_fail(
			err, CAY_E_INVALID,
			"port forward: invalid port '%s' (use PORT or LOCAL:PORT, e.g. 8080:80)",
			w->operands[1]);
	r = api_find_sandbox(&c->api, w->operands[0], &sandbox, err);
	return r < 0 ? r : port_forward_run(&c->api, &sandbox, local, port, ready, err);
}

const struct cmd cmd_port_forward = {
	CMD_USAGE("port forward", "[--json] SANDBOX [LOCAL:]PORT"),
	CMD_OPERANDS(2, 2, OPERAND_SANDBOX),
	.help = "Forward a local port to a port of a sandbox",
	.more = "LOCAL is PORT by default; 0 picks a free port. It listens on loopback only. "
		"--json prints both ports once it listens.",
	.run = cmd_port_forward_run,
};

static const struct opt preview_rows[] = {
	{ "ttl", 0, OPT_DURATION, offsetof(struct preview_create, ttl_ms), 1000,
	  UINT64_C(31622400000), .arg = "TIME",
	  .help = "Lifetime, e.g. 10m or 7d, up to edge.link_max; by default an hour" },
};

static int cmd_preview_prepare(struct cli *, void *args, const struct opt_words *w,
			       struct api_call *, struct cay_err *err)
{
	struct preview_create *request = args;
	uint16_t port = 0;

	request->has_port = w->n_operands > 1;
	if (request->has_port && cmd_port_parse_number(slice_of(w->operands[1]), 1, &port) < 0)
		return cay_fail(err, CAY_E_INVALID, "preview: invalid port '%s'", w->operands[1]);
	request->port = port;
	return 0;
}

static int cmd_preview_print(const void *reply, struct cay_err *err)
{
	const struct preview_made *made = reply;

	if (made->has_listening && !made->listening)
		print_note("nothing in the sandbox listens on this port yet");
	return print_line(err, "%s", made->url);
}

const struct cmd cmd_preview = {
	CMD_USAGE("preview", "[OPTION...] SANDBOX [PORT]"),
	CMD_OPERANDS(1, 2, OPERAND_SANDBOX),
	CMD_OPTIONS(preview_create, OPTS(preview_rows, 0)),
	.defaults = &(const struct preview_create){ .ttl_ms = 3600000 },
	.help = "Create a URL that opens a port of a sandbox in a browser",
	.more = "PORT is by default the port of the sandbox's application (--app-port of create). "
		"The URL gives access without a key until it expires, is revoked ('cay revoke') or "
		"the sandbox ends. The node needs a domain for previews: edge.previews, e.g. "
		"http://preview.localhost:7070 for a browser on the node itself.",
	.prepare = cmd_preview_prepare,
	.op = OP_SANDBOX_PREVIEW,
	.print = cmd_preview_print,
};
