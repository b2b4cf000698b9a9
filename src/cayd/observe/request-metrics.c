/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe/request-metrics.h"
#include "cayd/core/handlers.h"

#include "cayd/core/keeper-link.h"
#include "cayd/create/create.h"
#include "cayd/edge/edge-push.h"
#include "cayd/edge/edge-report.h"
#include "cayd/egress/egress-counts.h"
#include "cayd/egress/egress-link.h"
#include "cayd/image/image.h"
#include "cayd/observe/audit-log.h"
#include "cayd/sandbox/sandbox.h"
#include "cayd/snapshot/snapshot.h"
#include "cayd/template/pool.h"
#include "life/create-queue.h"

/* A log with the context of a request; `id` holds its text. */
static struct log request_log_begin(const struct cayd *c, const struct request *rq,
				    char id[static ID_TEXT_LEN + 1])
{
	const struct id *about = rq->target.noun ? &rq->target : op_match_target(&rq->match);
	struct log log = c->log;

	log.op = rq->match.op ? rq->match.op->name : "none";
	log.request = rq->id;
	if (about) {
		id_format(about, id);
		log.id = id;
	}
	return log;
}

static void request_log_end(struct cayd *c, const struct log *log)
{
	c->log.lost = log->lost;
	c->log.torn = log->torn;
}

/* One line per request if log.access is set. */
static void access_log_write(struct cayd *c, const struct request *rq, int status, uint64_t ns)
{
	char id[ID_TEXT_LEN + 1];
	struct log log = request_log_begin(c, rq, id);

	log_info(&log, "%d in %llu.%03llu ms", status, (unsigned long long)(ns / NS_PER_MS),
		 (unsigned long long)(ns % NS_PER_MS / 1000));
	request_log_end(c, &log);
}

void on_control_request_broken(const struct request *rq, const struct cay_err *err, void *arg)
{
	struct cayd *c = arg;
	char id[ID_TEXT_LEN + 1];
	struct log log = request_log_begin(c, rq, id);

	log_error(&log, "%s", err->msg[0] ? err->msg : "failed without a message");
	request_log_end(c, &log);
}

bool on_control_request_answered(struct request *rq, int status, enum cay_code code, bool whole,
				 void *arg)
{
	struct cayd *c = arg;
	uint64_t ns = uv_hrtime() - rq->begun_ns;
	unsigned outcome = !status                  ? METRICS_CLIENT_LEFT
			   : !code && status >= 400 ? METRICS_INSIDE
						    : (unsigned)code;

	metrics_count_reply(&c->metrics, rq->match.op, outcome, ns);
	if (status && code)
		metrics_count_blame(&c->metrics, rq->blame);
	if (c->settings.log_access)
		access_log_write(c, rq, status, ns);
	return audit_log_record_reply(rq, status, code, whole, arg);
}

static void metric_put_sandboxes(void *arg, struct metrics_out *to)
{
	const struct cayd *c = arg;
	uint64_t n[SB_NUM_STATES] = {};

	for (const struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		n[sb->life.state] += !sb->life.warm;
	for (unsigned i = 0; i < SB_NUM_STATES; i++)
		metrics_write_value(to, sandbox_state_names[i], n[i]);
}

static void metric_put_ends(void *arg, struct metrics_out *to)
{
	const struct cayd *c = arg;

	for (unsigned i = 0; i < END_NUM_REASONS; i++)
		metrics_write_value(to, end_reasons[i], sandboxes_get_end_counts(c->sandboxes)[i]);
}

static void metric_put_ends_blame(void *arg, struct metrics_out *to)
{
	const struct cayd *c = arg;

	for (unsigned i = 0; i < BLAME_NUM; i++)
		metrics_write_value(to, blame_names[i],
				    sandboxes_get_blame_counts(c->sandboxes)[i]);
}

static void metric_put_errors_blame(void *arg, struct metrics_out *to)
{
	const struct cayd *c = arg;

	metrics_write_blames(to, NULL, &c->metrics);
}

static void metric_put_creates_refused(void *arg, struct metrics_out *to)
{
	metrics_write_value(to, "full", creates_get_queue(arg)->n_refused);
	metrics_write_value(to, "late", creates_get_queue(arg)->n_expired);
}

static void metric_put_pool(void *arg, struct metrics_out *to)
{
	const struct warm_pool *s = NULL;
	const char *template;
	struct pool_count n;

	while ((s = pool_next(arg, s, &template, &n))) {
		metrics_write_value2(to, template, "warm", n.warm);
		metrics_write_value2(to, template, "starting", n.starting);
	}
}

static void metric_put_pool_claims(void *arg, struct metrics_out *to)
{
	const struct warm_pool *s = NULL;
	const char *template;
	struct pool_count n;

	while ((s = pool_next(arg, s, &template, &n)))
		metrics_write_value(to, template, n.claimed);
}

static void metric_put_pool_failed(void *arg, struct metrics_out *to)
{
	const struct warm_pool *s = NULL;
	const char *template;
	struct pool_count n;

	while ((s = pool_next(arg, s, &template, &n)))
		metrics_write_value(to, template, n.failed);
}

static void metric_put_snapshots(void *arg, struct metrics_out *to)
{
	uint64_t n[SNAPSHOT_NUM] = {};
	const struct snapshot *s;

	for (size_t i = 0; (s = snapshot_at(arg, i)); i++)
		n[s->info.state]++;
	for (unsigned i = 0; i < SNAPSHOT_NUM; i++)
		metrics_write_value(to, snapshot_states[i], n[i]);
}

static void metric_put_connections(void *arg, struct metrics_out *to)
{
	const struct cayd *c = arg;
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c->listeners); i++)
		n += server_count_connections(c->listeners[i]);
	metrics_write_value(to, NULL, n);
}

/* metric_put_NAME() writes one number of cayd. */
#define METRIC_PUT_NUMBER(name, number) \
	static void metric_put_##name(void *arg, struct metrics_out *to) \
	{ \
		const struct cayd *c = arg; \
\
		metrics_write_value(to, NULL, number); \
	}
METRIC_PUT_NUMBER(creates_waiting, creates_get_queue(c)->n_waiting)
METRIC_PUT_NUMBER(snapshot_bytes, image_count_snapshot_bytes(c->images, NULL))
METRIC_PUT_NUMBER(keeper_up, keeper_is_up(c->keeper))
METRIC_PUT_NUMBER(journal_pending, db_get_stats(c->db).pending)
METRIC_PUT_NUMBER(journal_writes, db_get_stats(c->db).writes)
METRIC_PUT_NUMBER(journal_commits, db_get_stats(c->db).transactions)
METRIC_PUT_NUMBER(journal_failed, db_get_stats(c->db).failed)
METRIC_PUT_NUMBER(audit_records, audit_get_durable_head(c->audit).count)
METRIC_PUT_NUMBER(audit_pending, audit_get_stats(c->audit).pending)
METRIC_PUT_NUMBER(audit_failed, audit_get_stats(c->audit).failed)
METRIC_PUT_NUMBER(audit_missed, audit_get_stats(c->audit).missed)
METRIC_PUT_NUMBER(log_lost, c->log.lost)
METRIC_PUT_NUMBER(edges, edge_push_count_edges(c))
METRIC_PUT_NUMBER(egress_up, egress_link_is_ready(c))
METRIC_PUT_NUMBER(egress_open, egress_counts_get_totals(c)->open)
METRIC_PUT_NUMBER(egress_names, egress_counts_get_totals(c)->names_denied)

static void metric_put_egress_outcomes(void *arg, struct metrics_out *to)
{
	const struct egress_counts *all = egress_counts_get_totals(arg);

	metrics_write_value(to, "connected", all->connected);
	metrics_write_value(to, "denied", all->denied);
	metrics_write_value(to, "failed", all->failed);
	metrics_write_value(to, "limited", all->limited);
}

static void metric_put_egress_bytes(void *arg, struct metrics_out *to)
{
	metrics_write_value(to, "up", egress_counts_get_totals(arg)->up);
	metrics_write_value(to, "down", egress_counts_get_totals(arg)->down);
}

/* The next edge with counters, from *at on; NULL at the end. */
static const struct edge_report *edge_report_next(const struct cayd *c, unsigned *at)
{
	while (*at < REPORT_EDGES && !c->edge_reports->rows[*at])
		++*at;
	return *at < REPORT_EDGES ? c->edge_reports->rows[(*at)++] : NULL;
}

static void metric_put_edge_refusals(void *arg, struct metrics_out *to)
{
	const struct edge_report *r;

	for (unsigned at = 0; (r = edge_report_next(arg, &at));)
		for (unsigned i = 0; i < METRICS_REFUSALS; i++)
			metrics_write_value2(to, r->name, metrics_refusals[i],
					     r->counts.refused[i]);
}

/* metric_put_edge_METRIC() writes one metric of each edge. */
#define METRIC_PUT_EDGE(metric, write, value) \
	static void metric_put_edge_##metric(void *arg, struct metrics_out *to) \
	{ \
		const struct edge_report *r; \
\
		for (unsigned at = 0; (r = edge_report_next(arg, &at));) \
			write(to, r->name, value); \
	}
METRIC_PUT_EDGE(answers, metrics_write_replies, &r->counts.replies)
METRIC_PUT_EDGE(errors_blame, metrics_write_blames, &r->counts.replies)
METRIC_PUT_EDGE(durations, metrics_write_durations, &r->counts.replies)
METRIC_PUT_EDGE(conns, metrics_write_value, r->counts.conns)
METRIC_PUT_EDGE(open, metrics_write_value, r->counts.open)
METRIC_PUT_EDGE(cut, metrics_write_value, r->counts.cut)
METRIC_PUT_EDGE(log_lost, metrics_write_value, r->counts.log_lost)
METRIC_PUT_EDGE(memory, metrics_write_value, r->counts.memory)
METRIC_PUT_EDGE(fds, metrics_write_value, r->counts.fds)

static metrics_fn *const metric_sources[METRIC_NUM] = {
	[METRIC_SANDBOXES] = metric_put_sandboxes,
	[METRIC_ENDS] = metric_put_ends,
	[METRIC_ENDS_BLAME] = metric_put_ends_blame,
	[METRIC_ERRORS_BLAME] = metric_put_errors_blame,
	[METRIC_CREATES_WAITING] = metric_put_creates_waiting,
	[METRIC_CREATES_REFUSED] = metric_put_creates_refused,
	[METRIC_POOL] = metric_put_pool,
	[METRIC_POOL_CLAIMS] = metric_put_pool_claims,
	[METRIC_POOL_FAILED] = metric_put_pool_failed,
	[METRIC_SNAPSHOTS] = metric_put_snapshots,
	[METRIC_SNAPSHOT_BYTES] = metric_put_snapshot_bytes,
	[METRIC_CONNECTIONS] = metric_put_connections,
	[METRIC_KEEPER] = metric_put_keeper_up,
	[METRIC_JOURNAL_PENDING] = metric_put_journal_pending,
	[METRIC_JOURNAL_WRITES] = metric_put_journal_writes,
	[METRIC_JOURNAL_COMMITS] = metric_put_journal_commits,
	[METRIC_JOURNAL_FAILED] = metric_put_journal_failed,
	[METRIC_AUDIT_RECORDS] = metric_put_audit_records,
	[METRIC_AUDIT_PENDING] = metric_put_audit_pending,
	[METRIC_AUDIT_FAILED] = metric_put_audit_failed,
	[METRIC_AUDIT_MISSED] = metric_put_audit_missed,
	[METRIC_LOG_LOST] = metric_put_log_lost,
	[METRIC_EDGES] = metric_put_edges,
	[METRIC_EDGE_ANSWERS] = metric_put_edge_answers,
	[METRIC_EDGE_ERRORS_BLAME] = metric_put_edge_errors_blame,
	[METRIC_EDGE_DURATION] = metric_put_edge_durations,
	[METRIC_EDGE_REFUSALS] = metric_put_edge_refusals,
	[METRIC_EDGE_CONNS] = metric_put_edge_conns,
	[METRIC_EDGE_OPEN] = metric_put_edge_open,
	[METRIC_EDGE_CUT] = metric_put_edge_cut,
	[METRIC_EDGE_LOG_LOST] = metric_put_edge_log_lost,
	[METRIC_EDGE_MEMORY] = metric_put_edge_memory,
	[METRIC_EDGE_FDS] = metric_put_edge_fds,
	[METRIC_EGRESS_UP] = metric_put_egress_up,
	[METRIC_EGRESS_OPEN] = metric_put_egress_open,
	[METRIC_EGRESS_OUTCOMES] = metric_put_egress_outcomes,
	[METRIC_EGRESS_NAMES] = metric_put_egress_names,
	[METRIC_EGRESS_BYTES] = metric_put_egress_bytes,
	[METRIC_MEMORY] = metrics_write_memory,
	[METRIC_FDS] = metrics_write_fds,
};

void op_system_metrics(struct cayd *c, struct request *rq)
{
	auto_buf body =
		BUF_INIT(SERVER_OUT_MAX); /* room for REPORT_EDGES edges with all counters */

	if (metrics_write(&c->metrics, metric_sources, c, &body) >= 0) {
		request_reply(rq, 200, METRICS_MEDIA, &body);
		return;
	}
	request_no_memory(rq);
}
