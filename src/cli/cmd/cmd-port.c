/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/core/command.h"
#include "cli/exec/port-forward.h"
#include "cli/print/list.h"
#include "cli/print/print.h"
#include "cli/setup/secret-file.h"

static const struct opt_group json_options[] = { OPTS(opts_json, 0), OPTS_END };

static int cmd_port_ls_add_cells(struct print_table *t, const void *row)
{
	const struct port *p = row;
	auto_buf port = BUF_INIT(32), pid = BUF_INIT(32);
	char exec[ID_TEXT_LEN + 1] = "-";
	int r = buf_printf(&port, "%llu", (unsigned long long)p->port);

	if (p->exec.noun)
		id_format(&p->exec, exec);
	if (r >= 0 && p->has_pid)
		r = buf_printf(&pid, "%llu", (unsigned long long)p->pid);
	if (r >= 0)
		r = print_table_add_cell(t, buf_str(&port));
	if (r >= 0)
		r = print_table_add_cell(t, p->address);
	if (r >= 0)
		r = print_table_add_cell(t, p->reached ? "yes" : "no");
	if (r >= 0)
		r = print_table_add_cell(t, pid.len ? pid.data : "-");
	return r < 0 ? r : print_table_add_cell(t, exec);
}

static int cmd_port_ls_run(struct cli *c, const void *args, const struct opt_words *w,
			   struct cay_err *err)
{
	static const struct list_spec kind = { .op = OP_PORT_LIST,
					       .row = &port_table,
					       .headings = { "PORT", "ADDRESS", "REACHED", "PID",
							     "EXEC" },
					       .columns = 5,
					       .add_cells = cmd_port_ls_add_cells };
	struct port_list all = {};
	bool json = ((const struct json_args *)args)->json;

	return list_print_of_sandbox(&c->api, &kind, w->operands[0], &all, &all.ports, json, err);
}

const struct cmd cmd_port_ls = {
	.name = "port ls",
	.args = "[--json] SANDBOX",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 1,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "TCP ports that somebody in a sandbox listens on",
	.more = "One that is not REACHED is bound to an address that neither a preview nor 'cay "
		"port forward' leads to: bind it to 127.0.0.1 or 0.0.0.0.",
	.run = cmd_port_ls_run,
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
	if (jw_finish(&w) < 0 || buf_putc(&out, '\n') < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return print_stdout(&out, err);
}

static int cmd_port_forward_run(struct cli *c, const void *args, const struct opt_words *w,
				struct cay_err *err)
{
	forward_ready_fn *ready = ((const struct json_args *)args)->json
					  ? cmd_port_forward_print_ready
					  : cmd_port_forward_note_ready;
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
	.operands = { OPERAND_SANDBOX },
	.min = 2,
	.max = 2,
	.options = json_options,
	.size = sizeof(struct json_args),
	.help = "Listen on this machine, and lead to a port of a sandbox",
	.more = "LOCAL is PORT when it is not said; 0 is any that is free. Only this machine gets "
		"there: it listens on loopback. --json prints both ports once it listens.",
	.run = cmd_port_forward_run,
};

/* preview */

struct preview_args {
	struct preview_create request;
	struct json_args json;
};

static const struct opt preview_rows[] = {
	{ "ttl", 0, OPT_DURATION, offsetof(struct preview_args, request.ttl_ms), 1000,
	  UINT64_C(31622400000), .arg = "TIME",
	  .help = "How long it is shown, as in 10m or 7d, up to edge.link_max; else an hour" },
};
static const struct opt_group preview_options[] = { OPTS(preview_rows, 0),
						    OPTS_JSON(preview_args, json), OPTS_END };

static void cmd_preview_set_defaults(void *args)
{
	((struct preview_args *)args)->request.ttl_ms = 3600000;
}

static int cmd_preview_run(struct cli *c, const void *args, const struct opt_words *w,
			   struct cay_err *err)
{
	const struct preview_args *a = args;
	struct preview_create request = a->request;
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
	if (!a->json.json && made.has_listening && !made.listening)
		print_note("nobody in the sandbox listens there yet");
	return a->json.json ? print_json(&preview_made_table, &made, err)
			    : print_line_escaped(made.url, err);
}

const struct cmd cmd_preview = {
	.name = "preview",
	.args = "[OPTION...] SANDBOX [PORT]",
	.operands = { OPERAND_SANDBOX },
	.min = 1,
	.max = 2,
	.options = preview_options,
	.size = sizeof(struct preview_args),
	.init_args = cmd_preview_set_defaults,
	.help = "Print a URL that shows a port of a sandbox in a browser",
	.more = "Without PORT it is its application's (--app-port of create). Whoever has the URL "
		"sees the page, until it ends, is taken back ('cay revoke') or the sandbox ends. "
		"The node needs a domain for "
		"that: edge.previews, as in http://preview.localhost:7070 for a browser on the "
		"node itself.",
	.run = cmd_preview_run,
};
