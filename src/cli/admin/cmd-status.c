/* SPDX-License-Identifier: Apache-2.0 */
/* cmd-status - the node on one screen */
#include "base/clock.h"
#include "cli/admin/daemon-processes.h"
#include "cli/print/list.h"
#include "cli/print/progress.h"

#define ERRORS_SHOWN 8

/* "4.0 GiB" */
static const char *status_size(struct cli *c, uint64_t bytes)
{
	auto_buf text = BUF_INIT(64);
	const char *kept = byte_size_format(bytes, &text) < 0
				   ? NULL
				   : arena_strndup(&c->arena, buf_str(&text), text.len);

	return kept ? kept : "?";
}

static void status_add_processes(struct print_table *t, const struct daemon_processes *d)
{
	if (!d->running)
		print_table_add_pair(t, d->name, "not running");
	else if (d->replaced)
		print_table_add_pair(t, d->name, "%u running, %u of an earlier version: restart it",
				     d->running, d->replaced);
	else
		print_table_add_pair(t, d->name, "%u running", d->running);
}

/* What the machine says, or else what cayd says. */
static void status_add_daemons(struct cli *c, struct print_table *t, const struct status *s)
{
	bool local = !dial_is_remote(&c->api.dial);
	struct daemon_processes daemons[DAEMON_NUM];
	bool counted = local && daemon_processes_count(daemons) >= 0;
	char age[PRINT_AGE_MAX];

	if (s) {
		print_age_format(s->uptime_ms * NS_PER_MS, 0, age);
		print_table_add_pair(t, "cayd", "%s, up %s", s->version, age);
		print_table_add_pair(t, "cay-keeper", "%s",
				     s->keeper ? "running"
					       : "not running: no sandbox can be created or "
						 "removed; see 'journalctl -u cay-keeper'");
		print_table_add_pair(t, "cay-edge", "%llu connected", (unsigned long long)s->edges);
	}
	for (unsigned i = 0; counted && i < DAEMON_NUM; i++)
		if (!s || i > DAEMON_EDGE || daemons[i].replaced)
			status_add_processes(t, &daemons[i]);
}

static void status_add_counts(struct cli *c, struct print_table *t, const struct status *s)
{
	const struct status_sandboxes *n = &s->sandboxes;

	print_table_add_pair(
		t, "sandboxes",
		"%llu running, %llu pending, %llu paused, %llu stopped, %llu ending; at most %llu",
		(unsigned long long)n->running, (unsigned long long)n->pending,
		(unsigned long long)n->paused, (unsigned long long)n->stopped,
		(unsigned long long)n->ending, (unsigned long long)n->max);
	print_table_add_pair(t, "creates", "%llu waiting", (unsigned long long)s->creates_waiting);
	print_table_add_pair(t, "tenants", "%llu", (unsigned long long)s->tenants);
	print_table_add_pair(t, "images", "%llu", (unsigned long long)s->images);
	print_table_add_pair(t, "load", "%llu.%02llu on %llu processors",
			     (unsigned long long)(s->load_milli / 1000),
			     (unsigned long long)(s->load_milli % 1000 / 10),
			     (unsigned long long)s->cores);
	print_table_add_pair(t, "memory", "%s free of %s",
			     s->has_memory_free ? status_size(c, s->memory_free) : "?",
			     status_size(c, s->memory_total));
	print_table_add_pair(
		t, "promised", "%s of %s to sandboxes", status_size(c, s->memory_promised),
		s->has_memory_promise_max ? status_size(c, s->memory_promise_max) : "any amount");
	print_table_add_pair(t, "disk", "%s free of %s",
			     s->has_disk_free ? status_size(c, s->disk_free) : "?",
			     status_size(c, s->disk_total));
}

static void status_add_errors(struct print_table *t, const struct status *s)
{
	const struct status_row *rows = s->errors.v;
	uint64_t now = clk_wall_ns(&clk_system);

	for (size_t i = 0; i < s->errors.n && i < ERRORS_SHOWN; i++) {
		char age[PRINT_AGE_MAX];

		print_age_format(now, rows[i].wall_ns, age);
		print_table_add_pair(t,
				     field_choice_name(&status_row_table, "level", rows[i].level),
				     "%s ago: %s", age, rows[i].message);
	}
	if (!s->errors.n)
		print_table_add_pair(t, "errors", "none since cayd started");
}

static int cmd_status_run(struct cli *c, const struct opt_words *, struct cay_err *err)
{
	auto_table t = print_table_create(2);
	struct status s = {};
	struct cay_err why = {};
	int r = api_call(&c->api, &(struct api_call){ .op = OP_SYSTEM_STATUS }, &s, err), printed;

	if (c->global.json)
		return r < 0 ? r : print_json(&status_table, &s, err);
	status_add_daemons(c, &t, r < 0 ? NULL : &s);
	if (r >= 0) {
		status_add_counts(c, &t, &s);
		status_add_errors(&t, &s);
	}
	printed = print_table_stdout(&t, &why);
	if (r >= 0 && printed < 0)
		*err = why;
	return r < 0 ? r : printed;
}

const struct cmd cmd_status = {
	CMD_USAGE("status", "[--json]"),
	.help = "Show the node on one screen: daemons, sandboxes, load, memory, disk, last errors",
	.more = "Needs the operator's key. As root on the node it also shows cay-mcp and cay-pull, "
		"daemons whose program an upgrade has replaced, and, without cayd, what runs. The "
		"errors are those of cayd since it started; 'journalctl -u cayd -u cay-keeper' has "
		"all of them.",
	.run = cmd_status_run,
};
