/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.info and sandbox.health */
#include "init/core/handlers.h"
#include "init/proc/info-child.h"
#include "init/proc/port-dial.h"
#include "init/proc/proc-query.h"

#define KEPT_NS (60 * NS_PER_S)

/* Kept for KEPT_NS, unless a slow tool did not report its version. */
static void sandbox_info_reply(struct proc_query *q, struct buf *body, bool incomplete)
{
	const struct info_query *query = q->rq->query;
	struct init *in = q->init;

	if (query->versions && !incomplete) {
		buf_clear(&in->info_cache);
		if (buf_append(&in->info_cache, body->data, body->len) >= 0)
			in->info_cached_ns = clk_boot_ns(in->clk);
	}
	proc_query_reply_json(q, body, incomplete);
}

static bool sandbox_info_reply_cached(struct init *in, struct request *rq)
{
	auto_buf body = BUF_INIT(INFO_JSON_MAX);

	if (!in->info_cache.len || clk_boot_ns(in->clk) - in->info_cached_ns > KEPT_NS ||
	    buf_append(&body, in->info_cache.data, in->info_cache.len) < 0)
		return false;
	request_reply(rq, 200, "application/json", &body);
	return true;
}

void op_sandbox_info(struct request *rq, void *arg)
{
	const struct info_query *query = rq->query;
	struct init *in = arg;

	if (query->versions && sandbox_info_reply_cached(in, rq))
		return;
	in->info_cache.max = INFO_JSON_MAX;
	proc_query_start(&(struct proc_query){ .init = in,
					       .rq = rq,
					       .child_main = child_sandbox_info,
					       .on_done = sandbox_info_reply });
}

static void sandbox_health_reply(struct init *in, struct request *rq, uint64_t port,
				 const char *problem)
{
	struct sandbox_health reply = {
		.ok = !problem,
		.uptime_ms = (clk_boot_ns(in->clk) - in->born_ns) / NS_PER_MS,
		.port = port,
		.has_port = port,
		.detail = problem,
	};

	request_reply_json(rq, &sandbox_health_table, &reply);
}

static void on_health_dialled(struct init *in, struct request *rq, uint16_t port, int fd,
			      const struct cay_err *err)
{
	if (fd >= 0)
		(void)close(fd);
	if (rq)
		sandbox_health_reply(in, rq, port, err ? err->msg : NULL);
}

void op_sandbox_health(struct request *rq, void *arg)
{
	const struct sandbox_health_query *q = rq->query;

	if (q->has_port)
		port_dial_start(arg, rq, (uint16_t)q->port, q->timeout_ms, on_health_dialled);
	else
		sandbox_health_reply(arg, rq, 0, NULL);
}
