/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe.h"

#include "cayd/box.h"
#include "cayd/create.h"
#include "cayd/link.h"
#include "cayd/push.h"
#include "cayd/report.h"
#include "cayd/stock.h"
#include "cayd/trail.h"
#include "life/turn.h"

/* A log with the context of a request; id is where its text is. */
static struct log log_of(const struct cayd *c, const struct request *rq,
			 char id[static ID_TEXT_LEN + 1])
{
	const struct id *about = rq->target.noun ? &rq->target : &rq->match.params[0];
	struct log log = c->log;

	log.op = rq->match.op ? rq->match.op->name : "none";
	log.request = rq->id;
	if (about->noun) {
		id_format(about, id);
		log.id = id;
	}
	return log;
}

static void log_done(struct cayd *c, const struct log *log)
{
	c->log.lost = log->lost;
	c->log.torn = log->torn;
}

/* One line a request, when log.access wants it. */
static void write_access(struct cayd *c, const struct request *rq, int status, uint64_t ns)
{
	char id[ID_TEXT_LEN + 1];
	struct log log = log_of(c, rq, id);

	log_info(&log, "%d in %llu.%03llu ms", status, (unsigned long long)(ns / NS_PER_MS),
		 (unsigned long long)(ns % NS_PER_MS / 1000));
	log_done(c, &log);
}

void observe_broken(const struct request *rq, const struct cay_err *err, void *arg)
{
	struct cayd *c = arg;
	char id[ID_TEXT_LEN + 1];
	struct log log = log_of(c, rq, id);

	log_error(&log, "%s", err->msg[0] ? err->msg : "it failed without a word");
	log_done(c, &log);
}

bool observe_answered(struct request *rq, int status, enum cay_code code, bool whole, void *arg)
{
	struct cayd *c = arg;
	uint64_t ns = uv_hrtime() - rq->begun_ns;
	unsigned outcome = !status                  ? METRICS_LEFT
			   : !code && status >= 400 ? METRICS_INSIDE
						    : (unsigned)code;

	metrics_answer(&c->metrics, rq->match.op, outcome, ns);
	if (c->settings.log_access)
		write_access(c, rq, status, ns);
	return trail_answered(rq, status, code, whole, arg);
}

static void sandboxes(void *arg, struct metrics_out *to)
{
	const struct cayd *c = arg;
	uint64_t n[SB_NUM_STATES] = {};

	for (const struct box *b = boxes_newest(c->boxes); b; b = b->older)
		n[b->life.state] += !b->life.warm;
	for (unsigned i = 0; i < SB_NUM_STATES; i++)
		metrics_put(to, sandbox_state_names[i], n[i]);
}

static void ends(void *arg, struct metrics_out *to)
{
	const struct cayd *c = arg;

	for (unsigned i = 0; i < END_NUM_REASONS; i++)
		metrics_put(to, end_reasons[i], c->ends[i]);
}

static void creates_waiting(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, creates_turns(arg)->n_waiting);
}

static void creates_refused(void *arg, struct metrics_out *to)
{
	metrics_put(to, "full", creates_turns(arg)->n_refused);
	metrics_put(to, "late", creates_turns(arg)->n_late);
}

static void pool(void *arg, struct metrics_out *to)
{
	const struct stock *s = NULL;
	const char *template;
	struct pool_count n;

	while ((s = stock_next(arg, s, &template, &n))) {
		metrics_put2(to, template, "warm", n.warm);
		metrics_put2(to, template, "starting", n.starting);
	}
}

static void pool_claims(void *arg, struct metrics_out *to)
{
	const struct stock *s = NULL;
	const char *template;
	struct pool_count n;

	while ((s = stock_next(arg, s, &template, &n)))
		metrics_put(to, template, n.claimed);
}

static void pool_failed(void *arg, struct metrics_out *to)
{
	const struct stock *s = NULL;
	const char *template;
	struct pool_count n;

	while ((s = stock_next(arg, s, &template, &n)))
		metrics_put(to, template, n.failed);
}

static void connections(void *arg, struct metrics_out *to)
{
	const struct cayd *c = arg;
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(c->doors); i++)
		n += server_connections(c->doors[i]);
	metrics_put(to, NULL, n);
}

static void keeper(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, link_up(((const struct cayd *)arg)->link));
}

static void journal_pending(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, db_stats(((const struct cayd *)arg)->db).pending);
}

static void journal_writes(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, db_stats(((const struct cayd *)arg)->db).writes);
}

static void journal_commits(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, db_stats(((const struct cayd *)arg)->db).transactions);
}

static void journal_failed(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, db_stats(((const struct cayd *)arg)->db).failed);
}

static void audit_records(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, audit_head(((const struct cayd *)arg)->audit).count);
}

static void audit_pending(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, audit_stats(((const struct cayd *)arg)->audit).pending);
}

static void audit_failed(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, audit_stats(((const struct cayd *)arg)->audit).failed);
}

static void audit_missed(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, audit_stats(((const struct cayd *)arg)->audit).missed);
}

static void log_lost(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, ((const struct cayd *)arg)->log.lost);
}

static void edges(void *arg, struct metrics_out *to)
{
	metrics_put(to, NULL, push_edges(arg));
}

/* The next that tells us its counts, from *at on; NULL when there is none. */
static const struct report *next_edge(const struct cayd *c, unsigned *at)
{
	while (*at < REPORT_EDGES && !c->reports[*at])
		++*at;
	return *at < REPORT_EDGES ? c->reports[(*at)++] : NULL;
}

static void edge_answers(void *arg, struct metrics_out *to)
{
	const struct report *r;

	for (unsigned at = 0; (r = next_edge(arg, &at));)
		metrics_put_answers(to, r->name, &r->counts.answers);
}

static void edge_durations(void *arg, struct metrics_out *to)
{
	const struct report *r;

	for (unsigned at = 0; (r = next_edge(arg, &at));)
		metrics_put_durations(to, r->name, &r->counts.answers);
}

static void edge_refusals(void *arg, struct metrics_out *to)
{
	const struct report *r;

	for (unsigned at = 0; (r = next_edge(arg, &at));)
		for (unsigned i = 0; i < METRICS_REFUSALS; i++)
			metrics_put2(to, r->name, metrics_refusals[i], r->counts.refused[i]);
}

static void edge_conns(void *arg, struct metrics_out *to)
{
	const struct report *r;

	for (unsigned at = 0; (r = next_edge(arg, &at));)
		metrics_put(to, r->name, r->counts.conns);
}

static void edge_open(void *arg, struct metrics_out *to)
{
	const struct report *r;

	for (unsigned at = 0; (r = next_edge(arg, &at));)
		metrics_put(to, r->name, r->counts.open);
}

static void edge_cut(void *arg, struct metrics_out *to)
{
	const struct report *r;

	for (unsigned at = 0; (r = next_edge(arg, &at));)
		metrics_put(to, r->name, r->counts.cut);
}

static void edge_log_lost(void *arg, struct metrics_out *to)
{
	const struct report *r;

	for (unsigned at = 0; (r = next_edge(arg, &at));)
		metrics_put(to, r->name, r->counts.log_lost);
}

static void edge_memory(void *arg, struct metrics_out *to)
{
	const struct report *r;

	for (unsigned at = 0; (r = next_edge(arg, &at));)
		metrics_put(to, r->name, r->counts.memory);
}

static void edge_fds(void *arg, struct metrics_out *to)
{
	const struct report *r;

	for (unsigned at = 0; (r = next_edge(arg, &at));)
		metrics_put(to, r->name, r->counts.fds);
}

static metrics_fn *const from[METRIC_NUM] = {
	[METRIC_SANDBOXES] = sandboxes,
	[METRIC_ENDS] = ends,
	[METRIC_CREATES_WAITING] = creates_waiting,
	[METRIC_CREATES_REFUSED] = creates_refused,
	[METRIC_POOL] = pool,
	[METRIC_POOL_CLAIMS] = pool_claims,
	[METRIC_POOL_FAILED] = pool_failed,
	[METRIC_CONNECTIONS] = connections,
	[METRIC_KEEPER] = keeper,
	[METRIC_JOURNAL_PENDING] = journal_pending,
	[METRIC_JOURNAL_WRITES] = journal_writes,
	[METRIC_JOURNAL_COMMITS] = journal_commits,
	[METRIC_JOURNAL_FAILED] = journal_failed,
	[METRIC_AUDIT_RECORDS] = audit_records,
	[METRIC_AUDIT_PENDING] = audit_pending,
	[METRIC_AUDIT_FAILED] = audit_failed,
	[METRIC_AUDIT_MISSED] = audit_missed,
	[METRIC_LOG_LOST] = log_lost,
	[METRIC_EDGES] = edges,
	[METRIC_EDGE_ANSWERS] = edge_answers,
	[METRIC_EDGE_DURATION] = edge_durations,
	[METRIC_EDGE_REFUSALS] = edge_refusals,
	[METRIC_EDGE_CONNS] = edge_conns,
	[METRIC_EDGE_OPEN] = edge_open,
	[METRIC_EDGE_CUT] = edge_cut,
	[METRIC_EDGE_LOG_LOST] = edge_log_lost,
	[METRIC_EDGE_MEMORY] = edge_memory,
	[METRIC_EDGE_FDS] = edge_fds,
	[METRIC_MEMORY] = metrics_memory,
	[METRIC_FDS] = metrics_fds,
};

void observe_metrics(struct cayd *c, struct request *rq)
{
	auto_buf body = BUF_INIT(SERVER_OUT_MAX); /* REPORT_EDGES that say all there is fit */
	struct cay_err err = {};

	if (metrics_write(&c->metrics, from, c, &body) >= 0) {
		request_reply(rq, 200, METRICS_MEDIA, &body);
		return;
	}
	(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
	request_fail(rq, &err);
}
