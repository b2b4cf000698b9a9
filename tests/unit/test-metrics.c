/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "daemon/metrics.h"
#include "unit.h"

static void every_metric_is_complete(void **)
{
	for (size_t i = 0; i < METRIC_NUM; i++) {
		const struct metric_row *m = &metric_table[i];

		row_check(i, m->name && m->labels && m->help && !strchr(m->help, '\n') &&
				     !strchr(m->help, '\\'));
		/* a counter is called so, and nothing else is */
		row_check(i, (strstr(m->name, "_total") != NULL) == (m->type == METRIC_COUNTER));
		for (size_t k = 0; m->name[k]; k++)
			row_check(i, ascii_is_lower(m->name[k]) || m->name[k] == '_');
		for (size_t k = 0; k < i; k++)
			row_check(i, !str_eq(m->name, metric_table[k].name));
	}
}

static bool has(const struct buf *out, const char *line)
{
	const char *at = strstr(buf_str(out), line);

	return at && (at == out->data || at[-1] == '\n') && at[strlen(line)] == '\n';
}

static void answers_are_counted_by_operation_and_outcome(void **)
{
	static struct metrics m;
	metrics_fn *const none[METRIC_NUM] = {};
	auto_buf out = BUF_INIT(MIB(1));

	metrics_count_reply(&m, &ops[OP_SYSTEM_HEALTH], CAY_OK,
			    500 * 1000); /* just in the first bucket */
	metrics_count_reply(&m, &ops[OP_SYSTEM_HEALTH], CAY_OK, 500 * 1000 + 1);
	metrics_count_reply(&m, &ops[OP_SYSTEM_HEALTH], CAY_E_UNAVAILABLE, 61 * NS_PER_S);
	metrics_count_reply(&m, &ops[OP_SYSTEM_HEALTH], METRICS_CLIENT_LEFT, NS_PER_S);
	metrics_count_reply(&m, NULL, CAY_E_NOT_FOUND, 1);
	assert_int_equal(metrics_write(&m, none, NULL, &out), 0);
#define A "cay_operations_total{operation="
#define D "cay_operation_duration_seconds_"
	assert_true(has(&out, A "\"system.health\",code=\"ok\"} 2"));
	assert_true(has(&out, A "\"system.health\",code=\"unavailable\"} 1"));
	assert_true(has(&out, A "\"system.health\",code=\"client_left\"} 1"));
	assert_true(has(&out, A "\"none\",code=\"not_found\"} 1"));
	assert_true(has(&out, D "bucket{operation=\"system.health\",le=\"0.0005\"} 1"));
	assert_true(has(&out, D "bucket{operation=\"system.health\",le=\"0.001\"} 2"));
	assert_true(has(&out, D "bucket{operation=\"system.health\",le=\"60\"} 2"));
	assert_true(has(&out, D "bucket{operation=\"system.health\",le=\"+Inf\"} 3"));
	assert_true(has(&out, D "count{operation=\"system.health\"} 3"));
	assert_true(has(&out, D "sum{operation=\"system.health\"} 61.001000001"));
	assert_null(strstr(out.data, "sandbox.create"));
	/* what the program does not tell is not there */
	assert_null(strstr(out.data, "cay_connections"));
}

static void strange_states(void *arg, struct metrics_out *to)
{
	metrics_write_value(to, arg, 7);
	metrics_write_value(to, "plain", UINT64_MAX);
}

static void labels_are_escaped(void **)
{
	static const struct metrics m;
	metrics_fn *const from[METRIC_NUM] = { [METRIC_SANDBOXES] = strange_states };
	auto_buf out = BUF_INIT(MIB(1)), small = BUF_INIT(64);
	char label[] = "a\"b\\c\nd";

	assert_int_equal(metrics_write(&m, from, label, &out), 0);
	assert_true(has(&out, "cay_sandboxes{state=\"a\\\"b\\\\c\\nd\"} 7"));
	assert_true(has(&out, "cay_sandboxes{state=\"plain\"} 18446744073709551615"));
	assert_true(metrics_write(&m, from, label, &small) < 0);
}

static void two_edges(void *arg, struct metrics_out *to)
{
	const struct metrics *m = arg;

	metrics_write_replies(to, "0", m);
	metrics_write_replies(to, "a\"b", m);
}

static void their_durations(void *arg, struct metrics_out *to)
{
	metrics_write_durations(to, "1", arg);
}

static void their_refusals(void *, struct metrics_out *to)
{
	metrics_write_value2(to, "1", "x\ny", 3);
}

static void edges_have_a_label_more(void **)
{
	static struct metrics m, own;
	metrics_fn *const from[METRIC_NUM] = { [METRIC_EDGE_ANSWERS] = two_edges,
					       [METRIC_EDGE_DURATION] = their_durations,
					       [METRIC_EDGE_REFUSALS] = their_refusals };
	auto_buf out = BUF_INIT(MIB(1)), small = BUF_INIT(256);

	metrics_count_reply(&m, &ops[OP_SYSTEM_HEALTH], CAY_OK, NS_PER_S);
	assert_int_equal(metrics_write(&own, from, &m, &out), 0);
#define E "cay_edge_request"
	assert_true(has(&out, E "s_total{edge=\"0\",operation=\"system.health\",code=\"ok\"} 1"));
	assert_true(
		has(&out, E "s_total{edge=\"a\\\"b\",operation=\"system.health\",code=\"ok\"} 1"));
	assert_true(has(&out, E "_duration_seconds_bucket{edge=\"1\",operation=\"system.health\","
				"le=\"+Inf\"} 1"));
	assert_true(
		has(&out, E "_duration_seconds_count{edge=\"1\",operation=\"system.health\"} 1"));
	assert_true(has(&out, E "_duration_seconds_sum{edge=\"1\",operation=\"system.health\"} "
				"1.000000000"));
	assert_true(has(&out, "cay_edge_refusals_total{edge=\"1\",reason=\"x\\ny\"} 3"));
	assert_null(strstr(buf_str(&out), "cay_operations_total{"));
	assert_true(metrics_write(&own, from, &m, &small) < 0);
}

static void cells_are_all_there_is(void **)
{
	static struct metrics_edge m;
	uint64_t n = 0;

	for (; metrics_edge_cell(&m, n); n++)
		*metrics_edge_cell(&m, n) = n + 1;
	assert_int_equal(n * sizeof(uint64_t), sizeof(m));
	assert_int_equal(m.fds, n); /* the last */
	assert_int_equal(m.replies.ops[0].outcomes[0], 1);
	assert_null(metrics_edge_cell(&m, n));
	assert_null(metrics_edge_cell(&m, UINT32_MAX));
}

static void this_process_has_memory_and_files(void **)
{
	static const struct metrics m;
	metrics_fn *const from[METRIC_NUM] = {
		[METRIC_MEMORY] = metrics_write_memory, [METRIC_FDS] = metrics_write_fds
	};
	auto_buf out = BUF_INIT(KIB(64));
	const char *memory, *fds;

	assert_int_equal(metrics_write(&m, from, NULL, &out), 0);
	memory = strstr(out.data, "\nprocess_resident_memory_bytes ");
	fds = strstr(out.data, "\nprocess_open_fds ");
	assert_non_null(memory);
	assert_non_null(fds);
	assert_true(memory[strlen("\nprocess_resident_memory_bytes ")] != '0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_metric_is_complete),
		cmocka_unit_test(answers_are_counted_by_operation_and_outcome),
		cmocka_unit_test(labels_are_escaped),
		cmocka_unit_test(edges_have_a_label_more),
		cmocka_unit_test(cells_are_all_there_is),
		cmocka_unit_test(this_process_has_memory_and_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
