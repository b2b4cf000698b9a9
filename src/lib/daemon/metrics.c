/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/path.h"

/* Upper ends in microseconds: half a millisecond to a minute. */
static const uint64_t ends_us[METRICS_BUCKETS] = {
	500,    1000,   2500,    5000,    10000,   25000,    50000,    100000,
	250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000,
};

const char *const metrics_refusals[METRICS_REFUSALS] = {
	[METRICS_NO_CREDENTIAL] = "credential",
	[METRICS_NO_SCOPE] = "scope",
	[METRICS_PEER_RATE] = "peer_rate",
	[METRICS_TENANT_RATE] = "tenant_rate",
	[METRICS_HOST] = "host",
	[METRICS_ORIGIN] = "origin",
};

static_assert(sizeof(struct metrics_edge) % sizeof(uint64_t) == 0);

uint64_t *metrics_edge_cell(struct metrics_edge *m, uint64_t i)
{
	return i < sizeof(*m) / sizeof(uint64_t) ? (uint64_t *)(void *)m + i : NULL;
}

struct metrics_out {
	struct buf *out;
	const struct metric_row *row;
	int err;
};

void metrics_count_reply(struct metrics *m, const struct op *op, unsigned outcome, uint64_t ns)
{
	size_t at = op ? (size_t)(op - ops) : OP_NUM, b = 0;

	m->ops[at].outcomes[outcome]++;
	if (outcome == METRICS_CLIENT_LEFT)
		return;
	while (b < METRICS_BUCKETS && ns > ends_us[b] * 1000)
		b++;
	m->ops[at].buckets[b]++;
	m->ops[at].sum_ns += ns;
}

void metrics_count_blame(struct metrics *m, enum blame blame)
{
	m->blames[blame]++;
}

static const char *metrics_outcome_name(unsigned outcome)
{
	if (outcome == METRICS_INSIDE)
		return "inside";
	if (outcome == METRICS_CLIENT_LEFT)
		return "client_left";
	return outcome == CAY_OK ? "ok" : cay_error_row((enum cay_code)outcome)->name;
}

/* Help has no newline; a label may have anything. */
static int metrics_format_label(struct buf *out, const char *text)
{
	int r = 0;

	for (; *text && r >= 0; text++) {
		if (*text == '\n')
			r = buf_puts(out, "\\n");
		else if (*text == '\\' || *text == '"')
			r = buf_printf(out, "\\%c", *text);
		else
			r = buf_putc(out, *text);
	}
	return r;
}

void metrics_write_value(struct metrics_out *to, const char *label, uint64_t value)
{
	metrics_write_value2(to, label, NULL, value);
}

/* name="text", of the first label that the row has. */
static int metrics_format_first_label(const struct metrics_out *to, const char *text,
				      struct buf *out)
{
	int r = buf_printf(out, "%.*s=\"", (int)strcspn(to->row->labels, ","), to->row->labels);

	if (r >= 0)
		r = metrics_format_label(out, text);
	return r < 0 ? r : buf_putc(out, '"');
}

void metrics_write_value2(struct metrics_out *to, const char *first, const char *second,
			  uint64_t value)
{
	int r = to->err;

	if (r >= 0)
		r = buf_printf(to->out, "%s%s", to->row->name, first ? "{" : "");
	if (r >= 0 && first)
		r = metrics_format_first_label(to, first, to->out);
	if (r >= 0 && second)
		r = buf_printf(to->out, "%s=\"", strchr(to->row->labels, ','));
	if (r >= 0 && second)
		r = metrics_format_label(to->out, second);
	if (r >= 0)
		r = buf_printf(to->out, "%s%s %llu\n", second ? "\"" : "", first ? "}" : "",
			       (unsigned long long)value);
	to->err = r;
}

static const char *metrics_op_name(size_t i)
{
	return i < OP_NUM ? ops[i].name : "none";
}

static int metrics_format_replies(const struct metrics *m, const char *name, const char *whose,
				  struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i <= OP_NUM; i++)
		for (unsigned k = 0; k < METRICS_OUTCOMES && r >= 0; k++)
			if (m->ops[i].outcomes[k])
				r = buf_printf(out, "%s{%soperation=\"%s\",code=\"%s\"} %llu\n",
					       name, whose, metrics_op_name(i),
					       metrics_outcome_name(k),
					       (unsigned long long)m->ops[i].outcomes[k]);
	return r;
}

static int metrics_format_histogram(const struct metrics *m, size_t i, const char *name,
				    const char *whose, struct buf *out)
{
	const uint64_t *buckets = m->ops[i].buckets;
	uint64_t n = 0, ns = m->ops[i].sum_ns;
	const char *op = metrics_op_name(i);
	int r = 0;

	for (size_t b = 0; b <= METRICS_BUCKETS && r >= 0; b++) {
		n += buckets[b];
		r = buf_printf(out, "%s_bucket{%soperation=\"%s\",le=\"", name, whose, op);
		if (r >= 0)
			r = b < METRICS_BUCKETS ? buf_printf(out, "%g", (double)ends_us[b] / 1e6)
						: buf_puts(out, "+Inf");
		if (r >= 0)
			r = buf_printf(out, "\"} %llu\n", (unsigned long long)n);
	}
	if (r >= 0)
		r = buf_printf(out, "%s_sum{%soperation=\"%s\"} %llu.%09llu\n", name, whose, op,
			       (unsigned long long)(ns / NS_PER_S),
			       (unsigned long long)(ns % NS_PER_S));
	return r < 0 ? r
		     : buf_printf(out, "%s_count{%soperation=\"%s\"} %llu\n", name, whose, op,
				  (unsigned long long)n);
}

static int metrics_format_durations(const struct metrics *m, const char *name, const char *whose,
				    struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i <= OP_NUM; i++) {
		uint64_t n = 0;

		for (size_t b = 0; b <= METRICS_BUCKETS; b++)
			n += m->ops[i].buckets[b];
		if (n && r >= 0)
			r = metrics_format_histogram(m, i, name, whose, out);
	}
	return r;
}

static void metrics_format_labelled(struct metrics_out *to, const char *first,
				    const struct metrics *m,
				    int (*put)(const struct metrics *m, const char *name,
					       const char *whose, struct buf *out))
{
	auto_buf whose = BUF_INIT(256);
	int r = to->err;

	if (r >= 0)
		r = metrics_format_first_label(to, first, &whose);
	if (r >= 0)
		r = buf_putc(&whose, ',');
	to->err = r < 0 ? r : put(m, to->row->name, buf_str(&whose), to->out);
}

void metrics_write_replies(struct metrics_out *to, const char *first, const struct metrics *m)
{
	metrics_format_labelled(to, first, m, metrics_format_replies);
}

void metrics_write_durations(struct metrics_out *to, const char *first, const struct metrics *m)
{
	metrics_format_labelled(to, first, m, metrics_format_durations);
}

void metrics_write_blames(struct metrics_out *to, const char *first, const struct metrics *m)
{
	for (unsigned b = 0; b < BLAME_NUM; b++)
		metrics_write_value2(to, first ? first : blame_names[b],
				     first ? blame_names[b] : NULL, m->blames[b]);
}

int metrics_write(const struct metrics *m, metrics_fn *const from[METRIC_NUM], void *arg,
		  struct buf *out)
{
	int r = 0;

	for (unsigned i = 0; i < METRIC_NUM && r >= 0; i++) {
		const struct metric_row *row = &metric_table[i];
		struct metrics_out to = { out, row, 0 };

		if (i != METRIC_ANSWERS && i != METRIC_DURATION && !from[i])
			continue;
		r = buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
			       metric_type_name(row->type));
		if (r >= 0 && i == METRIC_ANSWERS)
			r = metrics_format_replies(m, row->name, "", out);
		else if (r >= 0 && i == METRIC_DURATION)
			r = metrics_format_durations(m, row->name, "", out);
		else if (r >= 0) {
			from[i](arg, &to);
			r = to.err;
		}
	}
	return r;
}

int metrics_read_memory(int statm, uint64_t *ret)
{
	char text[128];
	ssize_t n = statm < 0 ? -1 : pread(statm, text, sizeof(text), 0);
	struct slice rest = { text, n > 0 ? (size_t)n : 0 };
	uint64_t pages;
	int r;

	(void)slice_cut(&rest, ' ');
	r = str_parse_u64(slice_cut(&rest, ' '), 0, UINT64_MAX / KIB(64), &pages);
	if (r >= 0)
		*ret = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return r;
}

void metrics_write_memory(void *, struct metrics_out *to)
{
	auto_close int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_close int fd = proc < 0 ? -EBADF : path_open(proc, "statm", O_RDONLY, 0);
	uint64_t bytes;

	if (metrics_read_memory(fd, &bytes) >= 0)
		metrics_write_value(to, NULL, bytes);
}

static int metrics_count_fd(void *arg, int, const char *)
{
	uint64_t *n = arg;

	++*n;
	return 0;
}

/* The two that looking takes are not counted. */
void metrics_write_fds(void *, struct metrics_out *to)
{
	auto_close int fds = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t n = 0;

	if (fds >= 0 && path_for_each_entry(fds, metrics_count_fd, &n) >= 0 && n >= 2)
		metrics_write_value(to, NULL, n - 2);
}
